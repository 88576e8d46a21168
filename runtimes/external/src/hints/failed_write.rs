//! Recognises that a script says that it could not write a file, in words of its own and without the reason of the system.

/// What says that something failed, as a word before the verb.
const FAILURES: [&str; 10] =
    ["can't", "cannot", "could", "couldn't", "e", "err", "error", "failed", "unable", "failure"];

/// How many words may stand between the verb and the file: `write the report to out.md`.
const MAX_WORDS_BETWEEN: usize = 3;

/// The file that a line says could not be written.
pub(crate) fn unwritten_file(line: &str) -> Option<&str> {
    /// Longer lines are no sentences.
    const MAX_LINE_BYTES: usize = 1000;
    if line.len() > MAX_LINE_BYTES {
        return None;
    }
    let words: Vec<&str> = line.split_whitespace().collect();
    let verb = words.iter().position(|word| is_write(word))?;
    let is_failure = |word: &&str| parts(word).any(|part| FAILURES.contains(&part.as_str()));
    // The word itself may be the code of an error: `E_ATOMIC_WRITE`.
    if !words[..=verb].iter().any(is_failure) {
        return None;
    }
    let after = &words[verb + 1..];
    let at = after.iter().take(MAX_WORDS_BETWEEN + 1).position(|word| is_path(file_of(word)))?;
    let is_sentence = |word: &&str| word.chars().all(|c| c.is_ascii_lowercase());
    after[..at].iter().all(is_sentence).then(|| file_of(after[at]))
}

fn is_write(word: &str) -> bool {
    parts(word).any(|part| ["write", "writing", "save", "saving"].contains(&part.as_str()))
}

/// The words of a word: of the code of an error those between its `_`.
fn parts(word: &str) -> impl Iterator<Item = String> {
    let words = word.split(|c: char| !(c.is_ascii_alphanumeric() || c == '\''));
    words.map(str::to_ascii_lowercase)
}

/// A word without quotes, and without the line that may follow a file: `out.md:1`.
fn file_of(word: &str) -> &str {
    let word = word.trim_start_matches(['\'', '"', '`', '(']);
    let word = word.trim_end_matches(['\'', '"', '`', ')', ',', ';', ':', '.']);
    word.split(':').next().unwrap_or(word)
}

fn is_path(word: &str) -> bool {
    let is_plain = |c: char| c.is_alphanumeric() || "._-/+@".contains(c);
    let (stem, ending) = word.rsplit_once('.').unwrap_or((word, ""));
    word.chars().all(is_plain) && !stem.is_empty() && (!ending.is_empty() || word.contains('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_is_found_that_a_script_could_not_write() {
        for (line, file) in [
            ("E_ATOMIC_WRITE out.md:1", "out.md"),
            ("failed to write out.md", "out.md"),
            ("Error: could not write to 'out/a.json'.", "out/a.json"),
            ("error: unable to save the report to out.md", "out.md"),
            ("Failed writing out/report", "out/report"),
        ] {
            assert_eq!(unwritten_file(line), Some(file), "{line}");
        }
    }

    #[test]
    fn a_complaint_about_something_else_names_no_file() {
        for line in [
            "",
            "wrote out.md",
            "write out.md",
            "could not save the report",
            "failed: out.md has no title",
            "cannot create issue: body.md is empty",
            "error: save is not allowed: see docs/a.md",
            "failed to write valid YAML in docs/a.md",
            "error in read-write mode",
        ] {
            assert_eq!(unwritten_file(line), None, "{line}");
        }
    }
}
