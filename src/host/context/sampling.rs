//! What a script asks a model, what the model answers, and its text on the way to the observer of the run.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, TryLockError};

use serde::{Deserialize, Serialize};

use super::SkillContext;
use crate::host::event::EventKind;

/// Maximum bytes of text in one event.
const MAX_EVENT_BYTES: usize = 8 << 10;
/// Maximum bytes that are held back because they may be the beginning of a secret.
const MAX_HELD_BYTES: usize = 256 << 10;

/// What a script asks a model; the parts of `sampling/createMessage` of the Model Context Protocol.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct SampleRequest {
    /// The conversation, oldest message first. The last one is the prompt, from the user.
    pub messages: Vec<SampleMessage>,
    /// The system prompt, if the script sets one.
    pub system: Option<String>,
    /// Maximum tokens of the answer; the provider's own limit when absent.
    pub max_tokens: Option<u64>,
    /// How random the answer is, in the scale of the model.
    pub temperature: Option<f64>,
    /// Texts at which the model stops.
    pub stop: Vec<String>,
    /// The name of the model, or a part of it, that the script would like. The provider decides.
    pub model: Option<String>,
}

impl SampleRequest {
    /// The text of the last message.
    pub fn prompt(&self) -> &str {
        self.messages.last().map_or("", |message| &message.content)
    }
}

/// A message of a conversation with a model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct SampleMessage {
    /// Who says it.
    pub role: SampleRole,
    /// The text.
    pub content: String,
}

/// Who says a message. In JSON its name: `user`, `assistant`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum SampleRole {
    /// The user, or the script in the user's place.
    User,
    /// The model.
    Assistant,
}

/// The answer of a model. A text alone is one as well: `"Paris".into()`.
///
/// In JSON absent parts are left out: `{text, model?, stop_reason?, usage?}`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct SampleResponse {
    /// The whole text.
    pub text: String,
    /// The name of the model that answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Why the text ends where it ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop_reason: Option<StopReason>,
    /// What it cost.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<SampleUsage>,
}

/// Why the answer of a model ends. In JSON its name: `end_turn`, `max_tokens`, `stop_sequence`, `other`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum StopReason {
    /// The model had said everything.
    EndTurn,
    /// It reached the maximum number of tokens.
    MaxTokens,
    /// It came to one of the texts at which it was to stop.
    StopSequence,
    /// Another reason.
    Other,
}

/// The tokens of one request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct SampleUsage {
    /// Tokens of the request.
    pub input_tokens: u64,
    /// Tokens of the answer.
    pub output_tokens: u64,
}

impl SampleMessage {
    /// A message with this text.
    pub fn new(role: SampleRole, content: impl Into<String>) -> Self {
        Self { role, content: content.into() }
    }
}

impl SampleUsage {
    /// The tokens of a request and of its answer.
    pub fn new(input_tokens: u64, output_tokens: u64) -> Self {
        Self { input_tokens, output_tokens }
    }
}

impl SampleResponse {
    /// A response with this text.
    pub fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), ..Self::default() }
    }

    /// The name of the model that answered.
    pub fn model(mut self, name: impl Into<String>) -> Self {
        self.model = Some(name.into());
        self
    }

    /// Why the text ends.
    pub fn stop_reason(mut self, reason: StopReason) -> Self {
        self.stop_reason = Some(reason);
        self
    }

    /// What it cost.
    pub fn usage(mut self, usage: SampleUsage) -> Self {
        self.usage = Some(usage);
        self
    }
}

impl<T: Into<String>> From<T> for SampleResponse {
    fn from(text: T) -> Self {
        Self::new(text)
    }
}

/// The text of one answer that was handed on while it came.
#[derive(Default)]
pub(super) struct SampleStream {
    is_closed: AtomicBool,
    /// Locked while a part is handed on, so that parts keep their order.
    state: Mutex<StreamState>,
}

#[derive(Default)]
struct StreamState {
    /// Text that may contain the beginning of a secret.
    held: String,
    /// Bytes that were handed on.
    bytes: u64,
}

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
