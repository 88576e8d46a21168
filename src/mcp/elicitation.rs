//! Asks the person behind a client: with a form in a session, with a question in the state of a task, or with the answer of a call, which the
//! client then sends again with what the person said.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rmcp::RoleServer;
use rmcp::model::{
    ClientResult, ElicitRequest, ElicitRequestParams, ElicitResult, InputRequest, InputResponses, RequestId,
    ServerRequest,
};
use rmcp::service::{OriginatingRequestId, Peer, PeerRequestOptions, RequestContext, RequestHandle};
use tokio::runtime::Handle;

use super::question::{self, AnswerMemory, Question};
use super::task::Task;
use super::task_messages::related;
use metier_core::error::{ErrorKind, Result, SkillError};
use metier_core::host::{ApprovalNeed, ApprovalRequest, Approver, SkillContext};
use metier_core::policy::Approval;

/// The key of the question in an answer, and of the answer to it. No form of a skill has this name.
pub(super) const APPROVAL: &str = "approval";

/// Whether the client can show a person a form.
pub(super) fn can_ask(context: &RequestContext<RoleServer>) -> bool {
    let capability = context.client_capabilities().and_then(|capabilities| capabilities.elicitation);
    // A client of the oldest revision names no kind, and means forms.
    capability.is_some_and(|kinds| kinds.form.is_some() || kinds.url.is_none())
}

/// Asks the client of a session on behalf of one request.
#[derive(Clone)]
pub(super) struct Elicitor {
    peer: Peer<RoleServer>,
    /// The request that waits for the answer.
    request: RequestId,
    task: Option<Arc<Task>>,
}

impl Elicitor {
    pub(super) fn new(context: &RequestContext<RoleServer>, task: Option<Arc<Task>>) -> Self {
        Self { peer: context.peer.clone(), request: context.id.clone(), task }
    }

    /// The answer; `None` if there is none within the limit, or before nobody waits for it any more.
    pub(super) async fn ask(
        &self,
        mut form: ElicitRequest,
        cancelled: impl Future<Output = ()>,
        limit: Duration,
    ) -> Option<ElicitResult> {
        let _waiting = self.task.as_ref().map(|task| {
            if let ElicitRequestParams::FormElicitationParams { meta, .. } = &mut form.params {
                *meta = Some(related(task.id()).into());
            }
            task.wait_for_client()
        });
        // Over HTTP a question belongs to the answer of its request.
        form.extensions.insert(OriginatingRequestId(self.request.clone()));
        let (form, options) = (ServerRequest::ElicitRequest(form), PeerRequestOptions::no_options());
        let mut sent = self.peer.send_cancellable_request(form, options).await.ok()?;
        tokio::select! {
            answer = &mut sent.rx => match answer {
                Ok(Ok(ClientResult::ElicitResult(answer))) => return Some(answer),
                _ => return None,
            },
            () = cancelled => {}
            () = tokio::time::sleep(limit) => {}
        }
        withdraw(sent).await;
        None
    }
}

/// Tells the client that nobody waits for the answer any more.
async fn withdraw(sent: RequestHandle<RoleServer>) {
    sent.cancel(Some("the call does not wait for it any more".to_owned())).await.ok();
}

/// Asks the client, and waits for its answer.
pub(super) struct ElicitingApprover {
    elicitor: Elicitor,
    memory: AnswerMemory,
    executor: Handle,
}

impl ElicitingApprover {
    /// To be made on the executor of the server.
    pub(super) fn new(elicitor: Elicitor, memory: AnswerMemory) -> Self {
        Self { elicitor, memory, executor: Handle::current() }
    }
}

impl Approver for ElicitingApprover {
    fn approve(&self, ctx: &SkillContext, request: &ApprovalRequest) -> Result<Approval> {
        let question = question::elicit_request(request, self.memory)?;
        let cancelled = async {
            ctx.cancel().cancelled().await;
        };
        let answer = self.executor.block_on(self.elicitor.ask(question, cancelled, self.time_limit()));
        Ok(answer.as_ref().map_or(Approval::No, |answer| question::approval(answer, self.memory)))
    }
}

