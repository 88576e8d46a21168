//! Tells a client what changed: which lists, which of the files that it watches, and, in the revision 2026-07-28, the states of its tasks.

use std::collections::BTreeSet;
use std::sync::Arc;

use rmcp::model::{
    ClientCapabilities, CustomNotification, ErrorCode, GetMeta, PromptListChangedNotification, RequestId,
    ResourceListChangedNotification, ResourceUpdatedNotification, ResourceUpdatedNotificationParam,
    ServerNotification, SubscriptionFilter, SubscriptionsListenResult, TaskStatusNotification,
    TaskStatusNotificationParams, ToolListChangedNotification,
};
use rmcp::service::{Peer, RequestContext};
use rmcp::{ErrorData, RoleServer, ServerHandler};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::backlog::{Answer, json_size};
use super::client::{Handler, MAX_FILES, WatchedFiles, answer_of, needs_objects};
use super::inventory::Offer;
use super::task::follow;

/// Tasks of one subscription.
const MAX_TASKS: usize = 1_000;

/// The changes since a client was told last.
pub(super) struct ListChanges {
    offers: watch::Receiver<Offer>,
    before: Offer,
}

/// What changed at once.
pub(super) struct ListChange {
    before: Offer,
    now: Offer,
}

impl ListChanges {
    /// From now on.
    pub(super) fn new(mut offers: watch::Receiver<Offer>) -> Self {
        let before = offers.borrow_and_update().clone();
        Self { offers, before }
    }

    /// Waits for the next change; `None` at the end of the server.
    pub(super) async fn next(&mut self) -> Option<ListChange> {
        self.offers.changed().await.ok()?;
        let now = self.offers.borrow_and_update().clone();
        let before = std::mem::replace(&mut self.before, now.clone());
        Some(ListChange { before, now })
    }
}

impl ListChange {
    /// What a client is sent that wants to be told of this.
    pub(super) fn notices(&self, wanted: &SubscriptionFilter) -> Vec<ServerNotification> {
        let (before, now) = (&self.before, &self.now);
        let mut notices = Vec::new();
        if before.tools != now.tools && wanted.tools_list_changed == Some(true) {
            let notice = ToolListChangedNotification::default();
            notices.push(ServerNotification::ToolListChangedNotification(notice));
        }
        if before.prompts != now.prompts && wanted.prompts_list_changed == Some(true) {
            let notice = PromptListChangedNotification::default();
            notices.push(ServerNotification::PromptListChangedNotification(notice));
        }
        // Files that were not looked at before have not changed.
        let (Some(before), Some(now)) = (&before.files, &now.files) else { return notices };
        if before == now {
            return notices;
        }
        if wanted.resources_list_changed == Some(true) {
            let notice = ResourceListChangedNotification::default();
            notices.push(ServerNotification::ResourceListChangedNotification(notice));
        }
        let files = wanted.resource_subscriptions.iter().flatten();
        for file in files.filter(|file| before.get(*file) != now.get(*file)) {
            let params = ResourceUpdatedNotificationParam::new(file);
            let notice = ResourceUpdatedNotification::new(params);
            notices.push(ServerNotification::ResourceUpdatedNotification(notice));
        }
        notices
    }
}

/// Tells a client of a revision with sessions what changed, as long as it is there.
pub(super) async fn announce_changes(
    peer: Peer<RoleServer>,
    offers: watch::Receiver<Offer>,
    files: Arc<WatchedFiles>,
) {
    let mut changes = ListChanges::new(offers);
    let mut wanted = SubscriptionFilter::builder()
        .tools_list_changed()
        .prompts_list_changed()
        .resources_list_changed()
        .build();
    while let Some(change) = changes.next().await {
        if peer.is_transport_closed() {
            return;
        }
        wanted.resource_subscriptions = Some(files.all());
        for notice in change.notices(&wanted) {
            peer.send_notification(notice).await.ok();
        }
    }
}

/// What of a filter a client is told of.
pub(super) fn accepted_filter(requested: &SubscriptionFilter) -> SubscriptionFilter {
    let mut accepted = requested.clone();
    if let Some(files) = &mut accepted.resource_subscriptions {
        files.truncate(MAX_FILES);
    }
    for list in [
        &mut accepted.tools_list_changed,
        &mut accepted.prompts_list_changed,
        &mut accepted.resources_list_changed,
    ] {
        *list = list.filter(|is_wanted| *is_wanted);
    }
    accepted
}

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
        let mut changes = ListChanges::new(self.server.offers.clone());
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
