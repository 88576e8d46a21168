//! The host a URL names, as permissions spell it.

use ureq::http::Uri;

use crate::error::{ErrorKind, Result, SkillError};

/// The host of an `http` or `https` URL in lower case, IPv6 without brackets; `invalid-argument` for anything else.
pub(in crate::host) fn host_of(url: &str) -> Result<String> {
    let refused = |why: &str| SkillError::new(ErrorKind::InvalidArgument, format!("`{url}` {why}"));
    let uri: Uri = url.parse().map_err(|_| refused("is not a URL"))?;
    if !matches!(uri.scheme_str(), Some("http" | "https")) {
        return Err(refused("is not a URL of http or https"));
    }
    if uri.authority().is_none_or(|authority| authority.as_str().contains('@')) {
        return Err(refused("must not carry a name or password"));
    }
    match uri.host() {
        Some(host) if !host.is_empty() => Ok(host.trim_matches(['[', ']']).to_ascii_lowercase()),
        _ => Err(refused("names no host")),
    }
}
