//! Shows a form to the person behind a client in a session, and waits for the answer.

use std::sync::Arc;
use std::time::Duration;

use rmcp::RoleServer;
use rmcp::model::{ClientResult, ElicitRequest, ElicitRequestParams, ElicitResult, RequestId, ServerRequest};
use rmcp::service::{OriginatingRequestId, Peer, PeerRequestOptions, RequestContext, RequestHandle};

use super::task::Task;
use super::task_messages::related;

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
