//! A tool that a skill offers.

use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;

use super::entrypoints::{Entrypoint, SourceLocation};
use super::http::call::HttpCall;
use super::permissions::PermissionRequest;
use crate::contract::schema::Schema;
use crate::contract::serialize;

/// A tool that a skill offers: a name, the schemas of its input and its output, and what runs when it is called.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ProvidedTool {
    /// Its name, of its own in the skill.
    pub name: String,
    /// What it does.
    pub description: Option<String>,
    /// The schema of its input; `None` for a tool without structured arguments.
    pub input_schema: Option<Schema>,
    /// The schema of its output.
    pub output_schema: Option<Schema>,
    /// What runs when it is called; `None` for a tool that is only declared, which nothing can call.
    pub handler: Option<ToolHandler>,
    /// What a call may do, such as `read-only`.
    pub risk_level: Option<String>,
    /// The same from 0, no risk, to 100.
    pub risk_score: Option<u8>,
    /// Whether a person must agree to each call.
    pub requires_confirmation: bool,
    /// The time that a call may take.
    #[serde(rename = "timeout_ms", serialize_with = "serialize::milliseconds")]
    pub timeout: Option<Duration>,
    /// The permissions of the skill that a call has; `None` for all of them.
    pub permissions: Option<Vec<PermissionRequest>>,
    /// Whether only scripts of the skill itself call it, as `.NAME`: nobody else is offered it.
    #[serde(rename = "internal", skip_serializing_if = "std::ops::Not::not")]
    pub is_internal: bool,
    /// For searches only.
    pub tags: Vec<String>,
    /// For searches only.
    pub category: Option<String>,
    /// Where its name is written.
    #[serde(skip)]
    pub(crate) location: SourceLocation,
}

/// What runs when a tool is called.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ToolHandler {
    /// A script of the skill, or a function in it.
    Script(Entrypoint),
    /// A declared HTTP call.
    Http(Arc<HttpCall>),
}

impl ProvidedTool {
    /// The script that runs when it is called, if one does.
    pub fn script(&self) -> Option<&Entrypoint> {
        match &self.handler {
            Some(ToolHandler::Script(script)) => Some(script),
            _ => None,
        }
    }

    /// The declared HTTP call that is sent when it is called, if one is.
    pub fn http(&self) -> Option<&HttpCall> {
        match &self.handler {
            Some(ToolHandler::Http(call)) => Some(call),
            _ => None,
        }
    }
}
