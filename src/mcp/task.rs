//! A task: a call that goes on after it was answered with an id, what a client sees of it, and what it asks the client; and the tasks of one
//! caller.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rmcp::model::{
    CallToolResult, DetailedTask, InputRequest, InputResponses, JsonObject, TaskPayload, TaskStatus,
};
use serde_json::{Value, json};
use tokio::sync::{Notify, oneshot, watch};

use metier_core::excerpt::shorten;
use metier_core::policy::{CancelToken, Timestamp};

/// How long the result of a task can be read after its end.
const RESULT_LIFETIME: Duration = Duration::from_hours(1);
/// How often a client should ask for the state.
const POLL_INTERVAL_MS: u64 = 500;
/// The most characters of the message about the state.
const MAX_MESSAGE: usize = 500;
/// How long a task may take. It is stopped then.
const LIFETIME: Duration = Duration::from_hours(24);
/// Tasks of one caller. Those that have ended make space, the oldest first.
const MAX_TASKS: usize = 1_000;
/// Bytes of the results of these tasks together.
const MAX_RESULT_BYTES: usize = 64 << 20;
/// Between two states that are passed on. Of those that come faster, only the last one is.
const PAUSE: Duration = Duration::from_millis(100);

/// A call that may become a task, or is one.
pub(super) struct Task {
    id: String,
    owner: String,
    /// Stops the run.
    cancel: CancelToken,
    created_at: Timestamp,
    started: Instant,
    state: Mutex<TaskState>,
    /// Told when the run asks something while the call still waits for its result.
    needs_client: Notify,
    has_end: Notify,
    /// Told of each change of what a client sees.
    changes: watch::Sender<()>,
    kind: TaskKind,
}

/// Who decides that a call is a task.
#[derive(Clone, Copy, PartialEq, Eq)]
enum TaskKind {
    /// The server. Questions are part of its state.
    Extension,
    /// The client, with its time to live. Questions are requests of the server.
    Session,
}

struct TaskState {
    phase: Phase,
    message: Option<String>,
    updated_at: Timestamp,
    /// From the beginning to the moment at which the task is forgotten, whatever it does then.
    lifetime: Duration,
    questions: BTreeMap<String, OpenQuestion>,
    /// How many questions there were, so that each has a key of its own.
    question_count: u64,
    /// How many requests of the server wait for the client.
    request_count: usize,
    /// Whether somebody else than the client decides whether it goes on.
    waits_for_person: bool,
    is_cancelled: bool,
    end: Option<TaskEnd>,
}

/// What a client knows of a task.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Nothing: the call waits for its result.
    Call,
    /// Nothing, and it never will: the call is answered by the run, or with a question that comes before it.
    CallOnly,
    /// Its id.
    Task,
}

struct OpenQuestion {
    request: InputRequest,
    answer: oneshot::Sender<Value>,
}

enum TaskEnd {
    Completed { result: JsonObject, size: usize },
    Cancelled,
}

impl Task {
    /// For a call of this owner, which the token stops; `None` if the system has no random numbers for its id.
    pub(super) fn new(owner: String, cancel: CancelToken, lifetime: Duration) -> Option<Arc<Self>> {
        Self::of_kind(TaskKind::Extension, owner, cancel, lifetime)
    }

    /// The same for a call that its client wants to be a task with this time to live.
    pub(super) fn for_session(owner: String, cancel: CancelToken, lifetime: Duration) -> Option<Arc<Self>> {
        Self::of_kind(TaskKind::Session, owner, cancel, lifetime)
    }

    fn of_kind(kind: TaskKind, owner: String, cancel: CancelToken, lifetime: Duration) -> Option<Arc<Self>> {
        let mut random = [0; 16];
        getrandom::fill(&mut random).ok()?;
        let now = Timestamp::now();
        let state = TaskState {
            phase: Phase::Call,
            message: None,
            updated_at: now,
            lifetime,
            questions: BTreeMap::new(),
            question_count: 0,
            request_count: 0,
            waits_for_person: false,
            is_cancelled: false,
            end: None,
        };
        Some(Arc::new(Self {
            id: format!("{:032x}", u128::from_be_bytes(random)),
            owner,
            cancel,
            created_at: now,
            started: Instant::now(),
            state: Mutex::new(state),
            needs_client: Notify::new(),
            has_end: Notify::new(),
            changes: watch::Sender::new(()),
            kind,
        }))
    }

    pub(super) fn id(&self) -> &str {
        &self.id
    }

    /// Learns of each change of what a client sees.
    pub(super) fn changes(&self) -> watch::Receiver<()> {
        self.changes.subscribe()
    }

