//! Skills that skills call: the engine as the provider of them.

use std::sync::Weak;
use std::thread;

use serde_json::Value;

use super::{EngineInner, Invocation, Outcome};
use crate::error::{ErrorKind, Result, SkillError};
use crate::host::{SkillContext, SkillProvider};
use crate::plan::Plan;
use crate::registry::Skill;

/// How many skills may stand in one another's calls, as plans know it beforehand.
const MAX_CALL_DEPTH: usize = Plan::MAX_CALL_DEPTH;

/// The skills of an engine, for those of the same engine. Holds it weakly, since the engine holds this.
pub(super) struct EngineSkillProvider(Weak<EngineInner>);

impl EngineSkillProvider {
    pub(super) fn new(engine: Weak<EngineInner>) -> Self {
        Self(engine)
    }
}

impl SkillProvider for EngineSkillProvider {
    fn run(&self, ctx: &SkillContext, name: &str, input: Value) -> Result<Value> {
        let gone = || SkillError::new(ErrorKind::Unavailable, "the engine of this run is gone");
        let engine = self.0.upgrade().ok_or_else(gone)?;
        let skill = engine.resolve_skill(engine.skill_by_qualified_name(ctx.qualified_name()), name)?.name();
        if ctx.depth() >= MAX_CALL_DEPTH {
            return Err(call_depth_error(skill, ctx.depth()));
        }
        let invocation = Invocation::for_callee(ctx, name);
        let invocation = match input {
            Value::Null => invocation,
            input => invocation.input(input),
        };
        let outcome = if ctx.is_called_by_step() {
            // A plan takes little of its stack, and always the same.
            engine.run(invocation)
        } else {
            // Whoever waits for it cannot do it itself, so it takes place even where no thread is left.
            let _thread = ctx.thread_budget().try_acquire();
            engine.run_on_new_thread(invocation)?
        };
        if let Some(report) = outcome.sandbox {
            ctx.report_sandbox(report);
        }
        // What stopped this run stopped the other as well, and is told as that.
        ctx.cancel().check()?;
        outcome.result.map_err(|error| wrap_callee_error(skill, &error))
    }
}

impl EngineInner {
    /// The skill of that qualified name.
    pub(super) fn skill_by_qualified_name(&self, qualified: Option<&str>) -> Option<&Skill> {
        let qualified = qualified?;
        self.registry.skills().iter().find(|skill| skill.qualified_name() == qualified)
    }

    /// The skill that a name means to the one that says it, where a skill does.
    pub(super) fn resolve_skill(&self, by: Option<&Skill>, name: &str) -> Result<&Skill> {
        by.map_or_else(|| self.registry.find(name), |skill| self.registry.find_for_caller(skill, name))
    }

    /// Runs on a thread of its own: what a language lets one script take of a stack is measured for one.
    fn run_on_new_thread(&self, invocation: Invocation) -> Result<Outcome> {
        let failed =
            |why: &str| SkillError::new(ErrorKind::Unavailable, format!("{why} for a skill to run on"));
        thread::scope(|scope| {
            let run = thread::Builder::new()
                .name("metier-skill".into())
                .spawn_scoped(scope, || self.run(invocation));
            let run = run.map_err(|source| failed("no thread could be started").with_source(source))?;
            run.join().map_err(|_| failed("the thread was lost"))
        })
    }
}

fn call_depth_error(skill: &str, depth: usize) -> SkillError {
    let sentence = format!(
        "failed to run the skill {skill}: skills may call one another {MAX_CALL_DEPTH} deep, and this would be {} deep",
        depth + 1
    );
    SkillError::new(ErrorKind::Script, sentence)
        .with_help("look for skills that call one another in a circle")
}

/// The callee's error as the caller sees it: the same kind and help, and which skill it was. Its place is in another skill's
/// file, so it is part of the sentence.
fn wrap_callee_error(skill: &str, error: &SkillError) -> SkillError {
    let place = error.location().map_or(String::new(), |at| {
        let line = at.line.map_or(String::new(), |line| format!(":{line}"));
        format!(" at {}{line}", at.file)
    });
    let told = SkillError::new(error.kind(), format!("skill {skill} failed{place}: {error}"))
        .with_violations(error.violations().to_vec());
    match error.help() {
        Some(help) => told.with_help(help),
        None => told,
    }
}
