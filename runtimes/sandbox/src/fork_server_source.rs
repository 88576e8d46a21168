//! Which program runs as the fork server.

use std::path::PathBuf;

/// Which program runs as the fork server, which starts programs in sandboxes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ForkServerSource {
    /// This very program, where its `main` begins with [`fork_server_main`](crate::fork_server_main); otherwise a copy of this process.
    #[default]
    CurrentProgram,
    /// A copy of this process, which is there sooner. Its `main` begins with [`fork_server_main`](crate::fork_server_main), for the rest of what
    /// a helper program does.
    Copy,
    /// The `metier` program at this path, or another whose `main` begins in that way.
    Program(PathBuf),
}