/// Knows the answer that a client brought, or keeps the question for it.
#[derive(Default)]
pub(super) struct PostponingApprover {
    answered: Option<(Question, Approval)>,
    asked: Mutex<Option<ApprovalRequest>>,
}

impl PostponingApprover {
    /// For a call that brings the answer to this question among others.
    pub(super) fn with_answer(
        question: Question,
        answers: Option<&InputResponses>,
        memory: AnswerMemory,
    ) -> Self {
        let answer = answers.and_then(|answers| answers.get(APPROVAL));
        let answer = answer.and_then(|answer| serde_json::from_value(answer.clone()).ok());
        let approval = answer.as_ref().map_or(Approval::No, |answer| question::approval(answer, memory));
        Self { answered: Some((question, approval)), asked: Mutex::default() }
    }

    /// The answer that the client brought to this question.
    pub(super) fn answer_to(&self, request: &ApprovalRequest) -> Option<Approval> {
        let (question, approval) = self.answered.as_ref()?;
        (Question::new(request).as_ref() == Some(question)).then(|| approval.clone())
    }

    /// The answer that the client brought, to whatever it was asked.
    #[cfg(unix)]
    pub(super) fn into_answer(self) -> Approval {
        self.answered.map_or(Approval::No, |(_, approval)| approval)
    }

    /// What is left to be asked.
    pub(super) fn take_question(&self) -> Option<ApprovalRequest> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl Approver for PostponingApprover {
    fn approve(&self, _: &SkillContext, request: &ApprovalRequest) -> Result<Approval> {
        if matches!(request.need, ApprovalNeed::Review { .. }) {
            let sentence = "the plan asks a person in its midst, and this client is asked before a call only, or in a task";
            return Err(SkillError::new(ErrorKind::Denied, sentence)
                .with_help("call it as a task, or let a person run the plan"));
        }
        // A client that is asked has to call again, and by then nothing may have run.
        if !question::is_first(request) {
            return Ok(Approval::No);
        }
        if let Some(answer) = self.answer_to(request) {
            return Ok(answer);
        }
        // Nothing was asked yet, or what was asked is not what is needed now: files of the skill changed.
        question::elicit_request(request, AnswerMemory::Once)?;
        *self.asked.lock().unwrap_or_else(PoisonError::into_inner) = Some(request.clone());
        Ok(Approval::No)
    }
}

/// Decides for one call that may become a task.
pub(super) struct TaskApprover {
    task: Arc<Task>,
    postponing: Arc<PostponingApprover>,
    memory: AnswerMemory,
    executor: Handle,
}

impl TaskApprover {
    /// To be made on the executor of the server. What the client answered when it called is known to the other approver.
    pub(super) fn new(task: Arc<Task>, postponing: Arc<PostponingApprover>, memory: AnswerMemory) -> Self {
        Self { task, postponing, memory, executor: Handle::current() }
    }
}

impl Approver for TaskApprover {
    fn approve(&self, ctx: &SkillContext, request: &ApprovalRequest) -> Result<Approval> {
        if let Some(answer) = self.postponing.answer_to(request) {
            return Ok(answer);
        }
        if question::is_first(request) && self.task.stay_call() {
            return self.postponing.approve(ctx, request);
        }
        let form = question::elicit_request(request, self.memory)?;
        let asked = async {
            tokio::select! {
                answer = self.task.ask("approval", InputRequest::Elicitation(form)) => answer,
                _ = ctx.cancel().cancelled() => None,
                () = tokio::time::sleep(self.time_limit()) => None,
            }
        };
        let answer = self.executor.block_on(asked);
        let answer = answer.and_then(|answer| serde_json::from_value::<ElicitResult>(answer).ok());
        Ok(answer.as_ref().map_or(Approval::No, |answer| question::approval(answer, self.memory)))
    }
}
