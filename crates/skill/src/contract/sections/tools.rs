//! `tools`: what a skill offers to be called by name, each with its schemas and a script or a declared HTTP call.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use metier_core::excerpt::shorten;
use metier_core::policy::ConfigField;
use serde::Serialize;

use super::entrypoints::{self, Entrypoint, SourceLocation};
use super::http::base_url::BaseUrl;
use super::http::call::HttpCall;
use super::http::reader as http_reader;
use super::http::reader::CallScope;
use super::permissions::{self, PermissionRequest};
use super::{limits, metadata};
use crate::contract::schema::{self, LocatedSchema, Schema, SchemaRole};
use crate::contract::{fields, serialize};
use crate::diagnostic_sink::DiagnosticSink;
use crate::lint;
use crate::yaml::{Entry, Node};

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

const KEYS: [&str; 13] = [
    "name",
    "description",
    "inputs",
    "outputs",
    "entrypoint",
    "http",
    "risk_level",
    "requires_confirmation",
    "timeout",
    "permissions",
    "internal",
    "tags",
    "category",
];
/// The most tools of one skill.
const MAX_TOOLS: usize = 256;
/// The most characters of a tool's name.
const MAX_NAME: usize = 64;
/// The score from which a person is asked before each call, whatever the contract says.
const ALWAYS_CONFIRMED_SCORE: u8 = 90;

/// A tool and where its schemas stand in the text.
pub(in crate::contract) struct LocatedTool<'a> {
    pub(in crate::contract) tool: ProvidedTool,
    pub(in crate::contract) inputs: Option<LocatedSchema<'a>>,
    pub(in crate::contract) outputs: Option<LocatedSchema<'a>>,
}

/// What of the rest of the contract its tools use.
pub(in crate::contract) struct ToolScope<'a> {
    pub(in crate::contract) entrypoints: &'a [(String, Entrypoint)],
    pub(in crate::contract) base_url: Option<&'a BaseUrl>,
    pub(in crate::contract) service: Option<&'a str>,
    pub(in crate::contract) config: &'a [ConfigField],
    /// Of the skill, for tools that state none.
    pub(in crate::contract) risk_score: Option<u8>,
}

/// The tools under `tools`, in written order.
pub(in crate::contract) fn read<'a>(
    node: Option<&'a Node>,
    scope: &ToolScope<'_>,
    report: &mut DiagnosticSink<'_>,
) -> Vec<LocatedTool<'a>> {
    let items = node.and_then(|node| fields::items(node, "tools", report)).unwrap_or_default();
    if let Some(first) = items.get(MAX_TOOLS) {
        let message = format!("the skill offers {} tools, and may offer {MAX_TOOLS}", items.len());
        report.add(&lint::TOOL_INVALID, &first.span, message).help("make several skills of it");
        return Vec::new();
    }
    let mut names = HashSet::new();
    let mut tools = Vec::new();
    for item in items {
        let Some(found) = read_tool(item, scope, report) else { continue };
        let name = &found.tool.name;
        let span = &found.tool.location.span;
        if !names.insert(name.clone()) {
            let message = format!("two tools are called `{name}`");
            report.add(&lint::TOOL_INVALID, span, message).help("give each a name of its own");
        }
        if scope.entrypoints.iter().any(|(entrypoint, _)| entrypoint == name) {
            let message = format!("`{name}` is the name of a tool and of an entrypoint");
            report.add(&lint::TOOL_INVALID, span, message).help("rename one of them");
        }
        tools.push(found);
    }
    tools
}

fn read_tool<'a>(
    node: &'a Node,
    scope: &ToolScope<'_>,
    report: &mut DiagnosticSink<'_>,
) -> Option<LocatedTool<'a>> {
    let entries = fields::entries(node, "a tool", report)?;
    let (name, location) = read_name(node, entries, report)?;
    let place = format!("the tool `{name}`");
    let field = |key: &str| fields::find(entries, key);
    fields::unknown_keys(entries, &KEYS, &place, report);
    let inputs = schema::read(field("inputs"), SchemaRole::Inputs, report);
    let outputs = schema::read(field("outputs"), SchemaRole::Outputs, report);
    let handler = read_handler(entries, (&place, &location), inputs.as_ref(), scope, report);
    let risk_level = fields::text(field("risk_level"), "risk_level", report);
    let risk_score = fields::amount(field("risk_level"), "risk_level", metadata::parse_risk, report);
    let is_internal = fields::flag(field("internal"), "internal", report).unwrap_or(false);
    let has_own_risk = field("risk_level").is_some() || is_internal;
    let effective_risk = if has_own_risk { risk_score } else { scope.risk_score };
    Some(LocatedTool {
        tool: ProvidedTool {
            description: fields::text(field("description"), "description", report),
            input_schema: inputs.as_ref().map(|located| located.schema.clone()),
            output_schema: outputs.as_ref().map(|located| located.schema.clone()),
            handler,
            requires_confirmation: read_confirmation(field("requires_confirmation"), effective_risk, report),
            risk_level,
            risk_score,
            timeout: limits::read_duration(field("timeout"), "timeout", report),
            permissions: permissions::read(entries, &[], report),
            is_internal,
            tags: read_tags(field("tags"), report),
            category: fields::text(field("category"), "category", report),
            name,
            location,
        },
        inputs,
        outputs,
    })
}

