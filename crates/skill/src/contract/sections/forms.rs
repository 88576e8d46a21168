//! `forms`: what a person is asked for before the skill runs, where the call does not give it.

use serde::Serialize;
use serde_json::{Map, Value as Json};

use super::form_field::form_field;
use crate::contract::fields;
use crate::contract::schema::Schema;
use crate::diagnostic_sink::DiagnosticSink;
use crate::lint;
use crate::yaml::{Entry, Node};
use metier_core::suggestion::did_you_mean;
use metier_core::unicode::is_control_or_invisible;

const KEYS: [&str; 2] = ["message", "inputs"];
/// The most forms of one skill: a person answers them one after another.
const MAX_FORMS: usize = 16;
/// The most fields of one form.
const MAX_FIELDS: usize = 32;
/// The most characters of the name of a form or of a field.
const MAX_NAME: usize = 64;
/// The most characters of what a form says.
const MAX_MESSAGE: usize = 500;
/// The names of what metier itself asks.
const RESERVED: [&str; 3] = ["approval", "sample", "roots"];

/// A form: inputs that a person is asked for together.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct InputForm {
    /// Its name, of its own in the skill.
    pub name: String,
    /// What it says to the person.
    pub message: Option<String>,
    /// The inputs that it asks for, in this order.
    pub inputs: Vec<String>,
    /// The schemas of its fields.
    #[serde(skip)]
    fields: Vec<Map<String, Json>>,
}

impl InputForm {
    /// Its fields: the name of the input, and its schema as far as a form can say it. An answer is still to be validated against the
    /// schema of the inputs.
    pub fn fields(&self) -> impl Iterator<Item = (&str, &Map<String, Json>)> {
        self.inputs.iter().map(String::as_str).zip(&self.fields)
    }
}

/// The forms, in written order: that in which they are asked.
pub(in crate::contract) fn read(
    node: Option<&Node>,
    inputs: Option<&Schema>,
    report: &mut DiagnosticSink<'_>,
) -> Vec<InputForm> {
    let entries = node.and_then(|node| fields::entries(node, "forms", report)).unwrap_or_default();
    if let Some(extra) = entries.get(MAX_FORMS) {
        let message = format!("the skill has {} forms, and may have {MAX_FORMS}", entries.len());
        report.add(&lint::FORM_INVALID, &extra.key_span, message).help("ask for more in one form");
        return Vec::new();
    }
    let mut asked: Vec<String> = Vec::new();
    entries.iter().filter_map(|entry| read_form(entry, inputs, &mut asked, report)).collect()
}

fn read_form(
    Entry { key, key_span, node }: &Entry,
    inputs: Option<&Schema>,
    asked: &mut Vec<String>,
    report: &mut DiagnosticSink<'_>,
) -> Option<InputForm> {
    if !is_form_name(key) {
        let message = format!("`{}` cannot be the name of a form", key.escape_debug());
        report.add(&lint::FORM_INVALID, key_span, message).help(format!(
            "use at most {MAX_NAME} letters of ASCII, digits, `_` and `-`, and none of {}",
            RESERVED.join(", ")
        ));
        return None;
    }
    let place = format!("the form `{key}`");
    let entries = fields::entries(node, &place, report)?;
    fields::unknown_keys(entries, &KEYS, &place, report);
    let message = fields::text(fields::find(entries, "message"), "message", report);
    if message.as_ref().is_some_and(|text| text.chars().count() > MAX_MESSAGE) {
        let sentence = format!("the message of {place} has more than {MAX_MESSAGE} characters");
        report.add(&lint::FORM_INVALID, key_span, sentence).help("shorten it");
    }
    let listed = fields::find(entries, "inputs");
    let listed = listed.and_then(|node| fields::items(node, "inputs", report)).unwrap_or_default();
    if listed.is_empty() || listed.len() > MAX_FIELDS {
        let sentence = format!("{place} asks for {} inputs", listed.len());
        let help = format!("list between 1 and {MAX_FIELDS} names of inputs under `inputs`");
        report.add(&lint::FORM_INVALID, key_span, sentence).help(help);
        return None;
    }
    let mut form = InputForm { name: key.clone(), message, ..InputForm::default() };
    for item in listed {
        let Some(name) = fields::text(Some(item), "the name of an input", report) else { continue };
        if asked.contains(&name) {
            let sentence = format!("`{name}` is asked for twice");
            report.add(&lint::FORM_INVALID, &item.span, sentence).help("keep it in one form");
        } else if let Some(field) = read_field(&name, item, &place, inputs, report) {
            asked.push(name.clone());
            form.inputs.push(name);
            form.fields.push(field);
        }
    }
    Some(form)
}

/// The schema of a field, if a form can ask for the input.
fn read_field(
    name: &str,
    item: &Node,
    place: &str,
    inputs: Option<&Schema>,
    report: &mut DiagnosticSink<'_>,
) -> Option<Map<String, Json>> {
    let properties = inputs.and_then(|schema| schema.json().get("properties")?.as_object());
    let Some(schema) = properties.and_then(|properties| properties.get(name)) else {
        let known = inputs.map_or(&[][..], Schema::names);
        let known: Vec<&str> = known.iter().map(String::as_str).collect();
        let sentence = format!("{place} asks for `{name}`, which is not an input of the skill");
        let help = fields::similar_key(name, &known)
            .map_or_else(|| "describe it under `inputs`".to_owned(), did_you_mean);
        report.add(&lint::FORM_INVALID, &item.span, sentence).help(help);
        return None;
    };
    let is_shown = name.chars().count() <= MAX_NAME && !name.chars().any(is_control_or_invisible);
    let field = if is_shown {
        form_field(schema)
    } else {
        Err("its name is long, or has characters that cannot be seen")
    };
    let refused = |reason| {
        let sentence = format!("{place} cannot ask for `{name}`: {reason}");
        report.add(&lint::FORM_INVALID, &item.span, sentence).help("leave it to the call");
    };
    field.map_err(refused).ok()
}

fn is_form_name(name: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    (1..=MAX_NAME).contains(&name.len()) && name.chars().all(is_plain) && !RESERVED.contains(&name)
}
