//! Entrypoints: which script runs, and which function of it. `entrypoint` names the main one, `entrypoints` others by name.

use std::ops::Range;

use serde::Serialize;

use crate::contract::fields;
use crate::diagnostic_sink::DiagnosticSink;
use crate::lint;
use crate::yaml::{Entry, Node, Value};

const KEYS: [&str; 4] = ["path", "function", "runtime", "description"];

/// A script of the skill, and how to enter it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Entrypoint {
    /// Its path in the skill's folder, `/`-separated, without `.` and `..`.
    pub path: String,
    /// The function to call, in runtimes that can call one by name.
    pub function: Option<String>,
    /// Its runtime, if neither its extension nor the contract's `runtime` determines it.
    pub runtime: Option<String>,
    /// What it does, for people who choose among several.
    pub description: Option<String>,
    /// Where its path is written.
    #[serde(skip)]
    pub(crate) place: SourceLocation,
}

/// Where something is written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SourceLocation {
    /// The line in the file, from 1.
    pub line: Option<u32>,
    pub(in crate::contract) span: Range<usize>,
}

/// Where the path of an entrypoint is written.
pub fn entrypoint_location(entrypoint: &Entrypoint) -> &SourceLocation {
    &entrypoint.place
}

impl Entrypoint {
    /// What runs: the script, the function in it, and the runtime; without what is said about it.
    pub(crate) fn target(&self) -> (&str, Option<&str>, Option<&str>) {
        (&self.path, self.function.as_deref(), self.runtime.as_deref())
    }
}

/// A path, or a map with one.
pub(in crate::contract) fn read(
    node: Option<&Node>,
    what: &str,
    report: &mut DiagnosticSink<'_>,
) -> Option<Entrypoint> {
    let node = node.filter(|node| !node.is_null())?;
    if let Value::Scalar(_) = node.value {
        let path = read_path(node, what, report)?;
        return Some(Entrypoint {
            path,
            place: SourceLocation::from_node(node, report),
            ..Entrypoint::default()
        });
    }
    let entries = fields::entries(node, what, report)?;
    fields::unknown_keys(entries, &KEYS, what, report);
    let Some(at) = fields::find(entries, "path") else {
        fields::report_invalid(node, &format!("{what} has no `path`"), report);
        return None;
    };
    Some(Entrypoint {
        path: read_path(at, what, report)?,
        function: fields::text(fields::find(entries, "function"), "function", report),
        runtime: fields::text(fields::find(entries, "runtime"), "runtime", report),
        description: fields::text(fields::find(entries, "description"), "description", report),
        place: SourceLocation::from_node(at, report),
    })
}

impl SourceLocation {
    pub(in crate::contract) fn from_node(node: &Node, report: &DiagnosticSink<'_>) -> Self {
        Self::from_span(&node.span, report)
    }

    pub(in crate::contract) fn from_span(span: &Range<usize>, report: &DiagnosticSink<'_>) -> Self {
        Self { line: Some(report.line(span.start)), span: span.clone() }
    }
}

/// The named entrypoints, in written order.
pub(in crate::contract) fn read_named(
    node: Option<&Node>,
    report: &mut DiagnosticSink<'_>,
) -> Vec<(String, Entrypoint)> {
    let Some(entries) = node.and_then(|node| fields::entries(node, "entrypoints", report)) else {
        return Vec::new();
    };
    let named = |Entry { key, node, .. }: &Entry| {
        Some((key.clone(), read(Some(node), &format!("the entrypoint `{key}`"), report)?))
    };
    entries.iter().filter_map(named).collect()
}

fn read_path(node: &Node, what: &str, report: &mut DiagnosticSink<'_>) -> Option<String> {
    let written = fields::text(Some(node), what, report)?;
    let normalized = normalize_path(&written);
    if normalized.is_none() {
        let message = format!("{what} `{written}` is not a path in the skill's folder");
        report
            .add(&lint::ENTRYPOINT_OUTSIDE, &node.span, message)
            .help("write it relative to the folder, such as scripts/main.lua");
    }
    normalized
}

/// `./scripts//a.lua` as `scripts/a.lua`; `None` for a path that is absolute or contains `..`.
pub(in crate::contract) fn normalize_path(path: &str) -> Option<String> {
    let has_parent = path.split('/').any(|part| part == "..");
    if path.starts_with('/') || has_parent || path.contains(['\0', '\\']) {
        return None;
    }
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
    (!parts.is_empty()).then(|| parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_stay_in_the_folder() {
        assert_eq!(normalize_path("./scripts//a.lua").as_deref(), Some("scripts/a.lua"));
        for path in ["/etc/passwd", "../x", "scripts/../../x", ".", "", "a\\b", "C:\\x"] {
            assert_eq!(normalize_path(path), None, "{path}");
        }
    }
}
