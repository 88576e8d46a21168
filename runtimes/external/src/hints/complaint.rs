//! What a line of an output says of a path, in the words of systems, languages and tools, and which of its words may be that path.
//!
//! Whether the sandbox has to do with it is not decided here.

use crate::hints::words::{contains_any, find_word, last_lines};
use crate::shown_path::is_path;

/// What a line says of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Complaint {
    /// It lies in a read-only place.
    ReadOnly,
    /// The system denied access to it.
    Denied,
    /// Something is at its place.
    Taken,
    /// It cannot be replaced.
    Busy,
    /// It is not there.
    Absent,
    /// The script could not write it, and does not say why.
    Unwritten,
}

/// The words of systems and languages, in lower case, separated by `|`; the first row that a line has counts. Where they make folders one
/// inside the other in a read-only place, Node says that one is missing, and git that it could not.
const COMPLAINTS: [(Complaint, &str); 6] = [
    (
        Complaint::ReadOnly,
        "enoent: no such file or directory, mkdir '|unable to create directory for |read-only file system|erofs",
    ),
    (Complaint::Denied, "permission denied|eacces"),
    (Complaint::Taken, "file exists|already exists|eexist|is a directory|eisdir"),
    (Complaint::Busy, "resource busy|ebusy"),
    (Complaint::Absent, "no such file or directory|enoent|not found"),
    (Complaint::Unwritten, "write|writing|save|saving"),
];

/// What says that something failed, without which to write is no complaint.
const FAILURES: &str = "can't|cannot|could not|couldn't|error|fail|unable|e_";

/// How `SQLite` reports a refused change, without the reason of the system or the path.
const DATABASE_TEXTS: &str = "unable to open database file|attempt to write a readonly database";

/// Words that stand where a path could, and are none.
const NO_PATHS: &str =
    "archive|create|database|directory|error|file|folder|i/o|mkdir|open|output|pseudo-terminal|remove|write";

impl Complaint {
    /// The complaint of a line, and where it begins.
    pub(crate) fn in_line(line: &str) -> Option<(Self, usize)> {
        // Lower case of ASCII keeps positions.
        let small = line.to_ascii_lowercase();
        let is_possible = |complaint| complaint != Self::Unwritten || contains_any(&small, FAILURES);
        let found = COMPLAINTS.iter().find_map(|(complaint, words)| {
            let at = words.split('|').find_map(|words| find_word(&small, words))?;
            is_possible(*complaint).then_some((*complaint, at))
        });
        // SSH and git write the reason of a server in brackets.
        let is_of_server = small.contains("permission denied (");
        found.filter(|_| !is_of_server)
    }

    /// Whether the sandbox may be the reason.
    pub(crate) fn is_refusal(self) -> bool {
        matches!(self, Self::ReadOnly | Self::Denied)
    }
}

/// Whether the last lines say that something was refused.
pub(crate) fn mentions_refusal(text: &str) -> bool {
    let is_of_database = |line: &str| contains_any(line, DATABASE_TEXTS);
    last_lines(text).any(|line| refusal_in(line).is_some() || is_of_database(line))
}

/// The complaint of a line that may be about the sandbox.
pub(crate) fn refusal_in(line: &str) -> Option<(Complaint, usize)> {
    // Node names the code of an error once more below it.
    let is_code = line.trim_start().starts_with("code: ");
    Complaint::in_line(line).filter(|(complaint, _)| complaint.is_refusal() && !is_code)
}

/// What may be a path in a line, the likeliest first: in quotes, the last one first; before the complaint; any word with a `/` or a `.`.
pub(crate) fn paths_in(line: &str, complaint: Option<(Complaint, usize)>) -> Vec<&str> {
    /// How many are looked at.
    const MAX_PATHS: usize = 8;
    let (before, after) = line.split_at(complaint.map_or(line.len(), |(_, at)| at));
    let mut found = Vec::new();
    let is_refused = complaint.is_some_and(|(complaint, _)| complaint != Complaint::Unwritten);
    found.extend(quoted(before));
    found.extend(quoted(after));
    found.extend(path_before(before).filter(|_| is_refused));
    let words = line.split_whitespace().rev().filter(|word| !word.ends_with(':')).map(plain_path);
    found.extend(words.filter(|word| has_path_letter(word) && !is_word_of_program(word)));
    found.retain(|path| {
        !path.is_empty() && is_path(path) && !path.contains(['\0', '\n']) && !path.contains("://")
    });
    found.truncate(MAX_PATHS);
    found
}

