//! The tasks of one caller, within bounds that others do not share.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::task::Task;
use metier_core::policy::CancelToken;

/// How long a task may take. It is stopped then.
const LIFETIME: Duration = Duration::from_hours(24);
/// Tasks of one caller. Those that have ended make space, the oldest first.
const MAX_TASKS: usize = 1_000;
/// Bytes of the results of these tasks together.
const MAX_RESULT_BYTES: usize = 64 << 20;

/// The tasks of a caller, the oldest first.
#[derive(Default)]
pub(super) struct TaskStore(Mutex<VecDeque<Arc<Task>>>);

impl TaskStore {
    /// A call that may become a task, and is in no list before that; `None` if the system has no random numbers.
    pub(super) fn prepare(owner: String, cancel: CancelToken) -> Option<Arc<Task>> {
        Task::new(owner, cancel, LIFETIME)
    }

    /// Makes a call a task that its owner finds; false if there are too many, or if the call is answered in another way.
    pub(super) fn add(&self, task: &Arc<Task>) -> bool {
        let mut tasks = self.lock();
        if tasks.len() >= MAX_TASKS {
            let Some(ended) = tasks.iter().position(|task| task.has_ended()) else { return false };
            tasks.remove(ended);
        }
        let is_task = task.begin();
        if is_task {
            tasks.push_back(task.clone());
        }
        is_task
    }

    /// The task of this owner with this id.
    pub(super) fn find(&self, owner: &str, id: &str) -> Option<Arc<Task>> {
        self.lock().iter().find(|task| task.is(owner, id)).cloned()
    }

    /// The tasks of this owner, the oldest first.
    pub(super) fn all(&self, owner: &str) -> Vec<Arc<Task>> {
        self.lock().iter().filter(|task| task.belongs_to(owner)).cloned().collect()
    }

    /// Removes the oldest results while there are too many bytes of them.
    pub(super) fn trim(&self) {
        let mut tasks = self.lock();
        let mut size: usize = tasks.iter().map(|task| task.result_size()).sum();
        tasks.retain(|task| {
            let is_kept = size <= MAX_RESULT_BYTES || task.result_size() == 0;
            if !is_kept {
                size -= task.result_size();
            }
            is_kept
        });
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Arc<Task>>> {
        let mut tasks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        tasks.retain(|task| !task.has_expired());
        tasks
    }
}

#[cfg(test)]
mod tests {
    use rmcp::model::{CallToolResult, ContentBlock};

    use super::*;

    fn task(lifetime: Duration) -> Arc<Task> {
        Task::new("owner".to_owned(), CancelToken::new(), lifetime).unwrap()
    }

    fn id(task: &Task) -> String {
        task.summary().task_id
    }

    #[test]
    fn a_task_is_found_by_its_owner_and_id_until_its_time_is_over() {
        let store = TaskStore::default();
        let (lasting, expired) = (task(Duration::from_mins(1)), task(Duration::ZERO));
        assert!(store.add(&lasting) && store.add(&expired));
        assert!(store.find("owner", &id(&lasting)).is_some());
        assert!(store.find("other", &id(&lasting)).is_none());
        assert!(store.find("owner", &id(&expired)).is_none());
        assert!(store.find("owner", "").is_none());
    }

    #[test]
    fn tasks_are_bounded_and_those_that_ended_make_space() {
        let store = TaskStore::default();
        let tasks: Vec<_> = (0..MAX_TASKS).map(|_| task(Duration::from_mins(1))).collect();
        assert!(tasks.iter().all(|task| store.add(task)));
        let further = task(Duration::from_mins(1));
        assert!(!store.add(&further) && !further.is_returned());
        tasks[3].finish(&CallToolResult::success(Vec::new()), false);
        assert!(store.add(&further));
        assert!(store.find("owner", &id(&tasks[3])).is_none());
        assert!(store.find("owner", &id(&tasks[2])).is_some());
    }

    #[test]
    fn the_oldest_results_go_first() {
        let store = TaskStore::default();
        let text = "x".repeat(MAX_RESULT_BYTES / 2);
        let tasks: Vec<_> = (0..3).map(|_| task(Duration::from_mins(1))).collect();
        for task in &tasks {
            store.add(task);
            task.finish(&CallToolResult::success(vec![ContentBlock::text(text.clone())]), false);
            store.trim();
        }
        let is_there: Vec<bool> = tasks.iter().map(|task| store.find("owner", &id(task)).is_some()).collect();
        // Each takes a little more than half.
        assert_eq!(is_there, [false, false, true]);
    }
}
