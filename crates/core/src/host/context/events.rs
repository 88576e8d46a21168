//! Events of a run for its observer, and its span.

use super::SkillContext;
use crate::host::event::EventKind;
use crate::host::run_events::RunEvents;

/// For the other packages of metier; may change in any release.
#[doc(hidden)]
impl SkillContext {
    /// Whether somebody observes the run.
    pub fn is_observed(&self) -> bool {
        self.inner.events.is_some()
    }

    /// Where the events of the run go, if somebody observes it.
    pub fn events(&self) -> Option<&RunEvents> {
        self.inner.events.as_deref()
    }

    /// Notifies the observer, if there is one, without secrets.
    pub fn notify(&self, kind: impl FnOnce() -> EventKind) {
        if let Some(events) = &self.inner.events {
            events.notify(self.redaction(), kind());
        }
    }

    /// Does a part of the run on another thread, in the span of the run.
    pub fn in_span<T>(&self, work: impl FnOnce() -> T) -> T {
        match &self.inner.span {
            Some(span) => span.in_scope(work),
            None => work(),
        }
    }
}
