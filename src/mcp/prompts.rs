//! Prompts: the skills that people may choose, each with what they want done.

use rmcp::model::{GetPromptResult, Prompt, PromptArgument, PromptMessage, Role};
use serde_json::{Map, Value};

use super::inventory::{Inventory, ServedSkill};
use super::skill_content::{activation, shown_line};
use crate::engine::Engine;
use crate::error::{ErrorKind, Result, SkillError};

/// What a person adds to the text of the skill.
const ARGUMENT: &str = "task";

/// The prompts as a client lists them.
pub(super) fn prompts(inventory: &Inventory) -> Vec<Prompt> {
    let argument = || {
        PromptArgument::new(ARGUMENT)
            .with_description("What is to be done with the skill.")
            .with_required(false)
    };
    let prompt = |served: &ServedSkill| {
        let description = crate::excerpt::shorten(&shown_line(served.skill.description()), 500);
        Prompt::new(served.skill.name(), Some(description), Some(vec![argument()]))
    };
    inventory.skills.iter().filter(|served| served.is_for_people).map(prompt).collect()
}

/// The text of a prompt. Reads files.
pub(super) fn prompt(
    engine: &Engine,
    inventory: &Inventory,
    name: &str,
    arguments: Option<&Map<String, Value>>,
) -> Result<GetPromptResult> {
    let served = inventory.skill(name).filter(|served| served.is_for_people);
    let served = served.ok_or_else(|| {
        let shown = crate::excerpt::shorten(&shown_line(name), 80);
        SkillError::new(ErrorKind::UnknownSkill, format!("there is no prompt {shown}"))
    })?;
    let mut text = activation(engine, &served.skill)?;
    let task = arguments.and_then(|arguments| arguments.get(ARGUMENT)).and_then(Value::as_str).map(str::trim);
    if let Some(task) = task.filter(|task| !task.is_empty()) {
        text.push_str("\n\n");
        text.push_str(task);
    }
    let description = crate::excerpt::shorten(&shown_line(served.skill.description()), 500);
    Ok(GetPromptResult::new(vec![PromptMessage::new_text(Role::User, text)]).with_description(description))
}
