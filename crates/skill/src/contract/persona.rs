//! What a model becomes while a skill is active: its instructions, and what comes with them.

use serde::Serialize;

/// What a skill without a script gives a model.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Persona {
    /// The text that a model reads. Where there is a `SKILL.md` too, its text comes first.
    pub instructions: String,
    /// What a model may be shown: single turns.
    pub examples: Vec<Turn>,
    /// The tools it uses, by their names.
    pub tools: Vec<String>,
    /// The skills that it may hand over to, by their names. They may form a circle.
    pub delegates: Vec<String>,
    /// From 0 to 2; only advice.
    pub temperature: Option<f64>,
}

/// One question and its answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Turn {
    /// What is asked.
    pub input: String,
    /// What is answered.
    pub output: String,
}

impl Turn {
    pub(crate) fn new(input: String, output: String) -> Self {
        Self { input, output }
    }
}
