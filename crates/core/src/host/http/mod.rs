//! HTTP for scripts: which host a URL names, which headers a script may set, the built-in client, and downloads without a run.

#[cfg_attr(not(unix), allow(dead_code, reason = "without processes, only the client connects"))]
mod addresses;
#[cfg_attr(not(feature = "http"), path = "client_unavailable.rs")]
mod client;
mod download;
mod headers;
mod secret_host_options;
#[cfg_attr(not(feature = "http"), allow(dead_code, reason = "only the client needs more than the host"))]
mod url;

#[cfg_attr(not(unix), allow(unused_imports))]
pub use self::addresses::non_public_kind;
pub use self::client::DEFAULT_CLIENT;
#[cfg(feature = "http")]
pub use self::client::WebClient;
pub(super) use self::client::missing_client_error;
pub use self::client::{OpenedConnection, RunAuthority, SecureHost};
pub use self::download::download;
pub use self::secret_host_options::{RootCertificates, SecretHostOptions};
pub(super) use headers::validate_headers;
pub(super) use url::{is_encrypted, require_below, url_host, url_host_and_port, url_origin};
