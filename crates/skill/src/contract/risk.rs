//! The risk of a run: a level in the words of a definition, and a score from 0 to 100.

use serde::Serialize;

/// The levels, and the score at which each begins.
const LEVELS: [(&str, u8); 9] = [
    ("none", 0),
    ("safe", 0),
    ("read-only", 0),
    ("low", 60),
    ("medium", 70),
    ("high", 80),
    ("critical", 90),
    ("destructive", 90),
    ("irreversible", 90),
];

/// Who may call a skill.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Sensitivity {
    /// Anybody.
    #[default]
    Normal,
    /// A person who is asked, or who calls it.
    Elevated,
}

/// The score of a level; `None` for a word that is none.
pub fn risk_score(level: &str) -> Option<u8> {
    let level = level.trim().to_ascii_lowercase().replace(['_', ' '], "-");
    LEVELS.iter().find(|(known, _)| *known == level).map(|(_, score)| *score)
}

/// The highest level that begins at or below a score.
pub fn risk_level(score: u8) -> &'static str {
    match score {
        0 => "none",
        1..70 => "low",
        70..80 => "medium",
        80..90 => "high",
        90.. => "critical",
    }
}

/// The levels, for a message.
pub(crate) fn risk_levels() -> String {
    LEVELS.map(|(level, _)| level).join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_have_the_scores_of_their_floors() {
        for (level, score) in [("none", 0), ("Read_Only", 0), ("low", 60), ("medium", 70), ("critical", 90)] {
            assert_eq!(risk_score(level), Some(score), "{level}");
        }
        assert_eq!(risk_score("harmless"), None);
        for (score, level) in
            [(0, "none"), (1, "low"), (69, "low"), (70, "medium"), (85, "high"), (100, "critical")]
        {
            assert_eq!(risk_level(score), level, "{score}");
        }
    }
}
