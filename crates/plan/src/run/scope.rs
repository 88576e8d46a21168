//! Resolves the references of a running plan: arguments and outputs, bounded before they are copied.

use std::collections::BTreeSet;
use std::sync::OnceLock;

use serde_json::{Map, Value};

use crate::Plan;
use crate::check::input_name;
use crate::model::condition::Condition;
use crate::model::step::{Argument, NamedArgument};
use metier_core::error::{ErrorKind, Result, SkillError};
use metier_core::policy::CancelToken;
use metier_core::template::{Reference, ReferenceRoot, Template, TemplatePiece, first_complete};

/// The maximum nesting of a value, as everywhere else.
const MAX_DEPTH: usize = 127;

/// The outcome of a step.
#[derive(Debug)]
pub(crate) enum StepOutcome {
    /// It returned this value.
    Done(Value),
    /// It was skipped.
    Skipped,
    /// It failed, and the run continued.
    Failed,
}

/// The values that a step can refer to.
pub(crate) struct StepScope<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) inputs: &'a Value,
    /// Inputs that may be absent.
    pub(crate) declared_inputs: &'a BTreeSet<String>,
    pub(crate) outcomes: &'a [OnceLock<StepOutcome>],
    /// Inside a loop, its variable and the current item.
    pub(crate) item: Option<(&'a str, &'a Value)>,
    /// The maximum size in bytes of the values that are resolved at once.
    pub(crate) max_bytes: u64,
    /// The token that stops the run.
    pub(crate) token: &'a CancelToken,
}

/// Why a reference has no value.
enum ResolveError {
    /// The step has no value.
    StepWithoutValue(usize, &'static str),
    /// The value has no such part.
    NoSuchPath,
}

static NULL: Value = Value::Null;

impl<'a> StepScope<'a> {
    /// The arguments of a step. A reference to a declared input that is absent leaves its parameter out.
    pub(crate) fn resolve_arguments(&self, parameters: &[NamedArgument]) -> Result<Map<String, Value>> {
        let mut left = self.max_bytes;
        let mut arguments = Map::new();
        for parameter in parameters.iter().filter(|parameter| !self.is_omitted(&parameter.value)) {
            arguments.insert(parameter.name.clone(), self.resolve_bounded(&parameter.value, &mut left, 1)?);
        }
        Ok(arguments)
    }

    /// The value of an argument.
    pub(crate) fn resolve_argument(&self, argument: &Argument) -> Result<Value> {
        self.resolve_bounded(argument, &mut { self.max_bytes }, 0)
    }

    /// The output of the plan. It is resolved like a value, but steps without a value are `null`, and so are declared inputs
    /// that are absent.
    pub(crate) fn resolve_outputs(&self, outputs: &Argument) -> Result<Value> {
        self.resolve_output(outputs, &mut { self.max_bytes }, 0)
    }

    fn resolve_output(&self, outputs: &Argument, left: &mut u64, depth: usize) -> Result<Value> {
        match outputs {
            Argument::Text(Template::Reference(reference), _) => match self.lookup(reference) {
                Err(ResolveError::StepWithoutValue(..)) => Ok(Value::Null),
                Err(ResolveError::NoSuchPath) if self.is_omitted(outputs) => Ok(Value::Null),
                _ => self.resolve_bounded(outputs, left, depth),
            },
            Argument::List(items) => {
                items.iter().map(|item| self.resolve_output(item, left, depth + 1)).collect()
            }
            Argument::Object(entries) => entries
                .iter()
                .map(|entry| Ok((entry.name.clone(), self.resolve_output(&entry.value, left, depth + 1)?)))
                .collect(),
            other => self.resolve_bounded(other, left, depth),
        }
    }

    /// Whether a condition holds. An absent value counts as `null`.
    pub(crate) fn evaluate(&self, condition: &'a Condition) -> Result<bool> {
        condition.evaluate(&|reference| {
            self.token.check()?;
            Ok(self.lookup(reference).unwrap_or(&NULL))
        })
    }

    fn is_omitted(&self, argument: &Argument) -> bool {
        match argument {
            Argument::Text(Template::Reference(reference), _) => input_name(reference)
                .is_some_and(|name| self.declared_inputs.contains(name) && self.inputs.get(name).is_none()),
            Argument::Text(template, _) => template.is_left_out(|reference| self.has_value(reference)),
            _ => false,
        }
    }

    fn resolve_bounded(&self, argument: &Argument, left: &mut u64, depth: usize) -> Result<Value> {
        match argument {
            Argument::Constant(value) => self.clone_bounded(value, left, depth),
            Argument::Text(template, _) => self.render_template(template, left, depth),
            Argument::List(items) => {
                items.iter().map(|item| self.resolve_bounded(item, left, depth + 1)).collect()
            }
            Argument::Object(entries) => entries
                .iter()
                .map(|entry| Ok((entry.name.clone(), self.resolve_bounded(&entry.value, left, depth + 1)?)))
                .collect(),
        }
    }

    fn render_template(&self, template: &Template, left: &mut u64, depth: usize) -> Result<Value> {
        let pieces = match template {
            Template::Literal(text) => return Ok(Value::from(text.as_str())),
            Template::Reference(reference) => {
                return self.clone_bounded(self.required_value(reference)?, left, depth);
            }
            Template::Pieces(pieces) => pieces,
        };
        let mut whole = String::new();
        pieces.iter().try_for_each(|piece| self.append_piece(piece, &mut whole, left, depth))?;
        Ok(Value::String(whole))
    }

