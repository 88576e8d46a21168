//! The executor of plans: a plan is parsed and checked once, and run many times.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::Value;

use crate::backend::LocalBackend;
use metier_core::error::{ErrorKind, Result, SkillError};
use metier_core::executor::own_context::run_with;
use metier_core::executor::{Script, ScriptEntry, SkillExecutor, SkillInput, SkillOutput};
use metier_core::host::{CallRecords, RunContext, RunMessages, RunReporting, SandboxReport, SkillContext};
use metier_core::policy::{Permission, Watchdog};
use metier_plan::{
    Callee, CalleeLookup, Callees, Caller, JournaledRun, NoCallees, Plan, PlanRunner, check_journal_access,
    open_journal,
};

/// A checked plan.
struct SequenceExecutor {
    skill: String,
    plan: Plan,
    caller: Caller,
    callees: Arc<dyn Callees>,
    watchdog: Arc<Watchdog>,
}

/// Parses and checks a plan; `invalid-skill` with the location of the first error.
pub fn load(
    script: &Script,
    callees: Option<Arc<dyn Callees>>,
    watchdog: Arc<Watchdog>,
) -> Result<Box<dyn SkillExecutor>> {
    let plan = metier_plan::from_file(&script.source, &script.path)?;
    let callees = callees.unwrap_or_else(|| Arc::new(NoCallees));
    let seen = callees.for_caller(&script.skill, script.folder.as_deref());
    let callees = seen.unwrap_or(callees);
    let caller = callees.caller_of_skill(&script.skill, script.folder.as_deref());
    let caller = match &ScriptEntry::from_script(script).tool {
        Some(tool) => Caller { input_schema: tool.input_schema.clone(), ..caller },
        None => caller,
    };
    let mut found =
        metier_plan::check(&plan, &caller.identity, caller.input_schema.as_ref(), callees.as_ref());
    found.retain(|found| found.blocks);
    if !found.is_empty() {
        return Err(metier_plan::load_error(&script.path, &found));
    }
    let skill = script.skill.clone();
    Ok(Box::new(SequenceExecutor { skill, plan, caller, callees, watchdog }))
}

/// The skills that the plan calls, as far as they are known.
fn resolve_callees(plan: &Plan, callees: &dyn Callees) -> HashMap<String, Callee> {
    let mut known = HashMap::new();
    for name in plan.skills() {
        if !known.contains_key(name)
            && let CalleeLookup::Found(callee) = callees.skill(name)
        {
            known.insert(name.to_owned(), callee);
        }
    }
    known
}

impl SequenceExecutor {
    fn run(&self, input: SkillInput, context: &SkillContext) -> Result<SkillOutput> {
        context.report_sandbox(SandboxReport::IN_PROCESS);
        let input = input.value_or_empty();
        self.check_reviews(context)?;
        let journal = context
            .journal_file()
            .map(|file| open_journal(file, &self.journaled_run(context, &input)))
            .transpose()?;
        if let Some(journal) = &journal {
            check_journal_access(journal, context)?;
        }
        let drive = PlanRunner {
            plan: &self.plan,
            input_schema: self.caller.input_schema.as_ref(),
            ctx: context,
            // A callee may have been edited since the plan was checked, and ask for more.
            backend: &LocalBackend::new(&self.plan, resolve_callees(&self.plan, self.callees.as_ref())),
            journal: journal.as_ref(),
            watchdog: &self.watchdog,
        };
        let result = drive.run(&input).map(SkillOutput::from);
        if let Some(reviewer) = &context.facts().reviewer
            && context.caller().is_none()
        {
            reviewer.end(context);
        }
        result
    }

    /// Fails where the plan has reviews and nobody can be shown what its steps change.
    fn check_reviews(&self, context: &SkillContext) -> Result<()> {
        if !self.plan.has_review() {
            return Ok(());
        }
        let name = &self.skill;
        if context.caller().is_some() {
            let sentence =
                format!("the plan of the skill {name} has a review, so no other skill can call it");
            return Err(SkillError::new(ErrorKind::Denied, sentence)
                .with_help("run it by itself, or put the review into the plan that calls it"));
        }
        if context.facts().applies_copy {
            let sentence = format!(
                "the plan of the skill {name} has a review, and the changes of this run would be applied without one"
            );
            return Err(SkillError::new(ErrorKind::Usage, sentence)
                .with_help("run it without that: what its reviews apply can be undone"));
        }
        if context.facts().is_in_copy || context.facts().reviewer.is_some() {
            return Ok(());
        }
        let sentence = format!(
            "the plan of the skill {name} has a review, and this program runs it in no copy of the project"
        );
        Err(SkillError::new(ErrorKind::Unavailable, sentence).with_help("run it with an engine"))
    }
}

impl SequenceExecutor {
    fn journaled_run<'a>(&'a self, context: &'a SkillContext, input: &'a Value) -> JournaledRun<'a> {
        JournaledRun {
            skill: &self.skill,
            identity: &self.caller.identity,
            qualified_name: context.qualified_name(),
            project: context.project_root(),
            project_identity: context.journal_project(),
            plan: &self.plan,
            input,
            saves_input: !context.redaction().holds_secret(input),
            callees: self.callees.as_ref(),
            token: context.cancel(),
        }
    }
}

impl SkillExecutor for SequenceExecutor {
    fn execute_with_context(&self, input: SkillInput, context: Option<&SkillContext>) -> Result<SkillOutput> {
        run_with(context, &self.skill, &self.watchdog, |context| self.run(input, context))
    }

    /// The tools that its steps name: a reader of the plan can see them.
    fn requested_permissions(&self) -> Vec<Permission> {
        self.plan.tools().filter_map(|name| Permission::tool(name).ok()).collect()
    }
}
