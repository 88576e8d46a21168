//! Prompts: the skills that people may choose, each with what they want done and the inputs that its contract names.

use rmcp::model::{GetPromptResult, Prompt, PromptArgument, PromptMessage, Role};
use serde_json::{Map, Value};

use super::attachments::attachments;
use super::inventory::{Inventory, ServedSkill};
use super::skill_content::{activation, shown_line};
use crate::engine::Engine;
use crate::registry::Skill;
use metier_core::error::{ErrorKind, Result, SkillError};

/// What a person adds to the text of the skill.
const ARGUMENT: &str = "task";
/// Inputs that a prompt asks for; further ones are left to the model.
const MAX_INPUTS: usize = 32;
/// The most characters of the name of an input; one with a longer name is left to the model.
const MAX_NAME: usize = 64;

/// The prompts as a client lists them.
pub(super) fn prompts(inventory: &Inventory) -> Vec<Prompt> {
    listed_skills(inventory).map(listed_prompt).collect()
}

/// The skills that people may choose.
pub(super) fn listed_skills(inventory: &Inventory) -> impl Iterator<Item = &ServedSkill> {
    inventory.skills.iter().filter(|served| served.is_for_people)
}

/// The prompt of a skill as a client lists it.
pub(super) fn listed_prompt(served: &ServedSkill) -> Prompt {
    let argument = PromptArgument::new(ARGUMENT)
        .with_description("What is to be done with the skill.")
        .with_required(false);
    let description = metier_core::excerpt::shorten(&shown_line(served.skill.description()), 500);
    let arguments =
        std::iter::once(argument).chain(inputs(&served.skill).into_iter().map(|(argument, _)| argument));
    Prompt::new(served.skill.name(), Some(description), Some(arguments.collect()))
}

/// The messages of a prompt: the files that the skill attaches, and its text. Reads files.
pub(super) fn prompt(
    engine: &Engine,
    inventory: &Inventory,
    name: &str,
    arguments: &Map<String, Value>,
) -> Result<GetPromptResult> {
    let served = inventory.skill(name).filter(|served| served.is_for_people);
    let served = served.ok_or_else(|| {
        let shown = metier_core::excerpt::shorten(&shown_line(name), 80);
        SkillError::new(ErrorKind::UnknownSkill, format!("there is no prompt {shown}"))
    })?;
    let mut text = activation(engine, &served.skill)?;
    for (_, name) in inputs(&served.skill) {
        // What a person wrote is a text; what a form asked for may be a number, yes or no, or a list of choices.
        let value = match arguments.get(name) {
            Some(Value::String(value)) => value.clone(),
            Some(value @ (Value::Number(_) | Value::Bool(_) | Value::Array(_))) => value.to_string(),
            _ => continue,
        };
        if !value.is_empty() {
            text.extend([format!("\n\n{name}: {value}")]);
        }
    }
    let task = arguments.get(ARGUMENT).and_then(Value::as_str).map(str::trim);
    if let Some(task) = task.filter(|task| !task.is_empty()) {
        text.push_str("\n\n");
        text.push_str(task);
    }
    let description = metier_core::excerpt::shorten(&shown_line(served.skill.description()), 500);
    let mut messages = attachments(engine, &served.skill)?;
    messages.push(PromptMessage::new_text(Role::User, text));
    Ok(GetPromptResult::new(messages).with_description(description))
}

/// The inputs of a skill that a person can name, each with its name in the contract. None is required: the model asks for the rest.
fn inputs(skill: &Skill) -> Vec<(PromptArgument, &str)> {
    let Some(schema) = skill.contract().and_then(|contract| contract.inputs.as_ref()) else {
        return Vec::new();
    };
    // A name that looks like another one, or takes the place of what a person adds, is none that a person can use.
    let is_usable = |name: &&String| {
        let length = name.chars().count();
        (1..=MAX_NAME).contains(&length) && shown_line(name) == **name && *name != ARGUMENT
    };
    let argument = |name: &String| {
        let property = schema.json().get("properties").and_then(|properties| properties.get(name));
        let description = property.and_then(|property| property.get("description")?.as_str());
        let argument = PromptArgument::new(name).with_required(false);
        match description {
            Some(text) => argument.with_description(metier_core::excerpt::shorten(&shown_line(text), 500)),
            None => argument,
        }
    };
    schema
        .names()
        .iter()
        .filter(is_usable)
        .take(MAX_INPUTS)
        .map(|name| (argument(name), name.as_str()))
        .collect()
}
