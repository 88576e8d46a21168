//! Worker processes: scripts that answer several runs, one JSON line each.

pub(super) mod pool;
pub(super) mod process;
pub(super) mod protocol;
pub(super) mod session;
