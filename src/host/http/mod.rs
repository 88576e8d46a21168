//! The web as scripts reach it: which host a URL names, which addresses are off limits, and the client that ships.

mod url;

pub(super) use url::host_of;
