//! `permissions`: the requested permissions. Words that are no permission of metier are kept and shown, and request nothing.

use serde::Serialize;

use crate::contract::{fields, serialize};
use crate::diagnostic_sink::DiagnosticSink;
use crate::lint;
use crate::yaml::{Entry, Node};
use metier_core::policy::{Permission, client_tool_permission};

/// Words of other formats, and the permission that means the same.
const FOREIGN_WORDS: [(&str, &str); 11] = [
    ("filesystem:read", "read"),
    ("filesystem:write", "write"),
    ("fs:read", "read"),
    ("fs:write", "write"),
    ("network", "net:HOST"),
    ("http", "net:HOST"),
    ("env", "env:NAME"),
    ("environment", "env:NAME"),
    ("process", "exec"),
    ("shell", "exec"),
    ("subprocess", "exec"),
];

/// One permission that a contract names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct PermissionRequest {
    /// The word as written, without its condition.
    pub text: String,
    /// The permission; `None` for a word of another system, which requests nothing here.
    #[serde(serialize_with = "serialize::text")]
    pub permission: Option<Permission>,
    /// The condition written after it: `write (when dry_run is false)`. It is for readers; the permission is requested in any case.
    pub when: Option<String>,
}

impl PermissionRequest {
    /// What a word of another system asks for: this permission, if it is one.
    pub(crate) fn from_words(text: &str, permission: &str) -> Self {
        Self { text: text.to_owned(), permission: permission.parse().ok(), when: None }
    }
}

/// Those under `permissions` and those under `metadata.permissions`, each once; `None` if there is neither key.
pub(in crate::contract) fn read(
    entries: &[Entry],
    metadata: &[Entry],
    report: &mut DiagnosticSink<'_>,
) -> Option<Vec<PermissionRequest>> {
    let lists = [fields::find(entries, "permissions"), fields::find(metadata, "permissions")];
    if lists == [None, None] {
        return None;
    }
    let mut asks: Vec<PermissionRequest> = Vec::new();
    for list in lists.into_iter().flatten() {
        for node in fields::items(list, "permissions", report).unwrap_or_default() {
            let ask = read_permission(node, report).filter(|ask| !asks.contains(ask));
            asks.extend(ask);
        }
    }
    Some(asks)
}

fn read_permission(node: &Node, report: &mut DiagnosticSink<'_>) -> Option<PermissionRequest> {
    let written = fields::text(Some(node), "a permission", report)?;
    let (text, when) = match written.split_once('(') {
        Some((word, rest)) => (word.trim(), Some(rest.trim().trim_end_matches(')').trim().to_owned())),
        None => (written.as_str(), None),
    };
    let parsed = text.parse::<Permission>();
    if let Err(error) = &parsed {
        let message = format!("{error}; it asks for nothing");
        let help = translate_foreign_word(text).map(|ours| format!("write `{ours}`"));
        let found = report.add(&lint::PERMISSION_UNKNOWN, &node.span, message);
        if let Some(help) = help.or_else(|| error.help().map(str::to_owned)) {
            found.help(help);
        }
    }
    Some(PermissionRequest { text: text.to_owned(), permission: parsed.ok(), when })
}

/// The permission for a word of another format: `network:example.com` is `net:example.com`.
fn translate_foreign_word(text: &str) -> Option<String> {
    if let Some(permission) = client_tool_permission(text) {
        return Some(permission.to_string());
    }
    let lower = text.to_ascii_lowercase();
    let (scope_of, rest) =
        lower.split_once(':').map_or((lower.as_str(), None), |(word, rest)| (word, Some(rest)));
    let (_, ours) = FOREIGN_WORDS.iter().find(|(word, _)| *word == lower || *word == scope_of)?;
    let is_host = |rest: &&str| rest.contains('.');
    Some(match (ours.strip_suffix("HOST"), rest.filter(is_host)) {
        (Some(net), Some(host)) => format!("{net}{host}"),
        _ => (*ours).to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_other_formats_are_reported_in_ours() {
        for (theirs, ours) in [
            ("filesystem:read", Some("read")),
            ("network:example.com", Some("net:example.com")),
            ("network:https", Some("net:HOST")),
            ("process:exec", Some("exec")),
            ("env", Some("env:NAME")),
            ("Bash", Some("exec")),
            ("teleport", None),
        ] {
            assert_eq!(translate_foreign_word(theirs).as_deref(), ours, "{theirs}");
        }
    }
}
