//! Paths that a script wrote, in hints: which are looked at, how they are shown, and which a person may be told to type.

/// The most bytes of a path that a hint repeats, and folders in it.
const MAX_PATH_BYTES: usize = 512;
const MAX_PATH_PARTS: usize = 64;

/// Whether a text could be the path of a file. A script may write anything, and each folder above a file is looked at.
pub(crate) fn is_path(text: &str) -> bool {
    text.len() <= MAX_PATH_BYTES && text.matches('/').count() <= MAX_PATH_PARTS
}

/// Whether a letter of a path means nothing to a shell and ends no word of a sentence.
fn is_plain(c: char) -> bool {
    c.is_alphanumeric() || "._-/~@+,".contains(c)
}

/// Whether a person may be told to type this path or permission, which has a name that a script may have chosen.
pub(crate) fn is_typable(text: &str) -> bool {
    text.chars().all(|c| is_plain(c) || c == ':')
}

/// A path that a script wrote, as a hint shows it: in quotes, if it could be read as words of the hint.
pub(crate) fn shown_path(path: &str) -> String {
    let path = metier_core::excerpt::shorten(path, MAX_PATH_BYTES);
    if path.chars().all(is_plain) { path } else { format!("{path:?}") }
}
