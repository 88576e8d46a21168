//! HTTP for scripts: which host a URL names, which addresses are off limits, and the built-in client.
//!
//! The path of a request: `url` parses it, `connect` looks the host up, checks the addresses and connects, `send` sends and reads
//! over that `transport`, `request` makes the next request of a redirect. `timeout` bounds every wait.

mod addresses;
mod client;
mod connect;
mod headers;
mod request;
mod send;
mod timeout;
mod transport;
mod url;

pub use self::client::WebClient;
pub(super) use headers::validate_headers;
pub(super) use url::url_host;
