//! The engine as the provider of skills that other skills call.

use std::sync::{Arc, Weak};
use std::thread;

use serde_json::Value;

use super::{EngineInner, Invocation, Outcome};
use crate::engine::script_selection::error_for_caller;
use crate::engine::skill_set::SkillSet;
use crate::registry::{Skill, printable_name};
use metier_core::error::{ErrorContext, ErrorKind, Result, SkillError};
use metier_core::host::{CallAccess, RunContext, RunReporting, SkillContext, SkillProvider};
use metier_core::policy::{RunPermissions, split_tool_name};
use metier_plan::Plan;

/// Maximum depth of skill calls; plans check the same limit before they run.
const MAX_CALL_DEPTH: usize = Plan::MAX_CALL_DEPTH;

/// Provides the skills of an engine to skills of the same engine. Holds the engine weakly, since the engine holds this.
pub(super) struct EngineSkillProvider(Weak<EngineInner>);

impl EngineSkillProvider {
    pub(super) fn new(engine: Weak<EngineInner>) -> Self {
        Self(engine)
    }
}

impl SkillProvider for EngineSkillProvider {
    fn run(&self, ctx: &SkillContext, name: &str, input: Value) -> Result<Value> {
        self.call(ctx, (name, None), input)
    }

    fn has_tool(&self, ctx: &SkillContext, name: &str) -> bool {
        let Some((engine, (skill, _))) = self.0.upgrade().zip(split_tool_name(name)) else { return false };
        engine.callee(ctx, skill).is_ok()
    }

    fn call_tool(&self, ctx: &SkillContext, name: &str, input: Value) -> Result<Value> {
        if let Some(own) = name.strip_prefix('.') {
            return self.call_own_tool(ctx, own, input);
        }
        let no_tool = || SkillError::new(ErrorKind::Tool, format!("no tool is called `{name}`"));
        let (skill, tool) = split_tool_name(name).ok_or_else(no_tool)?;
        self.call(ctx, (skill, Some(tool)), input)
    }

    fn check_call(&self, ctx: &SkillContext, call: &CallAccess) -> Result<()> {
        let gone = || SkillError::new(ErrorKind::Unavailable, "the engine of this run is gone");
        self.0.upgrade().ok_or_else(gone)?.check_call(ctx, call)
    }

    fn digest(&self, ctx: &SkillContext) -> Option<String> {
        let engine = self.0.upgrade()?;
        let set = engine.skills.set();
        let skill = set.skill_by_qualified_name(ctx.qualified_name())?;
        let files = engine.skill_files(&set, skill, ctx.cancel()).ok()?;
        // An approver is shown this digest, so a yes is one for these callees too, and for no others.
        if ctx.caller().is_none() {
            ctx.permissions().record_callees(|| files.callee_digests());
        }
        Some(files.digest.to_string())
    }
}

impl EngineSkillProvider {
    /// Calls a tool of the skill that runs. Its error is that of the caller too.
    fn call_own_tool(&self, ctx: &SkillContext, tool: &str, input: Value) -> Result<Value> {
        let skill = ctx.qualified_name().unwrap_or(ctx.skill());
        self.call(ctx, (skill, Some(tool)), input).map_err(|error| {
            let chain = error.callees().join(" > ");
            let own = error.message().strip_prefix(&format!("skill {chain} failed: "));
            own.map_or_else(|| error.clone(), |own| error.with_message(own).with_callees(Vec::new()))
        })
    }

