//! A tool that a skill offers.

use serde::Serialize;

use super::schema::Schema;

/// A tool that a skill offers. Nothing says yet what runs when it is called.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ProvidedTool {
    /// Its name, of its own in the skill.
    pub name: String,
    /// What it does.
    pub description: Option<String>,
    /// The schema of its input; `None` for a tool without structured arguments.
    pub input_schema: Option<Schema>,
    /// Whether a person must agree to each call.
    pub requires_confirmation: bool,
    /// For searches only.
    pub tags: Vec<String>,
    /// For searches only.
    pub category: Option<String>,
}