/// The path that stands before a complaint: `PROGRAM: PATH: complaint`, `PROGRAM: PATH: Cannot open: complaint`. It is a part of its own, the
/// word after a verb, or one with a `/` or a `.`.
fn path_before(before: &str) -> Option<&str> {
    let mut parts = before.trim_end().trim_end_matches(':').rsplit(": ");
    let part = parts.find(|part| !part.starts_with("Cannot "))?;
    let is_word = |word: &&str| !word.ends_with([']', ')']) && !is_word_of_program(word);
    let (rest, last) = part.trim().rsplit_once(' ').unwrap_or(("", part.trim()));
    let is_alone = rest.is_empty()
        || ["create", "mkdir", "open", "remove", "write"].iter().any(|verb| rest.ends_with(verb));
    Some(last).filter(|word| is_alone || has_path_letter(word)).filter(is_word)
}

fn is_word_of_program(word: &str) -> bool {
    NO_PATHS.split('|').any(|known| word.eq_ignore_ascii_case(known))
}

/// What stands in quotes, the last one first.
fn quoted(text: &str) -> Vec<&str> {
    const QUOTES: [(char, char); 4] = [('\'', '\''), ('‘', '’'), ('"', '"'), ('`', '`')];
    let inner = QUOTES.iter().filter_map(|(open, close)| {
        let (before, _) = text.rsplit_once(*close)?;
        before.rsplit_once(*open).map(|(_, inner)| inner)
    });
    inner.collect()
}

/// A word without quotes, brackets and the line that may follow a path: `(out.md:1)`.
fn plain_path(word: &str) -> &str {
    let quotes = ['\'', '"', '`', '‘', '’', '(', ')', '[', ']'];
    let word =
        word.trim_start_matches(quotes).trim_end_matches([',', ';', ':', '.', '\'', '"', '`', '’', ')', ']']);
    let (path, line) = word.split_once(':').unwrap_or((word, ""));
    let path = if line.bytes().all(|byte| byte.is_ascii_digit() || byte == b':') { path } else { word };
    path.trim_end_matches('/')
}

fn has_path_letter(word: &str) -> bool {
    word.len() > 1 && word.contains(['/', '.'])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn first_path(line: &str) -> Option<&str> {
        paths_in(line, Some(Complaint::in_line(line)?)).first().copied()
    }

    #[test]
    fn the_path_is_found_in_the_words_of_many_tools() {
        for (line, path) in [
            ("PermissionError: [Errno 13] Permission denied: 'out/a.txt'", "out/a.txt"),
            ("PermissionError: [Errno 13] Permission denied: 'a.tmp' -> 'a'", "a.tmp"),
            ("Error: EACCES: permission denied, open 'a b.txt'", "a b.txt"),
            ("scripts/run.bash: line 3: out: Permission denied", "out"),
            ("mkdir: cannot create directory ‘deep’: Permission denied", "deep"),
            ("sh: 1: cannot create out: Permission denied", "out"),
            ("fatal: cannot copy '/usr/a' to '.git/a': Read-only file system", ".git/a"),
            ("error: could not lock config file .git/config: Permission denied", ".git/config"),
            ("tar (child): out.tgz: Cannot open: Read-only file system", "out.tgz"),
            ("genrsa: Can't open \"k.pem\" for writing, Read-only file system", "k.pem"),
            ("panic: open out/a.txt: permission denied", "out/a.txt"),
            ("ERROR: references/a.md not found", "references/a.md"),
            ("E_ATOMIC_WRITE out.md:1", "out.md"),
            ("error: unable to save the report to out.md", "out.md"),
        ] {
            assert!(paths_in(line, Complaint::in_line(line)).contains(&path), "{line}");
        }
    }

    #[test]
    fn no_word_of_a_sentence_is_a_path() {
        for line in [
            "",
            "Permission denied",
            ": Permission denied",
            "error: unable to create temporary file: Read-only file system",
            "df: cannot read table of mounted file systems: Permission denied",
            "zip I/O error: Read-only file system",
            "error: open: Permission denied",
            "git@github.com: Permission denied (publickey).",
            "script: failed to create pseudo-terminal: Permission denied",
            "wrote out.md",
            "failed: out.md has no title",
        ] {
            assert_eq!(first_path(line), None, "{line}");
        }
    }

    #[test]
    fn a_long_line_has_few_paths() {
        let line = format!("{}: Permission denied", "a/b ".repeat(1 << 16));
        assert!(paths_in(&line, Complaint::in_line(&line)).len() <= 8);
        let line = format!("{}: Permission denied", "a/b".repeat(1 << 16));
        assert_eq!(first_path(&line), None);
    }
}
