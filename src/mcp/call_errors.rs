//! What a model and its person read about a call that failed.

use super::inventory::{GoneTool, Inventory, ServedTool};
use super::skill_content::shown_line;
use crate::engine::{Engine, Outcome};
use metier_core::error::{ErrorKind, Hint, SkillError};

/// The outcome with an error that a model may read, and that says how a person can allow what was missing.
pub(super) fn explain(
    tool: &ServedTool,
    mut outcome: Outcome,
    with_help: impl Fn(SkillError) -> SkillError,
) -> Outcome {
    // With a version, the skill was found, and the error is of one that it calls.
    let is_found = outcome.version.is_some();
    let is_changed = |error: &SkillError| match error.kind() {
        ErrorKind::UnknownSkill => !is_found,
        kind => matches!(kind, ErrorKind::InvalidSkill | ErrorKind::Untrusted),
    };
    if outcome.result.as_ref().is_err_and(is_changed) {
        // What a broken or untrusted file says is not text for a model, also where a script repeats it.
        outcome.process = None;
        outcome.log.clear();
    }
    outcome.result = outcome.result.map_err(|error| {
        with_help(match error.hint() {
            _ if is_changed(&error) => changed_error(&tool.skill, &error),
            // The model has the contract: the schemas of the tool.
            Some(Hint::ShowSkill(_)) => error.without_help(),
            _ => error,
        })
    });
    outcome
}

/// Why a tool that was offered before is not any more. Looks at the files of its skill.
pub(super) fn gone_error((engine, inventory): (&Engine, &Inventory), gone: &GoneTool) -> SkillError {
    let registry = engine.registry();
    match registry.find(&gone.address).and_then(|skill| engine.trusted_files(skill)) {
        Err(error) if inventory.skill(&gone.skill).is_none() => changed_error(&gone.skill, &error),
        _ => {
            let skill = shown_line(&gone.skill);
            let reason = inventory.reasons.get(&gone.skill).map(|reason| shown_line(reason));
            let sentence = match reason {
                Some(reason) => format!("the skill {skill} does not offer this tool at present: {reason}"),
                None => format!("the skill {skill} was changed and does not offer this tool any more"),
            };
            SkillError::new(ErrorKind::InvalidArgument, sentence).with_help("list the tools again")
        }
    }
}

/// The error of a skill that is not what it was, without what its files say.
fn changed_error(skill: &str, error: &SkillError) -> SkillError {
    let skill = shown_line(skill);
    let (sentence, help) = match error.kind() {
        ErrorKind::InvalidSkill => (
            format!("the skill {skill} cannot be loaded at present: its files have an error"),
            "a person can validate it to see where",
        ),
        ErrorKind::UnknownSkill => {
            (format!("the skill {skill} was removed, or has another name now"), "list the tools again")
        }
        _ => (
            format!("the skill {skill} is not trusted any more: its files changed, or its trust was revoked"),
            "a person can look at it and trust it again",
        ),
    };
    SkillError::new(error.kind(), sentence).with_help(help).with_hint(error.hint().cloned())
}

pub(super) fn cancelled_error() -> SkillError {
    SkillError::new(ErrorKind::Cancelled, "the call was cancelled before it started")
}
