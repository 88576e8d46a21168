//! Searches the output of programs for the words of their errors.

use std::borrow::Cow;

/// How many bytes at the end of an output are searched.
const MAX_SEARCHED_BYTES: usize = 64 << 10;

/// How many bytes at the end of an output are looked at after a script that ended well.
pub(crate) const MAX_LAST_BYTES: usize = 4 << 10;

/// The end of a text, of the size that is searched.
pub(crate) fn searched_end(text: &str) -> &str {
    let start = text.len().saturating_sub(MAX_SEARCHED_BYTES);
    let start = (start..text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(text.len());
    &text[start..]
}

/// The end of an output after a script that ended well, as far as it is looked at.
pub(crate) fn last_text(output: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(&output[output.len().saturating_sub(MAX_LAST_BYTES)..])
}

/// The last lines that are not blank, the last one first.
pub(crate) fn last_lines(text: &str) -> impl Iterator<Item = &str> {
    /// How many lines at the end may say why a program failed.
    const MAX_LINES: usize = 12;
    text.lines().rev().map(str::trim_end).filter(|line| !line.trim().is_empty()).take(MAX_LINES)
}

/// Whether a text has one of these, which are separated by `|`.
pub(crate) fn contains_any(text: &str, words: &str) -> bool {
    words.split('|').any(|words| text.contains(words))
}

/// The same, at the beginning of a word; where several are joined by `+`, it has all of them.
pub(crate) fn matches_any(text: &str, rows: &str) -> bool {
    rows.split('|').any(|row| row.split('+').all(|words| find_word(text, words).is_some()))
}

/// Where these words begin in the text, not as the end of a longer word: `enotfound` is not part of `ModuleNotFoundError`.
pub(crate) fn find_word(text: &str, words: &str) -> Option<usize> {
    let begins_word = |at: usize| {
        let inside = |c: char| c.is_alphanumeric();
        !(words.starts_with(inside) && text[..at].ends_with(inside))
    };
    text.match_indices(words).map(|(at, _)| at).find(|at| begins_word(*at))
}
