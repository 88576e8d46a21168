//! The fork server: a small process that starts the supervisor of each run, its client in the host, and their messages.

pub(super) mod client;
pub(super) mod ipc;
pub(super) mod server;
