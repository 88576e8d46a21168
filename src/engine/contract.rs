//! The contract of a run: limits that narrow, defaults put in, input and value held against their schemas.

use serde_json::{Map, Value};

use crate::error::{ErrorKind, Result, SkillError, Violation};
use crate::executor::SkillRuntime;
use crate::policy::Limits;
use crate::registry::Skill;
use crate::skill::contract::{Bounds, Unfit};

/// The limits as far as the contract lets them be: it may lower what the caller or the engine said, and never raise it.
pub(super) fn narrowed(skill: &Skill, limits: Limits) -> Limits {
    let Some(contract) = skill.contract() else { return limits };
    let Bounds { deadline, output, .. } = contract.limits;
    Limits {
        deadline: deadline.map_or(limits.deadline, |own| own.min(limits.deadline)),
        output: output.map_or(limits.output, |own| own.min(limits.output)),
        ..limits
    }
}

/// The same for what depends on the runtime, whose defaults are a bound too.
pub(super) fn narrowed_in(skill: &Skill, runtime: SkillRuntime, limits: Limits) -> Limits {
    let Some(contract) = skill.contract() else { return limits };
    let Bounds { memory, operations, .. } = contract.limits;
    let default = if runtime == SkillRuntime::Rhai { Limits::OPERATIONS } else { u64::MAX };
    let least =
        |own: Option<u64>, given: Option<u64>, default| own.map(|own| own.min(given.unwrap_or(default)));
    Limits {
        memory: least(memory, limits.memory, u64::MAX).or(limits.memory),
        operations: least(operations, limits.operations, default).or(limits.operations),
        ..limits
    }
}

/// The input as the script will see it: defaults put in, and held against the contract. Nothing has run yet.
pub(super) fn checked_input(skill: &Skill, input: Option<Value>) -> Result<Option<Value>> {
    let Some(schema) = skill.contract().and_then(|contract| contract.inputs.as_ref()) else {
        return Ok(input);
    };
    let was_given = input.is_some();
    let filled = schema.with_defaults(input.unwrap_or_else(|| Map::new().into()));
    schema.check(&filled).map_err(|unfit| Side::Input.error(skill, unfit))?;
    let is_empty = filled.as_object().is_some_and(Map::is_empty);
    // A process that was given nothing, and for which nothing stands in, still finds its input empty.
    Ok(Some(filled).filter(|_| was_given || !is_empty))
}

/// The value, held against the contract.
pub(super) fn checked_value(skill: &Skill, value: Value) -> Result<Value> {
    let Some(schema) = skill.contract().and_then(|contract| contract.outputs.as_ref()) else {
        return Ok(value);
    };
    let checked = schema.check(&value);
    checked.map(|()| value).map_err(|unfit| Side::Value.error(skill, unfit))
}

#[derive(Clone, Copy)]
enum Side {
    Input,
    Value,
}

impl Side {
    fn error(self, skill: &Skill, unfit: Unfit) -> SkillError {
        let (what, kind, section) = match self {
            Self::Input => ("input", ErrorKind::InvalidInput, "inputs"),
            Self::Value => ("value", ErrorKind::InvalidOutput, "outputs"),
        };
        let name = skill.name();
        let error = refusal(kind, what, name, unfit);
        match error.help() {
            Some(_) => error,
            None => error.with_help(format!("`metier show {name}` prints its {section}")),
        }
    }
}

/// The error for what does not fit a tool; nothing where its schema is none, so that nothing can be said.
pub(super) fn refused_by_tool(name: &str, unfit: Unfit) -> Option<SkillError> {
    let is_held = !matches!(unfit, Unfit::Schema(_));
    is_held.then(|| refusal(ErrorKind::InvalidInput, "input", &format!("tool {name}"), unfit))
}

fn refusal(kind: ErrorKind, what: &str, whose: &str, unfit: Unfit) -> SkillError {
    match unfit {
        Unfit::Broken { violations, more, meant } => {
            let error = SkillError::new(kind, sentence(what, whose, &violations, more));
            let error = error.with_violations(violations);
            match meant {
                Some(meant) => error.with_help(format!("did you mean `{meant}`?")),
                None => error,
            }
        }
        Unfit::TooLarge => {
            let sentence = format!("the {what} of {whose} is too large to be held against its contract");
            SkillError::new(kind, sentence).with_help("hand over less, or files by their paths")
        }
        // A skill whose schemas do not stand was not selected.
        Unfit::Schema(why) => {
            SkillError::new(ErrorKind::InvalidSkill, format!("the contract of {whose} does not stand: {why}"))
        }
    }
}

/// One sentence, and a line for every violation.
fn sentence(what: &str, whose: &str, violations: &[Violation], more: usize) -> String {
    let title = format!("the {what} breaks the contract of {whose}:");
    let more = (more > 0).then(|| format!("and {more} more"));
    let lines = violations.iter().map(ToString::to_string).chain(more);
    std::iter::once(title).chain(lines).collect::<Vec<_>>().join("\n")
}
