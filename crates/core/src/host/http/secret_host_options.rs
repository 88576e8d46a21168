//! How the host program connects to hosts of secrets for a process.

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

/// How the host program connects to hosts of secrets for a process.
#[derive(Clone, Debug, Default)]
pub struct SecretHostOptions {
    /// The authorities that certify the hosts.
    pub roots: RootCertificates,
    /// Whether connections that the process itself makes over TLS are opened.
    pub opens_tls: bool,
}