/// What runs when it is called: a script or a declared call, one of them.
fn read_handler(
    entries: &[Entry],
    (place, location): (&str, &SourceLocation),
    inputs: Option<&LocatedSchema<'_>>,
    scope: &ToolScope<'_>,
    report: &mut DiagnosticSink<'_>,
) -> Option<ToolHandler> {
    let field = |key: &str| fields::find(entries, key).filter(|node| !node.is_null());
    match (field("entrypoint"), field("http")) {
        (Some(script), None) => {
            let script = entrypoints::read(Some(script), &format!("the entrypoint of {place}"), report);
            script.map(ToolHandler::Script)
        }
        (None, Some(call)) => {
            if let Some(node) = field("permissions") {
                let message = format!("{place} requests what its call needs, and nothing more");
                report.add(&lint::TOOL_INVALID, &node.span, message).help("remove `permissions`");
            }
            let inputs = inputs.map(|located| &located.schema);
            let ToolScope { base_url, service, config, .. } = *scope;
            let scope = CallScope { base_url, service, config, inputs };
            http_reader::read(call, place, &scope, report).map(|call| ToolHandler::Http(Arc::new(call)))
        }
        (Some(_), Some(call)) => {
            let message = format!("{place} has an `entrypoint` and an `http` call");
            report.add(&lint::TOOL_INVALID, &call.span, message).help("keep one of them");
            None
        }
        (None, None) => {
            let message = format!("nothing runs when {place} is called");
            report
                .add(&lint::TOOL_INVALID, &location.span, message)
                .help("name a script of the skill under `entrypoint`, or declare a call under `http`");
            None
        }
    }
}

/// A name that every protocol accepts: a letter or `_`, then letters, digits, `_` and `-`.
fn read_name(
    tool: &Node,
    entries: &[Entry],
    report: &mut DiagnosticSink<'_>,
) -> Option<(String, SourceLocation)> {
    let Some(node) = fields::find(entries, "name") else {
        report.add(&lint::TOOL_INVALID, &tool.span, "a tool has no `name`").help("add it");
        return None;
    };
    let name = fields::text(Some(node), "the name of a tool", report)?;
    if !is_tool_name(&name) {
        let shown = shorten(&name, 80);
        let message = format!("`{}` cannot be the name of a tool", shown.escape_debug());
        report.add(&lint::TOOL_INVALID, &node.span, message).help(format!(
            "begin it with a letter or `_`, and use at most {MAX_NAME} letters of ASCII, digits, `_` and `-`"
        ));
        return None;
    }
    Some((name, SourceLocation::from_node(node, report)))
}

/// Whether a text can be the name of a tool.
fn is_tool_name(name: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    name.len() <= MAX_NAME
        && name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(is_plain)
}

/// Whether a person is asked: a file may ask for it, and cannot waive it where a call may destroy something.
fn read_confirmation(node: Option<&Node>, risk: Option<u8>, report: &mut DiagnosticSink<'_>) -> bool {
    let is_always = risk.is_some_and(|score| score >= ALWAYS_CONFIRMED_SCORE);
    let written = fields::flag(node, "requires_confirmation", report);
    if let Some(node) = node.filter(|_| is_always && written == Some(false)) {
        let message = "a person is always asked before a call with this risk";
        report
            .add(&lint::TOOL_INVALID, &node.span, message)
            .help("remove `requires_confirmation: false`, or state a lower `risk_level`");
    }
    is_always || written.unwrap_or(false)
}

fn read_tags(node: Option<&Node>, report: &mut DiagnosticSink<'_>) -> Vec<String> {
    let items = node.and_then(|node| fields::items(node, "tags", report)).unwrap_or_default();
    items.iter().filter_map(|item| fields::text(Some(item), "a tag", report)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_tools_are_those_of_every_protocol() {
        // AK-T1
        for name in ["forecast", "_x", "a-b", "__proto__", "A1", &"a".repeat(64)] {
            assert!(is_tool_name(name), "{name}");
        }
        let hostile = ["", "1a", "-a", "a.b", "a b", "é", "a\u{0}", "\u{1b}[31m", "a/b", "..", "a\n"];
        let long = [65, 10_000].map(|length| "a".repeat(length));
        for name in hostile.into_iter().chain(long.iter().map(String::as_str)) {
            assert!(!is_tool_name(name), "{name:?}");
        }
    }
}
