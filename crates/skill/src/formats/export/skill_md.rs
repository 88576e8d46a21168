//! A `SKILL.md` that every client accepts: nothing outside of the specification, and every value of `metadata` a text. Its YAML is
//! read alike by readers of YAML 1.2 and of 1.1: a text that one of them takes for a number, a date or a truth value is quoted.

use serde_json::{Map, Value as Json, json};
use serde_yaml::{SerializerOptions, ser_options};

use crate::formats::export::source::{ExportSource, SkillPart, Written};

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

/// How texts of several lines are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum YamlTexts {
    /// As blocks, which a person reads and edits.
    Blocks,
    /// In quotes, in one line each: some readers of a frontmatter look for lines and not for blocks.
    Lines,
}

/// A map with these keys, in this order. Its texts come back to the byte, and its numbers as what they are.
pub(crate) fn yaml_text<'a>(entries: impl IntoIterator<Item = (&'a str, Json)>, texts: YamlTexts) -> String {
    let mut text = String::new();
    for (key, value) in entries {
        let map = Json::Object(Map::from_iter([(key.to_owned(), value)]));
        // What the writer cannot write is written as JSON, which is YAML too.
        let written = serde_yaml::to_string_with_options(&map, options(texts));
        let written = written.unwrap_or_else(|_| format!("{}: {}", Json::from(key), map[key]));
        // The line breaks at its end may belong to a text.
        text.push_str(&written);
        if !written.ends_with('\n') {
            text.push('\n');
        }
    }
    text
}

fn options(texts: YamlTexts) -> SerializerOptions {
    ser_options! {
        compact_list_indent: false,
        // A long text stays in its line: what was folded is hard to edit without a change of what it says.
        folded_wrap_chars: usize::MAX,
        prefer_block_scalars: texts == YamlTexts::Blocks,
    }
}
