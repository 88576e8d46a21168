//! The fork server: a small process that starts the supervisor of each run, and its client in the host.

pub(super) mod client;
pub(super) mod main_hook;
mod namespace_support;
mod server;
