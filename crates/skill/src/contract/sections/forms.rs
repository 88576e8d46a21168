//! `forms`: what a person is asked for before the skill runs, where the call does not give it.

use metier_core::suggestion::did_you_mean;
use metier_core::unicode::is_control_or_invisible;
use serde::Serialize;
use serde_json::{Map, Value as Json};

use crate::contract::fields;
use crate::contract::schema::Schema;
use crate::diagnostic_sink::DiagnosticSink;
use crate::lint;
use crate::yaml::{Entry, Node};

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

/// The most choices of one field.
const MAX_CHOICES: usize = 100;
/// What a form says about a text: these formats alone.
const FORMATS: [&str; 4] = ["email", "uri", "date", "date-time"];

/// The schema of a field for an input with this schema: flat, and without what a form cannot say; or else why a form cannot ask for the
/// input. What it leaves out still holds: the answer is validated against the whole schema.
fn form_field(schema: &Json) -> Result<Map<String, Json>, &'static str> {
    let Some(schema) = schema.as_object() else { return Err("it has no type") };
    let mut field = Map::new();
    let has_choices = schema.contains_key("enum") || schema.contains_key("oneOf");
    let kind = schema.get("type").and_then(Json::as_str).or(has_choices.then_some("string"));
    match kind {
        Some("string") if has_choices => copy_choices(schema, "oneOf", &mut field)?,
        Some("string") => {
            copy(schema, &["minLength", "maxLength"], is_count, &mut field);
            copy(schema, &["format"], |format| FORMATS.iter().any(|known| format == known), &mut field);
        }
        Some("integer") => copy(schema, &["minimum", "maximum"], Json::is_i64, &mut field),
        Some("number") => copy(schema, &["minimum", "maximum"], Json::is_number, &mut field),
        Some("boolean") => {}
        Some("array") => {
            let items = schema.get("items").and_then(Json::as_object);
            let items = items.ok_or("a list is asked for only if its items are choices among texts")?;
            let mut choices = Map::new();
            copy_choices(items, "anyOf", &mut choices)?;
            if choices.contains_key("enum") {
                choices.insert("type".to_owned(), "string".into());
            }
            choices.shift_remove("enumNames");
            field.insert("items".to_owned(), choices.into());
            copy(schema, &["minItems", "maxItems"], is_count, &mut field);
        }
        _ => return Err("a form asks for texts, numbers, yes or no, and choices among texts"),
    }
    let kind = kind.unwrap_or_default();
    field.insert("type".to_owned(), kind.into());
    copy(schema, &["title", "description"], Json::is_string, &mut field);
    copy(schema, &["default"], |value| is_default(kind, value), &mut field);
    if field.get("default").is_some_and(|value| texts(value).any(has_unseen)) {
        return Err("its default has characters that cannot be seen");
    }
    Ok(field)
}

/// Copies the keys whose values a form can have.
fn copy(
    schema: &Map<String, Json>,
    keys: &[&str],
    fits: impl Fn(&Json) -> bool,
    field: &mut Map<String, Json>,
) {
    for key in keys {
        let value = schema.get(*key).filter(|value| fits(value));
        field.extend(value.map(|value| ((*key).to_owned(), value.clone())));
    }
}

/// The choices, plain or with titles; those with titles stand under `titled`, which is `oneOf` or `anyOf`.
fn copy_choices(
    schema: &Map<String, Json>,
    titled: &str,
    field: &mut Map<String, Json>,
) -> Result<(), &'static str> {
    let plain = schema.get("enum").and_then(Json::as_array);
    let named = ["oneOf", "anyOf"].into_iter().find_map(|key| schema.get(key)).and_then(Json::as_array);
    let (key, choices): (_, Vec<Json>) = match (plain, named) {
        (Some(plain), None) => ("enum", plain.clone()),
        (None, Some(named)) => (titled, named.iter().map(titled_choice).collect()),
        _ => return Err("its choices are an `enum` of texts, or a list of `const` and `title`"),
    };
    if choices.is_empty() || choices.len() > MAX_CHOICES {
        return Err("a form offers between 1 and 100 choices");
    }
    let value = |choice: &Json| -> Option<String> {
        let value = if key == "enum" { choice } else { choice.get("const")? };
        Some(value.as_str()?.to_owned())
    };
    let Some(values) = choices.iter().map(value).collect::<Option<Vec<String>>>() else {
        return Err("its choices are texts, each with a title or none of them");
    };
    if values.iter().any(|value| has_unseen(value)) {
        return Err("one of its choices has characters that cannot be seen");
    }
    if key == "enum" {
        let fits = |names: &Json| {
            names
                .as_array()
                .is_some_and(|names| names.len() == values.len() && names.iter().all(Json::is_string))
        };
        copy(schema, &["enumNames"], fits, field);
    }
    field.insert(key.to_owned(), choices.into());
    Ok(())
}