    /// Whether it is the one that this caller means.
    pub(super) fn is(&self, owner: &str, id: &str) -> bool {
        self.id == id && self.owner == owner
    }

    /// Whether its caller is the one.
    fn belongs_to(&self, owner: &str) -> bool {
        self.owner == owner
    }

    /// Whether its progress is reported to whoever asked for it.
    pub(super) fn reports_progress(&self) -> bool {
        self.kind == TaskKind::Session || !self.is_returned()
    }

    /// The token that stops its run.
    pub(super) fn token(&self) -> &CancelToken {
        &self.cancel
    }

    /// Whether the client knows its id.
    fn is_returned(&self) -> bool {
        self.lock().phase == Phase::Task
    }

    /// Makes it a task; false if the call is answered in another way.
    pub(super) fn begin(&self) -> bool {
        let mut state = self.lock();
        if state.phase == Phase::Call && !state.is_cancelled {
            state.phase = Phase::Task;
        }
        state.phase == Phase::Task
    }

    /// Lets it never become a task, so that what it asks from now on is not answered; false if it is one.
    pub(super) fn stay_call(&self) -> bool {
        let mut state = self.lock();
        if state.phase == Phase::Call {
            state.phase = Phase::CallOnly;
            state.questions.clear();
        }
        state.phase == Phase::CallOnly
    }

    /// Waits until the run asks something that only a task can ask.
    pub(super) async fn needs_client(&self) {
        self.needs_client.notified().await;
    }

    /// Whether the run waits for an answer, or for somebody else than the client.
    pub(super) fn is_asking(&self) -> bool {
        let state = self.lock();
        !state.questions.is_empty() || state.waits_for_person
    }

    /// Whether it may wait for somebody else than the client to decide, of which this message tells: it is a task, or becomes one now.
    pub(super) fn wait_for_person(&self, message: &str) -> bool {
        let mut state = self.lock();
        if state.phase == Phase::CallOnly || state.is_cancelled || state.end.is_some() {
            return false;
        }
        state.message = Some(shorten(message, MAX_MESSAGE));
        state.waits_for_person = true;
        self.mark_changed(&mut state);
        if state.phase == Phase::Call {
            self.needs_client.notify_one();
        }
        true
    }

    /// Asks the client, and waits for its answer; `None` if none can come any more or the run was stopped.
    pub(super) async fn ask(&self, kind: &str, request: InputRequest) -> Option<Value> {
        let (answer, answered) = oneshot::channel();
        let key = {
            let mut state = self.lock();
            if state.phase == Phase::CallOnly || state.is_cancelled || state.end.is_some() {
                return None;
            }
            state.question_count += 1;
            let key = format!("{kind}-{}", state.question_count);
            state.questions.insert(key.clone(), OpenQuestion { request, answer });
            self.mark_changed(&mut state);
            if state.phase == Phase::Call {
                self.needs_client.notify_one();
            }
            key
        };
        let _question = QuestionGuard { task: self, key };
        tokio::select! {
            answer = answered => answer.ok(),
            _ = self.cancel.cancelled() => None,
        }
    }

    /// Passes answers on to those who wait for them. Others are ignored: nobody asked, or somebody answered before.
    pub(super) fn answer(&self, answers: InputResponses) {
        let mut state = self.lock();
        for (key, answer) in answers {
            if let Some(question) = state.questions.remove(&key) {
                self.mark_changed(&mut state);
                question.answer.send(answer).ok();
            }
        }
    }

    /// Sets the message about the state.
    pub(super) fn report(&self, message: &str) {
        let mut state = self.lock();
        if state.end.is_none() {
            state.message = Some(shorten(message, MAX_MESSAGE));
            self.mark_changed(&mut state);
        }
    }

    /// Lets its state say that the client has something to answer, until what is returned is dropped.
    pub(super) fn wait_for_client(self: &Arc<Self>) -> ClientWait {
        self.change_request_count(|count| count + 1);
        ClientWait(self.clone())
    }

    /// Waits for its end.
    pub(super) async fn ended(&self) {
        loop {
            let ended = self.has_end.notified();
            if self.has_ended() {
                return;
            }
            ended.await;
        }
    }

    /// Ends it at once, and stops the run; false if it has ended.
    pub(super) fn cancel(&self) -> bool {
        self.stop();
        let mut state = self.lock();
        if state.end.is_some() {
            return false;
        }
        self.end(&mut state, TaskEnd::Cancelled);
        true
    }

