//! Applies the contract to a run: fills in defaults, and validates input and value against their schemas.

use serde_json::{Map, Value};

use crate::engine::run_target::RunTarget;
use metier_core::error::{ErrorKind, Hint, Result, SkillError, Violation};
use metier_core::executor::{SkillOutput, printed_number};
use metier_core::suggestion::did_you_mean;
use metier_skill::contract::{ValidationFailure, time_violations};

/// The input as the script will see it: defaults filled in, validated against the contract. Nothing has run yet.
pub(super) fn validate_input(target: RunTarget<'_>, input: Option<Value>) -> Result<Option<Value>> {
    let Some(schema) = target.inputs() else { return Ok(input) };
    let was_given = input.is_some();
    let filled = schema.with_defaults(input.unwrap_or_else(|| Map::new().into()));
    schema.validate(&filled).map_err(|unfit| ValueRole::Input.error(target, unfit))?;
    validate_times(target, &filled)?;
    let is_empty = filled.as_object().is_some_and(Map::is_empty);
    // A process that got no input and has no defaults still finds its standard input empty.
    Ok(Some(filled).filter(|_| was_given || !is_empty))
}

/// Refuses a text that is to be a point in time and is none. A tool has no such inputs.
fn validate_times(target: RunTarget<'_>, input: &Value) -> Result<()> {
    let contract = target.skill.contract().filter(|_| target.tool.is_none());
    let violations =
        contract.map(|contract| time_violations(&contract.host_needs, input)).unwrap_or_default();
    if violations.is_empty() {
        return Ok(());
    }
    let unfit = ValidationFailure::Violations { violations, more: 0, meant: None };
    Err(ValueRole::Input.error(target, unfit))
}

/// The value, validated against the contract. Text that is also a number is that number where the contract asks for one.
pub(super) fn validate_output(target: RunTarget<'_>, output: SkillOutput) -> Result<Value> {
    let Some(schema) = target.outputs() else { return Ok(output.value) };
    let Err(unfit) = schema.validate(&output.value) else { return Ok(output.value) };
    let number = printed_number(&output).filter(|number| schema.validate(number).is_ok());
    number.cloned().ok_or_else(|| ValueRole::Value.error(target, unfit))
}

/// The same for what a process printed, which is a text where it is not JSON as a whole: the help says why it is not.
pub(super) fn validate_printed_output(target: RunTarget<'_>, output: SkillOutput) -> Result<Value> {
    let fault = match (&output.value, target.outputs()) {
        (Value::String(text), Some(schema)) if schema.validate(&output.value).is_err() => json_fault(text),
        _ => None,
    };
    validate_output(target, output).map_err(|error| match fault {
        Some(fault) => error.with_help(format!("standard output is not JSON: {fault}")).with_hint(None),
        None => error,
    })
}

/// What keeps a text from being JSON, with the line; `None` where it is JSON, or nothing in it looks like an object or a list.
fn json_fault(text: &str) -> Option<String> {
    let begins_json = |line: &str| line.trim_start().starts_with(['{', '[']);
    let first = text.lines().position(begins_json)?;
    let from_there: String = text.split_inclusive('\n').skip(first).collect();
    match serde_json::from_str::<serde::de::IgnoredAny>(&from_there) {
        Err(_) if first == 0 => {
            let error = serde_json::from_str::<serde::de::IgnoredAny>(text).err()?;
            Some(format!("{error}; print one JSON value, and nothing else"))
        }
        _ if text.lines().take(first).all(|line| line.trim().is_empty()) => None,
        _ => Some("its first line is text; print log lines to standard error".into()),
    }
}

#[derive(Clone, Copy)]
enum ValueRole {
    Input,
    Value,
}

impl ValueRole {
    fn error(self, target: RunTarget<'_>, unfit: ValidationFailure) -> SkillError {
        let (what, kind, section) = match self {
            Self::Input => ("input", ErrorKind::InvalidInput, "inputs"),
            Self::Value => ("value", ErrorKind::InvalidOutput, "outputs"),
        };
        let name = target.name();
        let error = validation_error(kind, what, &name, unfit);
        match error.help() {
            Some(_) => error,
            None => error
                .with_help(format!("see the {section} in the contract of {name}"))
                .with_hint(Hint::ShowSkill(target.skill.name().to_owned())),
        }
    }
}

/// The error for input that does not match a tool's schema; `None` where the schema itself is invalid, so nothing can be
/// validated.
pub(super) fn tool_input_error(name: &str, unfit: ValidationFailure) -> Option<SkillError> {
    let is_held = !matches!(unfit, ValidationFailure::InvalidSchema(_));
    is_held.then(|| validation_error(ErrorKind::InvalidInput, "input", &format!("tool {name}"), unfit))
}

fn validation_error(kind: ErrorKind, what: &str, whose: &str, unfit: ValidationFailure) -> SkillError {
    match unfit {
        ValidationFailure::Violations { violations, more, meant } => {
            let error = SkillError::new(kind, violation_message(what, whose, &violations, more));
            let error = error.with_violations(violations);
            match meant {
                Some(meant) => error.with_help(did_you_mean(&meant)),
                None => error,
            }
        }
        ValidationFailure::TooLarge => {
            let sentence = format!("the {what} of {whose} is too large to be validated against its contract");
            SkillError::new(kind, sentence).with_help("pass less, or pass files by their paths")
        }
        // A skill with invalid schemas was not selected.
        ValidationFailure::InvalidSchema(why) => {
            SkillError::new(ErrorKind::InvalidSkill, format!("the contract of {whose} is not valid: {why}"))
        }
        _ => SkillError::new(kind, format!("the {what} breaks the contract of {whose}")),
    }
}

/// One sentence, and one line for each violation.
fn violation_message(what: &str, whose: &str, violations: &[Violation], more: usize) -> String {
    let title = format!("the {what} breaks the contract of {whose}:");
    let more = (more > 0).then(|| format!("and {more} more"));
    let lines = violations.iter().map(ToString::to_string).chain(more);
    std::iter::once(title).chain(lines).collect::<Vec<_>>().join("\n")
}
