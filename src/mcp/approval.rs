//! Lets the person behind a client decide about what a skill requests and nobody granted, before anything of it runs.
//!
//! In revisions with sessions the server asks the client while the run waits. In later ones a server sends no requests: the call
//! is answered with the question, and the client calls again with the answer.

use std::sync::{Mutex, PoisonError};

use rmcp::model::InputResponses;
use tokio::runtime::Handle;

use super::elicitation::Elicitor;
use super::question::{self, AnswerMemory, Question};
use metier_core::error::{ErrorKind, Result, SkillError};
use metier_core::host::{ApprovalNeed, ApprovalRequest, Approver, SkillContext};
use metier_core::policy::Approval;

/// The key of the question in an answer, and of the answer to it. No form of a skill has this name.
pub(super) const APPROVAL: &str = "approval";

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
