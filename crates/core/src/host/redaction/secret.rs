//! A secret, as a redaction knows it.

/// A value that must not leave, and its placeholder.
#[derive(Clone)]
pub(super) struct Secret {
    pub(super) value: String,
    pub(super) placeholder: String,
}
