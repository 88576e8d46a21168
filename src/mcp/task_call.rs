//! A call whose run outlives the request: it is answered with its result, or after a while with a task.

use std::sync::Arc;
use std::time::Duration;

use rmcp::RoleServer;
use rmcp::model::{CallToolResult, JsonObject, ProgressNotificationParam};
use rmcp::service::RequestContext;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::call::{CallServices, Calls};
use super::caller::Caller;
use super::inventory::ServedTool;
use super::skill_content::shown_line;
use super::task::{Task, TaskStore};
use crate::engine::Outcome;
use crate::pending::PendingState;
use metier_core::error::{ErrorKind, Hint, SkillError};
use metier_core::host::Progress;

/// How often a task looks whether a person has decided about its call.
const DECISION_INTERVAL: Duration = Duration::from_millis(500);

/// What a call was answered with.
pub(super) enum TaskAnswer {
    /// Its run has ended.
    Ended(Box<Outcome>),
    /// Its run goes on.
    Task(rmcp::model::Task),
}

/// Turns what a run came to into the result of its call.
pub(super) type ResultMaker = Box<dyn FnOnce(Outcome) -> CallToolResult + Send>;

/// A call that may be answered with a task: in the revision that has the extension, and if the client knows it.
pub(super) fn prepare(
    calls: &Calls,
    context: &RequestContext<RoleServer>,
    owner: String,
) -> Option<Arc<Task>> {
    let has_extension = context.protocol_version().is_some_and(|version| !version.has_initialize());
    let is_known = context.client_capabilities().is_some_and(|capabilities| capabilities.supports_tasks());
    if has_extension && is_known { TaskStore::prepare(owner, calls.cancel().child()) } else { None }
}

/// Starts the run of a call that may become a task: it goes on whoever waits for it.
pub(super) fn start(
    (calls, caller): (&Arc<Calls>, &Arc<Caller>),
    task: &Arc<Task>,
    tool: ServedTool,
    arguments: JsonObject,
    mut services: CallServices,
) -> JoinHandle<Outcome> {
    let (calls, caller, task) = (calls.clone(), caller.clone(), task.clone());
    let (listener, reported) = (services.progress.take(), task.clone());
    services.progress = Some(Arc::new(move |progress: &Progress| {
        reported.report(&progress_message(progress));
        // In the extension, the progress of a task is part of its state and of nothing else.
        if let Some(listener) = listener.as_ref().filter(|_| reported.reports_progress()) {
            listener(progress);
        }
    }));
    tokio::spawn(async move {
        let run = || {
            let stopped = async {
                task.token().cancelled().await;
            };
            calls.run_unexplained(&caller, &tool, arguments.clone(), stopped, services.clone())
        };
        let outcome = run().await;
        // Its place among the calls that run is free meanwhile.
        let is_decided = waits_for_decision(&calls, &task, &outcome).await;
        calls.explain(&tool, if is_decided { run().await } else { outcome })
    })
}

/// Whether a call that waits for a person's decision has one now. Its task says which decision that is.
async fn waits_for_decision(calls: &Calls, task: &Arc<Task>, outcome: &Outcome) -> bool {
    let Some((error, id)) = outcome.result.as_ref().err().and_then(|error| match error.hint() {
        Some(Hint::Pending(id)) => Some((error, id)),
        _ => None,
    }) else {
        return false;
    };
    while task.wait_for_person(error.message()) {
        tokio::select! {
            () = tokio::time::sleep(DECISION_INTERVAL) => {}
            _ = task.token().cancelled() => return false,
        }
        match calls.pending_state(id).await {
            Some(PendingState::Waiting) => {}
            Some(PendingState::Approved | PendingState::Denied) => return true,
            // It has expired, or an equal call was made.
            None => return false,
        }
    }
    false
}

/// Progress as a text: how much of how much, and the message.
fn progress_message(progress: &Progress) -> String {
    let message = shown_line(&progress.message);
    match (progress.done, progress.total) {
        (Some(done), Some(total)) => format!("{done} of {total}: {message}"),
        (Some(done), None) => format!("{done}: {message}"),
        _ => message,
    }
}

/// Waits for the run, which goes on by itself, and makes it a task when it takes long or has something to ask. If
/// the request is cancelled or forgotten before that, the run is stopped.
pub(super) async fn answer(
    (task_after, caller): (Duration, &Arc<Caller>),
    task: &Arc<Task>,
    mut run: JoinHandle<Outcome>,
    context: &RequestContext<RoleServer>,
    mut reports: Option<mpsc::Receiver<ProgressNotificationParam>>,
    into_result: ResultMaker,
) -> TaskAnswer {
    let guard = StopGuard(Some(task.clone()));
    let mut waited = std::pin::pin!(tokio::time::sleep(task_after));
    let (mut is_waiting, mut is_cancelled) = (true, false);
    let outcome = loop {
        tokio::select! {
            biased;
            outcome = &mut run => break outcome,
            () = context.ct.cancelled(), if !is_cancelled => {
                (is_waiting, is_cancelled) = (false, true);
                task.stop();
            }
            Some(report) = next_report(reports.as_mut()) => drop(context.peer.notify_progress(report).await),
            () = task.needs_client(), if is_waiting => {}
            () = &mut waited, if is_waiting => {}
        }
        let is_due = task.is_asking() || waited.is_elapsed();
        if !is_waiting || !is_due {
            continue;
        }
        is_waiting = false;
        if caller.tasks.add(task) {
            guard.release();
            tokio::spawn(finish(caller.clone(), task.clone(), run, into_result));
            return TaskAnswer::Task(task.summary());
        }
        // There are too many tasks, so it stays a call that nobody can answer questions for.
        task.stay_call();
    };
    guard.release();
    while let Some(report) = reports.as_mut().and_then(|reports| reports.try_recv().ok()) {
        context.peer.notify_progress(report).await.ok();
    }
    TaskAnswer::Ended(Box::new(outcome.unwrap_or_else(|_| broken_run())))
}

async fn next_report(
    reports: Option<&mut mpsc::Receiver<ProgressNotificationParam>>,
) -> Option<ProgressNotificationParam> {
    reports?.recv().await
}

/// Waits for the end of the run of a task, and stops it when its time to live is over.
pub(super) async fn finish(
    caller: Arc<Caller>,
    task: Arc<Task>,
    mut run: JoinHandle<Outcome>,
    into_result: ResultMaker,
) {
    let outcome = tokio::select! {
        outcome = &mut run => outcome,
        () = tokio::time::sleep(task.time_left()) => {
            task.stop();
            run.await
        }
    };
    let outcome = outcome.unwrap_or_else(|_| broken_run());
    // A run that was stopped may fail of what it could not ask any more before it learns that it was stopped.
    let has_failed = outcome.result.is_err();
    task.finish(&into_result(outcome), has_failed);
    caller.tasks.trim();
}

/// What is left when the code around a run panicked.
fn broken_run() -> Outcome {
    Outcome::failed("", SkillError::new(ErrorKind::Unavailable, "the call failed in the server"))
}

/// Stops the run of a request that is forgotten before it was answered.
struct StopGuard(Option<Arc<Task>>);

impl StopGuard {
    fn release(mut self) {
        self.0 = None;
    }
}

impl Drop for StopGuard {
    fn drop(&mut self) {
        if let Some(task) = self.0.take() {
            task.stop();
        }
    }
}
