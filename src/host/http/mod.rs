//! The web as scripts reach it: which host a URL names, which addresses are off limits, and the client that ships.
//!
//! The way of a request: `url` takes it apart, `reach` looks the host up, judges the addresses and connects, `exchange`
//! sends and reads over that `wire`, `hop` makes the next request of a redirect. `patience` bounds every wait.

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
