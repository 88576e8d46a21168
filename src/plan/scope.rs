//! What references stand for while a plan runs: arguments in, values out, bounded before they are copied.

use std::collections::BTreeSet;
use std::sync::OnceLock;

use serde_json::{Map, Value};

use super::Plan;
use super::argument::{Argument, Parameter};
use super::check::first_input;
use super::condition::Condition;
use super::reference::{Reference, Root};
use super::template::{Piece, Template};
use crate::error::{ErrorKind, Result, SkillError};
use crate::policy::CancelToken;

/// Levels a value may be nested, as everywhere else.
const DEPTH: usize = 127;

/// What became of a step.
#[derive(Debug)]
pub(super) enum Ended {
    /// It answered.
    Done(Value),
    /// It was not run.
    Skipped,
    /// It failed, and the run went on.
    Failed,
}

/// What a step sees.
pub(super) struct Scope<'a> {
    pub(super) plan: &'a Plan,
    pub(super) inputs: &'a Value,
    /// Inputs that may be left out.
    pub(super) declared: &'a BTreeSet<String>,
    pub(super) ended: &'a [OnceLock<Ended>],
    /// The variable of the loop and its item, inside one.
    pub(super) item: Option<(&'a str, &'a Value)>,
    /// Bytes that what is resolved at once may have.
    pub(super) cap: u64,
    /// What stops the run.
    pub(super) token: &'a CancelToken,
}

/// Why a reference stands for nothing.
enum Missing {
    /// The step has no value.
    Step(usize, &'static str),
    /// The value has no such part.
    Part,
}

static NULL: Value = Value::Null;

impl<'a> Scope<'a> {
    /// What a step is given. A reference to a declared input that was not given leaves its parameter out.
    pub(super) fn arguments(&self, parameters: &[Parameter]) -> Result<Map<String, Value>> {
        let mut left = self.cap;
        let mut arguments = Map::new();
        for parameter in parameters.iter().filter(|parameter| !self.is_left_out(&parameter.value)) {
            arguments.insert(parameter.name.clone(), self.resolved(&parameter.value, &mut left, 1)?);
        }
        Ok(arguments)
    }

    /// The value of an argument.
    pub(super) fn value(&self, argument: &Argument) -> Result<Value> {
        self.resolved(argument, &mut { self.cap }, 0)
    }

    /// What the plan answers with: as a value, but steps without one are `null`, and so are declared inputs that were not given.
    pub(super) fn outputs(&self, outputs: &Argument) -> Result<Value> {
        self.answer(outputs, &mut { self.cap }, 0)
    }

    fn answer(&self, outputs: &Argument, left: &mut u64, depth: usize) -> Result<Value> {
        match outputs {
            Argument::Text(Template::Whole(reference), _) => match self.found(reference) {
                Err(Missing::Step(..)) => Ok(Value::Null),
                Err(Missing::Part) if self.is_left_out(outputs) => Ok(Value::Null),
                _ => self.resolved(outputs, left, depth),
            },
            Argument::List(items) => items.iter().map(|item| self.answer(item, left, depth + 1)).collect(),
            Argument::Object(entries) => entries
                .iter()
                .map(|entry| Ok((entry.name.clone(), self.answer(&entry.value, left, depth + 1)?)))
                .collect(),
            other => self.resolved(other, left, depth),
        }
    }

    /// Whether a condition holds. What is not there counts as `null`.
    pub(super) fn holds(&self, condition: &'a Condition) -> Result<bool> {
        condition.holds(&|reference| {
            self.token.check()?;
            Ok(self.found(reference).unwrap_or(&NULL))
        })
    }

    fn is_left_out(&self, argument: &Argument) -> bool {
        let Argument::Text(Template::Whole(reference), _) = argument else { return false };
        first_input(reference)
            .is_some_and(|name| self.declared.contains(name) && self.inputs.get(name).is_none())
    }

    fn resolved(&self, argument: &Argument, left: &mut u64, depth: usize) -> Result<Value> {
        match argument {
            Argument::Constant(value) => self.copied(value, left, depth),
            Argument::Text(template, _) => self.text(template, left, depth),
            Argument::List(items) => items.iter().map(|item| self.resolved(item, left, depth + 1)).collect(),
            Argument::Object(entries) => entries
                .iter()
                .map(|entry| Ok((entry.name.clone(), self.resolved(&entry.value, left, depth + 1)?)))
                .collect(),
        }
    }

