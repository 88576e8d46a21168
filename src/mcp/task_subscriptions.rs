//! Subscriptions to tasks, of the revision 2026-07-28 with the extension for tasks: the client is told of each state.

use std::collections::BTreeSet;
use std::sync::Arc;

use rmcp::model::{
    ClientCapabilities, CustomNotification, ErrorCode, GetMeta, RequestId, ServerNotification,
    SubscriptionFilter, SubscriptionsListenResult, TaskStatusNotification, TaskStatusNotificationParams,
};
use rmcp::service::{Peer, RequestContext};
use rmcp::{ErrorData, RoleServer, ServerHandler};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::backlog::{Answer, json_size};
use super::handler::{Handler, answer_of, needs_objects};
use super::list_changes::{ListChanges, accepted_filter};
use super::task::follow;

/// Tasks of one subscription.
const MAX_TASKS: usize = 1_000;

/// What a client wants to be told of.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Filter {
    #[serde(flatten)]
    lists: SubscriptionFilter,
    task_ids: BTreeSet<String>,
}

/// Where the notifications of one subscription go.
#[derive(Clone)]
struct Subscription {
    answer: Option<Arc<Answer>>,
    peer: Peer<RoleServer>,
    id: RequestId,
}

impl Subscription {
    async fn reserve(&self, bytes: usize) {
        if let Some(answer) = &self.answer {
            answer.reserve_message(bytes).await;
        }
    }

    async fn send(&self, notice: ServerNotification) -> bool {
        self.reserve(json_size(&notice)).await;
        self.pass_on(notice).await
    }

    /// Sends what has its space. Whether the client still reads.
    async fn pass_on(&self, mut notice: ServerNotification) -> bool {
        notice.get_meta_mut().set_subscription_id(self.id.clone());
        self.peer.send_notification(notice).await.is_ok()
    }
}

impl Handler {
    /// Tells a client of the states of its tasks, and of changes of the lists beside them, until it ends the subscription.
    pub(super) async fn listen_to_tasks(
        &self,
        filter: &Value,
        context: &RequestContext<RoleServer>,
    ) -> Result<Value, ErrorData> {
        if needs_objects(context) {
            let sentence = "there is no method subscriptions/listen";
            return Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, sentence, None));
        }
        if !context.client_capabilities().is_some_and(|capabilities| capabilities.supports_tasks()) {
            let required = ClientCapabilities::builder().enable_tasks().build();
            return Err(ErrorData::missing_required_client_capability(required));
        }
        let Ok(filter) = Filter::deserialize(filter) else {
            let sentence = "the parameter notifications has taskIds, a list of texts, and lists, which are true or false";
            return Err(ErrorData::invalid_params(sentence, None));
        };
        if filter.task_ids.len() > MAX_TASKS {
            let sentence = format!("a subscription is to at most {MAX_TASKS} tasks");
            return Err(ErrorData::invalid_params(sentence, None));
        }
        let (answer, peer) = (answer_of(context).cloned(), context.peer.clone());
        let subscription = Subscription { answer, peer, id: context.id.clone() };
        // From before the first notice, so that no change is lost.
        let mut changes = ListChanges::new(self.offers());
        // What is not the client's is left out, as if it were not there.
        let tasks: Vec<_> = filter.task_ids.iter().filter_map(|id| self.task(id, context).ok()).collect();
        let lists = accepted_filter(&filter.lists);
        let mut accepted = json!(lists);
        accepted["taskIds"] = tasks.iter().map(|task| task.id()).collect();
        let acknowledgment = CustomNotification::new(
            "notifications/subscriptions/acknowledged",
            Some(json!({"notifications": accepted})),
        );
        subscription.send(ServerNotification::CustomNotification(acknowledgment)).await;
        // They end with this request.
        let mut followed = JoinSet::new();
        for task in tasks {
            let (subscription, reserving) = (subscription.clone(), subscription.clone());
            let reserve = move |bytes| {
                let subscription = reserving.clone();
                async move { subscription.reserve(bytes).await }
            };
            followed.spawn(follow(task, None, reserve, move |details| {
                let is_reserved = details.status().is_terminal();
                let notice = TaskStatusNotification::new(TaskStatusNotificationParams::new(details));
                let notice = ServerNotification::TaskStatusNotification(notice);
                let subscription = subscription.clone();
                async move {
                    if is_reserved {
                        subscription.pass_on(notice).await
                    } else {
                        subscription.send(notice).await
                    }
                }
            }));
        }
        loop {
            let change = tokio::select! {
                () = context.ct.cancelled() => break,
                change = changes.next() => change,
            };
            let Some(change) = change else { break };
            for notice in change.notices(&lists) {
                subscription.send(notice).await;
            }
        }
        let mut result = SubscriptionsListenResult::complete(context.id.clone());
        result.meta.set_server_info(self.get_info().server_info);
        Ok(json!(result))
    }
}
