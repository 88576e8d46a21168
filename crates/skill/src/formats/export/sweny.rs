//! A skill object of SWEny. It has no version and no risk; a skill is written as instructions, with the tools that it declares.

use serde_json::{Map, Value as Json, json};

use crate::contract::{Contract, McpServerAddress, ProvidedTool};
use crate::formats::export::skill_md::{YamlTexts, yaml_text};
use crate::formats::export::source::{ExportSource, SkillPart, Written, json_text};
use crate::formats::sweny::{CATEGORIES, is_id};
use metier_core::policy::ConfigRequirement;

const HELD: [SkillPart; 7] = [
    SkillPart::Text,
    SkillPart::ProvidedTools,
    SkillPart::Server,
    SkillPart::Aliases,
    SkillPart::Category,
    SkillPart::DisplayName,
    SkillPart::Settings,
];

/// The keys of a skill object, in the order in which a person reads them.
const KEYS: [&str; 9] =
    ["id", "name", "description", "category", "config", "instruction", "tools", "mcp", "mcpAliases"];

pub(super) fn write(skill: ExportSource<'_>) -> Written {
    let (object, changes) = skill_object(skill);
    (json_text(&object), &HELD, changes)
}

pub(super) fn write_yaml(skill: ExportSource<'_>) -> Written {
    let (object, changes) = skill_object(skill);
    let entries = KEYS.iter().filter_map(|key| Some((*key, object.get(*key)?.clone())));
    (yaml_text(entries, YamlTexts::Blocks), &HELD, changes)
}

/// The skill object, and what changes in it.
fn skill_object(skill: ExportSource<'_>) -> (Json, Vec<String>) {
    let mut changes = Vec::new();
    let name = &skill.manifest.name;
    let suggested = || crate::suggested_name(name).filter(|id| is_id(id));
    let id = if is_id(name) { name.clone() } else { suggested().unwrap_or_else(|| "skill".to_owned()) };
    if id != *name {
        changes.push(format!("the name, whose id is {id} there"));
    }
    let contract = skill.contract.cloned().unwrap_or_default();
    let publication = &contract.publication;
    let category = publication.category.as_deref().filter(|category| CATEGORIES.contains(category));
    let mut object = json!({
        "id": id,
        "name": publication.display_name.as_deref().unwrap_or(name),
        "description": skill.manifest.description,
        "category": category.unwrap_or("general"),
        "config": config(&contract, &mut changes),
    });
    let offers_more = !contract.tools.is_empty() || contract.mcp.is_some();
    let has_own_text = skill.text.trim() != skill.manifest.description.trim();
    if has_own_text || !offers_more {
        let text = if skill.text.trim().is_empty() { &skill.manifest.description } else { skill.text };
        object["instruction"] = json!(text);
    }
    if !contract.tools.is_empty() {
        object["tools"] = contract.tools.iter().map(tool).collect();
    }
    if contract.tools.iter().any(|tool| tool.requires_confirmation) {
        changes.push("that a person must agree to calls of its tools".to_owned());
    }
    if contract.tools.iter().any(|tool| tool.handler.is_some()) {
        changes.push("what runs when its tools are called".to_owned());
    }
    if let Some(server) = &contract.mcp {
        object["mcp"] = self::server(server);
    }
    if !contract.tool_aliases.is_empty() {
        let aliases = contract.tool_aliases.iter().map(|(name, others)| (name.clone(), json!(others)));
        object["mcpAliases"] = Json::Object(aliases.collect());
    }
    (object, changes)
}

fn config(contract: &Contract, changes: &mut Vec<String>) -> Json {
    let mut written = Map::new();
    for field in contract.config.iter() {
        let mut setting = json!({
            "description": field.description.as_deref().unwrap_or(&field.key),
            "required": field.requirement == ConfigRequirement::Required,
        });
        if let Some(variable) = &field.env {
            setting["env"] = json!(variable);
        }
        let is_plain = matches!(field.requirement, ConfigRequirement::Required | ConfigRequirement::Optional);
        if field.secret || field.default.is_some() || !is_plain {
            changes.push(format!(
                "that {} is a secret, needed on use, one of several, or has a default",
                field.key
            ));
        }
        written.insert(field.key.clone(), setting);
    }
    Json::Object(written)
}

fn tool(tool: &ProvidedTool) -> Json {
    let schema =
        tool.input_schema.as_ref().map_or_else(|| json!({"type": "object"}), |schema| schema.json().clone());
    json!({
        "name": tool.name,
        "description": tool.description.as_deref().unwrap_or(&tool.name),
        "input_schema": schema,
    })
}

fn server(server: &McpServerAddress) -> Json {
    let pairs = |pairs: &[(String, String)]| {
        Json::Object(pairs.iter().map(|(key, value)| (key.clone(), json!(value))).collect())
    };
    let mut written = Map::new();
    written.extend(server.command.as_ref().map(|command| ("command".to_owned(), json!(command))));
    written.extend((!server.args.is_empty()).then(|| ("args".to_owned(), json!(server.args))));
    written.extend(server.url.as_ref().map(|url| ("url".to_owned(), json!(url))));
    written.extend((!server.headers.is_empty()).then(|| ("headers".to_owned(), pairs(&server.headers))));
    written.extend((!server.env.is_empty()).then(|| ("env".to_owned(), pairs(&server.env))));
    Json::Object(written)
}
