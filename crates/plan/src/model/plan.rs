//! A parsed plan: its steps in written order, its outputs, and what it calls.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::step::{Argument, CallTarget, SourceSpan, Step};
use metier_core::template::ReferenceRoot;

/// A parsed plan.
#[derive(Clone, Debug)]
pub struct Plan {
    pub(crate) file: String,
    pub(crate) text: Arc<str>,
    pub(crate) form: PlanForm,
    pub(crate) steps: Vec<Step>,
    pub(crate) index_by_id: HashMap<String, usize>,
    pub(crate) outputs: Option<Argument>,
    pub(crate) outputs_span: SourceSpan,
    pub(crate) concurrency: usize,
}

/// The syntax in which a plan is written. It decides the order in which the steps run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PlanForm {
    /// `sequence.json`: one step after another.
    Sequence,
    /// `steps` in `skill.yaml`.
    Steps,
    /// `composed_of` in `skill.yaml`.
    ComposedOf,
}

impl Plan {
    /// The maximum size of a plan's file in bytes.
    pub const MAX_BYTES: usize = 4 << 20;
    /// The maximum depth of nested skill calls, not counting the skill that was invoked first.
    pub const MAX_CALL_DEPTH: usize = 8;
    /// The maximum number of steps of a plan.
    pub const MAX_STEPS: usize = 10_000;
    /// Steps that run in parallel when the plan sets no number.
    pub const DEFAULT_CONCURRENCY: usize = 4;
    /// The maximum number of steps that may run in parallel.
    pub const MAX_CONCURRENCY: usize = 16;

    /// The syntax in which the plan is written.
    pub fn form(&self) -> PlanForm {
        self.form
    }

    /// The path of its file, relative to the skill's folder.
    pub fn file(&self) -> &str {
        &self.file
    }

    /// Where the declared output stands in the file's text.
    pub(crate) fn outputs_span(&self) -> &SourceSpan {
        &self.outputs_span
    }

    /// The index, from 0, of the step with this id.
    pub(crate) fn step_index(&self, id: &str) -> Option<usize> {
        self.index_by_id.get(id).copied()
    }

    /// The index, from 0, of the step whose outputs a reference names, if it names an existing one.
    pub(crate) fn referenced_step(&self, root: &ReferenceRoot) -> Option<usize> {
        match root {
            ReferenceRoot::Step(id) => self.step_index(id),
            ReferenceRoot::Result(at) => (*at < self.steps.len()).then_some(*at),
            ReferenceRoot::Inputs | ReferenceRoot::Variable(_) => None,
        }
    }

    /// The names of the embedder's tools that the steps call, each once.
    pub fn tools(&self) -> impl Iterator<Item = &str> {
        self.distinct_names(|step| if let CallTarget::Tool(name) = &step.call { Some(name) } else { None })
    }

    /// The names of the skills that the steps call, each once.
    pub fn skills(&self) -> impl Iterator<Item = &str> {
        self.distinct_names(|step| if let CallTarget::Skill(name) = &step.call { Some(name) } else { None })
    }

    /// The ids of the steps at which a person must agree to what the steps before them have changed.
    pub fn reviews(&self) -> impl Iterator<Item = &str> {
        let is_review = |step: &&Step| matches!(step.call, CallTarget::Review(_));
        self.steps.iter().filter(is_review).map(|step| step.id.as_str())
    }

    /// Whether it has any.
    pub fn has_review(&self) -> bool {
        self.reviews().next().is_some()
    }

    /// Whether a step calls a skill, by a fixed or a computed name.
    pub(crate) fn calls_skills(&self) -> bool {
        self.steps
            .iter()
            .any(|step| matches!(step.call, CallTarget::Skill(_) | CallTarget::Function("skill")))
    }

    fn distinct_names<'a>(
        &'a self,
        name: impl Fn(&'a Step) -> Option<&'a str>,
    ) -> impl Iterator<Item = &'a str> {
        let mut seen = HashSet::new();
        self.steps.iter().filter_map(name).filter(move |name| seen.insert(*name))
    }

    /// The steps, in written order.
    pub(crate) fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// The file's text.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// The declared output of the plan, if any; otherwise the output is the value of the last step, and `null` if there are
    /// no steps.
    pub(crate) fn outputs(&self) -> Option<&Argument> {
        self.outputs.as_ref()
    }

    /// The maximum number of steps of this plan that run in parallel.
    pub(crate) fn concurrency(&self) -> usize {
        self.concurrency
    }
}

/// The steps of a plan, in written order.
pub fn plan_steps(plan: &Plan) -> &[Step] {
    &plan.steps
}

/// The names of [`Plan::skills`], and those that the steps pass as fixed text to the function that calls skills by permission.
pub fn callee_names(plan: &Plan) -> impl Iterator<Item = &str> {
    plan.distinct_names(Step::skill)
}
