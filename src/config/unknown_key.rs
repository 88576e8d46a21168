//! What somebody probably meant who wrote an unknown key.

use super::key_path::{KeyPath, PathMatch};
use metier_core::suggestion::{closest, did_you_mean};

/// The suggestion for the word of a key that is wrong, among the words that could be in its place: the whole key, where that is one.
pub(super) fn suggestion<W: AsRef<str>>(words: &[W], at: usize, known: &[&str]) -> Option<String> {
    let words: Vec<&str> = words.iter().map(AsRef::as_ref).collect();
    let near = closest(words.get(at).copied()?, known.iter().copied())?;
    let (before, after) = words.split_at(at);
    let section = [before, &[near]].concat();
    let whole = [&section[..], after.get(1..).unwrap_or_default()].concat();
    Some(match KeyPath::find(&whole) {
        PathMatch::Key(_) | PathMatch::Section => did_you_mean(&whole.join(".")),
        // One more word of it is wrong.
        PathMatch::Unknown { at: next, known } if next > at => {
            suggestion(&whole, next, &known).unwrap_or_else(|| did_you_mean(&section.join(".")))
        }
        PathMatch::Unknown { .. } => did_you_mean(&section.join(".")),
    })
}
