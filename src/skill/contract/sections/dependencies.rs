//! `dependencies`: the programs, skills and infrastructure that a skill needs.

use semver::VersionReq;
use serde::Serialize;
use serde_json::Value as Json;

use crate::skill::contract::{fields, serialize};
use crate::skill::diagnostic_sink::DiagnosticSink;
use crate::skill::lint;
use crate::skill::version::parse_version_range;
use crate::skill::yaml::{Node, Value};

const KEYS: [&str; 3] = ["tools", "skills", "infrastructure"];
const DEPENDENCY_KEYS: [&str; 5] = ["name", "version", "required", "reason", "version_command"];

/// The dependencies of a skill.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Dependencies {
    /// Programs on `PATH`.
    pub tools: Vec<Dependency>,
    /// Other skills.
    pub skills: Vec<Dependency>,
    /// Anything else, as written; it is not checked.
    pub infrastructure: Vec<Json>,
}

/// A program or a skill that is needed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Dependency {
    /// Its name.
    pub name: String,
    /// The accepted versions; `None` for any.
    #[serde(serialize_with = "serialize::text")]
    pub version: Option<VersionReq>,
    /// Whether the skill cannot run without it. Default: true.
    pub required: bool,
    /// What it is needed for.
    pub reason: Option<String>,
}

pub(in crate::skill::contract) fn read(node: Option<&Node>, report: &mut DiagnosticSink<'_>) -> Dependencies {
    let Some(entries) = node.and_then(|node| fields::entries(node, "dependencies", report)) else {
        return Dependencies::default();
    };
    fields::unknown_keys(entries, &KEYS, "dependencies", report);
    let mut listed = |key: &str| {
        let nodes = fields::find(entries, key).and_then(|node| fields::items(node, key, report));
        nodes.unwrap_or_default().iter().filter_map(|node| dependency(node, key, report)).collect()
    };
    let (tools, skills) = (listed("tools"), listed("skills"));
    let others = fields::find(entries, "infrastructure")
        .and_then(|node| fields::items(node, "infrastructure", report));
    let infrastructure =
        others.unwrap_or_default().iter().filter_map(|node| fields::json(node, report)).collect();
    Dependencies { tools, skills, infrastructure }
}

/// A dependency: a map with a name, or only the name.
fn dependency(node: &Node, key: &str, report: &mut DiagnosticSink<'_>) -> Option<Dependency> {
    if let Value::Scalar(_) = node.value {
        let name = dependency_name(node, key, report)?;
        return Some(Dependency { name, version: None, required: true, reason: None });
    }
    let entries = fields::entries(node, key, report)?;
    fields::unknown_keys(entries, &DEPENDENCY_KEYS, key, report);
    let Some(name) = fields::find(entries, "name") else {
        report.add(&lint::DEPENDENCY_INVALID, &node.span, format!("one of {key} has no `name`"));
        return None;
    };
    Some(Dependency {
        name: dependency_name(name, key, report)?,
        version: read_version_range(fields::find(entries, "version"), report),
        required: fields::flag(fields::find(entries, "required"), "required", report).unwrap_or(true),
        reason: fields::text(fields::find(entries, "reason"), "reason", report),
    })
}

/// The name of a dependency. It is looked up, so it must not be a path.
fn dependency_name(node: &Node, key: &str, report: &mut DiagnosticSink<'_>) -> Option<String> {
    let name = fields::text(Some(node), "name", report)?;
    if name.contains(['/', '\\', '\0']) {
        let message = format!("`{name}` under {key} is a path; dependencies are named");
        report.add(&lint::DEPENDENCY_INVALID, &node.span, message).help("write the name alone");
        return None;
    }
    Some(name)
}

fn read_version_range(node: Option<&Node>, report: &mut DiagnosticSink<'_>) -> Option<VersionReq> {
    let node = node?;
    let text = fields::text(Some(node), "version", report)?;
    let parsed = parse_version_range(&text);
    if parsed.is_none() {
        let message = format!("`{text}` is not a range of versions");
        report.add(&lint::DEPENDENCY_INVALID, &node.span, message).help("write it as `>=3.12.0` or `^1.2`");
    }
    parsed
}
