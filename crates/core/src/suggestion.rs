//! Did-you-mean: the known word that a misspelled one probably meant.

/// Longer words are not compared: the time of a comparison grows with the length of both.
const MAX_CHARS: usize = 32;

/// The known word nearest to `word`, if it is as near as a typing error; of equally near ones the first.
pub fn closest<K: AsRef<str>>(word: &str, known: impl IntoIterator<Item = K>) -> Option<K> {
    closest_few(word, known, 1).pop()
}

/// Up to `max` known words that are as near to `word` as a typing error, nearest first.
///
/// Upper and lower case, and how the words of a name are joined, make no difference. Otherwise one character in three may be
/// wrong, but no more than three, and never all of them.
pub fn closest_few<K: AsRef<str>>(word: &str, known: impl IntoIterator<Item = K>, max: usize) -> Vec<K> {
    if word.len() > 4 * MAX_CHARS {
        return Vec::new();
    }
    let word = normalize(word);
    let length = word.chars().count();
    let max_typos = (length / 3).clamp(1, 3).min(length.saturating_sub(1));
    let near = known.into_iter().filter(|known| known.as_ref().len() <= 4 * MAX_CHARS);
    let typos = |known: K| {
        let normal = normalize(known.as_ref());
        // Each character more or less is an error, and most words need no comparison then.
        let has_like_length = normal.chars().count().abs_diff(length) <= max_typos;
        has_like_length.then(|| (strsim::osa_distance(&normal, &word), known))
    };
    let mut near: Vec<(usize, K)> = near.filter_map(typos).filter(|(typos, _)| *typos <= max_typos).collect();
    near.sort_by_key(|(typos, _)| *typos);
    near.into_iter().take(max).map(|(_, known)| known).collect()
}

/// The known word that is the same in another spelling: upper and lower case, how its words are joined, one or many of it.
pub fn same_word<K: AsRef<str>>(word: &str, known: impl IntoIterator<Item = K>) -> Option<K> {
    if word.len() > 4 * MAX_CHARS {
        return None;
    }
    let stem = |word: &str| normalize(word).trim_end_matches('s').to_owned();
    let (whole, word) = (normalize(word), stem(word));
    let same = known.into_iter().filter(|known| !word.is_empty() && stem(known.as_ref()) == word);
    // `entryPoint` is `entrypoint`, where there are `entrypoints` too.
    same.min_by_key(|known| normalize(known.as_ref()) != whole)
}

/// Whether one character of a word is wrong, missing or too many, or two are swapped; in another spelling it is the same word.
pub fn is_one_typo(word: &str, known: &str) -> bool {
    word.len() <= 4 * MAX_CHARS && strsim::osa_distance(&normalize(word), &normalize(known)) <= 1
}

/// The hint for a word that probably meant another.
pub fn did_you_mean(meant: &str) -> String {
    format!("did you mean `{meant}`?")
}

fn normalize(word: &str) -> String {
    word.to_lowercase().replace(['-', '_', ' '], "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_word_within_a_few_typing_errors_is_found() {
        let known = ["search", "add", "subtract", "min_length", "word-count"];
        for (word, meant) in [
            ("serach", "search"),
            ("ad", "add"),
            ("minLength", "min_length"),
            ("Word Cuont", "word-count"),
            ("substratc", "subtract"),
        ] {
            assert_eq!(closest(word, known), Some(meant), "{word}");
        }
        for word in ["", "a", "x", "frobnicate", "entirely-else"] {
            assert_eq!(closest(word, known), None, "{word}");
        }
        assert_eq!(closest(&"a".repeat(1 << 20), known), None);
    }

    #[test]
    fn a_word_in_another_spelling_is_the_same_word() {
        let known = ["inputs", "risk_level", "entrypoint", "entrypoints", "process"];
        for (word, meant) in [
            ("input", Some("inputs")),
            ("riskLevel", Some("risk_level")),
            ("Risk-Levels", Some("risk_level")),
            ("entryPoint", Some("entrypoint")),
            ("entry-points", Some("entrypoints")),
            ("inptus", None),
            ("s", None),
            ("", None),
        ] {
            assert_eq!(same_word(word, known), meant, "{word}");
        }
    }

    #[test]
    fn several_near_words_come_nearest_first() {
        assert_eq!(
            closest_few("count", ["mount", "counts", "recount", "count-2"], 3),
            ["mount", "counts", "count-2"]
        );
    }
}
