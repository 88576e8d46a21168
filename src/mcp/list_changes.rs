//! Tells a client which lists changed, and which of the files that it wants to be told of.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rmcp::RoleServer;
use rmcp::model::{
    PromptListChangedNotification, ResourceListChangedNotification, ResourceUpdatedNotification,
    ResourceUpdatedNotificationParam, ServerNotification, SubscriptionFilter, ToolListChangedNotification,
};
use rmcp::service::Peer;
use tokio::sync::watch;

use super::changes::Offer;

/// Files that a client is told of, in one session or subscription.
const MAX_FILES: usize = 1_000;
/// Bytes of the address of one of them.
const MAX_ADDRESS: usize = 4_096;

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

/// The files that a client of a revision with sessions is told of.
#[derive(Default)]
pub(super) struct WatchedFiles(Mutex<BTreeSet<String>>);

impl WatchedFiles {
    /// Adds the file with this address, whether it is there or not yet; false if there are too many, or if no file could have it.
    pub(super) fn add(&self, uri: String) -> bool {
        let mut files = self.lock();
        let is_added = uri.len() <= MAX_ADDRESS && (files.len() < MAX_FILES || files.contains(&uri));
        if is_added {
            files.insert(uri);
        }
        is_added
    }

    pub(super) fn remove(&self, uri: &str) {
        self.lock().remove(uri);
    }

    fn lock(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
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
        wanted.resource_subscriptions = Some(files.lock().iter().cloned().collect());
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
