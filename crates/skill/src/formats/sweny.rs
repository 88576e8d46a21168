//! A skill object of SWEny, in YAML or JSON: instructions, a server, and declared tools, with the settings that they need.
//!
//! `id` is the identity there and `name` a label. The format allows no other keys at any level.

use std::sync::Arc;

use crate::contract::fields::{self, find};
use crate::contract::{
    Contract, MAX_SETTINGS, McpServerAddress, Persona, ProvidedTool, Publication, SchemaRole, ToolHandler,
    named_setting, read_http_call, read_schema, variable,
};
use crate::diagnostic_sink::DiagnosticSink;
use crate::formats::fields::{
    list_items, map_entries, missing, require_known, required_prose, required_text, text, text_pairs, texts,
};
use crate::lint;
use crate::yaml::{Entry, Node};
use metier_core::policy::{ConfigField, ConfigRequirement};

const PLACE: &str = "a SWEny skill";
const KEYS: [&str; 10] = [
    "$schema",
    "id",
    "name",
    "description",
    "category",
    "config",
    "tools",
    "instruction",
    "mcp",
    "mcpAliases",
];
pub(super) const CATEGORIES: [&str; 6] = ["git", "observability", "tasks", "notification", "data", "general"];
const FIELD_KEYS: [&str; 3] = ["description", "required", "env"];
/// `http` is no key of SWEny: with it, metier knows what runs when the tool is called.
const TOOL_KEYS: [&str; 4] = ["name", "description", "input_schema", "http"];
const SERVER_KEYS: [&str; 6] = ["type", "command", "args", "url", "headers", "env"];
/// The most characters of an id.
const MAX_ID: usize = 64;

pub(super) fn read(entries: &[Entry], report: &mut DiagnosticSink<'_>) -> Contract {
    require_known(entries, &KEYS, PLACE, report);
    let offers = ["tools", "instruction", "mcp"];
    if offers.iter().all(|key| find(entries, key).is_none()) {
        let message = "a SWEny skill needs at least one of `tools`, `instruction` and `mcp`";
        report.add(&lint::FIELD_MISSING, &(0..0), message).help("say in `instruction` what a model is to do");
    }
    let category = required_text(entries, "category", PLACE, report);
    if let Some(unknown) = category.as_deref().filter(|category| !CATEGORIES.contains(category)) {
        let span = find(entries, "category").map_or(0..0, |node| node.span.clone());
        let message = format!("`{}` is not a category", metier_core::excerpt::shorten(unknown, 60));
        report
            .add(&lint::CONTRACT_VALUE, &span, message)
            .help(format!("the categories are {}", CATEGORIES.join(", ")));
    }
    let config = read_config(find(entries, "config"), report);
    Contract {
        name: read_id(entries, report),
        description: required_prose(entries, "description", PLACE, report),
        publication: Publication {
            display_name: required_prose(entries, "name", PLACE, report),
            category,
            ..Publication::default()
        },
        persona: text(entries, "instruction", report)
            .map(|instructions| Persona { instructions, ..Persona::default() }),
        tools: read_tools(find(entries, "tools"), (entries, &config), report),
        mcp: find(entries, "mcp").and_then(|node| read_server(node, report)),
        tool_aliases: read_aliases(find(entries, "mcpAliases"), report),
        config: config.into(),
        ..Contract::default()
    }
}

fn read_id(entries: &[Entry], report: &mut DiagnosticSink<'_>) -> Option<String> {
    let id = required_text(entries, "id", PLACE, report)?;
    if is_id(&id) {
        return Some(id);
    }
    let span = find(entries, "id").map_or(0..0, |node| node.span.clone());
    let message = format!(
        "`id` must be at most {MAX_ID} lowercase letters and digits with single hyphens between them, not `{}`",
        metier_core::excerpt::shorten(&id, 80)
    );
    report.add(&lint::IDENTIFIER_INVALID, &span, message);
    None
}

/// Whether a text is an identity in SWEny.
pub(super) fn is_id(id: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    id.len() <= MAX_ID && id.split('-').all(|part| !part.is_empty() && part.chars().all(is_plain))
}

/// Settings have a description, and may be required and have a variable.
fn read_config(node: Option<&Node>, report: &mut DiagnosticSink<'_>) -> Vec<ConfigField> {
    let Some(node) = node else {
        missing("config", PLACE, report);
        return Vec::new();
    };
    let entries = map_entries(node, "config", report).unwrap_or_default();
    if entries.len() > MAX_SETTINGS {
        fields::report_invalid(node, &format!("`config` has more than {MAX_SETTINGS} settings"), report);
    }
    entries.iter().take(MAX_SETTINGS).filter_map(|entry| read_setting(entry, report)).collect()
}

fn read_setting(entry: &Entry, report: &mut DiagnosticSink<'_>) -> Option<ConfigField> {
    let mut field = named_setting(entry, report)?;
    let place = format!("the setting `{}`", metier_core::excerpt::shorten(&entry.key, 60));
    let entries = map_entries(&entry.node, &place, report)?;
    require_known(entries, &FIELD_KEYS, &place, report);
    field.description = required_prose(entries, "description", &place, report);
    let required = find(entries, "required");
    if let Some(node) = required.filter(|node| node.is_null()) {
        fields::report_invalid(node, "required must be true or false", report);
    }
    if fields::flag(required, "required", report) == Some(true) {
        field.requirement = ConfigRequirement::Required;
    }
    field.env = find(entries, "env").and_then(|node| variable(node, report));
    Some(field)
}