    /// Stops the run. A task that has ended stays as it is.
    pub(super) fn stop(&self) {
        {
            let mut state = self.lock();
            if state.end.is_some() {
                return;
            }
            state.is_cancelled = true;
            self.mark_changed(&mut state);
        }
        // Before those who wait for an answer learn that none comes, so that the run ends as one that was stopped.
        self.cancel.cancel();
        let mut state = self.lock();
        if !std::mem::take(&mut state.questions).is_empty() {
            self.mark_changed(&mut state);
        }
    }

    /// Ends it, after its run has ended. The result can be read for an hour. A run that failed after it was told to stop was
    /// cancelled.
    pub(super) fn finish(&self, result: &CallToolResult, has_failed: bool) {
        let object = match serde_json::to_value(result) {
            Ok(Value::Object(object)) => object,
            _ => JsonObject::new(),
        };
        let mut state = self.lock();
        if state.end.is_some() {
            return;
        }
        let end = if has_failed && state.is_cancelled {
            TaskEnd::Cancelled
        } else {
            let size = json!(object).to_string().len();
            TaskEnd::Completed { result: object, size }
        };
        self.end(&mut state, end);
    }

    fn end(&self, state: &mut TaskState, end: TaskEnd) {
        let is_cancelled = matches!(end, TaskEnd::Cancelled);
        state.message = is_cancelled.then(|| "the task was cancelled".to_owned());
        state.end = Some(end);
        state.questions.clear();
        let elapsed = self.started.elapsed();
        if self.kind == TaskKind::Extension && elapsed < state.lifetime {
            state.lifetime = elapsed + RESULT_LIFETIME;
        }
        self.mark_changed(state);
        self.has_end.notify_waiters();
    }

    /// Whether its run has ended.
    pub(super) fn has_ended(&self) -> bool {
        self.lock().end.is_some()
    }

    /// Whether its time to live is over.
    fn has_expired(&self) -> bool {
        self.started.elapsed() >= self.lock().lifetime
    }

    /// The time that is left of its time to live.
    pub(super) fn time_left(&self) -> Duration {
        let lifetime = self.lock().lifetime;
        lifetime.saturating_sub(self.started.elapsed())
    }

    /// The bytes of its result.
    pub(super) fn result_size(&self) -> usize {
        match &self.lock().end {
            Some(TaskEnd::Completed { size, .. }) => *size,
            _ => 0,
        }
    }

    /// The task as the client sees it without its result and its questions.
    pub(super) fn summary(&self) -> rmcp::model::Task {
        let state = self.lock();
        self.summary_with(&state)
    }

    /// The task as the client sees it.
    pub(super) fn details(&self) -> DetailedTask {
        let state = self.lock();
        let payload = match &state.end {
            Some(TaskEnd::Completed { result, .. }) => TaskPayload::Completed { result: result.clone() },
            Some(TaskEnd::Cancelled) => TaskPayload::Cancelled,
            None if state.questions.is_empty() && state.request_count == 0 => TaskPayload::Working,
            None => TaskPayload::InputRequired {
                input_requests: state
                    .questions
                    .iter()
                    .map(|(key, question)| (key.clone(), question.request.clone()))
                    .collect(),
            },
        };
        DetailedTask::new(self.summary_with(&state), payload)
    }

    fn summary_with(&self, state: &TaskState) -> rmcp::model::Task {
        let status = match &state.end {
            Some(TaskEnd::Completed { .. }) => TaskStatus::Completed,
            Some(TaskEnd::Cancelled) => TaskStatus::Cancelled,
            None if state.questions.is_empty() && state.request_count == 0 => TaskStatus::Working,
            None => TaskStatus::InputRequired,
        };
        let lifetime = u64::try_from(state.lifetime.as_millis()).unwrap_or(u64::MAX);
        let (created_at, updated_at) = (self.created_at.to_string(), state.updated_at.to_string());
        let mut task = rmcp::model::Task::new(self.id.clone(), status, created_at, updated_at)
            .with_ttl_ms(lifetime)
            .with_poll_interval_ms(POLL_INTERVAL_MS);
        task.status_message.clone_from(&state.message);
        task
    }

    fn mark_changed(&self, state: &mut TaskState) {
        state.updated_at = Timestamp::now();
        self.changes.send_replace(());
    }

    fn change_request_count(&self, change: impl FnOnce(usize) -> usize) {
        let mut state = self.lock();
        let was_waiting = state.request_count > 0;
        state.request_count = change(state.request_count);
        if state.end.is_none() && was_waiting != (state.request_count > 0) {
            self.mark_changed(&mut state);
        }
    }

