//! A `SKILL.md` that every client accepts: nothing outside of the specification, and every value of `metadata` a text.

use serde_json::{Map, Value as Json, json};

use crate::formats::export::loss::{SkillPart, Written};
use crate::formats::export::source::ExportSource;
use crate::formats::export::yaml_text::{YamlTexts, yaml_text};

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

pub(super) fn write(skill: ExportSource<'_>) -> Written {
    let manifest = skill.manifest;
    let mut changes = Vec::new();
    let name = crate::suggested_name(&manifest.name).unwrap_or_else(|| manifest.name.clone());
    if name != manifest.name {
        changes.push(format!("the name, which is {name} there"));
    }
    let description: String = manifest.description.chars().take(MAX_DESCRIPTION).collect();
    if description != manifest.description {
        changes.push(format!("what follows the first {MAX_DESCRIPTION} characters of the description"));
    }
    let mut entries = vec![("name", json!(name)), ("description", json!(description))];
    entries.extend(manifest.license.as_deref().map(|text| ("license", json!(text))));
    entries.extend(manifest.compatibility.as_deref().map(|text| ("compatibility", json!(text))));
    if !manifest.allowed_tools.is_empty() {
        entries.push(("allowed-tools", json!(manifest.allowed_tools.join(" "))));
    }
    let mut metadata = Map::new();
    if manifest.version != semver::Version::new(0, 0, 0) {
        metadata.insert("version".to_owned(), json!(manifest.version.to_string()));
    }
    for (key, value) in &manifest.metadata {
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        if !value.is_string() {
            changes.push(format!("that metadata.{key} is not text"));
        }
        metadata.insert(key.clone(), json!(text));
    }
    if !metadata.is_empty() {
        entries.push(("metadata", Json::Object(metadata)));
    }
    let frontmatter = yaml_text(entries, YamlTexts::Lines);
    (format!("---\n{frontmatter}---\n\n{}\n", skill.text.trim()), &HELD, changes)
}
