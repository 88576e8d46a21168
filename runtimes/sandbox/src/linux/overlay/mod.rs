//! Overlays: a process for each, which has it mounted and clones it for every launch, and the host's handle of it.

pub(super) mod client;
pub(super) mod server;