    /// Runs a skill, or calls a tool that it offers.
    fn call(&self, ctx: &SkillContext, (name, tool): (&str, Option<&str>), input: Value) -> Result<Value> {
        let gone = || SkillError::new(ErrorKind::Unavailable, "the engine of this run is gone");
        let engine = self.0.upgrade().ok_or_else(gone)?;
        // The run looks the skill up again, as it is on disk then.
        let skill = engine.callee(ctx, name)?;
        let called = match tool {
            Some(tool) => format!("{}.{}", skill.name(), printable_name(tool)),
            None => skill.name().to_owned(),
        };
        if ctx.depth() >= MAX_CALL_DEPTH {
            return Err(call_depth_error(&called, ctx.depth()));
        }
        let invocation = Invocation::for_callee(ctx, name);
        let invocation = match tool {
            Some(tool) => invocation.tool(tool),
            None => invocation,
        };
        let invocation = match input {
            Value::Null => invocation,
            input => invocation.input(input),
        };
        let outcome = if ctx.is_called_by_step() {
            // A plan uses little stack, and always the same amount.
            engine.run(invocation)
        } else {
            // The caller blocks until the callee ends, so the callee gets a thread even if the thread budget is used up.
            let _thread = ctx.thread_budget().try_acquire();
            engine.run_on_new_thread(ctx, invocation)?
        };
        if let Some(report) = outcome.sandbox {
            ctx.report_sandbox(report);
        }
        ctx.report_refused_accesses(outcome.refused);
        // What stopped this run stopped the callee as well, and is reported as the cause.
        ctx.cancel().check()?;
        let error = |error| wrap_callee_error(&called, &error_for_caller(&skill, error));
        outcome.result.map_err(error)
    }
}

impl EngineInner {
    /// The skill that the calling one means.
    fn callee(&self, ctx: &SkillContext, name: &str) -> Result<Skill> {
        let (caller, folder) = (ctx.qualified_name(), self.folders.of_caller(ctx));
        let known = self.skills.set().registry.find_for_run(caller, folder, name).cloned();
        let is_for_model = ctx.facts().is_for_model;
        let current = || self.find_skill(caller, folder, name).map(|(_, skill)| skill);
        let found = known.or_else(|_| current());
        found.map_err(|error| self.lookup_error(error, name, is_for_model))
    }

    /// The skill that `name` means to the calling skill, or to everybody where no skill calls, in a run on that folder, as it is
    /// on disk now.
    pub(super) fn find_skill(
        &self,
        caller: Option<&str>,
        folder: Option<usize>,
        name: &str,
    ) -> Result<(Arc<SkillSet>, Skill)> {
        self.skills.find_current(name, |registry| registry.find_for_run(caller, folder, name))
    }

    /// Runs what this run calls on a new thread, because the stack limit of each language is measured for one script per thread.
    fn run_on_new_thread(&self, ctx: &SkillContext, invocation: Invocation) -> Result<Outcome> {
        let failed =
            |why: &str| SkillError::new(ErrorKind::Unavailable, format!("{why} for a skill to run on"));
        thread::scope(|scope| {
            let run = thread::Builder::new()
                .name("metier-skill".into())
                .spawn_scoped(scope, || ctx.in_span(|| self.run(invocation)));
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

/// The callee's error as the caller sees it: the same kind and help, and the chain of skills that led to it, so that the cause
/// is repeated once and not by each caller: `skill a > b > c failed at scripts/main.lua:3: …`. The location is in the last
/// skill's file, so it becomes part of the message.
fn wrap_callee_error(skill: &str, error: &SkillError) -> SkillError {
    let mut chain = vec![skill.to_owned()];
    let message = if let Some(rest) = message_after_chain(error) {
        chain.extend(error.callees().iter().cloned());
        format!("skill {} failed{rest}", chain.join(" > "))
    } else {
        let place = error.location().map_or(String::new(), |at| {
            let line = at.line.map_or(String::new(), |line| format!(":{line}"));
            format!(" at {}{line}", at.file)
        });
        format!("skill {skill} failed{place}: {error}")
    };
    error.with_message(message).with_callees(chain)
}

/// What follows the chain of skills in the error of a callee that had called others.
fn message_after_chain(error: &SkillError) -> Option<&str> {
    let callees = Some(error.callees()).filter(|callees| !callees.is_empty())?;
    error.message().strip_prefix(&format!("skill {} failed", callees.join(" > ")))
}
