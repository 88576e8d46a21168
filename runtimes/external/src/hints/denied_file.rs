//! The file that a line of an error says was denied, in the words of many programs.

use crate::hints::words::find_word;

/// How systems and languages report that access to a file was denied.
pub(crate) const FILE_DENIED_TEXTS: [&str; 4] =
    ["permission denied", "eacces", READ_ONLY_TEXTS[0], READ_ONLY_TEXTS[1]];

/// How they report that a file lies in a read-only place.
pub(crate) const READ_ONLY_TEXTS: [&str; 2] = ["read-only file system", "erofs"];

/// How they report that a file is not there.
const MISSING_TEXTS: [&str; 3] = ["no such file or directory", "enoent", "not found"];

/// Words that stand before a complaint and name no file: "unable to create temporary file: Permission denied".
const NO_FILES: [&str; 14] = [
    "archive",
    "database",
    "directory",
    "err",
    "error",
    "fatal",
    "file",
    "folder",
    "open",
    "output",
    "system",
    "systems",
    "warning",
    "write",
];

/// The file that a line says was denied.
pub(crate) fn denied_file(line: &str) -> Option<&str> {
    // Git and SSH write the reason of a server in brackets.
    let is_of_server = line.to_ascii_lowercase().contains("permission denied (");
    file_before(line, &FILE_DENIED_TEXTS).filter(|_| !is_of_server).or_else(|| unopened_archive(line))
}

/// The file in quotes that a line says lies in a read-only place: nothing but a file is ever refused so.
pub(crate) fn read_only_file(line: &str) -> Option<&str> {
    file_before(line, &READ_ONLY_TEXTS).filter(|_| last_quoted(line).is_some())
}

/// The file that a line says is not there.
pub(crate) fn missing_file(line: &str) -> Option<&str> {
    file_before(line, &MISSING_TEXTS)
}

/// The archive that `zip` could not write: it gives its reason in the line before.
fn unopened_archive(line: &str) -> Option<&str> {
    line.strip_prefix("zip error: Could not create output file (")?.strip_suffix(')')
}

/// The file that a line complains about: the last in quotes before the complaint, or after it, or the last word before it.
fn file_before<'a>(line: &'a str, complaints: &[&str]) -> Option<&'a str> {
    // Lower case keeps byte positions: the complaints are ASCII.
    let small = line.to_ascii_lowercase();
    let at = complaints.iter().find_map(|complaint| find_word(&small, complaint))?;
    let (before_it, after_it) = line.split_at(at);
    let quoted = last_quoted(before_it).or_else(|| last_quoted(after_it));
    let is_path = |path: &&str| !path.is_empty() && !path.contains('\0');
    quoted.filter(is_path).or_else(|| unquoted_file(before_it))
}

/// The last word before a complaint, or the one before `Cannot open`, if it can be a file.
fn unquoted_file(before: &str) -> Option<&str> {
    let before = before.trim_end().trim_end_matches(':');
    let before = match before.rsplit_once(": Cannot ") {
        Some((before, verb)) if !verb.contains(':') => before,
        _ => before,
    };
    let word = before.rsplit([' ', '\t']).next().filter(|word| !word.is_empty())?;
    // `[Errno 30]` stands before the complaint of Python where it names no file.
    if word.ends_with([']', ')']) || NO_FILES.contains(&word.to_ascii_lowercase().as_str()) {
        return None;
    }
    let rest = before[..before.len() - word.len()].trim_end();
    // `PROGRAM: NAME: complaint`, or the verb of a sentence before it.
    let is_named = rest.ends_with(':')
        || ["create", "open", "write", "remove", "mkdir"].iter().any(|verb| rest.ends_with(verb));
    let is_name = |word: &str| word.contains(['/', '.']) && !word.ends_with(':');
    (is_named || is_name(word)).then_some(word)
}

/// The last text in quotes: of two files, the one that should be written.
fn last_quoted(text: &str) -> Option<&str> {
    const QUOTES: [(char, char); 4] = [('\'', '\''), ('‘', '’'), ('"', '"'), ('`', '`')];
    QUOTES.into_iter().find_map(|(open, close)| {
        let (before, _) = text.rsplit_once(close)?;
        before.rsplit_once(open).map(|(_, inner)| inner)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_refused_file_is_found_in_the_words_of_many_tools() {
        for (line, file) in [
            ("PermissionError: [Errno 13] Permission denied: 'out/a.txt'", "out/a.txt"),
            ("Error: EACCES: permission denied, open 'a b.txt'", "a b.txt"),
            ("scripts/run.bash: line 3: out.txt: Permission denied", "out.txt"),
            ("scripts/run.bash: line 3: out: Permission denied", "out"),
            ("touch: cannot touch 'x': Read-only file system", "x"),
            ("tee: out: Read-only file system", "out"),
            ("mkdir: cannot create directory ‘deep’: Permission denied", "deep"),
            ("sh: 1: cannot create out: Permission denied", "out"),
            ("fatal: cannot copy '/usr/a' to '.git/a': Read-only file system", ".git/a"),
            ("PermissionError: [Errno 13] Permission denied: 'a.tmp' -> 'a'", "a"),
            ("Error: EROFS: read-only file system, copyfile 'a' -> 'b'", "b"),
            ("fatal: cannot mkdir .git: Permission denied", ".git"),
            ("error: could not lock config file .git/config: Permission denied", ".git/config"),
            ("tar: out.tar: Cannot open: Read-only file system", "out.tar"),
            ("tar (child): out.tgz: Cannot open: Read-only file system", "out.tgz"),
            ("tar: docs: Cannot mkdir: Read-only file system", "docs"),
            ("zip error: Could not create output file (out.zip)", "out.zip"),
            ("genrsa: Can't open \"k.pem\" for writing, Read-only file system", "k.pem"),
        ] {
            assert_eq!(denied_file(line), Some(file), "{line}");
        }
    }

    #[test]
    fn what_names_no_file_is_none() {
        for line in [
            "all went well",
            "x.ModulEACCES: a",
            "Permission denied",
            ": Permission denied",
            "OSError: [Errno 30] Read-only file system",
            "",
            "error: unable to create temporary file: Read-only file system",
            "df: cannot read table of mounted file systems: Permission denied",
            "zip I/O error: Read-only file system",
            "error: open: Permission denied",
            "the server says permission denied",
            "git@github.com: Permission denied (publickey).",
            "me@host.example: Permission denied (publickey,password).",
            "zip error: Nothing to do! (out.zip)",
        ] {
            assert_eq!(denied_file(line), None, "{line}");
        }
    }

    #[test]
    fn the_missing_file_is_found_in_the_words_of_many_tools() {
        for (line, file) in [
            ("FileNotFoundError: [Errno 2] No such file or directory: 'references/a.md'", "references/a.md"),
            ("Error: ENOENT: no such file or directory, open 'references/a.md'", "references/a.md"),
            ("cat: references/a.md: No such file or directory", "references/a.md"),
            (
                "python3: can't open file '/p/scripts/a.py': [Errno 2] No such file or directory",
                "/p/scripts/a.py",
            ),
            ("ERROR: references/a.md not found", "references/a.md"),
        ] {
            assert_eq!(missing_file(line), Some(file), "{line}");
        }
        for line in
            ["ERROR: file not found", "not found", "HTTP 404 page not found", "No such file or directory"]
        {
            assert_eq!(missing_file(line), None, "{line}");
        }
    }
}
