//! What a script asks a model, and what the model answers.

use serde::{Deserialize, Serialize};

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
