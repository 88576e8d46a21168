//! The keys that SWEny adds to the frontmatter of a `SKILL.md`: `category`, `config`, `mcp` and `mcpAliases`.
//!
//! Other clients use some of these words for other things, so nothing here keeps a skill from loading: what does not have the form
//! of SWEny is left out, with a warning.

use serde_json::Value as Json;

use crate::contract::fields::find;
use crate::contract::{
    Contract, DefinitionFormat, MAX_SETTINGS, McpServerAddress, ParsedContract, Publication, named_setting,
    variable,
};
use crate::diagnostic_sink::DiagnosticSink;
use crate::formats::sweny::{CATEGORIES, read_aliases, read_server};
use crate::yaml::{Entry, Node, Value};
use crate::{Manifest, frontmatter_entries, lint};
use metier_core::policy::{ConfigField, ConfigRequirement};

/// Keys that make a frontmatter one of SWEny where they hold a map.
const MAP_KEYS: [&str; 3] = ["config", "mcp", "mcpAliases"];
/// The category of skills that name none, or one that does not exist.
const GENERAL: &str = "general";

/// The contract in the frontmatter of this `SKILL.md`, whose manifest was read before; `None` where it has no keys of SWEny.
pub fn frontmatter_contract(source: &[u8], manifest: &Manifest) -> Option<ParsedContract> {
    if !has_keys(manifest) {
        return None;
    }
    let (text, entries) = frontmatter_entries(source)?;
    let mut report = DiagnosticSink::new(text);
    let category = find(&entries, "category").and_then(Node::text).map(str::trim);
    let contract = Contract {
        format: DefinitionFormat::SwenyFrontmatter,
        publication: Publication {
            category: Some(category.filter(|known| CATEGORIES.contains(known)).unwrap_or(GENERAL).to_owned()),
            ..Publication::default()
        },
        config: read_config(find(&entries, "config"), &mut report).into(),
        mcp: find(&entries, "mcp").and_then(|node| discovered_server(node, &mut report)),
        tool_aliases: find(&entries, "mcpAliases")
            .and_then(|node| {
                checked(node, "mcpAliases", &mut report, |report| read_aliases(Some(node), report))
            })
            .unwrap_or_default(),
        ..Contract::default()
    };
    Some(ParsedContract { contract: Some(contract), diagnostics: report.finish() })
}

fn has_keys(manifest: &Manifest) -> bool {
    manifest.unknown.iter().any(|unknown| match &unknown.value {
        Json::Object(_) => MAP_KEYS.contains(&unknown.key.as_str()),
        Json::String(text) => unknown.key == "category" && CATEGORIES.contains(&text.trim()),
        _ => false,
    })
}

/// Each key is a setting, and its variable has its name unless it names another one.
fn read_config(node: Option<&Node>, report: &mut DiagnosticSink<'_>) -> Vec<ConfigField> {
    let Some(Node { value: Value::Map(entries), .. }) = node else { return Vec::new() };
    if let Some(first) = entries.get(MAX_SETTINGS) {
        let message = format!("`config` has more than {MAX_SETTINGS} settings; the others are left out");
        report.add(&lint::SWENY_KEY_IGNORED, &first.key_span, message);
    }
    entries.iter().take(MAX_SETTINGS).filter_map(|entry| read_setting(entry, report)).collect()
}

fn read_setting(entry: &Entry, report: &mut DiagnosticSink<'_>) -> Option<ConfigField> {
    let Value::Map(entries) = &entry.node.value else { return None };
    let mut refused = DiagnosticSink::new("");
    let text =
        |key: &str| find(entries, key).and_then(Node::text).map(str::trim).filter(|text| !text.is_empty());
    let setting = named_setting(entry, &mut refused).map(|mut field| {
        field.description = Some(text("description").unwrap_or(&entry.key).to_owned());
        field.requirement = match find(entries, "required").map(Node::to_json) {
            Some(Ok(Json::Bool(true))) => ConfigRequirement::Required,
            _ => ConfigRequirement::Optional,
        };
        field.env = match find(entries, "env") {
            Some(node) => variable(node, &mut refused),
            None => variable(&entry_name(entry), &mut refused),
        };
        field
    });
    for reason in refused.finish() {
        let shown = metier_core::excerpt::shorten(&entry.key, 60);
        let message =
            format!("the setting `{shown}` is not provided from the environment: {}", reason.message);
        report.add(&lint::SWENY_KEY_IGNORED, &entry.key_span, message);
    }
    setting
}

/// The key of a setting as the text of a node.
fn entry_name(entry: &Entry) -> Node {
    let (column, style) = (entry.node.column, entry.node.style);
    Node { span: entry.key_span.clone(), column, style, value: Value::Scalar(entry.key.clone()) }
}

/// The server that a skill in a folder brings. A program is none: whoever adds a skill must not choose what starts.
fn discovered_server(node: &Node, report: &mut DiagnosticSink<'_>) -> Option<McpServerAddress> {
    let server = checked(node, "mcp", report, |report| read_server(node, report))??;
    if server.command.is_none() {
        return Some(server);
    }
    report
        .add(
            &lint::STDIO_COMMAND_DECLARED,
            &node.span,
            "the program of the server under `mcp` is left out: a file of a skill does not choose what starts",
        )
        .help("name a server on the web with `url`, or set the server up in the configuration of your client");
    None
}

/// What was read, unless something about it is wrong; then the key is left out.
fn checked<T>(
    node: &Node,
    key: &str,
    report: &mut DiagnosticSink<'_>,
    read: impl FnOnce(&mut DiagnosticSink<'_>) -> T,
) -> Option<T> {
    let mut own = DiagnosticSink::new("");
    let value = read(&mut own);
    let Some(first) = own.finish().into_iter().next() else { return Some(value) };
    let message = format!("`{key}` is left out: {}", first.message);
    report.add(&lint::SWENY_KEY_IGNORED, &node.span, message);
    None
}
