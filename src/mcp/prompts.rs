//! Prompts: the skills that people may choose, each with what they want done, the inputs that its contract names, and the files that the skill
//! attaches. A person is asked with a form for inputs that were left out.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rmcp::model::{
    ContentBlock, GetPromptRequestParams, GetPromptResponse, GetPromptResult, JsonObject, Prompt,
    PromptArgument, PromptMessage, Role,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer};
use serde_json::{Map, Value};

use super::backlog::json_size;
use super::client::{Handler, request_error, set_size};
use super::forms::{Form, ask_forms, forms};
use super::inventory::{Inventory, ServedSkill};
use super::postponed_request::{Filled, PostponedRequest, StateOwner};
use super::resources::{contents, invisible_notice};
use super::skill_content::{activation, file_uri, mime_type, read_file, shown_line};
use crate::engine::Engine;
use crate::registry::Skill;
use metier_core::error::{ErrorKind, Result, SkillError};

/// What a person adds to the text of the skill.
const ARGUMENT: &str = "task";
/// Inputs that a prompt asks for; further ones are left to the model.
const MAX_INPUTS: usize = 32;
/// The most characters of the name of an input; one with a longer name is left to the model.
const MAX_NAME: usize = 64;
/// The most bytes of all files of one prompt.
const MAX_ATTACHED_BYTES: usize = 8 << 20;
/// The pictures that models look at; others are files.
const PICTURES: [&str; 4] = ["image/png", "image/jpeg", "image/gif", "image/webp"];

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

impl Handler {
    pub(super) async fn answer_prompt(
        &self,
        request: GetPromptRequestParams,
        context: &RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        let inventory = self.inventory();
        let served = inventory.skill(&request.name).filter(|served| served.is_for_people);
        let forms = served.map(|served| forms(&served.skill)).unwrap_or_default();
        let trust = self.form_trust(&request.name, &forms).await?;
        let values = Value::Object(request.arguments.unwrap_or_default());
        let mut given = values.as_object().cloned().unwrap_or_default();
        // A client sends an argument that its person left out as an empty text.
        given.retain(|_, value| *value != "");
        let name = request.name;
        let arguments = if let Some(states) = self.request_states(context) {
            let owner = StateOwner { name: &name, ..self.state_owner(context, "prompts/get", &values) };
            let (state, responses) = (request.request_state.as_deref(), request.input_responses);
            let postponed = PostponedRequest::open(states, owner, state, responses);
            let mut postponed = postponed.map_err(|error| request_error(&error))?;
            match postponed.fill(&forms, trust, given.clone()) {
                Ok(Filled::Question(question)) => return Ok(GetPromptResponse::InputRequired(*question)),
                Ok(Filled::Arguments(filled)) => filled,
                // No input of a prompt is required: the model asks for what is missing.
                Err(_) => given,
            }
        } else if !trust.is_trusted {
            given
        } else {
            self.ask_for_prompt(&forms, given, context).await
        };
        let result = self
            .read(Some(context), move |engine, inventory, _| {
                prompt(engine, inventory, &name, &arguments).map(|prompt| (json_size(&prompt), prompt))
            })
            .await?;
        result
            .map(|(size, prompt)| set_size(context, size, prompt).into())
            .map_err(|error| request_error(&error))
    }

    async fn ask_for_prompt(
        &self,
        forms: &[Form],
        given: JsonObject,
        context: &RequestContext<RoleServer>,
    ) -> JsonObject {
        let Some(elicitor) = self.elicitor(context, None) else { return given };
        let Ok(_waiting) = self.server.queue.enter(self.caller().number) else { return given };
        let cancelled = std::pin::pin!(context.ct.cancelled());
        ask_forms(forms, given.clone(), &elicitor, cancelled).await.unwrap_or(given)
    }
}

/// A message for each file, and one about its invisible characters. Reads them; `output` if they are too large together.
fn attachments(engine: &Engine, skill: &Skill) -> Result<Vec<PromptMessage>> {
    let paths = skill.contract().map_or(&[][..], |contract| &contract.attachments);
    let (mut messages, mut size) = (Vec::new(), 0);
    for path in paths {
        let content = read_file(engine, skill, path)?;
        size += content.len();
        if size > MAX_ATTACHED_BYTES {
            let sentence = format!(
                "the files of the prompt {} have more than {} MiB, up to {}",
                shown_line(skill.name()),
                MAX_ATTACHED_BYTES >> 20,
                shown_line(path)
            );
            return Err(SkillError::new(ErrorKind::Output, sentence));
        }
        let (kind, notice) = (mime_type(path), invisible_notice(&content));
        let block = if PICTURES.contains(&kind) {
            ContentBlock::image(STANDARD.encode(content), kind)
        } else if kind.starts_with("audio/") {
            ContentBlock::audio(STANDARD.encode(content), kind)
        } else {
            let uri = file_uri(skill.name(), path);
            ContentBlock::resource(contents(content, &uri).with_mime_type(kind))
        };
        messages.push(PromptMessage::new(Role::User, block));
        messages.extend(notice.map(|notice| PromptMessage::new_text(Role::User, notice)));
    }
    Ok(messages)
}
