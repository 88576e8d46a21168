//! A run on a thread of its own, as a stream of its events.

use std::collections::{HashSet, VecDeque};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use futures_core::Stream;
use serde_json::Value;

use super::{Engine, Invocation, Outcome};
use crate::engine::run_future::{PendingRun, ReadyRun};
use crate::engine::run_queue::RunPlace;
use crate::engine::run_threads;
use crate::engine::thread_future::thread_error;
use metier_core::host::{
    Event, EventKind, Extensions, Observer, PanicSafeObserver, Redaction, RunEvents, RunId, StepReport,
    events_dropped, memory_size, next_run_id,
};

/// The queue is full when it has so many events or takes so many bytes.
const MAX_EVENTS: usize = 1024;
const MAX_BYTES: u64 = 1 << 20;

/// Approximate bytes of an event besides its texts and values.
const EVENT_BYTES: u64 = 256;

/// The events of a run in progress; see [`Engine::run_streamed`]. Dropping it cancels the run.
///
/// The queue between the run and the reader has at most 1,024 events and about 1 MiB. While it is full, events that tell only of
/// what a run does (calls, log, progress, output) and the runs that start then are left out, each such run with everything that it
/// calls; a step that ends is passed on without its value. [`EventKind::Dropped`] says how many events are missing.
#[must_use = "a stream runs when it is polled"]
pub struct EventStream {
    pending_run: PendingRun,
    queue: Arc<EventQueue>,
}

impl Engine {
    /// Runs a skill on a thread of its own; the stream has its events as they happen, and ends after
    /// [`EventKind::Finished`]. An observer of the invocation receives the events as well.
    ///
    /// Nothing starts before the first poll, and dropping the stream cancels the run. It works on every executor.
    ///
    /// ```
    /// use std::pin::pin;
    ///
    /// use futures_core::Stream;
    /// use metier::engine::{Engine, Invocation};
    /// use metier::host::EventKind;
    ///
    /// # async fn run() -> metier::error::Result<()> {
    /// let mut events = pin!(Engine::builder(".").build()?.run_streamed(Invocation::new("word-count")));
    /// while let Some(event) = std::future::poll_fn(|context| events.as_mut().poll_next(context)).await {
    ///     if let EventKind::Finished { outcome, .. } = &event.kind {
    ///         println!("{:?}", outcome.result);
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn run_streamed(&self, invocation: Invocation) -> EventStream {
        EventStream::new(self.clone(), invocation)
    }
}

impl EventStream {
    pub(super) fn new(engine: Engine, mut invocation: Invocation) -> Self {
        let next = invocation.observer.take().map(PanicSafeObserver::new);
        let queue = Arc::new(EventQueue { next, state: Mutex::default() });
        invocation.observer = Some(queue.clone());
        Self { pending_run: PendingRun::new(engine, invocation), queue }
    }

    fn start(
        engine: Engine,
        invocation: Invocation,
        place: Option<RunPlace>,
        queue: Arc<EventQueue>,
    ) -> std::io::Result<()> {
        let work = move || {
            // Also if the run panics.
            let _end = QueueEnd(queue);
            engine.0.run(invocation);
            drop(place);
            // The reader may exit the process after the last event, so the engine cleans up first.
            drop(engine);
        };
        run_threads::start(work)
    }
}

impl Stream for EventStream {
    type Item = Event;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Event>> {
        let replaced = self.queue.lock().waker.replace(context.waker().clone());
        drop(replaced);
        if let Some(ReadyRun { engine, invocation, place }) = self.pending_run.poll(context.waker()) {
            let skill = invocation.skill.clone();
            let refused = match place {
                Ok(place) => Self::start(engine, invocation, place, self.queue.clone()).err().map(|source| {
                    let error = thread_error("the run", source);
                    let events =
                        RunEvents::new(self.queue.clone(), next_run_id(), &skill, Extensions::default());
                    events.finish(&Redaction::default(), Outcome::failed(skill, error))
                }),
                Err(error) => Some(engine.0.refuse(&invocation, error)),
            };
            if refused.is_some() {
                self.queue.lock().has_ended = true;
            }
        }
        let mut state = self.queue.lock();
        match state.pop() {
            Some(event) => Poll::Ready(Some(event)),
            None if state.has_ended => Poll::Ready(None),
            None => Poll::Pending,
        }
    }
}

impl Drop for EventStream {
    fn drop(&mut self) {
        self.pending_run.cancel();
        let mut state = self.queue.lock();
        let dropped = std::mem::take(&mut *state);
        state.is_closed = true;
        drop(state);
        drop(dropped);
    }
}

