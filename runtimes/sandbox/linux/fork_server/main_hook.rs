//! The hook at the start of a program's `main`, through which the program can run as the fork server.

use std::sync::atomic::{AtomicBool, Ordering};

use super::server;

/// The argument that makes a program the fork server.
pub(super) const FORK_SERVER_ARG: &str = "__fork-server";

/// Whether this program's `main` begins with the hook, so that it can be started again as a fork server.
static HAS_MAIN_HOOK: AtomicBool = AtomicBool::new(false);

/// See [`crate::helper_main`].
pub(crate) fn fork_server_main() {
    HAS_MAIN_HOOK.store(true, Ordering::Relaxed);
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next().is_some_and(|first| first == FORK_SERVER_ARG) && arguments.next().is_none() {
        server::serve_stdin();
    }
}

pub(super) fn has_main_hook() -> bool {
    HAS_MAIN_HOOK.load(Ordering::Relaxed)
}
