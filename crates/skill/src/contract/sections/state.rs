//! `state`: the paths below the skill's folder that a running skill writes, and that are no part of what is trusted.

use unicode_normalization::UnicodeNormalization;

use crate::contract::{CONTRACT_FILES, fields};
use crate::diagnostic_sink::DiagnosticSink;
use crate::yaml::Node;

/// The maximum number of paths.
const MAX_PATHS: usize = 100;
/// What state can never be or hold: the text, the contract and the scripts of the skill, and what interpreters load by themselves.
const RESERVED: [&str; 10] = [
    "skill.md",
    CONTRACT_FILES[0],
    CONTRACT_FILES[1],
    CONTRACT_FILES[2],
    "scripts",
    "__pycache__",
    "node_modules",
    ".venv",
    "venv",
    "site-packages",
];

/// The paths, relative and `/`-separated, without a slash at the end.
pub(in crate::contract) fn read(node: Option<&Node>, report: &mut DiagnosticSink<'_>) -> Vec<String> {
    let nodes = node.and_then(|node| fields::items(node, "state", report)).unwrap_or_default();
    if let Some(extra) = nodes.get(MAX_PATHS) {
        fields::report_invalid(extra, &format!("`state` has more than {MAX_PATHS} paths"), report);
    }
    nodes.iter().take(MAX_PATHS).filter_map(|node| path(node, report)).collect()
}

fn path(node: &Node, report: &mut DiagnosticSink<'_>) -> Option<String> {
    let text = fields::text(Some(node), "state", report)?;
    match invalid_reason(&text) {
        None => Some(text.trim_end_matches('/').to_owned()),
        Some(reason) => {
            fields::report_invalid(node, &format!("`{text}` cannot be state: {reason}"), report);
            None
        }
    }
}

/// Why a path cannot be state. Names are compared as file systems may do that know no case and one form of Unicode.
fn invalid_reason(path: &str) -> Option<&'static str> {
    let path = path.strip_suffix('/').unwrap_or(path);
    if path.contains(['\\', '\0', ':']) || path.split('/').any(|part| matches!(part.trim(), "" | "." | ".."))
    {
        return Some("it must be a path below the skill's folder, such as `data` or `cache/pages`");
    }
    let is_reserved = |part: &str| {
        let part: String = part.nfkc().flat_map(char::to_lowercase).collect();
        // Some file systems ignore dots and spaces at the end of a name.
        RESERVED.contains(&part.trim_end_matches(['.', ' ']))
    };
    path.split('/')
        .any(is_reserved)
        .then_some("what runs, and what is read to run it, is always part of what is trusted")
}
