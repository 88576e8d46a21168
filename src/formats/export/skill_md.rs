//! A `SKILL.md` that every client accepts: nothing outside of the specification, and every value of `metadata` a text.

use serde_json::Value as Json;

use crate::formats::export::loss::{SkillPart, Written};
use crate::formats::export::source::SkillSource;

const HELD: [SkillPart; 6] = [
    SkillPart::Text,
    SkillPart::Version,
    SkillPart::License,
    SkillPart::Compatibility,
    SkillPart::Metadata,
    SkillPart::AllowedTools,
];
/// The most characters of a description.
const MAX_DESCRIPTION: usize = 1024;

pub(super) fn write(skill: SkillSource<'_>) -> Written {
    let manifest = skill.manifest;
    let mut changes = Vec::new();
    let name = crate::skill::suggested_name(&manifest.name).unwrap_or_else(|| manifest.name.clone());
    if name != manifest.name {
        changes.push(format!("the name, which is {name} there"));
    }
    let description: String = manifest.description.chars().take(MAX_DESCRIPTION).collect();
    if description != manifest.description {
        changes.push(format!("what follows the first {MAX_DESCRIPTION} characters of the description"));
    }
    let mut lines =
        vec![format!("name: {}", quoted(&name)), format!("description: {}", quoted(&description))];
    lines.extend(manifest.license.as_deref().map(|text| format!("license: {}", quoted(text))));
    lines.extend(manifest.compatibility.as_deref().map(|text| format!("compatibility: {}", quoted(text))));
    if !manifest.allowed_tools.is_empty() {
        lines.push(format!("allowed-tools: {}", quoted(&manifest.allowed_tools.join(" "))));
    }
    let mut metadata: Vec<(String, String)> = Vec::new();
    if manifest.version != semver::Version::new(0, 0, 0) && !manifest.metadata.contains_key("version") {
        metadata.push(("version".to_owned(), manifest.version.to_string()));
    }
    for (key, value) in &manifest.metadata {
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        if !value.is_string() {
            changes.push(format!("that metadata.{key} is no text"));
        }
        metadata.push((key.clone(), text));
    }
    if !metadata.is_empty() {
        lines.push("metadata:".to_owned());
        lines.extend(metadata.iter().map(|(key, value)| format!("  {}: {}", quoted(key), quoted(value))));
    }
    (format!("---\n{}\n---\n\n{}\n", lines.join("\n"), skill.text.trim()), &HELD, changes)
}

/// A text in double quotes, as both YAML and JSON have it.
fn quoted(text: &str) -> String {
    Json::from(text).to_string()
}
