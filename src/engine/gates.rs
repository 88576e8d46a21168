//! The gates before a run, in their order: the rules of the embedder, the autonomy of models, and the consent of a person. Its input was
//! validated before, and nothing of the skill has run.

use serde::Serialize;

use super::EngineInner;
use crate::engine::run_target::RunTarget;
use crate::engine::run_terms::RunTerms;
use crate::registry::Skill;
use metier_core::error::{ErrorKind, Hint, Result, SkillError};
use metier_core::executor::SkillInput;
use metier_core::host::{
    ConsentReason, RunContext, SkillContext, ask_before_start, ask_to_call, ask_to_start, authorize,
};
use metier_core::policy::{self, CalledTool};
use metier_skill::contract::{ProvidedTool, Sensitivity};

/// What a run of a skill takes for which no risk is stated.
const SCORE_OF_UNSTATED_RISK: u8 = 70;

/// What any risk takes at least.
const LOWEST_SCORE: u8 = 60;

/// The risk from which a person agrees to each run that a model chose.
const CRITICAL_SCORE: u8 = 90;

/// Which gates a run has to pass, and whether it would.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct GateReport {
    /// Whether the program that runs it decides by rules of its own.
    pub authorizer: bool,
    /// The autonomy that a model has and takes; `None` for runs that a person chose, elevated skills, and without a number.
    pub autonomy: Option<AutonomyReport>,
    /// Why a person must agree to this call, if one must.
    pub consent: Option<ConsentReason>,
}

/// The autonomy of a run that a model chose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct AutonomyReport {
    /// The number of the configuration or the program, from 0 to 100.
    pub score: u8,
    /// What the run takes.
    pub required: u8,
}

impl EngineInner {
    /// Passes all gates or fails. Returns whether a person has agreed to this very call.
    pub(super) fn pass_gates(
        &self,
        terms: &RunTerms<'_>,
        input: &SkillInput,
        context: &SkillContext,
    ) -> Result<bool> {
        let (target, asks_first) = (terms.target(), terms.asks_first);
        self.check_rules(target, input, context)?;
        let consent = consent_reason(target, context).filter(|_| !terms.is_confirmed);
        if let Some(reason) = consent {
            ask_to_call(context, target.tool.map(|tool| tool.name.as_str()), reason, asks_first)?;
        } else if asks_first {
            ask_to_start(context)?;
        }
        if !asks_first && !terms.is_in_process() {
            ask_before_start(context)?;
        }
        Ok(consent.is_some())
    }

    /// The same for a call that an earlier run made with all it needed.
    pub(super) fn pass_gates_again(
        &self,
        target: RunTarget<'_>,
        input: &SkillInput,
        context: &SkillContext,
    ) -> Result<()> {
        self.check_rules(target, input, context)?;
        match consent_reason(target, context) {
            Some(reason) => ask_to_call(context, target.tool.map(|tool| tool.name.as_str()), reason, false),
            None => Ok(()),
        }
    }

    /// The gates that ask nobody but the program.
    fn check_rules(&self, target: RunTarget<'_>, input: &SkillInput, context: &SkillContext) -> Result<()> {
        if let Some(authorizer) = &self.authorizer {
            let tool = target.tool.map(|tool| called_tool(target.skill, tool));
            authorize(context, authorizer, (input.value.as_ref(), &input.args), tool, is_for_model(context))?;
        }
        self.autonomy_report(target, context).map_or(Ok(()), |autonomy| autonomy.check(target))
    }

    /// The gates of a run.
    pub(super) fn gate_report(&self, target: RunTarget<'_>, context: &SkillContext) -> GateReport {
        GateReport {
            authorizer: self.authorizer.is_some(),
            autonomy: self.autonomy_report(target, context),
            consent: consent_reason(target, context),
        }
    }

