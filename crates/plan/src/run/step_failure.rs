//! The failure of the step that ended a run: which step, its input, and the values of the steps that had finished.

use std::fmt::{self, Write as _};

use serde_json::{Map, Value};

use crate::{Plan, SourceSpan};
use metier_core::error::{ErrorContext, Location, SkillError};
use metier_core::excerpt::shorten;
use metier_core::host::Redaction;

/// The source of the error of a run whose step failed; available through [`std::error::Error::source`].
#[derive(Clone, Debug)]
pub struct StepFailure {
    /// The index of the step in the plan, from 0.
    pub index: usize,
    /// Its id.
    pub id: String,
    /// What it called.
    pub call: String,
    /// Its input, if it got as far as its call.
    pub input: Option<Map<String, Value>>,
    /// The values of the steps that had finished, with their ids.
    pub finished: Vec<(String, Value)>,
    cause: SkillError,
}

impl StepFailure {
    /// The error of the run: that of the cause, with a message and a location that say where in the plan it happened.
    pub(crate) fn run_error(
        (plan, redaction): (&Plan, &Redaction),
        index: usize,
        cause: SkillError,
        input: Option<Map<String, Value>>,
        finished: Vec<(String, Value)>,
    ) -> SkillError {
        let step = &plan.steps()[index];
        let failure =
            Self { index, id: step.id.clone(), call: step.call.to_string(), input, finished, cause };
        let place = location_in_plan(plan, &step.places.step);
        let message = failure_message(&failure, plan.steps().len(), redaction);
        failure.cause.with_message(message).with_location(place).with_source(failure)
    }
}

/// `step 2 of 4 (id install, skill helm-install) failed: …; it was given {"chart": "x"}`.
fn failure_message(failure: &StepFailure, count: usize, redaction: &Redaction) -> String {
    let StepFailure { index, id, call, input, cause, .. } = failure;
    let clean = input.as_ref().map(|input| redaction.value(Value::Object(input.clone())));
    let given = clean.as_ref().and_then(|input| input.as_inner().as_object());
    let given = given.map_or(String::new(), |input| format!("; it was given {}", input_excerpt(input)));
    format!("step {} of {count} (id {id}, {call}) failed: {cause}{given}", index + 1)
}

/// An input that is already redacted, as JSON, shortened for a reader.
fn input_excerpt(input: &Map<String, Value>) -> String {
    const WIDTH: usize = 200;
    let mut text = String::from("{");
    for (at, (key, value)) in input.iter().enumerate() {
        if text.len() > WIDTH {
            break;
        }
        let value = match value {
            Value::String(text) => Value::from(shorten(text, WIDTH)).to_string(),
            Value::Array(items) if items.len() > WIDTH => format!("[{} items]", items.len()),
            Value::Object(entries) if entries.len() > WIDTH => format!("{{{} entries}}", entries.len()),
            value => value.to_string(),
        };
        let _ = write!(text, "{}{}: {value}", if at > 0 { ", " } else { "" }, Value::from(key.as_str()));
    }
    text.push('}');
    shorten(&text, WIDTH)
}

/// A position in the plan's file.
pub(crate) fn location_in_plan(plan: &Plan, place: &SourceSpan) -> Location {
    let before = plan.text().get(..place.start);
    let line = before
        .and_then(|before| u32::try_from(before.bytes().filter(|byte| *byte == b'\n').count() + 1).ok());
    Location::new(plan.file(), line, None)
}

impl fmt::Display for StepFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.cause)
    }
}

impl std::error::Error for StepFailure {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.cause)
    }
}
