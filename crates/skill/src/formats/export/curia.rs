//! The manifest of a Curia skill. Its inputs are written in the shorthand, which has no constraints and no nested schemas.

use serde_json::{Map, Value as Json, json};

use crate::contract::{Contract, DefinitionFormat, Sensitivity, risk_level, risk_score};
use crate::formats::curia::secret_variable;
use crate::formats::export::source::{ExportSource, SkillPart, Written, json_text};
use crate::formats::shorthand::timestamp_description;
use metier_core::policy::ConfigRequirement;

const HELD: [SkillPart; 12] = [
    SkillPart::Version,
    SkillPart::Inputs,
    SkillPart::OutputDescriptions,
    SkillPart::Risk,
    SkillPart::Sensitivity,
    SkillPart::Timeout,
    SkillPart::Permissions,
    SkillPart::Capabilities,
    SkillPart::Secrets,
    SkillPart::Settings,
    SkillPart::Timestamps,
    SkillPart::Enrichment,
];
/// Types of the shorthand.
const TYPES: [&str; 6] = ["string", "number", "integer", "boolean", "object", "null"];
/// The risk of a skill that names none: one that an agent does not take alone.
const UNKNOWN_RISK: &str = "medium";

pub(super) fn write(skill: ExportSource<'_>) -> Written {
    let contract = skill.contract.cloned().unwrap_or_default();
    let mut changes = Vec::new();
    let score = contract.metadata.risk_score;
    let risk = match score.map(|score| (score, risk_level(score))) {
        Some((score, level)) if risk_score(level) == Some(score) => json!(level),
        Some((score, _)) => json!(score),
        None => {
            changes.push(format!("that the risk is not known: it is written as {UNKNOWN_RISK}"));
            json!(UNKNOWN_RISK)
        }
    };
    let elevated = contract.sensitivity == Sensitivity::Elevated;
    let needs = &contract.host_needs;
    let mut manifest = json!({
        "name": skill.manifest.name,
        "description": skill.manifest.description,
        "version": skill.manifest.version.to_string(),
        "sensitivity": if elevated { "elevated" } else { "normal" },
        "action_risk": risk,
        "inputs": inputs(&contract, &mut changes),
        "outputs": needs.output_descriptions.iter().map(|(key, text)| (key.clone(), json!(text))).collect::<Map<_, _>>(),
        "permissions": permissions(&contract),
        "secrets": secrets(&contract, &mut changes),
    });
    if let Some(timeout) = contract.limits.timeout {
        manifest["timeout"] = json!(u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX));
    }
    if !needs.capabilities.is_empty() {
        manifest["capabilities"] = json!(needs.capabilities);
    }
    if let Some(enrichment) = &needs.enrichment {
        manifest["entity_enrichment"] = json!(enrichment);
    }
    if contract.format != DefinitionFormat::Curia {
        changes.push("its scripts: write a handler.ts or handler.js that calls them".to_owned());
    }
    (json_text(&manifest), &HELD, changes)
}

/// The secrets that it declares. Other settings have no place there, and neither has more about a secret than its name.
fn secrets(contract: &Contract, changes: &mut Vec<String>) -> Vec<String> {
    let mut names = contract.host_needs.secrets.clone();
    for field in contract.config.iter() {
        if !field.secret {
            changes.push(format!("the setting {}", field.key));
            continue;
        }
        if field.requirement != ConfigRequirement::OnUse || field.env != secret_variable(&field.key) {
            changes.push(format!("whether the secret {} is required, and its variable", field.key));
        }
        if !names.contains(&field.key) {
            names.push(field.key.clone());
        }
    }
    names
}

/// The permissions as they are written there: not those that stand for secrets and capabilities, and not the network that a manifest
/// without permissions asks for.
fn permissions(contract: &Contract) -> Vec<String> {
    let needs = &contract.host_needs;
    let is_implied = |text: &str| {
        let scoped = |prefix: &str, names: &[String]| {
            text.strip_prefix(prefix).is_some_and(|name| names.iter().any(|known| known == name))
        };
        scoped("secret:", &needs.secrets) || scoped("tool:", &needs.capabilities)
    };
    let written = contract.permissions.iter().flatten().map(|request| request.text.clone());
    let written: Vec<String> = written.filter(|text| !is_implied(text)).collect();
    if contract.format == DefinitionFormat::Curia && written == ["net"] { Vec::new() } else { written }
}

fn inputs(contract: &Contract, changes: &mut Vec<String>) -> Json {
    let Some(schema) = &contract.inputs else { return json!({}) };
    let required: Vec<&str> =
        schema.json()["required"].as_array().into_iter().flatten().filter_map(Json::as_str).collect();
    let mut written = Map::new();
    for name in schema.names() {
        let property = &schema.json()["properties"][name];
        let is_timestamp = contract.host_needs.timestamps.contains(name);
        let (shorthand, is_exact) = shorthand(property, required.contains(&name.as_str()), is_timestamp);
        if !is_exact {
            changes.push(format!("the constraints of the input {name}, which is {shorthand} there"));
        }
        written.insert(name.clone(), shorthand.into());
    }
    let is_of_parameters =
        |key: &String| ["type", "properties", "required", "additionalProperties"].contains(&key.as_str());
    if schema.json().as_object().is_some_and(|json| !json.keys().all(is_of_parameters)) {
        changes.push("what the schema of the input says besides its properties".to_owned());
    }
    Json::Object(written)
}

/// The shorthand of a property, and whether it says as much.
fn shorthand(property: &Json, is_required: bool, is_timestamp: bool) -> (String, bool) {
    let names: Vec<&str> = match &property["type"] {
        Json::String(name) => vec![name],
        Json::Array(names) => names.iter().filter_map(Json::as_str).collect(),
        _ => Vec::new(),
    };
    let is_nullable = names.len() > 1 && names.contains(&"null");
    let plain: Vec<&str> = names.iter().copied().filter(|name| names.len() == 1 || *name != "null").collect();
    let item = property["items"]["type"].as_str().filter(|item| TYPES.contains(item));
    let name = match (&plain[..], item) {
        _ if is_timestamp => "timestamp".to_owned(),
        (["array"], Some(item)) => format!("{item}[]"),
        ([name], _) if TYPES.contains(name) => (*name).to_owned(),
        _ => "object".to_owned(),
    };
    let is_typed =
        matches!(plain[..], [name] if TYPES.contains(&name) || (name == "array" && item.is_some()));
    let known = ["type", "description", "items"];
    let has_more =
        property.as_object().is_some_and(|keys| keys.keys().any(|key| !known.contains(&key.as_str())));
    let has_nested = property["items"].as_object().is_some_and(|keys| keys.len() > 1);
    let is_optional = !is_required;
    let mark = if is_optional { "?" } else { "" };
    let description = property["description"].as_str();
    let description =
        description.and_then(|text| if is_timestamp { timestamp_description(text) } else { Some(text) });
    let description = description.map(|text| format!(" ({text})")).unwrap_or_default();
    let is_exact = is_typed && !has_more && !has_nested && (is_nullable == is_optional || plain == ["null"]);
    (format!("{name}{mark}{description}"), is_exact)
}
