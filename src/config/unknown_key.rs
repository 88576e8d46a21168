//! What somebody probably meant who wrote an unknown key.

use metier_core::suggestion::{closest, did_you_mean};

/// The suggestion for the word of a key that is wrong, among the words that could be in its place.
pub(super) fn suggestion<W: AsRef<str>>(words: &[W], at: usize, known: &[&str]) -> Option<String> {
    let words: Vec<&str> = words.iter().map(AsRef::as_ref).collect();
    let near = closest(words.get(at).copied()?, known.iter().copied())?;
    let meant = [&words[..at], &[near]].concat().join(".");
    Some(did_you_mean(&meant))
}
