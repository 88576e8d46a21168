//! How a run on an engine is told to stop: only while it is under way, and never the next one.

use std::sync::{Mutex, MutexGuard, PoisonError};

use extism::CancelHandle;

use crate::error::Result;
use crate::policy::CancelToken;

/// One run's. Extism forgets a cancel that comes before a call, and one that comes late hits whoever is running then; so
/// nothing is sent but between the call's first instruction and its last.
pub(super) struct Leash {
    handle: CancelHandle,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    under_way: bool,
    told: bool,
}

impl Leash {
    pub(super) fn new(handle: CancelHandle) -> Self {
        Self { handle, state: Mutex::default() }
    }

    /// The call is under way, unless the token stopped before. Called from within it.
    pub(super) fn begin(&self, token: &CancelToken) -> Result<()> {
        let mut state = self.locked();
        token.check()?;
        state.under_way = true;
        Ok(())
    }

    /// Stops the call, if it is under way.
    pub(super) fn stop(&self) {
        let mut state = self.locked();
        if state.under_way {
            state.told = true;
            // It fails when the process is about to end, and every run with it.
            self.handle.cancel().ok();
        }
    }

    /// The call is over. Says whether it was told to stop, for then the engine may be told at any later time.
    pub(super) fn end(&self) -> bool {
        let mut state = self.locked();
        state.under_way = false;
        state.told
    }

    fn locked(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
