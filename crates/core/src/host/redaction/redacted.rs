//! A secret, as a redaction knows it, and a value without secrets.

use std::fmt;

/// A value that must not leave, and its placeholder.
#[derive(Clone)]
pub(super) struct Secret {
    pub(super) value: String,
    pub(super) placeholder: String,
}

/// A value without secrets, which may be shown, logged and reported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Redacted<T>(pub(super) T);

impl<T> Redacted<T> {
    /// The redacted value.
    pub fn as_inner(&self) -> &T {
        &self.0
    }

    /// The redacted value, unwrapped.
    pub fn into_inner(self) -> T {
        self.0
    }

    /// Applies a function that adds only fixed text of our own.
    pub fn map<U>(self, step: impl FnOnce(T) -> U) -> Redacted<U> {
        Redacted(step(self.0))
    }
}

impl Redacted<String> {
    /// Truncates the text to this many characters, with `…` if there were more.
    pub fn truncate(self, most: usize) -> Self {
        match self.0.char_indices().nth(most) {
            Some((end, _)) => Self(format!("{}…", &self.0[..end])),
            None => self,
        }
    }

    /// The part of the text that is selected, without control characters.
    #[cfg_attr(not(unix), allow(dead_code, reason = "only processes say something"))]
    pub fn part(&self, select: impl FnOnce(&str) -> Option<&str>) -> Option<Self> {
        Some(Self(select(&self.0)?.chars().filter(|c| !c.is_control()).collect()))
    }
}

impl fmt::Display for Redacted<String> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
