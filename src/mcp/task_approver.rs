//! Asks the person behind a client inside a task. Before a call has become one, the question is its answer, as for other calls.

use std::sync::Arc;

use rmcp::model::{ElicitResult, InputRequest};
use tokio::runtime::Handle;

use super::approval::PostponingApprover;
use super::question::{self, AnswerMemory};
use super::task::Task;
use metier_core::error::Result;
use metier_core::host::{ApprovalRequest, Approver, SkillContext};
use metier_core::policy::Approval;

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
