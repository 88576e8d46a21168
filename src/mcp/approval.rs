//! Lets the person behind a client decide about what a skill requests and nobody granted, before anything of it runs.
//!
//! In revisions with sessions the server asks the client while the run waits. In later ones a server sends no requests: the call
//! is answered with the question, and the client calls again with the answer.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rmcp::RoleServer;
use rmcp::model::{
    ClientResult, ElicitRequestParams, InputRequest, InputRequests, InputRequiredResult, InputResponses,
    RequestId, ServerRequest,
};
use rmcp::service::{OriginatingRequestId, Peer, PeerRequestOptions, RequestContext, RequestHandle};
use tokio::runtime::Handle;

use super::question::{self, Question};
use super::request_state::{RequestStates, StateOwner};
use super::task::Task;
use super::task_messages::related;
use crate::error::Result;
use crate::host::{ApprovalRequest, Approver, SkillContext};
use crate::policy::{Approval, CancelToken};

/// The key of the question in an answer, and of the answer to it.
const KEY: &str = "approval";

/// Whether the client can show a person a form.
pub(super) fn can_ask(context: &RequestContext<RoleServer>) -> bool {
    let capability = context.client_capabilities().and_then(|capabilities| capabilities.elicitation);
    // A client of the oldest revision names no kind, and means forms.
    capability.is_some_and(|kinds| kinds.form.is_some() || kinds.url.is_none())
}

/// Asks the client, and waits for its answer.
pub(super) struct ElicitingApprover {
    peer: Peer<RoleServer>,
    /// The call that waits for the answer.
    call: RequestId,
    executor: Handle,
    task: Option<Arc<Task>>,
}

impl ElicitingApprover {
    /// To be made on the executor of the server.
    pub(super) fn new(peer: Peer<RoleServer>, call: RequestId, task: Option<Arc<Task>>) -> Self {
        Self { peer, call, executor: Handle::current(), task }
    }

    async fn ask(&self, request: ServerRequest, cancel: &CancelToken, limit: Duration) -> Approval {
        let options = PeerRequestOptions::no_options();
        let Ok(mut sent) = self.peer.send_cancellable_request(request, options).await else {
            return Approval::No;
        };
        tokio::select! {
            answer = &mut sent.rx => match answer {
                Ok(Ok(ClientResult::ElicitResult(answer))) => question::approval(&answer),
                _ => Approval::No,
            },
            _ = cancel.cancelled() => withdraw(sent).await,
            () = tokio::time::sleep(limit) => withdraw(sent).await,
        }
    }
}

/// Tells the client that nobody waits for the answer any more.
async fn withdraw(sent: RequestHandle<RoleServer>) -> Approval {
    sent.cancel(Some("the call does not wait for it any more".to_owned())).await.ok();
    Approval::No
}

impl Approver for ElicitingApprover {
    fn approve(&self, ctx: &SkillContext, request: &ApprovalRequest) -> Result<Approval> {
        let Some(mut question) = question::elicit_request(request) else { return Ok(Approval::No) };
        let _waiting = self.task.as_ref().map(|task| {
            if let ElicitRequestParams::FormElicitationParams { meta, .. } = &mut question.params {
                *meta = Some(related(task.id()).into());
            }
            task.wait_for_client()
        });
        // Over HTTP a question belongs to the answer of its call.
        question.extensions.insert(OriginatingRequestId(self.call.clone()));
        let asked = self.ask(ServerRequest::ElicitRequest(question), ctx.cancel(), self.time_limit());
        Ok(self.executor.block_on(asked))
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
    pub(super) fn with_answer(question: Question, answers: Option<&InputResponses>) -> Self {
        let answer = answers.and_then(|answers| answers.get(KEY));
        let answer = answer.and_then(|answer| serde_json::from_value(answer.clone()).ok());
        let approval = answer.as_ref().map_or(Approval::No, question::approval);
        Self { answered: Some((question, approval)), asked: Mutex::default() }
    }

    /// The answer that the client brought to this question.
    pub(super) fn answer_to(&self, request: &ApprovalRequest) -> Option<Approval> {
        let (question, approval) = self.answered.as_ref()?;
        (Question::new(request).as_ref() == Some(question)).then(|| approval.clone())
    }

    /// What the call is answered with if a question was left.
    pub(super) fn input_required(
        &self,
        states: &RequestStates,
        owner: &StateOwner<'_>,
    ) -> Option<InputRequiredResult> {
        let request = self.asked.lock().unwrap_or_else(PoisonError::into_inner).take()?;
        let state = states.seal(Question::new(&request)?, owner)?;
        let form = InputRequest::Elicitation(question::elicit_request(&request)?);
        Some(InputRequiredResult::new(Some(InputRequests::from([(KEY.to_owned(), form)])), Some(state)))
    }
}

impl Approver for PostponingApprover {
    fn approve(&self, _: &SkillContext, request: &ApprovalRequest) -> Result<Approval> {
        // A client that is asked has to call again, and by then nothing may have run.
        if !question::is_first(request) {
            return Ok(Approval::No);
        }
        Ok(self.answer_to(request).unwrap_or_else(|| {
            // Nothing was asked yet, or what was asked is not what is needed now: files of the skill changed.
            *self.asked.lock().unwrap_or_else(PoisonError::into_inner) = Some(request.clone());
            Approval::No
        }))
    }
}