/// The events between the run and the reader of the stream.
struct EventQueue {
    /// The observer of the invocation.
    next: Option<PanicSafeObserver>,
    state: Mutex<QueueState>,
}

#[derive(Default)]
struct QueueState {
    events: VecDeque<(Event, u64)>,
    bytes: u64,
    /// The first event, for events about the whole run.
    first: Option<Event>,
    /// Events that were left out since the last one in the queue.
    dropped: u64,
    /// The runs in progress whose events are left out.
    dropped_runs: HashSet<RunId>,
    waker: Option<Waker>,
    has_ended: bool,
    /// Nobody reads any more.
    is_closed: bool,
}

impl Observer for EventQueue {
    fn on_event(&self, event: &Event) {
        let waker = self.lock().push(event);
        // A waker may poll immediately, on this thread.
        if let Some(waker) = waker {
            waker.wake();
        }
        if let Some(next) = &self.next {
            next.notify(event);
        }
    }
}

impl EventQueue {
    fn lock(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl QueueState {
    /// Adds an event unless it is left out. Returns the waker of a reader that waits.
    fn push(&mut self, event: &Event) -> Option<Waker> {
        if self.is_closed {
            return None;
        }
        if self.must_drop(event) {
            self.dropped += 1;
            return None;
        }
        let mut event = event.clone();
        if self.is_full()
            && let EventKind::StepFinished { value, .. } = &mut event.kind
        {
            *value = None;
        }
        let first = self.first.get_or_insert_with(|| event.clone());
        if self.dropped > 0 {
            let count = std::mem::take(&mut self.dropped);
            let mut missing = first.clone();
            missing.kind = events_dropped(count);
            self.add(missing);
        }
        self.add(event);
        self.waker.take()
    }

    fn must_drop(&mut self, event: &Event) -> bool {
        match event.kind {
            EventKind::Finished { .. } => self.dropped_runs.remove(&event.run),
            EventKind::Started { .. } => {
                let is_callee_of_dropped = |caller| self.dropped_runs.contains(&caller);
                let is_dropped = event.caller.is_some_and(|run| self.is_full() || is_callee_of_dropped(run));
                if is_dropped {
                    self.dropped_runs.insert(event.run);
                }
                is_dropped
            }
            EventKind::StepStarted { .. } | EventKind::StepFinished { .. } | EventKind::Stopping { .. } => {
                self.dropped_runs.contains(&event.run)
            }
            _ => self.is_full() || self.dropped_runs.contains(&event.run),
        }
    }

    fn is_full(&self) -> bool {
        self.events.len() >= MAX_EVENTS || self.bytes >= MAX_BYTES
    }

    fn add(&mut self, event: Event) {
        let size = event_size(&event.kind);
        self.bytes += size;
        self.events.push_back((event, size));
    }

    fn pop(&mut self) -> Option<Event> {
        let (event, size) = self.events.pop_front()?;
        self.bytes -= size;
        Some(event)
    }
}

/// Ends the stream when the run's thread ends.
struct QueueEnd(Arc<EventQueue>);

impl Drop for QueueEnd {
    fn drop(&mut self) {
        let waker = {
            let mut state = self.0.lock();
            state.has_ended = true;
            state.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

/// The approximate memory of an event.
fn event_size(kind: &EventKind) -> u64 {
    let text = |text: &str| text.len() as u64;
    EVENT_BYTES
        + match kind {
            EventKind::HostCall { permission, .. } => permission.as_deref().map_or(0, text),
            EventKind::Log(line) => text(&line.message),
            EventKind::Progress(progress) => text(&progress.message),
            EventKind::Output { line, .. } => text(line),
            EventKind::SampleText { text: part, .. } => text(part),
            EventKind::StepFinished { value, error, .. } => {
                value.as_ref().map_or(0, memory_size) + error.as_deref().map_or(0, text)
            }
            EventKind::Finished { outcome, .. } => {
                let process = outcome.process.as_ref();
                outcome.result.as_ref().map_or(0, memory_size)
                    + process.map_or(0, |process| text(&process.stdout) + text(&process.stderr))
                    + outcome.steps.iter().map(step_size).sum::<u64>()
            }
            _ => 0,
        }
}

fn step_size(step: &StepReport) -> u64 {
    let size = |value: &Value| if value.is_null() { 0 } else { memory_size(value) };
    EVENT_BYTES + size(&step.value) + size(&step.input)
}