    fn autonomy_report(&self, target: RunTarget<'_>, context: &SkillContext) -> Option<AutonomyReport> {
        let score = self.autonomy?;
        // A person is asked about those.
        let is_exempt = !is_for_model(context) || is_elevated(target.skill) || is_part_of_call(target);
        (!is_exempt).then(|| AutonomyReport { score, required: required_autonomy(risk_score(target)) })
    }
}

impl AutonomyReport {
    /// Fails with `autonomy` if the run takes more than there is.
    pub(super) fn check(self, target: RunTarget<'_>) -> Result<()> {
        let Self { score, required } = self;
        if score >= required {
            return Ok(());
        }
        let skill = target.skill.name();
        let what = match target.tool {
            Some(tool) => format!("the tool {} of skill {skill}", tool.name),
            None => format!("the skill {skill}"),
        };
        let risk = match risk_score(target) {
            Some(risk) => format!("has the risk {risk}"),
            None => "states no risk".to_owned(),
        };
        let sentence = format!(
            "{what} {risk}, so a model needs an autonomy of {required} to call it by itself, and has {score}; nothing of it has run"
        );
        Err(SkillError::new(ErrorKind::Autonomy, sentence)
            .with_help(format!("let a person run it, or set the autonomy to {required}"))
            .with_hint(Hint::Autonomy(required)))
    }
}

/// Why a person must agree to this call.
fn consent_reason(target: RunTarget<'_>, context: &SkillContext) -> Option<ConsentReason> {
    let is_for_model = is_for_model(context);
    if is_part_of_call(target) {
        return None;
    }
    if is_for_model && is_elevated(target.skill) {
        return Some(ConsentReason::ElevatedSkill);
    }
    if let Some(tool) = target.tool {
        return tool.requires_confirmation.then_some(ConsentReason::Tool);
    }
    let is_critical = risk_score(target).is_some_and(|score| score >= CRITICAL_SCORE);
    (is_for_model && is_critical).then_some(ConsentReason::CriticalSkill)
}

fn is_for_model(context: &SkillContext) -> bool {
    context.facts().is_for_model
}

/// Whether it is an internal tool that states no risk: a part of the call of its skill's script, which passed the gates.
fn is_part_of_call(target: RunTarget<'_>) -> bool {
    target
        .tool
        .is_some_and(|tool| tool.is_internal && tool.risk_score.is_none() && !tool.requires_confirmation)
}

fn is_elevated(skill: &Skill) -> bool {
    skill.contract().is_some_and(|contract| contract.sensitivity == Sensitivity::Elevated)
}

/// The stated risk of the tool, or else of the skill.
fn risk_score(target: RunTarget<'_>) -> Option<u8> {
    let of_skill = || target.skill.contract()?.metadata.risk_score;
    target.tool.and_then(|tool| tool.risk_score).or_else(of_skill)
}

/// The autonomy that a risk takes: none passes always, and every other one takes as much as the lowest level.
fn required_autonomy(risk: Option<u8>) -> u8 {
    match risk.unwrap_or(SCORE_OF_UNSTATED_RISK) {
        0 => 0,
        risk => risk.max(LOWEST_SCORE),
    }
}

/// The called tool, as an approver is shown it.
pub(super) fn called_tool(skill: &Skill, tool: &ProvidedTool) -> CalledTool {
    let metadata = skill.contract().map(|contract| &contract.metadata);
    let of_skill = || metadata.map_or((None, None), |facts| (facts.risk_level.clone(), facts.risk_score));
    let (level, score) = match &tool.risk_level {
        Some(level) => (Some(level.clone()), tool.risk_score),
        None => of_skill(),
    };
    policy::called_tool(&tool.name, (level, score), tool.requires_confirmation)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_risk_takes_the_autonomy_of_its_band() {
        for (risk, required) in [
            (None, 70),
            (Some(0), 0),
            (Some(1), 60),
            (Some(59), 60),
            (Some(60), 60),
            (Some(61), 61),
            (Some(70), 70),
            (Some(80), 80),
            (Some(90), 90),
            (Some(100), 100),
        ] {
            assert_eq!(required_autonomy(risk), required, "{risk:?}");
        }
    }
}
