//! Tells a client which lists changed.

use rmcp::RoleServer;
use rmcp::model::{
    PromptListChangedNotification, ResourceListChangedNotification, ServerNotification, SubscriptionFilter,
    ToolListChangedNotification,
};
use rmcp::service::Peer;
use tokio::sync::watch;

use super::changes::Offer;

/// The changes since a client was told last.
pub(super) struct ListChanges {
    offers: watch::Receiver<Offer>,
    before: Offer,
}

impl ListChanges {
    /// From now on.
    pub(super) fn new(mut offers: watch::Receiver<Offer>) -> Self {
        let before = offers.borrow_and_update().clone();
        Self { offers, before }
    }

    /// Waits for the next change, and returns what it is announced by; `None` at the end of the server.
    pub(super) async fn next(&mut self) -> Option<Vec<ServerNotification>> {
        self.offers.changed().await.ok()?;
        let now = self.offers.borrow_and_update().clone();
        let before = std::mem::replace(&mut self.before, now.clone());
        let mut notices = Vec::new();
        if before.tools != now.tools {
            let notice = ToolListChangedNotification::default();
            notices.push(ServerNotification::ToolListChangedNotification(notice));
        }
        if before.prompts != now.prompts {
            let notice = PromptListChangedNotification::default();
            notices.push(ServerNotification::PromptListChangedNotification(notice));
        }
        if before.resources != now.resources {
            let notice = ResourceListChangedNotification::default();
            notices.push(ServerNotification::ResourceListChangedNotification(notice));
        }
        Some(notices)
    }
}

/// Tells a client of a revision with sessions what changed, as long as it is there.
pub(super) async fn announce_changes(peer: Peer<RoleServer>, offers: watch::Receiver<Offer>) {
    let mut changes = ListChanges::new(offers);
    while let Some(notices) = changes.next().await {
        if peer.is_transport_closed() {
            return;
        }
        for notice in notices {
            peer.send_notification(notice).await.ok();
        }
    }
}

/// The lists of a filter that a client is told of.
pub(super) fn accepted_lists(requested: &SubscriptionFilter) -> SubscriptionFilter {
    let mut accepted = requested.clone();
    accepted.resource_subscriptions = None;
    for list in [
        &mut accepted.tools_list_changed,
        &mut accepted.prompts_list_changed,
        &mut accepted.resources_list_changed,
    ] {
        *list = list.filter(|is_wanted| *is_wanted);
    }
    accepted
}

/// Whether a client with this filter is told of it.
pub(super) fn is_accepted(accepted: &SubscriptionFilter, notice: &ServerNotification) -> bool {
    let list = match notice {
        ServerNotification::ToolListChangedNotification(_) => accepted.tools_list_changed,
        ServerNotification::PromptListChangedNotification(_) => accepted.prompts_list_changed,
        ServerNotification::ResourceListChangedNotification(_) => accepted.resources_list_changed,
        _ => None,
    };
    list == Some(true)
}
