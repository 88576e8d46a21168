//! HTTP for scripts: which host a URL names, which headers a script may set, and the built-in client.

#[cfg_attr(not(feature = "http"), path = "client_unavailable.rs")]
mod client;
mod headers;
#[cfg_attr(not(feature = "http"), allow(dead_code, reason = "only the client needs more than the host"))]
mod url;

pub(crate) use self::client::DEFAULT_CLIENT;
#[cfg(feature = "http")]
pub use self::client::WebClient;
pub(super) use self::client::missing_client_error;
pub(super) use headers::validate_headers;
pub(super) use url::url_host;
