//! The names of tools: those of the skills, in the letters that every client accepts.

use std::collections::BTreeMap;

use sha2::{Digest, Sha256};

/// The tools of the server itself.
pub(super) const LIST: &str = "skills_list";
pub(super) const ACTIVATE: &str = "activate_skill";
pub(super) const READ_FILE: &str = "read_skill_file";
pub(super) const READ_RESULT: &str = "read_result";
pub(super) const APPLY_CHANGES: &str = "apply_changes";
pub(super) const DISCARD_CHANGES: &str = "discard_changes";
/// Their names, which no skill can take.
pub(super) const SERVER_TOOLS: [&str; 6] =
    [LIST, ACTIVATE, READ_FILE, READ_RESULT, APPLY_CHANGES, DISCARD_CHANGES];

/// Whether it is a tool of servers whose calls run in a copy of the project.
#[cfg(unix)]
pub(super) fn is_change_tool(name: &str) -> bool {
    [APPLY_CHANGES, DISCARD_CHANGES].contains(&name)
}

/// Maximum length of a name: clients put their own prefix before it, and refuse longer ones.
const MAX_NAME: usize = 64;
/// The digits that tell changed names apart.
const DIGEST_DIGITS: usize = 8;

/// The names that are taken, each with what it stands for.
#[derive(Default)]
pub(super) struct ToolNames(BTreeMap<String, String>);

impl ToolNames {
    /// Takes a name; or else a sentence that says what has it already. Nothing is replaced.
    pub(super) fn add(&mut self, name: &str, owner: String) -> Result<(), String> {
        if let Some(first) = self.0.get(name) {
            return Err(format!("{owner} is not offered as the tool {name}, which is the name of {first}"));
        }
        self.0.insert(name.to_owned(), owner);
        Ok(())
    }
}

/// The name of a skill's tool, or of a tool that it offers (`SKILL_TOOL`) or of one of its entrypoints (`SKILL_ENTRY`): letters and digits of ASCII, `_` and `-`.
/// A name that has other letters or is too long is changed, and ends in digits that differ for every name.
pub(super) fn tool_name(skill: &str, entrypoint: Option<&str>) -> String {
    let whole = entrypoint.map_or_else(|| skill.to_owned(), |entrypoint| format!("{skill}_{entrypoint}"));
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    if !whole.is_empty() && whole.len() <= MAX_NAME && whole.chars().all(is_allowed) {
        return whole;
    }
    let readable: String = whole
        .chars()
        .map(|c| if is_allowed(c) { c } else { '_' })
        .take(MAX_NAME - DIGEST_DIGITS - 1)
        .collect();
    // The parts are told apart, so that `a_b` and the entrypoint `b` of `a` differ where both were changed.
    let mut digest = Sha256::new();
    digest.update(skill);
    digest.update([0]);
    digest.update(entrypoint.unwrap_or_default());
    let digest: [u8; 32] = digest.finalize().into();
    let digits = u32::from_be_bytes([digest[0], digest[1], digest[2], digest[3]]);
    format!("{readable}_{digits:08x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_names_stay_and_others_become_plain() {
        assert_eq!(tool_name("word-count", None), "word-count");
        assert_eq!(tool_name("word-count", Some("check")), "word-count_check");
        let odd = [
            ("технологии", None),
            ("技能", None),
            ("a b", None),
            ("a.b", None),
            ("", None),
            ("x", Some("a b")),
            ("x", Some("a.b")),
            ("\u{1b}[31m", None),
        ];
        let long = "a".repeat(70);
        let names: Vec<String> = odd
            .into_iter()
            .chain([(long.as_str(), None), (long.as_str(), Some("x"))])
            .map(|(s, e)| tool_name(s, e))
            .collect();
        for name in &names {
            let is_plain = name.chars().all(|c| c.is_ascii_alphanumeric() || "_-".contains(c));
            assert!(is_plain && (1..=MAX_NAME).contains(&name.len()), "{name}");
        }
        let distinct: std::collections::BTreeSet<_> = names.iter().collect();
        assert_eq!(distinct.len(), names.len(), "{names:?}");
    }

    #[test]
    fn a_name_is_taken_once() {
        let mut names = ToolNames::default();
        assert_eq!(names.add("a_b", "the skill a_b".into()), Ok(()));
        let refused = names.add("a_b", "the entrypoint b of a".into()).unwrap_err();
        assert_eq!(
            refused,
            "the entrypoint b of a is not offered as the tool a_b, which is the name of the skill a_b"
        );
    }
}
