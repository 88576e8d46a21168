//! A skill as the description of a tool, for function calling and for MCP: its name, its description and the schema of its input. A
//! skill that offers tools is a list: itself, if it runs by itself, and each of its tools.

use serde_json::{Value as Json, json};

use crate::contract::{Contract, ProvidedTool, Schema, risk_score};
use crate::formats::export::source::{ExportSource, SkillPart, Written, json_text};
use metier_core::unicode::spell_out_json;

const FUNCTION: [SkillPart; 2] = [SkillPart::Inputs, SkillPart::ProvidedTools];
const TOOL: [SkillPart; 3] = [SkillPart::Inputs, SkillPart::Outputs, SkillPart::ProvidedTools];
/// The score from which a run may destroy something.
const DESTRUCTIVE_SCORE: u8 = 70;

/// What of a skill is described.
struct Described<'a> {
    name: String,
    description: &'a str,
    input_schema: Json,
    output_schema: Option<&'a Schema>,
    risk_score: Option<u8>,
}

pub(super) fn write_function(skill: ExportSource<'_>) -> Written {
    let (parts, mut changes) = described_parts(skill);
    let functions = parts.into_iter().map(|part| {
        json!({
            "type": "function",
            "function": {"name": part.name, "description": part.description, "parameters": part.input_schema},
        })
    });
    let tools = offered(skill);
    if tools.iter().any(|tool| tool.output_schema.is_some()) {
        changes.push("the schemas of the outputs of its tools".to_owned());
    }
    if tools.iter().any(|tool| tool.risk_level.is_some()) {
        changes.push("the risks of its tools".to_owned());
    }
    (text_of(skill, functions.collect()), &FUNCTION, changes)
}

pub(super) fn write_tool(skill: ExportSource<'_>) -> Written {
    let (parts, changes) = described_parts(skill);
    let tools = parts.into_iter().map(|part| {
        let mut tool =
            json!({"name": part.name, "description": part.description, "inputSchema": part.input_schema});
        if let Some(outputs) = part.output_schema {
            tool["outputSchema"] = outputs.json().clone();
        }
        if let Some(score) = part.risk_score {
            // A hint says less than a level, so the risk counts as lost all the same.
            tool["annotations"] =
                json!({"readOnlyHint": score == 0, "destructiveHint": score >= DESTRUCTIVE_SCORE});
        }
        tool
    });
    (text_of(skill, tools.collect()), &TOOL, changes)
}

/// One description, or a list of them for a skill that offers tools. A model reads it, so invisible characters are spelled out.
fn text_of(skill: ExportSource<'_>, parts: Vec<Json>) -> String {
    let mut parts: Vec<Json> = parts.into_iter().map(spell_out_json).collect();
    match parts.len() {
        1 if offered(skill).is_empty() => json_text(&parts.remove(0)),
        _ => json_text(&Json::Array(parts)),
    }
}

fn offered(skill: ExportSource<'_>) -> &[ProvidedTool] {
    skill.contract.map_or(&[], |contract| &contract.tools)
}

/// The skill itself, if its contract says that it runs by itself or that it offers nothing else, and its tools.
fn described_parts(skill: ExportSource<'_>) -> (Vec<Described<'_>>, Vec<String>) {
    let tools = offered(skill);
    let (name, mut changes) = plain_name(&skill.manifest.name);
    let mut parts = Vec::new();
    let metadata = skill.contract.map(|contract| &contract.metadata);
    let level = metadata.and_then(|metadata| metadata.risk_level.as_deref());
    let of_skill = metadata.and_then(|metadata| metadata.risk_score).or_else(|| level.and_then(risk_score));
    if tools.is_empty() || skill.contract.is_some_and(runs_by_itself) {
        parts.push(Described {
            name,
            description: &skill.manifest.description,
            input_schema: skill.input_schema(),
            output_schema: skill.contract.and_then(|contract| contract.outputs.as_ref()),
            risk_score: of_skill,
        });
    }
    for tool in tools {
        let (name, renamed) = plain_name(&format!("{}_{}", skill.manifest.name, tool.name));
        changes.extend(renamed);
        let inputs = tool.input_schema.as_ref();
        parts.push(Described {
            name,
            description: tool.description.as_deref().unwrap_or(&skill.manifest.description),
            input_schema: inputs.map_or_else(|| json!({"type": "object"}), |schema| schema.json().clone()),
            output_schema: tool.output_schema.as_ref(),
            risk_score: if tool.risk_level.is_some() { tool.risk_score } else { of_skill },
        });
    }
    if tools.iter().any(|tool| tool.requires_confirmation) {
        changes.push("that a person must agree to calls of its tools".to_owned());
    }
    if tools.iter().any(|tool| tool.handler.is_some()) {
        changes.push("what runs when its tools are called".to_owned());
    }
    (parts, changes)
}

fn runs_by_itself(contract: &Contract) -> bool {
    contract.inputs.is_some() || contract.main_entrypoint().is_some() || contract.steps.is_some()
}

/// A name of at most 64 ASCII letters, digits, `_` and `-`, and what that changes.
fn plain_name(name: &str) -> (String, Vec<String>) {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-".contains(c);
    let plain: String = name.chars().map(|c| if is_plain(c) { c } else { '_' }).take(64).collect();
    let changes = if plain == name { Vec::new() } else { vec![format!("the name, which is {plain} there")] };
    (plain, changes)
}
