//! Follows the state of a task, so that its client need not poll.

use std::sync::Arc;
use std::time::Duration;

use rmcp::model::DetailedTask;

use super::task::Task;

/// Between two states that are passed on. Of those that come faster, only the last one is.
const PAUSE: Duration = Duration::from_millis(100);

/// Passes on each state that differs from the one before, until the task has ended or `pass_on` returns false. Without a known
/// state, it begins with the present one. `reserve` is waited for before the last state with its result, of so many bytes, is made.
pub(super) async fn follow<R: Future<Output = ()> + Send, F: Future<Output = bool> + Send>(
    task: Arc<Task>,
    mut known: Option<DetailedTask>,
    reserve: impl Fn(usize) -> R + Send,
    pass_on: impl Fn(DetailedTask) -> F + Send,
) {
    let mut changes = task.changes();
    loop {
        changes.mark_unchanged();
        if task.has_ended() {
            reserve(task.result_size()).await;
            pass_on(task.details()).await;
            return;
        }
        let state = task.details();
        if state.status().is_terminal() {
            continue;
        }
        if known.as_ref() != Some(&state) {
            if !pass_on(state.clone()).await {
                return;
            }
            known = Some(state);
        }
        tokio::time::sleep(PAUSE).await;
        if changes.changed().await.is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use rmcp::model::{CallToolResult, TaskStatus};

    use super::*;
    use metier_core::policy::CancelToken;

    fn task() -> Arc<Task> {
        Task::new("owner".to_owned(), CancelToken::new(), Duration::from_mins(1)).unwrap()
    }

    #[tokio::test]
    async fn each_state_is_passed_on_and_many_at_once_are_one() {
        let (task, seen) = (task(), Arc::new(Mutex::new(Vec::new())));
        let following = tokio::spawn(follow(task.clone(), None, |_| std::future::ready(()), {
            let seen = seen.clone();
            move |state| {
                seen.lock().unwrap().push((state.status(), state.task.status_message));
                std::future::ready(true)
            }
        }));
        tokio::time::sleep(PAUSE * 2).await;
        for number in 0..1_000 {
            task.report(&number.to_string());
        }
        tokio::time::sleep(PAUSE * 2).await;
        for number in 1_000..2_000 {
            task.report(&number.to_string());
            tokio::task::yield_now().await;
        }
        task.finish(&CallToolResult::success(Vec::new()), false);
        following.await.unwrap();
        let seen = seen.lock().unwrap();
        assert_eq!(seen.first(), Some(&(TaskStatus::Working, None)));
        assert_eq!(seen.get(1), Some(&(TaskStatus::Working, Some("999".to_owned()))));
        assert_eq!(seen.last(), Some(&(TaskStatus::Completed, None)));
        assert!(seen.len() <= 4, "{seen:?}");
    }

    #[tokio::test]
    async fn who_does_not_read_any_more_is_not_followed() {
        let (task, count) = (task(), Arc::new(Mutex::new(0)));
        let following =
            tokio::spawn(follow(task.clone(), Some(task.details()), |_| std::future::ready(()), {
                let count = count.clone();
                move |_| {
                    *count.lock().unwrap() += 1;
                    std::future::ready(false)
                }
            }));
        tokio::time::sleep(PAUSE * 2).await;
        assert_eq!(*count.lock().unwrap(), 0);
        task.report("one");
        following.await.unwrap();
        assert_eq!(*count.lock().unwrap(), 1);
    }
}
