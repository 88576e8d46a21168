//! The events of one run on their way to its observer: redacted, in order, and no further one after the last.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::catch_panic::catch_panic;
use super::event::{Event, EventKind, Observer};
use super::extensions::Extensions;
use super::log::{LogLine, Progress};
use super::outcome::Outcome;
use super::redaction::Redaction;
use super::run_id::{RunId, RunThreadGuard};
use super::steps::StepReport;
use crate::error::ErrorKind;

/// How long the end of a run waits for an observer that is busy with another event of the run.
const MAX_WAIT: Duration = Duration::from_secs(1);

/// An observer that is not called again after it has panicked.
pub struct PanicSafeObserver {
    observer: Arc<dyn Observer>,
    has_panicked: AtomicBool,
}

impl PanicSafeObserver {
    /// An observer whose panics end no run.
    pub fn new(observer: Arc<dyn Observer>) -> Self {
        Self { observer, has_panicked: AtomicBool::new(false) }
    }

    /// Passes the event on.
    pub fn notify(&self, event: &Event) {
        if self.has_panicked.load(Ordering::Acquire) {
            return;
        }
        let call = || {
            let _for_run = RunThreadGuard::enter();
            self.observer.on_event(event);
            Ok(())
        };
        if let Err(error) = catch_panic("the observer", ErrorKind::Unavailable, call)
            && !self.has_panicked.swap(true, Ordering::AcqRel)
        {
            tracing::warn!(run_id = %event.run, "{error}; it gets no further events of this run");
        }
    }
}

/// Where the events of one run go. Only observed runs have it.
pub struct RunEvents {
    observer: Arc<PanicSafeObserver>,
    run: RunId,
    caller: Option<RunId>,
    skill: Arc<str>,
    extensions: Extensions,
    deliveries: Mutex<Deliveries>,
    /// Notified when the observer has returned.
    returned: Condvar,
}

#[derive(Default)]
struct Deliveries {
    /// Calls of the observer that have not returned.
    calls: usize,
    is_finished: bool,
}

impl RunEvents {
    /// The events of a run that nobody called.
    pub fn new(observer: Arc<dyn Observer>, run: RunId, skill: &str, extensions: Extensions) -> Arc<Self> {
        Self::of_run(Arc::new(PanicSafeObserver::new(observer)), run, None, skill, extensions)
    }

    /// The events of a run that this one calls, for the same observer.
    pub fn for_callee(&self, run: RunId, skill: &str) -> Arc<Self> {
        Self::of_run(self.observer.clone(), run, Some(self.run), skill, self.extensions.clone())
    }

    fn of_run(
        observer: Arc<PanicSafeObserver>,
        run: RunId,
        caller: Option<RunId>,
        skill: &str,
        extensions: Extensions,
    ) -> Arc<Self> {
        let (deliveries, returned) = (Mutex::default(), Condvar::new());
        Arc::new(Self { observer, run, caller, skill: skill.into(), extensions, deliveries, returned })
    }

    /// Notifies the observer, without secrets. After the end of the run it does nothing.
    pub fn notify(&self, redaction: &Redaction, kind: EventKind) {
        {
            let mut deliveries = self.lock_deliveries();
            if deliveries.is_finished {
                return;
            }
            deliveries.calls += 1;
        }
        self.send(redaction, kind);
        self.lock_deliveries().calls -= 1;
        self.returned.notify_all();
    }

    /// Notifies the observer that the run has ended. No event comes later, also not from another thread.
    pub fn finish(&self, redaction: &Redaction, outcome: Outcome) -> Outcome {
        let mut deliveries = self.lock_deliveries();
        deliveries.is_finished = true;
        let waited =
            self.returned.wait_timeout_while(deliveries, MAX_WAIT, |deliveries| deliveries.calls > 0);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
        let outcome = Arc::new(outcome);
        self.send(redaction, EventKind::Finished { outcome: outcome.clone() });
        Arc::unwrap_or_clone(outcome)
    }

    /// The only place that creates an event of a run. The observer is called without a lock.
    fn send(&self, redaction: &Redaction, kind: EventKind) {
        self.observer.notify(&Event {
            run: self.run,
            caller: self.caller,
            skill: self.skill.clone(),
            kind: redact_event(redaction, kind),
            extensions: self.extensions.clone(),
        });
    }

    fn lock_deliveries(&self) -> MutexGuard<'_, Deliveries> {
        self.deliveries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The event without secrets. Names of skills, scripts and steps are not the script's words.
fn redact_event(redaction: &Redaction, kind: EventKind) -> EventKind {
    let text = |text: String| redaction.text(text);
    match kind {
        EventKind::HostCall { function, permission, step, error, duration } => {
            let permission =
                permission.map(|name| text(name).truncate(Redaction::MAX_ERROR_CHARS).into_inner());
            EventKind::HostCall { function, permission, step, error, duration }
        }
        EventKind::Log(LogLine { level, message }) => {
            EventKind::Log(LogLine { level, message: text(message).into_inner() })
        }
        EventKind::Progress(Progress { message, done, total }) => {
            EventKind::Progress(Progress { message: text(message).into_inner(), done, total })
        }
        EventKind::SampleText { text: part, step } => {
            EventKind::SampleText { text: text(part).into_inner(), step }
        }
        EventKind::Output { stream, line, continues } => {
            EventKind::Output { stream, line: text(line).into_inner(), continues }
        }
        EventKind::StepFinished { step, status, attempts, duration, value, error } => {
            let value = value.map(|value| redaction.value(value).into_inner());
            let error = error.map(|error| text(error).truncate(StepReport::MAX_ERROR_CHARS).into_inner());
            EventKind::StepFinished { step, status, attempts, duration, value, error }
        }
        // A callee may return secrets of its caller to its caller, but not to the observer.
        EventKind::Finished { outcome } if redaction.has_secrets() => {
            EventKind::Finished { outcome: Arc::new(outcome.redact(redaction)) }
        }
        kind @ (EventKind::Started { .. }
        | EventKind::StepStarted { .. }
        | EventKind::Stopping { .. }
        | EventKind::Dropped { .. }
        | EventKind::Finished { .. }) => kind,
    }
}
