//! The files of the skill: the contract with its tools, and what a model reads.

use serde_json::{Map, Value as Json, json};

use super::security::Credential;
use super::server::secret_host;
use super::tool::{ImportedTool, count_values};
use crate::contract::MAX_CONTRACT;
use crate::formats::{YamlTexts, yaml_text};
use crate::yaml::MAX_NODES;

/// The most tools of one skill.
pub(super) const MAX_TOOLS: usize = 256;
/// The most tools that the text of the skill lists.
const MAX_LISTED: usize = 60;
/// The most characters of a line of that list.
const MAX_LINE: usize = 120;

/// What the skill is.
pub(super) struct SkillFacts<'a> {
    pub(super) name: &'a str,
    pub(super) service: &'a str,
    pub(super) description: &'a str,
    pub(super) base_url: &'a str,
}

/// The contract, or how many of the tools it has place for.
pub(super) fn contract_text(facts: &SkillFacts<'_>, tools: &[ImportedTool<'_>]) -> Result<String, usize> {
    let mut entries = vec![
        ("name", json!(facts.name)),
        ("description", json!(facts.description)),
        ("base_url", json!(facts.base_url)),
        ("service", json!(facts.service)),
    ];
    let secrets = secrets(facts, tools);
    if !secrets.is_empty() {
        entries.push(("secrets", secrets.into()));
    }
    let head_values: usize = entries.iter().map(|(_, value)| 1 + count_values(value)).sum();
    let head = yaml_text(entries, YamlTexts::Blocks);
    let mut left_bytes = MAX_CONTRACT.saturating_sub(head.len() + "tools:\n".len());
    let mut left_values = MAX_NODES.saturating_sub(head_values + 3);
    let mut text = head + "tools:\n";
    for (at, tool) in tools.iter().enumerate() {
        let written = tool_text(&tool.definition);
        let values: usize = 1 + tool.definition.values().map(|value| 1 + count_values(value)).sum::<usize>();
        match (left_bytes.checked_sub(written.len()), left_values.checked_sub(values)) {
            (Some(bytes), Some(values)) if at < MAX_TOOLS => (left_bytes, left_values) = (bytes, values),
            _ => return Err(at),
        }
        text.push_str(&written);
    }
    Ok(text)
}

/// A tool as an item of the list of tools.
fn tool_text(definition: &Map<String, Json>) -> String {
    let listed = yaml_text([("tools", json!([definition]))], YamlTexts::Blocks);
    listed.strip_prefix("tools:\n").unwrap_or(&listed).to_owned()
}

/// The secrets of all tools, each once, bound to the host of the calls.
fn secrets(facts: &SkillFacts<'_>, tools: &[ImportedTool<'_>]) -> Vec<Json> {
    let mut credentials: Vec<&Credential> = Vec::new();
    for credential in tools.iter().flat_map(|tool| &tool.credentials) {
        if !credentials.iter().any(|known| known.secret == credential.secret) {
            credentials.push(credential);
        }
    }
    let secret = |credential: &&Credential| {
        json!({
            "name": credential.secret, "host": secret_host(facts.base_url), "description": credential.description(facts.service),
            "required": "on_use", "env": credential.secret,
        })
    };
    credentials.iter().map(secret).collect()
}

/// What a model reads of the skill.
pub(super) fn skill_text(facts: &SkillFacts<'_>, tools: &[ImportedTool<'_>]) -> String {
    let entries = [("name", json!(facts.name)), ("description", json!(facts.description))];
    let head = yaml_text(entries, YamlTexts::Lines);
    let mut parts = vec![format!(
        "---\n{head}---\n\nEach tool of this skill is one operation of {}, at {}. Its inputs are the parameters of the operation and the \
         fields of its body; its value is the answer.\n\n",
        facts.service, facts.base_url
    )];
    for tool in tools.iter().take(MAX_LISTED) {
        let field = |key: &str| tool.definition.get(key).and_then(Json::as_str).unwrap_or_default();
        let line = metier_core::excerpt::shorten(field("description"), MAX_LINE);
        parts.push(format!("- `{}`: {line}\n", field("name")));
    }
    if tools.len() > MAX_LISTED {
        parts.push(format!("\nThere are {} more tools.\n", tools.len() - MAX_LISTED));
    }
    parts.concat()
}
