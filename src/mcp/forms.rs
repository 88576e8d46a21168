//! The forms of a skill: inputs that a person is asked for where a call does not give them.
//!
//! What a form says comes from the skill, and its answer from the client. So it says whose it is, and the answer is input and
//! nothing else: it is validated like every input, and allows the skill nothing.

use std::time::Duration;

use rmcp::model::{ElicitRequest, ElicitRequestParams, ElicitResult, ElicitationAction, ElicitationSchema};
use serde_json::{Map, Value, json};

use super::elicitation::Elicitor;
use super::skill_content::shown_line;
use crate::registry::Skill;
use metier_core::error::{ErrorKind, Result, SkillError};
use metier_core::unicode::with_lookalikes;

/// How long a person has for one form.
const TIME_LIMIT: Duration = Duration::from_mins(5);
/// The most bytes of the answer to one form, as JSON.
const MAX_ANSWER: usize = 64 << 10;

/// A form of a skill that is served.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Form {
    pub(super) name: String,
    /// The skill, as a person is shown it.
    skill: String,
    message: Option<String>,
    fields: Vec<Field>,
}

#[derive(Clone, Debug, PartialEq)]
struct Field {
    name: String,
    schema: Map<String, Value>,
    is_required: bool,
}

/// The forms of a skill, in the order in which they are asked.
pub(super) fn forms(skill: &Skill) -> Vec<Form> {
    let Some(contract) = skill.contract() else { return Vec::new() };
    let required = contract.inputs.as_ref().and_then(|inputs| inputs.json().get("required")?.as_array());
    let is_required = |name: &str| required.into_iter().flatten().any(|required| required == name);
    let field = |(name, schema): (&str, &Map<String, Value>)| Field {
        name: name.to_owned(),
        schema: schema.iter().map(|(key, value)| (key.clone(), shown_value(key, value))).collect(),
        is_required: is_required(name),
    };
    let shown_skill = shown_line(&with_lookalikes(&skill.qualified_name()));
    let form = |form: &metier_skill::contract::InputForm| Form {
        name: form.name.clone(),
        skill: shown_skill.clone(),
        message: form.message.as_deref().map(shown_line),
        fields: form.fields().map(field).collect(),
    };
    contract.forms.iter().map(form).collect()
}

/// Asks the client of a session for all that is missing, one form after another: the arguments with the answers.
pub(super) async fn ask_forms(
    forms: &[Form],
    mut arguments: Map<String, Value>,
    elicitor: &Elicitor,
    mut cancelled: impl Future<Output = ()> + Unpin,
) -> Result<Map<String, Value>> {
    for form in forms {
        if let Some(request) = form.request(&arguments) {
            let answer = elicitor.ask(request, &mut cancelled, TIME_LIMIT).await;
            let answers = form.answers(&arguments, answer.as_ref())?;
            arguments.extend(answers);
        }
    }
    Ok(arguments)
}

impl Form {
    /// The names of the inputs that it asks for.
    pub(super) fn inputs(&self) -> impl Iterator<Item = &str> {
        self.fields.iter().map(|field| field.name.as_str())
    }

    fn missing<'a>(&'a self, arguments: &'a Map<String, Value>) -> impl Iterator<Item = &'a Field> {
        self.fields.iter().filter(|field| !arguments.contains_key(&field.name))
    }

    /// The form for what these arguments lack; `None` if they lack nothing of it.
    pub(super) fn request(&self, arguments: &Map<String, Value>) -> Option<ElicitRequest> {
        let fields: Vec<&Field> = self.missing(arguments).collect();
        let properties: Map<String, Value> =
            fields.iter().map(|field| (field.name.clone(), field.schema.clone().into())).collect();
        let required: Vec<&str> =
            fields.iter().filter(|field| field.is_required).map(|field| field.name.as_str()).collect();
        if properties.is_empty() {
            return None;
        }
        let mut schema = Map::new();
        schema.insert("type".to_owned(), "object".into());
        schema.insert("properties".to_owned(), properties.into());
        if !required.is_empty() {
            schema.insert("required".to_owned(), json!(required));
        }
        let mut requested_schema = ElicitationSchema::from_json_schema(schema).ok()?;
        requested_schema.property_order = Some(fields.iter().map(|field| field.name.clone()).collect());
        let mut message = format!(
            "The skill {} asks for its input. What you enter goes to the skill, and allows it nothing.",
            self.skill
        );
        message.extend(self.message.iter().map(|text| format!("\nThe skill says: {text}")));
        Some(ElicitRequest::new(ElicitRequestParams::FormElicitationParams {
            meta: None,
            message,
            requested_schema,
        }))
    }

    /// What a person entered for what these arguments lack; nothing else of the answer counts. `denied` if the form was not
    /// filled in.
    pub(super) fn answers(
        &self,
        arguments: &Map<String, Value>,
        answer: Option<&ElicitResult>,
    ) -> Result<Map<String, Value>> {
        let content = answer.filter(|answer| answer.action == ElicitationAction::Accept);
        let content = content.map(|answer| answer.content.as_ref().and_then(Value::as_object));
        let Some(content) = content else {
            let inputs: Vec<&str> = self.missing(arguments).map(|field| field.name.as_str()).collect();
            let sentence = format!(
                "nobody filled in the form {} of the skill {}, so nothing has run",
                self.name, self.skill
            );
            return Err(SkillError::new(ErrorKind::Denied, sentence)
                .with_help(format!("it asks a person for {}", inputs.join(", "))));
        };
        let value = |field: &Field| {
            let value = content?.get(&field.name).filter(|value| !value.is_null())?;
            Some((field.name.clone(), value.clone()))
        };
        let answers: Map<String, Value> = self.missing(arguments).filter_map(value).collect();
        if serde_json::to_vec(&answers).map_or(usize::MAX, |text| text.len()) > MAX_ANSWER {
            let sentence =
                format!("the answer to the form {} has more than {} KiB", self.name, MAX_ANSWER >> 10);
            return Err(SkillError::new(ErrorKind::InvalidInput, sentence));
        }
        Ok(answers)
    }
}

/// A part of the schema of a field as a person is shown it. Choices and defaults come back as they are; they have no characters
/// that cannot be seen.
fn shown_value(key: &str, value: &Value) -> Value {
    match value {
        Value::String(text) if key == "title" || key == "description" => shown_line(text).into(),
        Value::Array(items) if key == "enumNames" => {
            items.iter().map(|item| shown_line(item.as_str().unwrap_or_default())).collect()
        }
        Value::Array(items) => items.iter().map(|item| shown_value(key, item)).collect(),
        Value::Object(fields) => fields
            .iter()
            .map(|(key, value)| (key.clone(), shown_value(key, value)))
            .collect::<Map<_, _>>()
            .into(),
        value => value.clone(),
    }
}
