//! The tools that a skill offers: what goes in and comes out of each, what runs, and what a call may do.

use metier::engine::{Availability, Engine};
use metier::executor::RuntimeId;
use metier::registry::Skill;
use metier::skill::contract::ProvidedTool;
use serde_json::{Value, json};

use crate::cli::terminal::escape_line;
use metier_skill::contract::signature;

/// Each tool as it is in JSON.
pub fn records(engine: &Engine, skill: &Skill) -> Vec<Value> {
    let record = |tool: &ProvidedTool| {
        let availability = engine.tool_availability(skill, &tool.name);
        json!({
            "name": tool.name,
            "description": tool.description,
            "signature": signature(tool),
            "input_schema": tool.input_schema,
            "output_schema": tool.output_schema,
            "runtime": availability.runtime,
            "runnable": availability.is_runnable(),
            "reason": availability.reason.as_ref().map(ToString::to_string),
            "risk_level": tool.risk_level,
            "requires_confirmation": tool.requires_confirmation,
            "requested_permissions": permission_names(engine, skill, tool),
        })
    };
    tools(skill).iter().map(record).collect()
}

/// The tools as a part of the page, after a blank line; one empty text where there are none.
pub fn section(engine: &Engine, skill: &Skill) -> String {
    let tools = tools(skill);
    if tools.is_empty() {
        return String::new();
    }
    let lines: String = tools.iter().map(|tool| lines(engine, skill, tool)).collect();
    format!("\ntools\n{lines}")
}

fn tools(skill: &Skill) -> &[ProvidedTool] {
    skill.contract().map_or(&[], |contract| &contract.tools)
}

fn lines(engine: &Engine, skill: &Skill, tool: &ProvidedTool) -> String {
    let description = tool.description.as_deref().map(|text| format!("\n    {}", escape_line(text)));
    let mut facts = vec![availability_text(&engine.tool_availability(skill, &tool.name))];
    facts.extend(tool.risk_level.as_ref().map(|level| format!("risk {level}")));
    facts.extend(tool.requires_confirmation.then(|| "asks before each call".to_owned()));
    facts.push(format!("requests {}", permission_names(engine, skill, tool).join(", ")));
    let facts: Vec<String> = facts.iter().map(|fact| escape_line(fact)).collect();
    format!(
        "  {}{}\n    {}\n",
        escape_line(&signature(tool)),
        description.unwrap_or_default(),
        facts.join("; ")
    )
}

fn signature(tool: &ProvidedTool) -> String {
    let parameters = tool.input_schema.as_ref().map_or_else(|| "…".to_owned(), signature::parameters);
    let value = tool.output_schema.as_ref().map_or_else(|| "any".to_owned(), signature::type_name);
    format!("{}({parameters}) -> {value}", tool.name)
}

fn availability_text(availability: &Availability) -> String {
    match &availability.reason {
        Some(reason) => format!("cannot be called: {reason}"),
        None => format!("runs in {}", availability.runtime.map_or("-", RuntimeId::name)),
    }
}

fn permission_names(engine: &Engine, skill: &Skill, tool: &ProvidedTool) -> Vec<String> {
    match engine.tool_permissions(skill, tool) {
        None => vec!["everything".to_owned()],
        Some(permissions) => {
            let mut names = vec!["read".to_owned()];
            for name in permissions.iter().map(ToString::to_string) {
                if !names.contains(&name) {
                    names.push(name);
                }
            }
            names
        }
    }
}