    fn lock(&self) -> MutexGuard<'_, TaskState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A question that stands as long as somebody waits for its answer.
struct QuestionGuard<'a> {
    task: &'a Task,
    key: String,
}

impl Drop for QuestionGuard<'_> {
    fn drop(&mut self) {
        let mut state = self.task.lock();
        if state.questions.remove(&self.key).is_some() {
            self.task.mark_changed(&mut state);
        }
    }
}

/// The client has something to answer.
pub(super) struct ClientWait(Arc<Task>);

impl Drop for ClientWait {
    fn drop(&mut self) {
        self.0.change_request_count(|count| count - 1);
    }
}

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

    use rmcp::model::{CallToolResult, ContentBlock, TaskStatus};

    use super::*;

    fn task(lifetime: Duration) -> Arc<Task> {
        Task::new("owner".to_owned(), CancelToken::new(), lifetime).unwrap()
    }

    fn request() -> InputRequest {
        let schema = json!({"type": "object", "properties": {}});
        let params = json!({"mode": "form", "message": "?", "requestedSchema": schema});
        serde_json::from_value(json!({"method": "elicitation/create", "params": params})).unwrap()
    }

    fn keys(task: &Task) -> Vec<String> {
        let details = serde_json::to_value(task.details()).unwrap();
        details["inputRequests"].as_object().into_iter().flatten().map(|(key, _)| key.clone()).collect()
    }

    #[test]
    fn ids_differ_and_belong_to_their_owner() {
        let (one, two) = (task(Duration::MAX), task(Duration::MAX));
        assert!(one.id.len() == 32 && one.id != two.id);
        assert!(one.is("owner", &one.id) && !one.is("other", &one.id) && !one.is("owner", &two.id));
    }

    #[tokio::test]
    async fn an_answer_is_for_one_question_once() {
        let task = task(Duration::from_mins(1));
        let asking = tokio::spawn({
            let task = task.clone();
            async move { [task.ask("input", request()).await, task.ask("input", request()).await] }
        });
        task.needs_client().await;
        assert!(task.begin());
        assert_eq!(keys(&task), ["input-1"]);
        let answers = |key: &str, answer: Value| InputResponses::from([(key.to_owned(), answer)]);
        task.answer(answers("input-7", json!("of nobody")));
        task.answer(answers("input-1", json!("first")));
        while keys(&task) != ["input-2"] {
            tokio::task::yield_now().await;
        }
        task.answer(answers("input-1", json!("replayed")));
        assert_eq!(keys(&task), ["input-2"]);
        task.answer(answers("input-2", json!("second")));
        assert_eq!(asking.await.unwrap(), [Some(json!("first")), Some(json!("second"))]);
    }

    #[tokio::test]
    async fn what_cannot_be_answered_is_not_asked() {
        let call = task(Duration::from_mins(1));
        assert!(call.stay_call() && !call.begin());
        assert_eq!(call.ask("input", request()).await, None);
        let stopped = task(Duration::from_mins(1));
        let asking = tokio::spawn({
            let task = stopped.clone();
            async move { task.ask("input", request()).await }
        });
        stopped.needs_client().await;
        stopped.stop();
        assert_eq!(asking.await.unwrap(), None);
        assert_eq!(stopped.ask("input", request()).await, None);
    }

    #[test]
    fn an_end_stays_and_its_time_to_live_begins_anew() {
        let task = task(Duration::from_mins(1));
        task.begin();
        task.report("half of it");
        assert_eq!(task.summary().status_message.as_deref(), Some("half of it"));
        task.finish(&CallToolResult::success(Vec::new()), false);
        task.stop();
        assert_eq!(task.details().status(), TaskStatus::Completed);
        assert!(task.time_left() > Duration::from_mins(59) && task.result_size() > 2);
        assert!(!task.token().is_cancelled());
    }

    #[test]
    fn a_run_that_finished_before_it_could_be_stopped_has_its_result() {
        for (has_failed, status) in [(false, TaskStatus::Completed), (true, TaskStatus::Cancelled)] {
            let task = task(Duration::from_mins(1));
            task.begin();
            task.stop();
            task.finish(&CallToolResult::success(Vec::new()), has_failed);
            assert_eq!(task.details().status(), status);
        }
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

    #[tokio::test]
    async fn each_state_is_passed_on_and_many_at_once_are_one() {
        let (task, seen) = (task(Duration::from_mins(1)), Arc::new(Mutex::new(Vec::new())));
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
        let (task, count) = (task(Duration::from_mins(1)), Arc::new(Mutex::new(0)));
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
