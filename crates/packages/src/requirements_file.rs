//! Reads `requirements.txt`: requirement lines with comments and continuations, and nothing else.

use super::requirement::Requirement;
use metier_core::byte_order_mark::without_mark;
use metier_core::error::{ErrorKind, Location, SkillError};

/// Maximum bytes of a file with requirements.
pub(super) const MAX_BYTES: u64 = 256 << 10;
/// Maximum number of requirements.
pub(super) const MAX_REQUIREMENTS: usize = 2_000;

/// What is wrong in a line, counted from one.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct LineError {
    pub(super) line: usize,
    /// The rest of a sentence that names the line.
    pub(super) reason: String,
}

/// The requirements of a text.
pub(super) fn parse(text: &str) -> Result<Vec<Requirement>, LineError> {
    let text = without_mark(text);
    let mut found = Vec::new();
    let mut lines = text.lines().enumerate();
    while let Some((index, first)) = lines.next() {
        let (mut line, mut last) = (first.trim().to_owned(), first);
        // A line that is a comment does not go on, and neither does one with white space behind the backslash.
        while !last.trim_start().starts_with('#') && last.ends_with('\\') {
            let (_, next) = lines.next().unwrap_or_default();
            line = format!("{} {}", line.trim_end_matches('\\').trim_end(), next.trim());
            last = next;
        }
        let content = without_comment(&line);
        if content.is_empty() {
            continue;
        }
        let error = |reason| LineError { line: index + 1, reason };
        found.push(Requirement::parse(content).map_err(error)?);
        if found.len() > MAX_REQUIREMENTS {
            return Err(error(format!("there are more than {MAX_REQUIREMENTS} requirements")));
        }
    }
    Ok(found)
}

/// A comment begins at the start of a line, or after white space.
fn without_comment(line: &str) -> &str {
    let is_start = |at: usize| line[..at].chars().next_back().is_none_or(char::is_whitespace);
    let start = line.match_indices('#').map(|(at, _)| at).find(|at| is_start(*at));
    line[..start.unwrap_or(line.len())].trim()
}

/// `a/b/`, `a/`, and nothing: the folders of a file, the nearest first.
pub(super) fn folders_above(path: &str) -> impl Iterator<Item = &str> {
    let mut end = Some(path.rfind('/').map_or(0, |at| at + 1));
    std::iter::from_fn(move || {
        let current = end?;
        end = match current {
            0 => None,
            _ => Some(path[..current - 1].rfind('/').map_or(0, |at| at + 1)),
        };
        Some(&path[..current])
    })
}

pub(super) fn at_line(file: &str, LineError { line, reason }: LineError) -> SkillError {
    let sentence = format!("{file}, line {line}: {reason}");
    SkillError::new(ErrorKind::InvalidSkill, sentence)
        .with_help(
            "metier prepares packages that are named with versions, such as `requests>=2,<3`, from the registries of the user's own \
             configuration",
        )
        .with_location(Location::new(file, u32::try_from(line).ok(), None))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_continuations_are_no_requirements() {
        let hash = "a".repeat(64);
        let text = format!(
            "\u{feff}# comment\n\nrequests>=2 # why\r\nsix==1.16.0 \\\n    --hash=sha256:{hash} \\\n    --hash=sha256:{hash}\n  rich\n"
        );
        let found = parse(&text).unwrap();
        let names: Vec<&str> = found.iter().map(|requirement| requirement.text.as_str()).collect();
        assert_eq!(names, ["requests>=2", "six==1.16.0", "rich"]);
        assert_eq!(found[1].hashes.len(), 2);
        assert_eq!(parse(""), Ok(Vec::new()));
    }

    #[test]
    fn what_is_wrong_is_named_with_its_line() {
        for (text, line, words) in [
            ("six\n\n--index-url https://evil.example\n", 3, "--index-url"),
            ("six\n-r more.txt", 2, "the option -r"),
            ("a\\\n  @ https://evil.example", 1, "is an address"),
            ("six\n./here # a path", 2, "./here is a path"),
            ("# a comment \\\n-r more.txt", 2, "the option -r"),
            ("six \\\n # a comment \\\n-r more.txt", 3, "the option -r"),
            ("six \\ \nrich", 1, "is a path"),
            ("six\\\n\\\n-r more.txt", 1, "is not a requirement"),
            ("\u{feff}\u{feff}six", 1, "is not a requirement"),
            ("six\rrich", 1, "has the character"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.line == line && error.reason.contains(words), "{text}: {error:?}");
        }
        assert!(parse(&"a\n".repeat(MAX_REQUIREMENTS + 1)).is_err());
    }
}