/// A choice with its title and nothing else; null if it has none.
fn titled_choice(choice: &Json) -> Json {
    match (&choice["const"], &choice["title"]) {
        (Json::String(value), Json::String(title)) => serde_json::json!({"const": value, "title": title}),
        _ => Json::Null,
    }
}

fn is_count(value: &Json) -> bool {
    value.as_u64().is_some_and(|count| u32::try_from(count).is_ok())
}

fn is_default(kind: &str, value: &Json) -> bool {
    match kind {
        "string" => value.is_string(),
        "integer" => value.is_i64(),
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        _ => value.as_array().is_some_and(|items| items.iter().all(Json::is_string)),
    }
}

fn texts(value: &Json) -> impl Iterator<Item = &str> {
    let items = value.as_array().into_iter().flatten();
    std::iter::once(value).chain(items).filter_map(Json::as_str)
}

fn has_unseen(text: &str) -> bool {
    text.chars().any(is_control_or_invisible)
}

#[cfg(test)]
#[allow(clippy::needless_pass_by_value, reason = "what `json!` makes is passed as it is")]
mod tests {
    use serde_json::json;

    use super::*;

    fn field(schema: Json) -> Result<Json, &'static str> {
        form_field(&schema).map(Json::from)
    }

    #[test]
    fn a_field_has_what_every_form_can_say() {
        for same in [
            json!({"type": "string", "minLength": 1, "maxLength": 9, "format": "email", "default": "a@b.c"}),
            json!({"type": "integer", "minimum": 1, "maximum": 9, "default": 3, "title": "T"}),
            json!({"type": "number", "minimum": 0.5, "default": 95.5, "description": "d"}),
            json!({"type": "boolean", "default": true}),
            json!({"type": "string", "enum": ["a", "b"], "default": "a"}),
            json!({"type": "string", "enum": ["a", "b"], "enumNames": ["A", "B"]}),
            json!({"type": "string", "oneOf": [{"const": "a", "title": "A"}]}),
            json!({"type": "array", "items": {"type": "string", "enum": ["a"]}, "minItems": 1, "default": ["a"]}),
            json!({"type": "array", "items": {"anyOf": [{"const": "a", "title": "A"}]}}),
        ] {
            assert_eq!(field(same.clone()), Ok(same));
        }
        let more = json!({"type": "string", "pattern": "^a", "format": "regex", "examples": ["a"], "x": 1});
        assert_eq!(field(more), Ok(json!({"type": "string"})));
        assert_eq!(field(json!({"enum": ["a"]})), Ok(json!({"type": "string", "enum": ["a"]})));
        let wide = json!({"type": "string", "maxLength": u64::MAX});
        assert_eq!(field(wide), Ok(json!({"type": "string"})), "clients count less far");
    }

    #[test]
    fn what_is_not_flat_is_no_field() {
        let many: Vec<String> = (0..=MAX_CHOICES).map(|n| n.to_string()).collect();
        for (schema, reason) in [
            (json!(true), "no type"),
            (json!({}), "a form asks for"),
            (json!({"type": "object"}), "a form asks for"),
            (json!({"type": ["string", "null"]}), "a form asks for"),
            (json!({"$ref": "#/$defs/x"}), "a form asks for"),
            (json!({"type": "array"}), "choices among texts"),
            (json!({"type": "array", "items": {"type": "string"}}), "its choices are"),
            (json!({"type": "string", "enum": [1]}), "its choices are texts"),
            (json!({"type": "string", "enum": []}), "between 1 and 100"),
            (json!({"type": "string", "enum": many}), "between 1 and 100"),
            (json!({"type": "string", "oneOf": [{"const": "a"}]}), "each with a title"),
            (json!({"type": "string", "enum": ["a"], "oneOf": []}), "its choices are"),
            (json!({"type": "string", "enum": ["a\u{202e}"]}), "cannot be seen"),
            (json!({"type": "string", "default": "\u{1b}[31m"}), "cannot be seen"),
        ] {
            let found = field(schema.clone()).unwrap_err();
            assert!(found.contains(reason), "{schema}: {found}");
        }
    }
}
