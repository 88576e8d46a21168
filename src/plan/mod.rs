//! Plans: what a skill does step by step, read and checked before the first step.
//!
//! A plan comes from `scripts/sequence.json`, or from `steps` or `composed_of` in `skill.yaml`. [`from_sequence`] and
//! [`from_contract`] read it, [`check`] holds it against what its steps call, [`Schedule`] says what may run next, and
//! [`PlanRunner`] takes it to its end. Where a step runs is behind [`Stage`], and what is remembered of it behind [`Journal`].

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

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::error::{ErrorKind, Location, Result, SkillError};
use crate::skill::Diagnostic;
use crate::skill::contract::CONTRACT_FILES;

pub(crate) use self::journal::digest::to_hex;
pub use self::lint::RULES;
pub use self::model::argument::{Argument, NamedArgument, SourceSpan};
pub use self::model::condition::{Condition, Operand};
pub use self::model::reference::{ExpressionError, PathSegment, Reference, ReferenceRoot};
pub use self::model::step::{CallTarget, ForEach, OnFailure, Step, StepSpans};
pub use self::model::template::{Template, TemplatePiece};
pub use self::parse::plan::{from_contract, from_sequence};
pub use self::run::backend::StepBackend;
pub use self::run::runner::PlanRunner;
pub use self::run::schedule::Schedule;
pub use self::run::step_failure::StepFailure;
pub use callees::{Callee, CalleeLookup, Callees, Caller, NoCallees};
pub use check::check;
pub use journal::{Journal, JournaledRun, journal_path};

/// Steps, read and not yet run.
#[derive(Clone, Debug)]
pub struct Plan {
    file: String,
    text: Arc<str>,
    form: PlanForm,
    steps: Vec<Step>,
    index_by_id: HashMap<String, usize>,
    outputs: Option<Argument>,
    outputs_span: SourceSpan,
    concurrency: usize,
}

/// How a plan was written, which says in what order its steps run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlanForm {
    /// `sequence.json`: one step after another.
    Sequence,
    /// `steps` in `skill.yaml`.
    Steps,
    /// `composed_of` in `skill.yaml`.
    ComposedOf,
}

impl Plan {
    /// Bytes a plan's file may have.
    pub const MAX_BYTES: usize = 4 << 20;
    /// How many skills may stand in one another's calls, the one that was invoked first not counted.
    pub const MAX_CALL_DEPTH: usize = 8;
    /// The most steps a plan may have.
    pub const MAX_STEPS: usize = 10_000;
    /// Steps that run side by side when the plan names no number.
    pub const DEFAULT_CONCURRENCY: usize = 4;
    /// The most steps that may run side by side.
    pub const MAX_CONCURRENCY: usize = 16;

    /// The steps, in written order.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// How it was written.
    pub fn form(&self) -> PlanForm {
        self.form
    }

    /// Its file, in the skill's folder.
    pub fn file(&self) -> &str {
        &self.file
    }

    /// The file's text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// What the plan answers with, where it says; the value of its last step otherwise, and `null` where it has no steps.
    pub fn outputs(&self) -> Option<&Argument> {
        self.outputs.as_ref()
    }

    /// The most steps that run side by side.
    pub fn concurrency(&self) -> usize {
        self.concurrency
    }

    /// The place of the step of that id, from 0.
    pub fn step_index(&self, id: &str) -> Option<usize> {
        self.index_by_id.get(id).copied()
    }

    /// The place of the step whose outputs a reference names, from 0, where it names one there is.
    pub fn referenced_step(&self, root: &ReferenceRoot) -> Option<usize> {
        match root {
            ReferenceRoot::Step(id) => self.step_index(id),
            ReferenceRoot::Result(at) => (*at < self.steps.len()).then_some(*at),
            ReferenceRoot::Inputs | ReferenceRoot::Variable(_) => None,
        }
    }

    /// The embedder's tools that its steps name, each once.
    pub fn tools(&self) -> impl Iterator<Item = &str> {
        self.distinct_names(|step| if let CallTarget::Tool(name) = &step.call { Some(name) } else { None })
    }

    /// The skills that its steps name, each once.
    pub fn skills(&self) -> impl Iterator<Item = &str> {
        self.distinct_names(|step| if let CallTarget::Skill(name) = &step.call { Some(name) } else { None })
    }

    /// Whether a step calls a skill, by its name or by one it comes to.
    fn calls_skills(&self) -> bool {
        self.steps
            .iter()
            .any(|step| matches!(step.call, CallTarget::Skill(_) | CallTarget::Function("skill")))
    }

    /// The same, and those that its steps call by a permission and by fixed text.
    pub fn callee_names(&self) -> impl Iterator<Item = &str> {
        self.distinct_names(Step::skill)
    }

    fn distinct_names<'a>(
        &'a self,
        name: impl Fn(&'a Step) -> Option<&'a str>,
    ) -> impl Iterator<Item = &'a str> {
        let mut seen = HashSet::new();
        self.steps.iter().filter_map(name).filter(move |name| seen.insert(*name))
    }
}

/// The plan in a file of a skill: what `sequence.json` and other JSON holds, or what `skill.yaml` has under `steps` or
/// `composed_of`. `invalid-skill`, with the place of the first fault, where there is none.
pub fn from_file(source: &[u8], file: &str) -> Result<Plan> {
    let read = if is_contract_file(file) {
        from_contract(source, file)
    } else {
        from_sequence(source, file).map(Some)
    };
    read.and_then(|plan| plan.ok_or_else(Vec::new)).map_err(|found| load_error(file, &found))
}

/// What is wrong with the plan in a file, or worth knowing, as far as it can be told without knowing what there is to call; nothing
/// where the file is a contract without a plan. `inputs` is what the skill's input may hold, as a JSON Schema, where that is
/// declared.
pub fn diagnostics(source: &[u8], file: &str, inputs: Option<&serde_json::Value>) -> Vec<Diagnostic> {
    diagnostics_with_callees(source, file, inputs, "", &NoCallees)
}

/// The same, where it is known what there is to call. `own` is the identity of the skill.
pub fn diagnostics_with_callees(
    source: &[u8],
    file: &str,
    inputs: Option<&serde_json::Value>,
    own: &str,
    callees: &dyn Callees,
) -> Vec<Diagnostic> {
    let read = if is_contract_file(file) {
        from_contract(source, file)
    } else {
        from_sequence(source, file).map(Some)
    };
    match read {
        Ok(plan) => plan.map_or_else(Vec::new, |plan| check(&plan, own, inputs, callees)),
        Err(found) => found,
    }
}

/// Whether a file is a contract by its name.
fn is_contract_file(file: &str) -> bool {
    CONTRACT_FILES
        .iter()
        .any(|name| file == *name || file.strip_suffix(name).is_some_and(|folder| folder.ends_with('/')))
}

/// The error of a plan that does not load: its first finding, where that stands, and how many more there are.
pub fn load_error(file: &str, found: &[Diagnostic]) -> SkillError {
    let Some(first) = found.first() else {
        return SkillError::new(ErrorKind::InvalidSkill, format!("{file} holds no plan"));
    };
    let more = match found.len() - 1 {
        0 => String::new(),
        count => format!(" (and {count} more)"),
    };
    let place = Location { file: file.to_owned(), line: Some(first.line), column: Some(first.column) };
    let error =
        SkillError::new(ErrorKind::InvalidSkill, format!("{}{more}", first.message)).with_location(place);
    match &first.help {
        Some(help) => error.with_help(help.clone()),
        None => error,
    }
}
