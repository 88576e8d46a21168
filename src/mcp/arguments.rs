//! The arguments of a call: what they mean, and `null` taken for one that is left out, which is what many models send for it.

use serde_json::{Map, Value};

use super::skill_content::{shown_line, shown_text};
use crate::engine::Invocation;
use metier_core::error::{ErrorKind, Result, SkillError};
use metier_skill::contract::{Schema, ValidationFailure};

/// The arguments of a tool without a description of its input.
const SCRIPT_ARGUMENTS: [&str; 4] = ["script", "input", "args", "stdin"];
/// How often a value is validated at most: each time shows some of the arguments that may not be null.
const MAX_ROUNDS: usize = 8;
/// Violations that say nothing about the value of a field, but that it should be there, or not.
const ABOUT_NAMES: [&str; 4] = ["required", "additionalProperties", "unevaluatedProperties", "propertyNames"];

/// What the arguments of a call are.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum ArgumentForm {
    /// The input of the skill.
    Input,
    /// One argument, `input`, because the input need not be an object.
    WrappedInput,
    /// A script, its input and its arguments: nothing describes the input. Without scripts to choose from, the main one runs.
    Script { scripts: Vec<String>, has_main: bool, takes_args: bool },
}

impl ArgumentForm {
    /// The arguments without those that are null because they are left out.
    pub(super) fn without_nulls(
        &self,
        inputs: Option<&Schema>,
        mut arguments: Map<String, Value>,
        is_asked_for: impl Fn(&str) -> bool,
    ) -> Map<String, Value> {
        match (self, inputs) {
            (Self::Input, Some(inputs)) => match without_nulls(inputs, arguments.into(), is_asked_for) {
                Value::Object(arguments) => arguments,
                _ => Map::new(),
            },
            (Self::WrappedInput, Some(inputs)) => {
                if let Some(input) = arguments.get_mut("input") {
                    *input = without_nulls(inputs, input.take(), |_| false);
                }
                arguments
            }
            _ => {
                let is_left_out = |name: &str| SCRIPT_ARGUMENTS.contains(&name);
                arguments.retain(|name, value| !(value.is_null() && is_left_out(name)));
                arguments
            }
        }
    }

    /// Whether the arguments name a script.
    pub(super) fn chooses_script(&self, arguments: &Map<String, Value>) -> bool {
        matches!(self, Self::Script { .. }) && arguments.contains_key("script")
    }

    /// The invocation with what these arguments say. They are hostile: what is not described is refused.
    pub(super) fn add_to(
        &self,
        invocation: Invocation,
        mut arguments: Map<String, Value>,
    ) -> Result<Invocation> {
        match self {
            // A skill without input is called without one, as at the command line.
            Self::Input if arguments.is_empty() => Ok(invocation),
            Self::Input => Ok(invocation.input(arguments)),
            Self::WrappedInput => {
                let input = arguments.shift_remove("input");
                require_no_other(&arguments)?;
                input.map_or_else(
                    || Err(argument_error("the argument input is missing")),
                    |input| Ok(invocation.input(input)),
                )
            }
            Self::Script { scripts, has_main, takes_args } => {
                let invocation = match arguments.shift_remove("script") {
                    None if *has_main => invocation,
                    None => {
                        return Err(
                            argument_error("the argument script is missing").with_help(one_of(scripts))
                        );
                    }
                    Some(Value::String(script)) if scripts.contains(&script) => invocation.script(script),
                    Some(_) => {
                        let error = argument_error("the argument script names no script of the skill");
                        return Err(error.with_help(one_of(scripts)));
                    }
                };
                let invocation = match arguments.shift_remove("args") {
                    None => invocation,
                    Some(Value::Array(args)) if *takes_args => {
                        let texts: Option<Vec<String>> =
                            args.into_iter().map(|arg| arg.as_str().map(str::to_owned)).collect();
                        invocation.args(
                            texts.ok_or_else(|| argument_error("the argument args is a list of texts"))?,
                        )
                    }
                    Some(_) if *takes_args => {
                        return Err(argument_error("the argument args is a list of texts"));
                    }
                    Some(_) => return Err(argument_error("the script takes no args, only an input")),
                };
                let invocation = match arguments.shift_remove("stdin") {
                    None => invocation,
                    Some(Value::String(text)) if *takes_args => invocation.stdin_text(text),
                    Some(_) if *takes_args => return Err(argument_error("the argument stdin is a text")),
                    Some(_) => return Err(argument_error("the script takes no stdin, only an input")),
                };
                let input = arguments.shift_remove("input");
                require_no_other(&arguments)?;
                Ok(match input {
                    Some(input) => invocation.input(input),
                    None => invocation,
                })
            }
        }
    }
}

/// Whether some field is null, at any depth.
pub(super) fn has_null_field(value: &Value) -> bool {
    match value {
        Value::Object(fields) => fields.values().any(|field| field.is_null() || has_null_field(field)),
        Value::Array(items) => items.iter().any(has_null_field),
        _ => false,
    }
}