    fn text(&self, template: &Template, left: &mut u64, depth: usize) -> Result<Value> {
        let pieces = match template {
            Template::Literal(text) => return Ok(Value::from(text.as_str())),
            Template::Whole(reference) => return self.copied(self.named(reference)?, left, depth),
            Template::Pieces(pieces) => pieces,
        };
        let mut whole = String::new();
        for piece in pieces {
            match piece {
                Piece::Text(text) => self.push(&mut whole, text, left)?,
                Piece::Reference(reference) => match self.named(reference)? {
                    Value::String(text) => self.push(&mut whole, text, left)?,
                    value => {
                        self.token.check()?;
                        take(value, &mut left.clone(), depth).map_err(|unfit| self.unfit(unfit))?;
                        self.push(&mut whole, &value.to_string(), left)?;
                    }
                },
            }
        }
        Ok(Value::String(whole))
    }

    fn push(&self, whole: &mut String, text: &str, left: &mut u64) -> Result<()> {
        *left = left.checked_sub(text.len() as u64).ok_or_else(|| self.too_much())?;
        whole.push_str(text);
        Ok(())
    }

    fn copied(&self, value: &Value, left: &mut u64, depth: usize) -> Result<Value> {
        self.token.check()?;
        take(value, left, depth).map_err(|unfit| self.unfit(unfit))?;
        Ok(value.clone())
    }

    fn unfit(&self, unfit: Unfit) -> SkillError {
        match unfit {
            Unfit::Large => self.too_much(),
            Unfit::Deep => SkillError::new(
                ErrorKind::Output,
                format!("what is put together is nested deeper than {DEPTH} levels"),
            ),
        }
    }

    fn too_much(&self) -> SkillError {
        let sentence = format!("what is put together is larger than {} bytes", self.cap);
        SkillError::new(ErrorKind::Output, sentence).with_help("take less of it, or raise the output limit")
    }

    fn named(&self, reference: &Reference) -> Result<&'a Value> {
        self.found(reference).map_err(|missing| {
            let kind =
                if reference.root == Root::Inputs { ErrorKind::InvalidInput } else { ErrorKind::Script };
            match missing {
                Missing::Part => {
                    let error = SkillError::new(kind, format!("there is no {reference}"));
                    match first_input(reference) {
                        Some(name) if self.inputs.get(name).is_none() => error.with_help(format!(
                            "give the input {name}, or declare it: what is declared and not given is left out"
                        )),
                        _ => error,
                    }
                }
                Missing::Step(at, why) => {
                    let step = &self.plan.steps()[at].id;
                    SkillError::new(kind, format!("there is no {reference}, since {step} {why}")).with_help(
                        format!("write when: $steps.{step}.outputs to run this step only after it"),
                    )
                }
            }
        })
    }

    fn found(&self, reference: &Reference) -> Result<&'a Value, Missing> {
        let value = match &reference.root {
            Root::Inputs => self.inputs,
            Root::Variable(name) => match self.item {
                Some((variable, item)) if variable == name => item,
                _ => return Err(Missing::Part),
            },
            root => {
                let at = self.plan.step_of(root).ok_or(Missing::Part)?;
                match self.ended.get(at).and_then(OnceLock::get) {
                    Some(Ended::Done(value)) => value,
                    _ if reference.is_whole_root() => &NULL,
                    Some(Ended::Failed) => return Err(Missing::Step(at, "failed")),
                    _ => return Err(Missing::Step(at, "was skipped")),
                }
            }
        };
        reference.within(value).ok_or(Missing::Part)
    }
}

/// Why a value is not handed around.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unfit {
    Large,
    Deep,
}

/// Whether a value is nested too deep to be handed around.
pub(super) fn is_too_deep(value: &Value) -> bool {
    take(value, &mut u64::MAX.clone(), 0) == Err(Unfit::Deep)
}

/// Takes about the bytes that the text of a value has from what is left, and stops where nothing is.
pub(super) fn take(value: &Value, left: &mut u64, depth: usize) -> Result<(), Unfit> {
    const NODE: u64 = 8;
    if depth > DEPTH {
        return Err(Unfit::Deep);
    }
    let text = match value {
        Value::String(text) => text.len() as u64,
        _ => 0,
    };
    *left = left.checked_sub(NODE + text).ok_or(Unfit::Large)?;
    match value {
        Value::Array(items) => items.iter().try_for_each(|item| take(item, left, depth + 1)),
        Value::Object(entries) => entries.iter().try_for_each(|(key, item)| {
            *left = left.checked_sub(NODE + key.len() as u64).ok_or(Unfit::Large)?;
            take(item, left, depth + 1)
        }),
        _ => Ok(()),
    }
}
