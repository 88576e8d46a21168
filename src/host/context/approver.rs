//! An approver: whoever embeds metier asks a person, or a policy, while a run waits.

use std::cell::Cell;
use std::time::{Duration, Instant};

use serde::Serialize;

use super::SkillContext;
use crate::error::{ErrorKind, Result, SkillError};
use crate::host::catch_panic::catch_panic;
use crate::host::provider_thread::run_on_provider_thread;
use crate::host::run_id::RunId;
use crate::policy::{Access, Answer, Permission, SandboxMode};

/// Decides, while a run waits, about what nobody granted. It is asked about nothing that the skill, and every skill that called it,
/// did not request; never about leaving the sandbox.
///
/// An in-process script is interrupted at the call that needs the permission. Before an external script starts, it is asked about
/// the paths, the network and the shared memory that its skill lists, since a process cannot get them later.
///
/// It is called on a thread of its own, which may block. The deadlines of the run stand still meanwhile; the process of an external
/// script goes on. A panic, an error, and an answer that comes later than [`time_limit`](Self::time_limit) are a no. What `ctx`
/// lacks itself is refused there and asks nobody. A yes holds until the invoked run ends, for the skill that asked and those that
/// it calls; a no is not asked again.
///
/// ```
/// use metier::engine::Engine;
/// use metier::error::Result;
/// use metier::host::{ApprovalNeed, ApprovalRequest, Approver, SkillContext};
///
/// struct OnlyTheDocs;
///
/// impl Approver for OnlyTheDocs {
///     fn approve(&self, _: &SkillContext, request: &ApprovalRequest) -> Result<bool> {
///         Ok(match &request.need {
///             ApprovalNeed::Permission { permission, .. } => permission.to_string() == "write:docs",
///             _ => false,
///         })
///     }
/// }
///
/// # fn main() -> Result<()> {
/// let engine = Engine::builder(".").approver(OnlyTheDocs).build()?;
/// # let _ = engine;
/// # Ok(())
/// # }
/// ```
pub trait Approver: Send + Sync {
    /// Whether the run may.
    fn approve(&self, ctx: &SkillContext, request: &ApprovalRequest) -> Result<bool>;

    /// The time that an answer may take; 5 minutes by default.
    fn time_limit(&self) -> Duration {
        Duration::from_mins(5)
    }
}

/// A question to an approver.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ApprovalRequest {
    /// The run that waits.
    pub run: RunId,
    /// Its skill.
    pub skill: String,
    /// The skill's qualified name, which distinguishes it from others of the same name.
    pub qualified_name: Option<String>,
    /// The digest of all files of the skill and of the skills that it calls, as text; `None` if it has none.
    pub digest: Option<String>,
    /// The skills that called one another to get here, the invoked one first.
    pub callers: Vec<String>,
    /// What it asks for.
    pub need: ApprovalNeed,
}

/// What a run asks an approver for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ApprovalNeed {
    /// A permission that the skill requests and nobody granted.
    Permission {
        /// The permission.
        #[serde(serialize_with = "as_text")]
        permission: Permission,
        /// What the call would reach: a path relative to the project, a host or a name. `None` before a process starts, and for
        /// a call that reaches nothing of its own.
        target: Option<String>,
    },
    /// To do a step of a plan again that an earlier run started and did not finish.
    RepeatedStep {
        /// The step's id.
        step: String,
        /// The item of its loop, counted from 0.
        item: Option<usize>,
        /// What it calls, such as `tool search`.
        call: String,
    },
}

fn as_text<S: serde::Serializer>(value: &impl ToString, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(&value.to_string())
}

impl SkillContext {
    /// Asks the approver for a permission that is missing; returns whether the access is allowed now. Fails if the run stops
    /// while it waits.
    pub(crate) fn ask_for_access(&self, need: &Access, target: &str) -> Result<bool> {
        if IS_ASKED.get() {
            return Ok(false);
        }
        let Some((permission, approvals)) = self.permissions().approvable(need) else { return Ok(false) };
        let asked = ApprovalNeed::Permission {
            permission: permission.clone(),
            target: (!target.is_empty()).then(|| target.to_owned()),
        };
        approvals.decide(&permission, self.cancel(), || self.ask_approver(asked))?;
        Ok(self.permissions().allows(need))
    }

    /// Asks the approver for each permission that the process of an external script would need from its start. What is refused is
    /// missing in its sandbox. Fails if the run stops while it waits.
    pub(crate) fn ask_before_start(&self) -> Result<()> {
        let is_unsandboxed = self.permissions().is_granted(&Access::exec_unsandboxed());
        if is_unsandboxed || self.sandbox_mode() == SandboxMode::Off {
            return Ok(());
        }
        self.permissions()
            .approvable_before_start()
            .iter()
            .try_for_each(|permission| self.ask_for_access(&permission.as_access(), "").map(drop))
    }

    /// Asks the approver whether an interrupted step may be done again; without an approver it is. Fails if not.
    pub(crate) fn ask_to_repeat(&self, step: &str, item: Option<usize>, call: String) -> Result<()> {
        if self.providers().approver.is_none() {
            return Ok(());
        }
        let _pause = self.cancel().pause_deadlines();
        let answer = self.ask_approver(ApprovalNeed::RepeatedStep { step: step.to_owned(), item, call });
        self.cancel().check()?;
        if answer == Answer::Yes {
            return Ok(());
        }
        let sentence = "an earlier run was interrupted in it, and it was not approved that it is done again";
        Err(SkillError::new(ErrorKind::Denied, sentence)
            .with_help("look what it did by then, and start over"))
    }

    /// The approver's answer.
    fn ask_approver(&self, need: ApprovalNeed) -> Answer {
        let Some(approver) = self.providers().approver.clone() else { return Answer::No };
        let mut callers: Vec<String> = std::iter::successors(self.caller(), |ctx| ctx.caller())
            .map(|ctx| ctx.skill().to_owned())
            .collect();
        callers.reverse();
        let request = ApprovalRequest {
            run: self.run_id(),
            skill: self.skill().to_owned(),
            qualified_name: self.qualified_name().map(str::to_owned),
            digest: None,
            callers,
            need,
        };
        let (ctx, started) = (self.clone(), Instant::now());
        let limit = catch_panic("the approver", ErrorKind::Unavailable, || Ok(approver.time_limit()));
        let Ok(limit) = limit else { return Answer::No };
        let permit = self.thread_budget().try_call_provider();
        let answer = run_on_provider_thread(self.cancel(), permit, limit, move || {
            IS_ASKED.set(true);
            let answer = catch_panic("the approver", ErrorKind::Unavailable, || {
                let digest = ctx.providers().skills.as_ref().and_then(|skills| skills.digest(&ctx));
                approver.approve(&ctx, &ApprovalRequest { digest, ..request })
            });
            IS_ASKED.set(false);
            answer
        });
        match answer {
            Ok(true) => Answer::Yes,
            Ok(false) => Answer::No,
            Err(error) => {
                tracing::warn!(skill = self.skill(), %error, "an approver gave no answer, which counts as no");
                if started.elapsed() >= limit { Answer::Missing } else { Answer::No }
            }
        }
    }
}

thread_local! {
    /// Whether an approver is asked on this thread; what it does itself is no further question.
    static IS_ASKED: Cell<bool> = const { Cell::new(false) };
}