fn read_tools(
    node: Option<&Node>,
    (entries, config): (&[Entry], &[ConfigField]),
    report: &mut DiagnosticSink<'_>,
) -> Vec<ProvidedTool> {
    let Some(node) = node else { return Vec::new() };
    let items = list_items(node, "tools", report).unwrap_or_default();
    let is_only = find(entries, "instruction").is_none() && find(entries, "mcp").is_none();
    if items.is_empty() && is_only {
        fields::report_invalid(node, "`tools` is empty, and the skill offers nothing else", report);
    }
    let mut tools: Vec<ProvidedTool> = Vec::new();
    for item in items {
        let Some(tool) = read_tool(item, config, report) else { continue };
        if tools.iter().any(|other| other.name == tool.name) {
            let message = format!("two tools are called `{}`", metier_core::excerpt::shorten(&tool.name, 60));
            fields::report_invalid(item, &message, report);
        }
        tools.push(tool);
    }
    tools
}

fn read_tool(node: &Node, config: &[ConfigField], report: &mut DiagnosticSink<'_>) -> Option<ProvidedTool> {
    let place = "a tool";
    let entries = map_entries(node, place, report)?;
    require_known(entries, &TOOL_KEYS, place, report);
    let schema = find(entries, "input_schema");
    match schema {
        None => missing("input_schema", place, report),
        Some(node) if node.is_null() => fields::report_invalid(node, "input_schema must be a map", report),
        Some(_) => {}
    }
    let input_schema = schema
        .and_then(|node| read_schema(Some(node), SchemaRole::Tool("input_schema"), report))
        .map(|located| located.schema);
    let name = required_text(entries, "name", place, report)?;
    let call = find(entries, "http").and_then(|node| {
        read_http_call(node, &format!("the tool `{name}`"), (config, input_schema.as_ref()), report)
    });
    Some(ProvidedTool {
        name,
        description: required_prose(entries, "description", place, report),
        handler: call.map(|call| ToolHandler::Http(Arc::new(call))),
        input_schema,
        ..ProvidedTool::default()
    })
}

/// A server needs a program or an address.
pub(super) fn read_server(node: &Node, report: &mut DiagnosticSink<'_>) -> Option<McpServerAddress> {
    let place = "`mcp`";
    let entries = map_entries(node, place, report)?;
    require_known(entries, &SERVER_KEYS, place, report);
    let server = McpServerAddress {
        command: text(entries, "command", report),
        args: texts(entries, "args", report),
        url: text(entries, "url", report),
        headers: text_pairs(entries, "headers", report),
        env: text_pairs(entries, "env", report),
    };
    let transport = text(entries, "type", report);
    let is_consistent = match transport.as_deref() {
        None => server.command.is_some() || server.url.is_some(),
        Some("stdio") => server.command.is_some(),
        Some("http") => server.url.is_some(),
        Some(_) => {
            fields::report_invalid(node, "`type` of `mcp` must be stdio or http", report);
            true
        }
    };
    if !is_consistent {
        report
            .add(
                &lint::FIELD_MISSING,
                &node.span,
                "`mcp` says neither which program nor which address is the server",
            )
            .help("add `command` for stdio, or `url` for http");
    }
    let is_web = |url: &str| {
        let scheme = url.split_once("://").map(|(scheme, _)| scheme);
        scheme.is_some_and(|scheme| ["https", "http"].iter().any(|known| scheme.eq_ignore_ascii_case(known)))
    };
    if let Some(url) = server.url.as_deref().filter(|url| !is_web(url)) {
        let message = format!("`{}` is not the address of a server", metier_core::excerpt::shorten(url, 80));
        fields::report_invalid(node, &message, report);
    }
    Some(server)
}

/// Names of tools, each with at least one other name.
pub(super) fn read_aliases(
    node: Option<&Node>,
    report: &mut DiagnosticSink<'_>,
) -> Vec<(String, Vec<String>)> {
    let Some(entries) = node.and_then(|node| map_entries(node, "mcpAliases", report)) else {
        return Vec::new();
    };
    let mut aliases = Vec::new();
    for Entry { key, node, .. } in entries {
        let names = texts(entries, key, report);
        if names.is_empty() {
            let message = format!("`{}` has no other names", metier_core::excerpt::shorten(key, 60));
            fields::report_invalid(node, &message, report);
        }
        aliases.push((key.clone(), names));
    }
    aliases
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_lowercase_words_with_hyphens() {
        // SW-T07
        for id in ["github", "a", "a-b", "0x", &"a".repeat(64)] {
            assert!(is_id(id), "{id}");
        }
        for id in ["", "../../etc/passwd", "MySkill", "bad--name", "-a", "a-", "a_b", "é", &"x".repeat(65)] {
            assert!(!is_id(id), "{id}");
        }
    }
}
