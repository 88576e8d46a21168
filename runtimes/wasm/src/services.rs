//! What the plug-ins of one engine share: who compiles them, and until when.

use std::sync::Arc;
use std::time::Instant;

use metier_core::policy::{CancelToken, DeadlineGuard, Limits, Watchdog};
#[cfg(unix)]
use metier_sandbox::Launcher;

/// What the plug-ins of one engine share.
#[derive(Clone)]
pub struct PluginServices {
    /// Starts compilers in sandboxes.
    #[cfg(unix)]
    pub launcher: Arc<Launcher>,
    /// The timer of deadlines.
    pub watchdog: Arc<Watchdog>,
    /// Whether modules may be compiled in this process if no other process can compile them.
    pub compile_in_process: bool,
    /// Whether loading needs a timeout of its own, because no run with a deadline is waiting for it.
    pub needs_load_timeout: bool,
}

impl PluginServices {
    /// The token that stops a slow load, with a deadline if no run has one; it holds until the guard is dropped.
    pub(crate) fn load_token(&self, cancel: &CancelToken) -> (CancelToken, Option<DeadlineGuard<'_>>) {
        let token = cancel.child();
        let until = Instant::now() + Limits::default().timeout;
        let armed = self.needs_load_timeout.then(|| self.watchdog.arm(until, &token));
        (token, armed)
    }
}
