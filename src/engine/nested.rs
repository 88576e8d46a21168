//! Skills that skills call: the engine as the provider of them.

use std::sync::Weak;
use std::thread;

use serde_json::Value;

use super::{Invocation, Outcome, Parts};
use crate::error::{ErrorKind, Result, SkillError};
use crate::host::{SkillContext, SkillProvider};
use crate::plan::Plan;
use crate::registry::Skill;

/// How many skills may stand in one another's calls, as plans know it beforehand.
const DEEPEST: usize = Plan::DEEPEST_CALLS;

/// The skills of an engine, for those of the same engine. Holds it weakly, since the engine holds this.
pub(super) struct Callees(Weak<Parts>);

impl Callees {
    pub(super) fn new(engine: Weak<Parts>) -> Self {
        Self(engine)
    }
}

impl SkillProvider for Callees {
    fn run(&self, ctx: &SkillContext, name: &str, input: Value) -> Result<Value> {
        let gone = || SkillError::new(ErrorKind::Unavailable, "the engine of this run is gone");
        let engine = self.0.upgrade().ok_or_else(gone)?;
        let skill = engine.meant(engine.called(ctx.qualified()), name)?.name();
        if ctx.depth() >= DEEPEST {
            return Err(too_deep(skill, ctx.depth()));
        }
        let invocation = Invocation::by(ctx, name);
        let invocation = match input {
            Value::Null => invocation,
            input => invocation.input(input),
        };
        let outcome = if ctx.is_of_step() {
            // A plan takes little of its stack, and always the same.
            engine.run(invocation)
        } else {
            // Whoever waits for it cannot do it itself, so it takes place even where no thread is left.
            let _thread = ctx.threads().take();
            engine.run_apart(invocation)?
        };
        if let Some(report) = outcome.sandbox {
            ctx.report_sandbox(report);
        }
        // What stopped this run stopped the other as well, and is told as that.
        ctx.cancel().check()?;
        outcome.result.map_err(|error| of_callee(skill, &error))
    }
}

impl Parts {
    /// The skill of that qualified name.
    pub(super) fn called(&self, qualified: Option<&str>) -> Option<&Skill> {
        let qualified = qualified?;
        self.registry.skills().iter().find(|skill| skill.qualified() == qualified)
    }

    /// The skill that a name means to the one that says it, where a skill does.
    pub(super) fn meant(&self, by: Option<&Skill>, name: &str) -> Result<&Skill> {
        by.map_or_else(|| self.registry.find(name), |skill| self.registry.find_for(skill, name))
    }

    /// Runs on a thread of its own: what a language lets one script take of a stack is measured for one.
    fn run_apart(&self, invocation: Invocation) -> Result<Outcome> {
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

fn too_deep(skill: &str, depth: usize) -> SkillError {
    let sentence = format!(
        "failed to run the skill {skill}: skills may call one another {DEEPEST} deep, and this would be {} deep",
        depth + 1
    );
    SkillError::new(ErrorKind::Script, sentence)
        .with_help("look for skills that call one another in a circle")
}

/// The callee's error as the caller sees it: the same kind and help, and which skill it was. Its place is in another skill's
/// file, so it is part of the sentence.
fn of_callee(skill: &str, error: &SkillError) -> SkillError {
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
