//! Hands on the text of a model to the observer of the run, as it comes.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError, TryLockError};

use super::SkillContext;
use super::sample_stream::SampleStream;
use crate::host::event::EventKind;
use crate::host::{RunContext, RunMessages};

/// Maximum bytes of text in one event.
const MAX_EVENT_BYTES: usize = 8 << 10;
/// Maximum bytes that are held back because they may be the beginning of a secret.
const MAX_HELD_BYTES: usize = 256 << 10;

impl SkillContext {
    /// Hands on a part of the text of a model, as it comes, to the observer of the run ([`EventKind::SampleText`]). For a
    /// [`SamplingProvider`](super::SamplingProvider), with the context that it gets; elsewhere, and after its call has ended, it
    /// does nothing. The response must contain the whole text all the same.
    ///
    /// Text that may be the beginning of a secret is held back until it is decided. Beyond the output limit of the run, nothing
    /// more is handed on.
    pub fn stream_sample(&self, text: &str) {
        let Some(stream) = &self.sample else { return };
        let mut state = stream.state.lock().unwrap_or_else(PoisonError::into_inner);
        if stream.is_closed.load(Ordering::Acquire) {
            return;
        }
        state.bytes = state.bytes.saturating_add(text.len() as u64);
        if state.bytes > self.limits().output || state.held.len() > MAX_HELD_BYTES {
            stream.is_closed.store(true, Ordering::Release);
            return;
        }
        let decided = self.redaction().take_decided(&mut state.held, text).into_inner();
        self.notify_sample(&decided);
    }

    /// The same context for one request to a model, whose answer may be handed on while it comes if somebody observes the run.
    pub(crate) fn with_sample_stream(&self) -> Self {
        let stream = self.is_observed().then(|| Arc::new(SampleStream::default()));
        Self { sample: stream, ..self.clone() }
    }

    /// Ends the stream of the request; what was held back is handed on if the text is complete, unless
    /// another thread is just handing on a part.
    pub(crate) fn close_sample_stream(&self, is_complete: bool) {
        let Some(stream) = &self.sample else { return };
        let was_closed = stream.is_closed.swap(true, Ordering::AcqRel);
        // While another thread hands on a part, the observer may be busy for long: the run does not wait for it.
        let rest = match stream.state.try_lock() {
            Ok(mut state) => std::mem::take(&mut state.held),
            Err(TryLockError::Poisoned(state)) => std::mem::take(&mut state.into_inner().held),
            Err(TryLockError::WouldBlock) => return,
        };
        if is_complete && !was_closed {
            self.notify_sample(self.redaction().text(rest).as_inner());
        }
    }

    fn notify_sample(&self, mut text: &str) {
        while !text.is_empty() {
            let (piece, rest) = text.split_at(text.floor_char_boundary(MAX_EVENT_BYTES));
            self.notify(|| EventKind::SampleText { text: piece.to_owned(), step: self.step() });
            text = rest;
        }
    }
}
