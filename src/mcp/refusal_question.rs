//! One question to the person behind a client about all that a failed run was refused, after which it may run again with it.
//!
//! What was refused is what the script tried, so whoever wrote it chose the names: they are shown whole and escaped, few of them, and only
//! those of files and hosts. Nobody is asked for variables, for a whole project, home or network, for what starts programs, or for what runs
//! outside of the sandbox.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rmcp::model::{ElicitRequest, ElicitResult, InputRequest};
use serde_json::{Map, Value};

use super::elicitation::Elicitor;
use super::question::{self, AnswerMemory, shown_name, whole_line};
use super::task::Task;
use crate::engine::{Engine, Invocation, Outcome};
use metier_core::error::{ErrorKind, Hint, Result, SkillError};
use metier_core::excerpt::shorten;
use metier_core::host::{ApprovalRequest, Approver, SkillContext, opens_more};
use metier_core::policy::{Approval, GrantOrigin, Permission, SkillDigest};

/// How long a person has for the answer.
pub(super) const QUESTION_TIMEOUT: Duration = Duration::from_mins(5);

/// The most permissions of one question. A person reads no long list.
const MAX_PERMISSIONS: usize = 8;

/// The most characters of what the script reported.
const MAX_REASON: usize = 300;

/// What the trust store names as the one that recorded a grant: as for other questions of the server.
const RECORDED_BY: &str = "approval";

/// Permissions that a question can be about, where they say for what.
const ASKABLE: [&str; 4] = ["home", "home-write", "net", "write"];

/// By what a person is asked after a run.
#[derive(Clone)]
pub(super) enum PersonAsker {
    /// In a session, while the call waits.
    Session(Elicitor),
    /// In the state of a task.
    Task(Arc<Task>),
}

impl PersonAsker {
    /// The answer; `None` if there is none in time, or before nobody waits for it any more.
    pub(super) async fn ask(
        &self,
        form: ElicitRequest,
        cancelled: impl Future<Output = ()>,
    ) -> Option<ElicitResult> {
        match self {
            Self::Session(elicitor) => elicitor.ask(form, cancelled, QUESTION_TIMEOUT).await,
            Self::Task(task) => tokio::select! {
                answer = task.ask("approval", InputRequest::Elicitation(form)) => {
                    serde_json::from_value(answer?).ok()
                }
                () = cancelled => None,
                () = tokio::time::sleep(QUESTION_TIMEOUT) => None,
            },
        }
    }
}

/// Passes questions on, and knows whether there was one: a call has one question.
pub(super) struct CountedApprover {
    inner: Arc<dyn Approver>,
    has_question: AtomicBool,
}

impl CountedApprover {
    pub(super) fn new(inner: Arc<dyn Approver>) -> Self {
        Self { inner, has_question: AtomicBool::new(false) }
    }

    /// Whether anything was asked.
    pub(super) fn has_question(&self) -> bool {
        self.has_question.load(Ordering::Relaxed)
    }
}

impl Approver for CountedApprover {
    fn approve(&self, ctx: &SkillContext, request: &ApprovalRequest) -> Result<Approval> {
        self.has_question.store(true, Ordering::Relaxed);
        self.inner.approve(ctx, request)
    }

    fn time_limit(&self) -> Duration {
        self.inner.time_limit()
    }
}

/// What a run that failed may have if it is run again.
pub(super) struct RefusalQuestion {
    skill: String,
    permissions: Vec<Permission>,
    digest: SkillDigest,
    pub(super) form: ElicitRequest,
}

