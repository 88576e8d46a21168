//! The authorities whose certificates are trusted.

use std::sync::Arc;

/// The authorities whose certificates are trusted: by default those that Mozilla trusts.
#[derive(Clone, Debug, Default)]
pub struct RootCertificates(Option<Arc<str>>);

impl RootCertificates {
    /// Those in a text in PEM, and no others.
    pub fn from_pem(pem: &str) -> Self {
        Self(Some(pem.into()))
    }

    #[cfg_attr(not(feature = "http"), allow(dead_code, reason = "only a client uses them"))]
    pub(super) fn pem(&self) -> Option<&str> {
        self.0.as_deref()
    }
}
