//! A skill of AgentsKit: what a model becomes. It has no inputs, no timeout and no risk.

use serde_json::json;

use crate::contract::DefinitionFormat;
use crate::formats::agentskit::is_name;
use crate::formats::export::source::{ExportSource, SkillPart, Written, json_text};

const HELD: [SkillPart; 5] =
    [SkillPart::Text, SkillPart::Turns, SkillPart::Tools, SkillPart::Delegates, SkillPart::Temperature];
/// Those of a skill that was one of AgentsKit: its permissions are its tools, and its facts are opaque.
const HELD_OF_OWN: [SkillPart; 8] = [
    SkillPart::Text,
    SkillPart::Turns,
    SkillPart::Tools,
    SkillPart::Delegates,
    SkillPart::Temperature,
    SkillPart::Facts,
    SkillPart::Permissions,
    SkillPart::UnknownKeys,
];

pub(super) fn write(skill: ExportSource<'_>) -> Written {
    let mut changes = Vec::new();
    let name: String = skill
        .manifest
        .name
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || "_-".contains(c) { c } else { '_' })
        .collect();
    let name = if is_name(&name) { name } else { format!("_{name}").chars().take(64).collect() };
    if name != skill.manifest.name {
        changes.push(format!("the name, which is {name} there"));
    }
    let description = skill.manifest.description.split_whitespace().collect::<Vec<_>>().join(" ");
    if description != skill.manifest.description {
        changes.push("the lines of the description, which is one line there".to_owned());
    }
    let text = if skill.text.trim().is_empty() { &description } else { skill.text };
    let mut written = json!({"name": name, "description": description, "systemPrompt": text});
    if let Some(persona) = skill.contract.and_then(|contract| contract.persona.as_ref()) {
        let lists = [
            ("examples", json!(persona.examples)),
            ("tools", json!(persona.tools)),
            ("delegates", json!(persona.delegates)),
        ];
        for (key, list) in
            lists.into_iter().filter(|(_, list)| list.as_array().is_some_and(|list| !list.is_empty()))
        {
            written[key] = list;
        }
        if let Some(temperature) = persona.temperature {
            written["temperature"] = json!(temperature);
        }
    }
    let own = skill.contract.filter(|contract| contract.format == DefinitionFormat::AgentsKit);
    if let Some(contract) = own {
        if !contract.metadata.unknown.is_empty() {
            written["metadata"] = json!(contract.metadata.unknown);
        }
        if let Some(fields) = written.as_object_mut() {
            fields.extend(contract.unknown.clone());
        }
        return (json_text(&written), &HELD_OF_OWN, changes);
    }
    (json_text(&written), &HELD, changes)
}
