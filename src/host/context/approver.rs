//! An approver: whoever embeds metier asks a person, or a policy, while a run waits.

use std::time::Duration;

use serde::Serialize;

use super::SkillContext;
use crate::error::{ErrorKind, Result, SkillError};
use crate::host::catch_panic::catch_panic;
use crate::host::provider_thread::run_on_provider_thread;
use crate::host::run_id::RunId;
use crate::policy::{Access, Permission};

/// Decides, while a run waits, about what nobody granted. It is asked about nothing that the skill, and every skill that called it,
/// did not request; never about leaving the sandbox.
///
/// An in-process script is interrupted at the call that needs the permission. Before an external script starts, it is asked about
/// the paths, hosts and shared memory that its skill lists, since a process cannot get them later.
///
/// It is called on a thread of its own, which may block. The deadlines of the run stand still meanwhile. A panic, an error, and an
/// answer that comes later than [`time_limit`](Self::time_limit) are a no. A yes holds until the invoked run ends, also for the
/// skills that it calls; a no is not asked again.
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
    /// A digest of the skill's files, in hexadecimal; `None` if they cannot be read.
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
        let Some((permission, approvals)) = self.permissions().approvable(need) else { return Ok(false) };
        let _pause = self.cancel().pause_deadlines();
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
        let is_approved = self.ask_approver(ApprovalNeed::RepeatedStep { step: step.to_owned(), item, call });
        self.cancel().check()?;
        let sentence = "an earlier run was interrupted in it, and it was not approved that it is done again";
        let refused = || SkillError::new(ErrorKind::Denied, sentence);
        is_approved
            .then_some(())
            .ok_or_else(|| refused().with_help("look what it did by then, and start over"))
    }

    /// The approver's answer; no, if there is none in time.
    fn ask_approver(&self, need: ApprovalNeed) -> bool {
        let Some(approver) = self.providers().approver.clone() else { return false };
        let mut callers: Vec<String> = std::iter::successors(self.caller(), |ctx| ctx.caller())
            .map(|ctx| ctx.skill().to_owned())
            .collect();
        callers.reverse();
        let request = ApprovalRequest {
            run: self.run_id(),
            skill: self.skill().to_owned(),
            qualified_name: self.qualified_name().map(str::to_owned),
            digest: self.providers().skills.as_ref().and_then(|skills| skills.digest(self)),
            callers,
            need,
        };
        let limit = approver.time_limit();
        let ctx = self.clone();
        let answer = run_on_provider_thread(self.cancel(), limit, move || {
            catch_panic("the approver", ErrorKind::Unavailable, || approver.approve(&ctx, &request))
        });
        answer.unwrap_or_else(|error| {
            tracing::warn!(skill = self.skill(), %error, "an approver gave no answer, which counts as no");
            false
        })
    }
}