/// The value without the fields that are null, that the schema does not allow to be null, and that it does not require. What
/// `is_asked_for` at the top may be left out, too: a person is asked for it.
fn without_nulls(schema: &Schema, value: Value, is_asked_for: impl Fn(&str) -> bool) -> Value {
    let (mut shortened, mut removed) = (value, Vec::new());
    for _ in 0..MAX_ROUNDS {
        let refused = violations(schema, &shortened, |keyword| !ABOUT_NAMES.contains(&keyword));
        let before = removed.len();
        removed.extend(refused.into_iter().filter(|path| remove_null(&mut shortened, path)));
        if removed.len() == before {
            break;
        }
    }
    if removed.is_empty() {
        return shortened;
    }
    let is_asked = |path: &str| path.strip_prefix('/').is_some_and(&is_asked_for);
    for missing in violations(schema, &shortened, |keyword| keyword == "required") {
        if removed.contains(&missing) && !is_asked(&missing) {
            insert_null(&mut shortened, &missing);
        }
    }
    shortened
}

/// Where the value violates keywords of this kind, as JSON Pointers.
fn violations(schema: &Schema, value: &Value, is_meant: impl Fn(&str) -> bool) -> Vec<String> {
    let Err(ValidationFailure::Violations { violations, .. }) = schema.validate(value) else {
        return Vec::new();
    };
    violations.into_iter().filter(|found| is_meant(&found.keyword)).map(|found| found.path).collect()
}

/// Removes the field at this JSON Pointer, if it is null. Whether it did.
fn remove_null(value: &mut Value, pointer: &str) -> bool {
    let Some((Value::Object(fields), name)) = field(value, pointer) else { return false };
    fields.get(&name).is_some_and(Value::is_null) && fields.shift_remove(&name).is_some()
}

fn insert_null(value: &mut Value, pointer: &str) {
    if let Some((Value::Object(fields), name)) = field(value, pointer) {
        fields.insert(name, Value::Null);
    }
}

/// What holds the field at this JSON Pointer, and its name.
fn field<'v>(value: &'v mut Value, pointer: &str) -> Option<(&'v mut Value, String)> {
    let (holder, name) = pointer.rsplit_once('/')?;
    Some((value.pointer_mut(holder)?, name.replace("~1", "/").replace("~0", "~")))
}

fn one_of(scripts: &[String]) -> String {
    let names: Vec<String> = scripts.iter().map(|script| shown_line(script)).collect();
    format!("its scripts are {}", names.join(", "))
}

fn require_no_other(arguments: &Map<String, Value>) -> Result<()> {
    match arguments.keys().next() {
        None => Ok(()),
        Some(name) => Err(argument_error(&format!(
            "there is no argument {}",
            metier_core::excerpt::shorten(&shown_text(name), 80)
        ))),
    }
}

fn argument_error(sentence: &str) -> SkillError {
    SkillError::new(ErrorKind::InvalidInput, sentence)
}

#[cfg(test)]
mod tests {
    use super::*;
    use metier_skill::contract::parse_schema;
    use serde_json::json;

    #[test]
    fn null_is_left_out_where_it_may_not_be_and_need_not_be() {
        let schema = parse_schema(json!({
            "type": "object",
            "properties": {
                "name": {"type": "string"},
                "limit": {"type": "integer"},
                "mode": {"enum": ["a", "b"]},
                "note": {"type": ["string", "null"]},
                "any": {},
                "one": {"anyOf": [{"type": "string"}, {"type": "integer"}]},
                "place": {"$ref": "#/$defs/place"},
                "places": {"type": "array", "items": {"$ref": "#/$defs/place"}},
                "a/b~c": {"type": "string"},
                "numbers": {"type": "array", "items": {"type": "integer"}}
            },
            "$defs": {"place": {
                "type": "object",
                "properties": {"city": {"type": "string"}, "zip": {"type": "string"}},
                "required": ["city"]
            }},
            "required": ["name"],
            "additionalProperties": false
        }))
        .unwrap();
        for (sent, taken) in [
            (json!({"name": "x", "limit": null, "mode": null, "one": null}), json!({"name": "x"})),
            (
                json!({"name": "x", "note": null, "any": null}),
                json!({"name": "x", "note": null, "any": null}),
            ),
            (json!({"name": "x", "a/b~c": null}), json!({"name": "x"})),
            (
                json!({"name": "x", "place": {"city": "y", "zip": null}}),
                json!({"name": "x", "place": {"city": "y"}}),
            ),
            (
                json!({"name": "x", "places": [{"city": "y", "zip": null}]}),
                json!({"name": "x", "places": [{"city": "y"}]}),
            ),
            // What is required, what nobody described and what is an item stays, and is refused.
            (json!({"name": null, "limit": null}), json!({"name": null})),
            (json!({"name": "x", "place": {"city": null}}), json!({"name": "x", "place": {"city": null}})),
            (json!({"name": "x", "more": null}), json!({"name": "x", "more": null})),
            (json!({"name": "x", "numbers": [1, null]}), json!({"name": "x", "numbers": [1, null]})),
        ] {
            assert_eq!(without_nulls(&schema, sent.clone(), |_| false), taken, "{sent}");
        }
        assert_eq!(without_nulls(&schema, json!({"name": null}), |name| name == "name"), json!({}));
    }

    #[test]
    fn many_nulls_are_left_out() {
        let names: Vec<String> = (0..100).map(|number| format!("n{number}")).collect();
        let properties: serde_json::Map<String, Value> =
            names.iter().map(|name| (name.clone(), json!({"type": "string"}))).collect();
        let schema = parse_schema(json!({"type": "object", "properties": properties})).unwrap();
        let sent: Value = names.into_iter().map(|name| (name, Value::Null)).collect();
        assert_eq!(without_nulls(&schema, sent, |_| false), json!({}));
    }
}
