//! The fork server: a small process that starts the supervisor of each run, and its client in the host.

pub(super) mod client;
mod namespace_support;
mod server;
