//! Plans: the declarative steps of a skill, parsed and checked before the first step runs.
//!
//! A plan comes from `scripts/sequence.json`, from `steps` or `composed_of` in `skill.yaml`, or from a numbered list in `SKILL.md`. [`from_sequence`] and
//! [`from_contract`] parse it, `check` validates it against the skills and tools that its steps call, [`Schedule`] decides
//! which steps may run next, and [`PlanRunner`] runs the plan to its end. A [`StepBackend`] runs each step, and a [`Journal`]
//! records the results so that a run can be resumed.
#![deny(clippy::print_stdout, clippy::print_stderr, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod callees;
mod check;
mod diagnostic_sink;
mod journal;
mod lint;
mod model;
mod parse;
mod render;
mod run;
#[cfg(test)]
mod testing;

use metier_core::error::{ErrorKind, Location, Result, SkillError};
use metier_skill::Diagnostic;
use metier_skill::contract::CONTRACT_FILES;

pub use self::lint::RULES;
pub use self::model::condition::{Condition, Operand};
pub use self::model::plan::{Plan, PlanForm, callee_names, plan_steps};
pub use self::model::step::{
    Argument, CallTarget, ForEach, NamedArgument, OnFailure, SourceSpan, Step, StepSpans,
};
pub use self::parse::plan::{from_contract, from_markdown, from_sequence};
pub use self::run::backend::StepBackend;
pub use self::run::runner::PlanRunner;
pub use self::run::schedule::Schedule;
pub use self::run::step_failure::StepFailure;
pub use callees::{Callee, CalleeLookup, Callees, Caller, NoCallees};
pub use check::check;
pub use journal::{
    Journal, JournalContent, JournalState, JournalStep, JournalSummary, JournaledRun, check_journal_access,
    journal_path, open_journal,
};
pub use metier_core::template::{
    ExpressionError, PathSegment, Reference, ReferenceRoot, Template, TemplatePiece,
};

/// Parses the plan in a file of a skill: the content of `sequence.json` or other JSON, or of `steps` or `composed_of` in
/// `skill.yaml`. Fails with `invalid-skill` and the location of the first error if there is no valid plan.
pub fn from_file(source: &[u8], file: &str) -> Result<Plan> {
    let read = from_named_file(source, file);
    read.and_then(|plan| plan.ok_or_else(Vec::new)).map_err(|found| load_error(file, &found))
}

/// The errors and advice for the plan in a file, as far as they can be determined without knowing the callees; empty if the
/// file is a contract without a plan. `inputs` is the JSON Schema of the skill's input, if it is declared.
pub fn diagnostics(source: &[u8], file: &str, inputs: Option<&serde_json::Value>) -> Vec<Diagnostic> {
    diagnostics_with_callees(source, file, inputs, "", &NoCallees)
}

/// Like [`diagnostics`], but also checks the plan against its callees. `own` is the identity of the skill.
pub fn diagnostics_with_callees(
    source: &[u8],
    file: &str,
    inputs: Option<&serde_json::Value>,
    own: &str,
    callees: &dyn Callees,
) -> Vec<Diagnostic> {
    match from_named_file(source, file) {
        Ok(plan) => plan.map_or_else(Vec::new, |plan| check(&plan, own, inputs, callees)),
        Err(found) => found,
    }
}

/// The plan in a file, by its name; `None` for a contract without one.
fn from_named_file(source: &[u8], file: &str) -> Result<Option<Plan>, Vec<Diagnostic>> {
    if is_contract_file(file) {
        from_contract(source, file)
    } else if file.to_ascii_lowercase().ends_with(".md") {
        from_markdown(source, file).map(Some)
    } else {
        from_sequence(source, file).map(Some)
    }
}

/// Whether the file name is that of a contract.
fn is_contract_file(file: &str) -> bool {
    CONTRACT_FILES
        .iter()
        .any(|name| file == *name || file.strip_suffix(name).is_some_and(|folder| folder.ends_with('/')))
}

/// The error of a plan that does not load: its first diagnostic, the location of that, and the number of further ones.
pub fn load_error(file: &str, found: &[Diagnostic]) -> SkillError {
    let Some(first) = found.first() else {
        return SkillError::new(ErrorKind::InvalidSkill, format!("{file} holds no plan"));
    };
    let more = match found.len() - 1 {
        0 => String::new(),
        count => format!(" (and {count} more)"),
    };
    let place = Location::new(file, Some(first.line), Some(first.column));
    let error =
        SkillError::new(ErrorKind::InvalidSkill, format!("{}{more}", first.message)).with_location(place);
    match &first.help {
        Some(help) => error.with_help(help.clone()),
        None => error,
    }
}
