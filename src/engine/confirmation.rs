//! The questions before a run: for permissions that it requests and nobody granted, and for calls of tools that need consent.

use super::Invocation;
use crate::registry::Skill;
use metier_core::error::Result;
use metier_core::host::SkillContext;
use metier_core::policy::CalledTool;
use metier_skill::contract::ProvidedTool;

/// The called tool, as an approver is shown it.
pub(super) fn called_tool(skill: &Skill, tool: &ProvidedTool) -> CalledTool {
    let metadata = skill.contract().map(|contract| &contract.metadata);
    let of_skill = || metadata.map_or((None, None), |facts| (facts.risk_level.clone(), facts.risk_score));
    let (level, score) = match &tool.risk_level {
        Some(level) => (Some(level.clone()), tool.risk_score),
        None => of_skill(),
    };
    CalledTool::new(&tool.name).risk(level, score).confirmation(tool.requires_confirmation)
}

impl Invocation {
    /// Whether the caller has confirmed the call of a tool: never where a model or another skill calls.
    fn confirms_call(&self) -> bool {
        self.is_confirmed && self.caller.is_none() && !self.trust.is_for_model
    }
}

/// Asks whoever has to be asked before anything runs. Returns whether a person has agreed to this very call.
pub(super) fn ask_before_run(
    invocation: &Invocation,
    tool: Option<&ProvidedTool>,
    context: &SkillContext,
    is_in_process: bool,
) -> Result<bool> {
    let asks_first = invocation.ask_first && context.caller().is_none();
    let is_confirmed = invocation.confirms_call();
    let must_confirm = tool.filter(|tool| tool.requires_confirmation && !is_confirmed);
    if let Some(tool) = must_confirm {
        context.ask_to_call(&tool.name, asks_first)?;
    } else if asks_first {
        context.ask_to_start()?;
    }
    if !asks_first && !is_in_process {
        context.ask_before_start()?;
    }
    Ok(must_confirm.is_some())
}
