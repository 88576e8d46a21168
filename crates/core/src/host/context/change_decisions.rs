//! What the provider of files decided in a run, and how long its deadlines stood still for that.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering};
use std::time::Duration;

/// Decisions for which the deadlines stand still, in an invoked run with all that it calls.
const MAX_PAUSES: u8 = 64;

/// What was decided about changes, in an invoked run with all that it calls.
#[derive(Default)]
pub(super) struct ChangeDecisions {
    /// Whether nobody decided about one in time.
    pub(super) has_undecided: AtomicBool,
    /// The decisions for which the deadlines stood still, and for how many milliseconds they did.
    pauses: AtomicU8,
    paused_ms: AtomicU32,
}

impl ChangeDecisions {
    /// Whether the deadlines stand still for one more decision. Otherwise a script that makes one change after the other would
    /// put them off for as long as it likes.
    pub(super) fn may_pause(&self, limit: Duration) -> bool {
        let paused = Duration::from_millis(self.paused_ms.load(Ordering::Acquire).into());
        let count = |pauses| (pauses < MAX_PAUSES).then_some(pauses + 1);
        paused < limit && self.pauses.fetch_update(Ordering::AcqRel, Ordering::Acquire, count).is_ok()
    }

    pub(super) fn add_paused(&self, time: Duration) {
        let time = u32::try_from(time.as_millis()).unwrap_or(u32::MAX);
        let add = |paused: u32| Some(paused.saturating_add(time));
        self.paused_ms.fetch_update(Ordering::AcqRel, Ordering::Acquire, add).ok();
    }
}
