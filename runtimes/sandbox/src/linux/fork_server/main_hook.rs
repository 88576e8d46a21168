//! The hook at the start of a program's `main`, through which the program can run as the fork server.

use std::sync::atomic::{AtomicBool, Ordering};

use super::server;
use crate::RemoveFolder;

/// The argument that makes a program the fork server.
pub(super) const FORK_SERVER_ARG: &str = "__fork-server";

/// Whether this program's `main` begins with the hook, so that it can be started again as a fork server.
static HAS_MAIN_HOOK: AtomicBool = AtomicBool::new(false);

/// Runs the program as the fork server, and never returns, if it was started as one by a [`Launcher`](crate::Launcher); returns at once
/// otherwise.
///
/// It belongs at the beginning of `main`, before other threads start and before arguments are read.
pub fn fork_server_main(remove_folder: RemoveFolder) {
    HAS_MAIN_HOOK.store(true, Ordering::Relaxed);
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next().is_some_and(|first| first == FORK_SERVER_ARG) && arguments.next().is_none() {
        server::serve_stdin(remove_folder);
    }
}

pub(super) fn has_main_hook() -> bool {
    HAS_MAIN_HOOK.load(Ordering::Relaxed)
}
