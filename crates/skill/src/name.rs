//! A skill's name: 1 to 64 lowercase letters, digits and hyphens, equal to the directory's name.
//!
//! Names are compared and kept in Unicode NFKC, so `café` is one name however it was typed.

use std::borrow::Cow;

use unicode_normalization::UnicodeNormalization;

use super::yaml::{Entry, Node};
use crate::diagnostic_sink::DiagnosticSink;
use crate::lint;
use crate::lint::Rule;

const MAX_CHARS: usize = 64;

/// The rule that a name breaks, and the message.
pub(crate) type NameProblem = (&'static Rule, String);

/// The skill's name; the directory's name if there is no readable one.
pub(crate) fn read(entry: Option<&Entry>, directory: &str, report: &mut DiagnosticSink<'_>) -> String {
    let Some(Entry { node, .. }) = entry else {
        let message = "Missing required field in frontmatter: name";
        report.add_missing(&lint::NAME_MISSING, message).help(format!("add `name: {directory}`"));
        return normalise(directory);
    };
    match name_text(node, report) {
        Some(raw) => check_name(raw, node, directory, report),
        None => normalise(directory),
    }
}

/// The name in the form in which names are compared: trimmed, in NFKC.
pub(crate) fn normalise(name: &str) -> String {
    compose(name.trim()).into_owned()
}

/// The text in NFKC, which ASCII is by itself.
fn compose(text: &str) -> Cow<'_, str> {
    if text.is_ascii() { text.into() } else { text.nfkc().collect() }
}

/// What is wrong with a normalised name by itself. `is_allowed` says which characters may join the hyphen.
pub(super) fn name_problems(name: &str, is_allowed: fn(char) -> bool) -> Vec<NameProblem> {
    let mut problems = Vec::new();
    let length = name.chars().count();
    if length > MAX_CHARS {
        let message = format!("name exceeds {MAX_CHARS} character limit ({length} characters)");
        problems.push((&lint::NAME_TOO_LONG, message));
    }
    if name != name.to_lowercase() {
        problems.push((&lint::NAME_UPPERCASE, format!("name `{name}` must be lowercase")));
    }
    if name.starts_with('-') || name.ends_with('-') {
        let message = format!("name `{name}` cannot start or end with a hyphen");
        problems.push((&lint::NAME_EDGE_HYPHEN, message));
    }
    if name.contains("--") {
        let message = format!("name `{name}` cannot contain consecutive hyphens");
        problems.push((&lint::NAME_DOUBLE_HYPHEN, message));
    }
    if !name.chars().all(|c| c == '-' || is_allowed(c)) {
        let message = format!(
            "name `{name}` contains invalid characters; only letters, digits and hyphens are allowed"
        );
        problems.push((&lint::NAME_CHARACTERS, message));
    }
    problems
}

/// The problem of a normalised name that differs from the directory's.
pub(crate) fn directory_mismatch(name: &str, directory: &str) -> Option<NameProblem> {
    let expected = compose(directory);
    let message = || format!("directory name `{directory}` must match skill name `{name}`");
    (expected != name).then(|| (&lint::NAME_MISMATCH, message()))
}

fn name_text<'a>(node: &'a Node, report: &mut DiagnosticSink<'_>) -> Option<&'a str> {
    let Some(raw) = node.text() else {
        report.add(&lint::NAME_NOT_TEXT, &node.span, "name must be text, not a list or a map");
        return None;
    };
    if raw.trim().is_empty() || node.is_null() {
        report.add(&lint::NAME_EMPTY, &node.span, "name must be a non-empty string");
        return None;
    }
    Some(raw)
}

fn check_name(raw: &str, node: &Node, directory: &str, report: &mut DiagnosticSink<'_>) -> String {
    let name = normalise(raw);
    for (rule, message) in name_problems(&name, is_letter_or_digit) {
        let diagnostic = report.add(rule, &node.span, message);
        if let Some(suggestion) = suggested_name(&name) {
            diagnostic.help(format!("call it `{suggestion}`, and its directory too"));
        }
    }
    if let Some((rule, message)) = directory_mismatch(&name, directory) {
        report.add(rule, &node.span, message).help("rename the directory or the skill");
    }
    if name != raw.trim() {
        let message = format!("name is written differently from its NFKC form `{name}`");
        report.add(&lint::NAME_NOT_NORMALISED, &node.span, message).help(format!("write `{name}`"));
    }
    if !name.is_ascii() {
        let message = "name holds letters outside a-z, which some clients refuse";
        report.add(&lint::NAME_NOT_ASCII, &node.span, message);
    }
    name
}

/// "Unicode lowercase alphanumeric", and the vowel signs that words in Indic scripts and Thai need.
fn is_letter_or_digit(c: char) -> bool {
    c.is_alphanumeric() || unicode_normalization::char::is_combining_mark(c)
}

/// Whether the specification allows the name.
pub(crate) fn is_allowed_name(name: &str) -> bool {
    !name.is_empty() && name_problems(name, is_letter_or_digit).is_empty()
}

/// The nearest allowed name; `None` if the name is allowed already, or has no letter or digit.
pub fn suggested_name(name: &str) -> Option<String> {
    let lowered = name.to_lowercase();
    let words = lowered.split(|c: char| !is_letter_or_digit(c)).filter(|word| !word.is_empty());
    let joined = words.collect::<Vec<_>>().join("-");
    let cut: String = joined.chars().take(MAX_CHARS).collect();
    let cut = cut.trim_end_matches('-');
    (!cut.is_empty() && cut != name).then(|| cut.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn codes(name: &str) -> Vec<&'static str> {
        name_problems(name, is_letter_or_digit).iter().map(|(rule, _)| rule.code).collect()
    }

    #[test]
    fn names_may_be_in_any_script() {
        for name in ["pdf", "a1-b2", "技能", "мой-навык", "कौशल", "ทักษะ", "straße"]
        {
            assert_eq!(codes(name), [""; 0], "{name}");
        }
    }

    #[test]
    fn each_rule_has_its_fault() {
        assert_eq!(codes("MySkill"), ["name-uppercase"]);
        assert_eq!(codes("НАВЫК"), ["name-uppercase"]);
        assert_eq!(codes(&"a".repeat(70)), ["name-too-long"]);
        assert_eq!(codes("-my-skill"), ["name-edge-hyphen"]);
        assert_eq!(codes("my--skill"), ["name-double-hyphen"]);
        assert_eq!(codes("my_skill"), ["name-characters"]);
        assert_eq!(codes("技能😀"), ["name-characters"]);
    }

    #[test]
    fn a_wrong_name_comes_with_a_right_one() {
        assert_eq!(suggested_name("My Skill_(v2)").as_deref(), Some("my-skill-v2"));
        assert_eq!(suggested_name("--"), None);
        assert_eq!(suggested_name("fine"), None);
    }
}
