//! A skill as models are told of a tool: its name, its description and the schema of its input.

use serde_json::json;

use crate::formats::export::loss::{SkillPart, Written};
use crate::formats::export::source::{SkillSource, json_text};
use crate::skill::contract::risk_score;

const FUNCTION: [SkillPart; 1] = [SkillPart::Inputs];
const TOOL: [SkillPart; 2] = [SkillPart::Inputs, SkillPart::Outputs];
/// The score from which a run may destroy something.
const DESTRUCTIVE_SCORE: u8 = 70;

pub(super) fn write_function(skill: SkillSource<'_>) -> Written {
    let (name, changes) = tool_name(&skill.manifest.name);
    let function = json!({
        "type": "function",
        "function": {"name": name, "description": skill.manifest.description, "parameters": skill.input_schema()},
    });
    (json_text(&function), &FUNCTION, changes)
}

pub(super) fn write_tool(skill: SkillSource<'_>) -> Written {
    let (name, changes) = tool_name(&skill.manifest.name);
    let mut tool =
        json!({"name": name, "description": skill.manifest.description, "inputSchema": skill.input_schema()});
    if let Some(outputs) = skill.contract.and_then(|contract| contract.outputs.as_ref()) {
        tool["outputSchema"] = outputs.json().clone();
    }
    let metadata = skill.contract.map(|contract| &contract.metadata);
    let level = metadata.and_then(|metadata| metadata.risk_level.as_deref());
    let score = metadata.and_then(|metadata| metadata.risk_score).or_else(|| level.and_then(risk_score));
    if let Some(score) = score {
        // A hint says less than a level, so the risk counts as lost all the same.
        tool["annotations"] =
            json!({"readOnlyHint": score == 0, "destructiveHint": score >= DESTRUCTIVE_SCORE});
    }
    (json_text(&tool), &TOOL, changes)
}

/// A name of at most 64 ASCII letters, digits, `_` and `-`, and what that changes.
fn tool_name(name: &str) -> (String, Vec<String>) {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-".contains(c);
    let plain: String = name.chars().map(|c| if is_plain(c) { c } else { '_' }).take(64).collect();
    let changes = if plain == name { Vec::new() } else { vec![format!("the name, which is {plain} there")] };
    (plain, changes)
}
