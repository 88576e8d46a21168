//! Runs the steps of a plan in this process: functions of the host API, tools of the embedder and other skills, all through
//! the run's context.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::{Map, Value, json};

use metier_core::error::{ErrorKind, Result, SkillError};
use metier_core::host::{
    AccessRule, CallRecords, LogLevel, Param, RunContext, RunFiles, RunThreadGuard, SkillContext,
    catch_panic, function,
};
use metier_core::policy::{RunPermissions, SandboxMode, secret_scope};
use metier_plan::{CallTarget, Callee, Plan, StepBackend, plan_steps};

/// The step backend of this process.
pub(super) struct LocalBackend<'a> {
    plan: &'a Plan,
    callees: HashMap<String, Callee>,
    /// What steps see since the last review.
    files: Mutex<Option<Arc<RunFiles>>>,
}

impl<'a> LocalBackend<'a> {
    pub(super) fn new(plan: &'a Plan, callees: HashMap<String, Callee>) -> Self {
        Self { plan, callees, files: Mutex::default() }
    }

    /// Has a person look at what the steps so far have changed. A preview shows all of it when it has ended, so nobody is asked within it.
    fn review(&self, ctx: &SkillContext, text: &str) -> Result<Value> {
        let step = ctx.step().and_then(|at| plan_steps(self.plan).get(at));
        let id = step.map_or("review", |step| step.id.as_str());
        let Some(reviewer) = &ctx.facts().reviewer else {
            ctx.log(
                LogLevel::Info,
                format!("the review {id} was passed over: nothing of a preview is applied"),
            )?;
            return Ok(json!({"id": null, "digest": null, "applied": 0}));
        };
        let (value, files) = reviewer.review(ctx, id, text)?;
        *self.lock_files() = Some(Arc::new(files));
        Ok(value)
    }

    fn lock_files(&self) -> MutexGuard<'_, Option<Arc<RunFiles>>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl StepBackend for LocalBackend<'_> {
    fn is_read_only(&self, ctx: &SkillContext, call: &CallTarget) -> bool {
        match call {
            CallTarget::Function(name) => function(name).is_some_and(|function| {
                matches!(
                    function.access,
                    AccessRule::Unrestricted | AccessRule::Read(_) | AccessRule::ReadRoot
                )
            }),
            CallTarget::Tool(_) | CallTarget::Review(_) => false,
            CallTarget::Skill(name) => self.callees.get(name).is_some_and(|callee| {
                let handed_on = ctx.permissions().for_callee(ctx.skill(), name, callee.requested.clone());
                // Without a sandbox a process can do anything, and a called plan may start one.
                let is_held = ctx.sandbox_mode() == SandboxMode::Required
                    || !callee.is_process && callee.calls.is_empty();
                is_held && handed_on.only_reads()
            }),
        }
    }

    /// Reading a secret again has the same result.
    fn is_repeatable(&self, ctx: &SkillContext, call: &CallTarget) -> bool {
        let is_secret =
            |name: &&str| function(name).is_some_and(|known| matches!(known.access, AccessRule::Secret(_)));
        matches!(call, CallTarget::Function(name) if is_secret(name)) || self.is_read_only(ctx, call)
    }

    /// A function is called as a script calls it, permission check included. A skill is run without `skill:NAME`: the plan
    /// names it explicitly, it was checked when the plan was loaded, and it may do no more than this run.
    fn call(
        &self,
        ctx: &SkillContext,
        call: &CallTarget,
        mut arguments: Map<String, Value>,
    ) -> Result<Value> {
        let files = self.lock_files().clone();
        let since_review = files.map(|files| ctx.with_files(files));
        let ctx = since_review.as_ref().unwrap_or(ctx);
        match call {
            CallTarget::Review(text) => self.review(ctx, text),
            CallTarget::Function(name) => {
                let unknown =
                    || SkillError::new(ErrorKind::InvalidArgument, format!("ctx has no function `{name}`"));
                let function = function(name).ok_or_else(unknown)?;
                record_access(ctx, function.access, &arguments, function.params);
                let positional = function
                    .params
                    .iter()
                    .map(|param| arguments.shift_remove(param.name).unwrap_or_default())
                    .collect();
                if let Some(extra) = arguments.keys().next() {
                    let sentence = format!("{}: there is no parameter {extra}", function.signature());
                    return Err(SkillError::new(ErrorKind::InvalidArgument, sentence));
                }
                function.call(ctx, positional)
            }
            CallTarget::Tool(name) => {
                ctx.record_permissions(|permission| {
                    permission.name() == "tool" && permission.scope() == Some(name)
                });
                ctx.call("tool", vec![name.as_str().into(), Value::Object(arguments)])
            }
            CallTarget::Skill(name) => {
                let missing = || {
                    SkillError::new(
                        ErrorKind::Unavailable,
                        "this host does not provide other skills to skills",
                    )
                };
                let skills = ctx.providers().skills.as_ref().ok_or_else(missing)?;
                let result = catch_panic("the provider of skills", ErrorKind::Unavailable, || {
                    let _for_run = RunThreadGuard::enter();
                    skills.run(ctx, name, Value::Object(arguments))
                });
                ctx.record_unknown_call();
                result
            }
        }
    }
}

/// Records which permissions of the run a function uses: of files and hosts all, since what it finds and where it is led depend on
/// them.
fn record_access(ctx: &SkillContext, access: AccessRule, arguments: &Map<String, Value>, params: &[Param]) {
    let target = |at: usize| arguments.get(params.get(at)?.name)?.as_str();
    ctx.record_permissions(|permission| match access {
        AccessRule::Unrestricted => false,
        AccessRule::Read(_) | AccessRule::ReadRoot | AccessRule::Write(_) => {
            permission.name() == "read" || permission.name() == "write"
        }
        AccessRule::Tool(at) => permission.name() == "tool" && permission.scope() == target(at),
        AccessRule::Skill(at) => permission.name() == "skill" && permission.scope() == target(at),
        AccessRule::Secret(at) => secret_scope(permission).is_some_and(|(name, _)| Some(name) == target(at)),
        AccessRule::Store(at) => match target(at) {
            Some(name) => permission.name() == "store" && permission.scope() == Some(name),
            None => permission.name() == "state",
        },
        AccessRule::Sample => permission.name() == "sample",
        AccessRule::Net(_) => permission.name() == "net",
    });
}
