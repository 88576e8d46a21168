//! The skills that a plan calls: without one that a step calls in any case, the plan cannot run.

use super::check::{AvailabilityCheck, ContractCheck};
use crate::engine::callee_resolver::load_plan;
use crate::engine::script_selection::SelectedScript;
use crate::registry::Skill;
use metier_core::policy::split_tool_name;
use metier_plan::{CallTarget, CalleeLookup, OnFailure, Plan, Step, plan_steps};
use metier_skill::contract::{Dependency, required_dependency};

impl AvailabilityCheck<'_> {
    /// Adds the skills that the plan calls, if the script is one. Of those that only its check could find, it has said so.
    pub(super) fn add_planned_skills(
        &mut self,
        skill: &Skill,
        selected: &SelectedScript,
        check: &mut ContractCheck,
    ) {
        let Ok(Some(plan)) = load_plan(skill, selected) else { return };
        let Some(callees) = self.engine.script_cache.services().callees() else { return };
        let mut calls = self.planned_calls(&plan);
        // Those of an embedder are not known here.
        calls.retain(|(needed, _)| !matches!(callees.skill(&needed.name), CalleeLookup::Unknown));
        let calls = calls.iter().map(|(needed, tool)| (needed, tool.as_deref()));
        self.add_skills(skill, calls, check);
    }

    /// Each skill that the steps call, and each tool of one, once.
    fn planned_calls(&self, plan: &Plan) -> Vec<(Dependency, Option<String>)> {
        let mut calls: Vec<(Dependency, Option<String>)> = Vec::new();
        for step in plan_steps(plan) {
            let Some((name, tool)) = self.called_skill(step) else { continue };
            let is_same = |(needed, known): &&mut (Dependency, Option<String>)| {
                needed.name == name && known.as_deref() == tool
            };
            if let Some((needed, _)) = calls.iter_mut().find(is_same) {
                needed.required |= is_always_called(step);
                continue;
            }
            let called = tool.map_or_else(|| "it".to_owned(), |tool| format!("its tool {tool}"));
            let mut needed = required_dependency(name);
            needed.required = is_always_called(step);
            needed.reason = Some(format!("step {} calls {called}", step.id));
            calls.push((needed, tool.map(str::to_owned)));
        }
        calls
    }

    /// The skill that a step calls, and its tool.
    fn called_skill<'s>(&self, step: &'s Step) -> Option<(&'s str, Option<&'s str>)> {
        let CallTarget::Tool(name) = &step.call else { return Some((step.skill()?, None)) };
        let is_of_host = self.engine.providers.tools.as_ref().is_some_and(|tools| tools.has(name));
        let (skill, tool) = split_tool_name(name).filter(|_| !is_of_host)?;
        Some((skill, Some(tool)))
    }
}

/// Whether the plan fails where the step cannot make its call.
fn is_always_called(step: &Step) -> bool {
    let is_tolerated = matches!(step.on_failure, OnFailure::Continue | OnFailure::SkipRest);
    step.when.is_none() && step.for_each.is_none() && !is_tolerated
}
