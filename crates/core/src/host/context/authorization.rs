//! The rules of the embedder: whether a run may start that has all it needs.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde_json::Value;

use super::SkillContext;
use crate::error::{ErrorKind, Result, SkillError};
use crate::host::catch_panic::catch_panic;
use crate::host::provider_thread::run_on_provider_thread;
use crate::host::run_id::RunId;
use crate::host::{RunContext, RunMessages};
use crate::policy::{CalledTool, Permission, RunPermissions};

const WHO: &str = "the authorizer";

/// A run about which an authorizer decides.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct AuthorizationRequest {
    /// The run.
    pub run: RunId,
    /// Its skill.
    pub skill: String,
    /// The skill's qualified name, which distinguishes it from others of the same name.
    pub qualified_name: Option<String>,
    /// The skills that called one another to get here, the invoked one first.
    pub callers: Vec<String>,
    /// The project that the run works on.
    pub project: Option<PathBuf>,
    /// The input that the skill was called with, which fits its contract, without secrets that were read by now.
    pub input: Option<Value>,
    /// The arguments of its script, without the same secrets.
    pub args: Vec<String>,
    /// The tool of the skill that is called, with its risk; `None` for a run of the skill itself.
    pub tool: Option<CalledTool>,
    /// The permissions that it has.
    pub grants: Vec<Permission>,
    /// Whether a model chose the invoked run.
    pub is_for_model: bool,
}

/// Decides by the rules of the program that embeds metier whether a run may start.
///
/// It is asked once for each run, also of a skill that another one calls: when the input was validated, and before a person is asked.
/// It can only refuse: what nobody granted stays refused. It is called on a thread of its own, which may block; the deadline of the run
/// goes on. A panic, an error, and an answer that comes later than [`time_limit`](Self::time_limit) are a no. One that answers from memory
/// can do without that thread, which costs tens of microseconds a run: its limit is `None`.
pub trait Authorizer: Send + Sync {
    /// Fails if the run must not start; the sentence of the error is in that of the run, which has the kind `denied`.
    fn authorize(&self, ctx: &SkillContext, request: &AuthorizationRequest) -> Result<()>;

    /// The time that an answer may take; 10 seconds by default.
    ///
    /// `None` if it answers at once, from memory. It is then called on the thread of the run, and what it waits for, the run waits for: neither
    /// the deadline nor a cancellation interrupts it. They end the run when it has answered.
    fn time_limit(&self) -> Option<Duration> {
        Some(Duration::from_secs(10))
    }
}

impl SkillContext {
    fn authorize_on_thread(
        &self,
        authorizer: &Arc<dyn Authorizer>,
        request: AuthorizationRequest,
        limit: Duration,
    ) -> Result<()> {
        let (ctx, authorizer) = (self.clone(), authorizer.clone());
        let permit = self.thread_budget().try_call_provider();
        run_on_provider_thread(self.cancel(), permit, limit, move || {
            catch_panic(WHO, ErrorKind::Unavailable, || authorizer.authorize(&ctx, &request))
        })
    }

    /// The skills that called one another to get here, the invoked one first.
    pub(super) fn caller_names(&self) -> Vec<String> {
        let callers = std::iter::successors(self.caller(), |ctx| ctx.caller());
        let mut names: Vec<String> = callers.map(|ctx| ctx.skill().to_owned()).collect();
        names.reverse();
        names
    }
}

/// Asks the authorizer about this run, which was called with that input and these arguments; `denied` if it says no or gives no
/// answer, or the error of the stop.
pub fn authorize(
    ctx: &SkillContext,
    authorizer: &Arc<dyn Authorizer>,
    (input, args): (Option<&Value>, &[String]),
    tool: Option<CalledTool>,
    is_for_model: bool,
) -> Result<()> {
    let redaction = ctx.redaction();
    let request = AuthorizationRequest {
        run: ctx.run_id(),
        skill: ctx.skill().to_owned(),
        qualified_name: ctx.qualified_name().map(str::to_owned),
        callers: ctx.caller_names(),
        project: ctx.project_root().map(PathBuf::from),
        input: input.cloned().map(|input| redaction.value(input).into_inner()),
        args: args.iter().map(|arg| redaction.text(arg.clone()).into_inner()).collect(),
        tool,
        grants: ctx.permissions().effective(),
        is_for_model,
    };
    let limit = catch_panic(WHO, ErrorKind::Unavailable, || Ok(authorizer.time_limit()));
    let answer = limit.and_then(|limit| match limit {
        Some(limit) => ctx.authorize_on_thread(authorizer, request, limit),
        None => catch_panic(WHO, ErrorKind::Unavailable, || authorizer.authorize(ctx, &request)),
    });
    ctx.cancel().check()?;
    answer.map_err(|error| {
        let sentence = format!("the run of skill {} was not authorized: {}", ctx.skill(), error.message());
        let help = error.help().unwrap_or("the program that runs it decides by rules of its own");
        SkillError::new(ErrorKind::Denied, sentence).with_help(help)
    })
}