impl RefusalQuestion {
    /// The question about a run of the skill with this address; `None` if it did not fail by its script, if nothing that it was refused may be
    /// asked about, if a grant would not be enough, or if nobody would read all of it.
    pub(super) fn new(
        engine: &Engine,
        (address, invocation, arguments): (&str, &Invocation, &Map<String, Value>),
        outcome: &Outcome,
        memory: AnswerMemory,
    ) -> Option<Self> {
        let error = outcome.result.as_ref().err().filter(|error| error.kind() == ErrorKind::Script)?;
        let registry = engine.registry();
        let skill = registry.find(address).ok()?;
        if !engine.run_uses_any_grant(skill, invocation) {
            return None;
        }
        let cause = cause_of_failure(error);
        // To ask for the others would be of no use.
        if cause.as_ref().is_some_and(|cause| !is_askable(cause)) {
            return None;
        }
        let refused =
            outcome.refused.iter().filter_map(|refused| refused.permission.as_deref()?.parse().ok());
        let mut permissions: Vec<Permission> = Vec::new();
        for permission in cause.into_iter().chain(refused).filter(is_askable) {
            if !permissions.contains(&permission) {
                permissions.push(permission);
            }
        }
        let omitted = permissions.len().saturating_sub(MAX_PERMISSIONS);
        permissions.truncate(MAX_PERMISSIONS);
        if permissions.is_empty() {
            return None;
        }
        // The files of a skill that is trusted wherever they lie were not looked at for the run.
        let digest = outcome.digest.or_else(|| Some(engine.skill_files(skill).ok()?.digest))?;
        let qualified = skill.qualified_name();
        let about = (qualified.as_str(), digest);
        let text = message(about, &permissions, omitted, (outcome, error, arguments));
        let form = question::refusal_request(&text, memory).ok()?;
        Some(Self { skill: skill.name().to_owned(), permissions, digest, form })
    }

    /// The invocation with what was asked about, for exactly the files of the run that failed.
    pub(super) fn add_to(&self, invocation: Invocation) -> Invocation {
        let permissions = self.permissions.iter().cloned();
        permissions.fold(invocation.digest(self.digest), |invocation, permission| {
            invocation.grant_from(permission, GrantOrigin::Approver)
        })
    }

    /// Records the permissions for later runs of exactly these files. What cannot be recorded holds for this call.
    pub(super) fn remember(&self, engine: &Engine, address: &str) {
        let recorded = || {
            let registry = engine.registry();
            let skill = registry.find(address)?;
            if engine.skill_files(skill)?.digest != self.digest {
                return Ok(());
            }
            let project = engine.project_identity(skill)?;
            let Some(store) = engine.trust_store() else { return Ok(()) };
            store.grant((&self.skill, self.digest), Some(&project), &self.permissions, RECORDED_BY)
        };
        if let Err(error) = recorded() {
            tracing::warn!(skill = self.skill, %error, "what a person granted for good holds for one call");
        }
    }
}

/// The permission without which a run failed.
fn cause_of_failure(error: &SkillError) -> Option<Permission> {
    error.missing().or_else(|| match error.hint() {
        Some(Hint::Grant(permission)) => permission.parse().ok(),
        _ => None,
    })
}

fn is_askable(permission: &Permission) -> bool {
    let Some(scope) = permission.scope().filter(|scope| !scope.is_empty()) else { return false };
    let writes = ["write", "home-write"].contains(&permission.name());
    let changes_hidden = writes && scope.split('/').any(|part| part.starts_with('.'));
    ASKABLE.contains(&permission.name()) && !changes_hidden && !opens_more(&permission.to_string())
}

fn message(
    (skill, digest): (&str, SkillDigest),
    permissions: &[Permission],
    omitted: usize,
    (outcome, error, arguments): (&Outcome, &SkillError, &Map<String, Value>),
) -> String {
    let mut text = format!(
        "The skill {} ran and failed, and its sandbox refused it what follows. With a yes it runs again FROM ITS BEGINNING with that: what it has \
         done already, such as requests that it sent and files that it changed, is done a second time.\n",
        shown_name(skill)
    );
    for permission in permissions {
        text.extend([format!(
            "- {}: {}\n",
            shown_name(&permission.to_string()),
            whole_line(&permission.meaning())
        )]);
    }
    if omitted > 0 {
        text.extend([format!("It was refused {omitted} more, which this question is not about.\n")]);
    }
    let network = outcome.process.as_ref().and_then(|process| process.network.as_ref());
    if let Some(network) = network.filter(|network| network.connections > 0) {
        text.extend([format!(
            "It has sent {} bytes already, to: {}\n",
            network.sent_bytes,
            shown_name(&network.hosts.join(", "))
        )]);
    }
    let granted: Vec<String> = outcome.grants.iter().map(|grant| grant.permission.to_string()).collect();
    text.extend([format!("It had: {}\n", shown_name(&granted.join(", ")))]);
    text.extend([format!("The error of the run: {}\n", whole_line(&shorten(error.message(), MAX_REASON)))]);
    text.extend([format!("Its arguments: {}\n", whole_line(&Value::Object(arguments.clone()).to_string()))]);
    text.extend([format!("Its files: {digest}")]);
    text
}