    fn append_piece(
        &self,
        piece: &TemplatePiece,
        whole: &mut String,
        left: &mut u64,
        depth: usize,
    ) -> Result<()> {
        match piece {
            TemplatePiece::Text(text) => self.append_bounded(whole, text, left),
            TemplatePiece::Reference(reference) => match self.required_value(reference)? {
                Value::String(text) => self.append_bounded(whole, text, left),
                value => {
                    self.token.check()?;
                    charge_size(value, &mut left.clone(), depth).map_err(|unfit| self.limit_error(unfit))?;
                    self.append_bounded(whole, &value.to_string(), left)
                }
            },
            TemplatePiece::Optional(alternatives) => {
                let pieces = first_complete(alternatives, |reference| self.has_value(reference));
                let mut pieces = pieces.unwrap_or_default().iter();
                pieces.try_for_each(|piece| self.append_piece(piece, whole, left, depth))
            }
        }
    }

    fn has_value(&self, reference: &Reference) -> bool {
        self.lookup(reference).is_ok_and(|value| !value.is_null())
    }

    fn append_bounded(&self, whole: &mut String, text: &str, left: &mut u64) -> Result<()> {
        *left = left.checked_sub(text.len() as u64).ok_or_else(|| self.too_large_error())?;
        whole.push_str(text);
        Ok(())
    }

    fn clone_bounded(&self, value: &Value, left: &mut u64, depth: usize) -> Result<Value> {
        self.token.check()?;
        charge_size(value, left, depth).map_err(|unfit| self.limit_error(unfit))?;
        Ok(value.clone())
    }

    fn limit_error(&self, unfit: ValueLimitError) -> SkillError {
        match unfit {
            ValueLimitError::TooLarge => self.too_large_error(),
            ValueLimitError::TooDeep => SkillError::new(
                ErrorKind::Output,
                format!("what is put together is nested deeper than {MAX_DEPTH} levels"),
            ),
        }
    }

    fn too_large_error(&self) -> SkillError {
        let sentence = format!("what is put together is larger than {} bytes", self.max_bytes);
        SkillError::new(ErrorKind::Output, sentence).with_help("take less of it, or raise the output limit")
    }

    fn required_value(&self, reference: &Reference) -> Result<&'a Value> {
        self.lookup(reference).map_err(|missing| {
            let kind = if reference.root == ReferenceRoot::Inputs {
                ErrorKind::InvalidInput
            } else {
                ErrorKind::Script
            };
            match missing {
                ResolveError::NoSuchPath => {
                    let error = SkillError::new(kind, format!("there is no {reference}"));
                    match input_name(reference) {
                        Some(name) if self.inputs.get(name).is_none() => error.with_help(format!(
                            "give the input {name}, or declare it: what is declared and not given is left out"
                        )),
                        _ => error,
                    }
                }
                ResolveError::StepWithoutValue(at, why) => {
                    let step = &self.plan.steps()[at].id;
                    SkillError::new(kind, format!("there is no {reference}, since {step} {why}")).with_help(
                        format!("write when: $steps.{step}.outputs to run this step only after it"),
                    )
                }
            }
        })
    }

    fn lookup(&self, reference: &Reference) -> Result<&'a Value, ResolveError> {
        let value = match &reference.root {
            ReferenceRoot::Inputs => self.inputs,
            ReferenceRoot::Variable(name) => match self.item {
                Some((variable, item)) if variable == name => item,
                _ => return Err(ResolveError::NoSuchPath),
            },
            root => {
                let at = self.plan.referenced_step(root).ok_or(ResolveError::NoSuchPath)?;
                match self.outcomes.get(at).and_then(OnceLock::get) {
                    Some(StepOutcome::Done(value)) => value,
                    _ if reference.is_whole_root() => &NULL,
                    Some(StepOutcome::Failed) => return Err(ResolveError::StepWithoutValue(at, "failed")),
                    _ => return Err(ResolveError::StepWithoutValue(at, "was skipped")),
                }
            }
        };
        reference.resolve_in(value).ok_or(ResolveError::NoSuchPath)
    }
}

/// Why a value is not passed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ValueLimitError {
    TooLarge,
    TooDeep,
}

/// Whether a value is nested too deeply to be passed on.
pub(crate) fn is_too_deep(value: &Value) -> bool {
    charge_size(value, &mut u64::MAX.clone(), 0) == Err(ValueLimitError::TooDeep)
}

/// Subtracts the approximate size of a value's text from the bytes that are left, and stops when none are left.
pub(crate) fn charge_size(value: &Value, left: &mut u64, depth: usize) -> Result<(), ValueLimitError> {
    const NODE: u64 = 8;
    if depth > MAX_DEPTH {
        return Err(ValueLimitError::TooDeep);
    }
    let text = match value {
        Value::String(text) => text.len() as u64,
        _ => 0,
    };
    *left = left.checked_sub(NODE + text).ok_or(ValueLimitError::TooLarge)?;
    match value {
        Value::Array(items) => items.iter().try_for_each(|item| charge_size(item, left, depth + 1)),
        Value::Object(entries) => entries.iter().try_for_each(|(key, item)| {
            *left = left.checked_sub(NODE + key.len() as u64).ok_or(ValueLimitError::TooLarge)?;
            charge_size(item, left, depth + 1)
        }),
        _ => Ok(()),
    }
}
