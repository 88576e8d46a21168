//! A client of the server: who calls, what belongs to its session, and what it shares with all others.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use rmcp::RoleServer;
use rmcp::model::ErrorData;
use rmcp::service::RequestContext;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tokio::sync::{Semaphore, watch};
use tokio::task::AbortHandle;

use super::backlog::{Answer, Backlog, LIST_BYTES, READ_BYTES};
use super::call_queue::CallQueue;
#[cfg(unix)]
use super::change_sets::ChangeSets;
use super::disclosure::ActivatedSkills;
use super::elicitation::{Elicitor, can_ask};
use super::forms::Form;
use super::inventory::{Inventory, Offer};
use super::options::McpOptions;
use super::plan_journals::PlanJournals;
use super::postponed_request::{FormTrust, RequestStates, StateOwner};
use super::question::AnswerMemory;
use super::results::ResultStore;
use super::skill_content::shown_text;
use super::task::{Task, TaskStore};
use crate::engine::Engine;
use metier_core::error::{ErrorKind, SkillError};
use metier_core::policy::SkillDigest;

/// Requests of one caller for which files are read at a time.
const MAX_READERS: usize = 2;
/// How long the server waits at its end until its calls have ended.
const END_TIMEOUT: Duration = Duration::from_secs(5);
/// How often it looks whether the cleanup after them has ended.
const CLEANUP_INTERVAL: Duration = Duration::from_millis(5);
/// Files that a client is told of, in one session or subscription.
pub(super) const MAX_FILES: usize = 1_000;
/// Bytes of the address of one of them.
const MAX_ADDRESS: usize = 4_096;

/// What all clients of a server share.
pub(super) struct ServerState {
    pub(super) engine: Engine,
    pub(super) options: McpOptions,
    pub(super) offers: watch::Receiver<Offer>,
    pub(super) queue: Arc<CallQueue>,
    /// What questions to clients need; `None` if no client is asked.
    pub(super) request_states: Option<RequestStates>,
    pub(super) plan_journals: Option<PlanJournals>,
}

/// One caller of a server: the one client over standard streams, or who has one of the tokens over HTTP.
pub(super) struct Caller {
    /// Differs for each caller of a server.
    pub(super) number: usize,
    /// Whether nobody else may be taken for it.
    pub(super) is_identified: bool,
    /// What it is known by to a later server; `None` if others may be taken for it.
    pub(super) identity: Option<String>,
    /// Whether its answers hold for later calls, too.
    pub(super) answers: AnswerMemory,
    pub(super) results: ResultStore,
    #[cfg(unix)]
    pub(super) change_sets: ChangeSets,
    pub(super) tasks: TaskStore,
    pub(super) backlog: Arc<Backlog>,
    readers: Semaphore,
}

/// What belongs to one client alone: to its session, or to one request where there are none.
pub(super) struct Session {
    pub(super) caller: Arc<Caller>,
    pub(super) activated: ActivatedSkills,
    pub(super) watched: Arc<WatchedFiles>,
    /// The task that tells the client what changed; it ends with the session.
    pub(super) announcing: OnceLock<AbortHandle>,
}

/// The files that a client of a revision with sessions is told of.
#[derive(Default)]
pub(super) struct WatchedFiles(Mutex<BTreeSet<String>>);

/// Handles the requests of one client.
pub(super) struct Handler {
    pub(super) server: Arc<ServerState>,
    pub(super) session: Arc<Session>,
}

impl ServerState {
    /// For callers with the numbers below `callers`.
    pub(super) fn new(
        engine: Engine,
        options: McpOptions,
        offers: watch::Receiver<Offer>,
        callers: usize,
    ) -> Self {
        let queue = CallQueue::new(options.max_calls, callers);
        let request_states = RequestStates::new().filter(|_| options.asks_clients);
        let plan_journals = options.plan_journals.clone().map(PlanJournals::new);
        Self { engine, options, offers, queue, request_states, plan_journals }
    }

    /// Waits until no call is in progress, and lets none begin.
    pub(super) async fn finish(&self) {
        let cleaned_up = async {
            // What processes leave behind is removed after their runs have ended.
            while self.engine.runs_processes() {
                tokio::time::sleep(CLEANUP_INTERVAL).await;
            }
        };
        self.queue.close(cleaned_up, END_TIMEOUT).await;
    }
}

impl Caller {
    /// The client over standard streams, which the user started.
    pub(super) fn user() -> Self {
        Self::new(0, Some("user".to_owned()), AnswerMemory::Remembered)
    }

    pub(super) fn new(number: usize, identity: Option<String>, answers: AnswerMemory) -> Self {
        Self {
            number,
            is_identified: identity.is_some(),
            identity,
            answers,
            results: ResultStore::default(),
            #[cfg(unix)]
            change_sets: ChangeSets::default(),
            tasks: TaskStore::default(),
            backlog: Arc::default(),
            readers: Semaphore::new(MAX_READERS),
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if let Some(task) = self.announcing.get() {
            task.abort();
        }
    }
}

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

    pub(super) fn all(&self) -> Vec<String> {
        self.lock().iter().cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Handler {
    pub(super) fn new(server: Arc<ServerState>, caller: Arc<Caller>) -> Self {
        let (activated, watched, announcing) = Default::default();
        Self { server, session: Arc::new(Session { caller, activated, watched, announcing }) }
    }

    pub(super) fn caller(&self) -> &Arc<Caller> {
        &self.session.caller
    }

    pub(super) fn inventory(&self) -> Arc<Inventory> {
        self.server.offers.borrow().inventory.clone()
    }

    /// Work that reads files, on a thread for it. The answer takes the space of a list then; for more, its size is to be set.
    pub(super) async fn read<T: Send + 'static>(
        &self,
        context: Option<&RequestContext<RoleServer>>,
        work: impl FnOnce(&Engine, &Inventory, &Session) -> T + Send + 'static,
    ) -> Result<T, ErrorData> {
        let readers = self.caller().readers.acquire();
        let _place = match context {
            Some(context) => {
                let place = uncancelled(context, readers).await?;
                reserve(context, READ_BYTES).await?;
                place
            }
            None => readers.await,
        };
        let (engine, inventory, session) =
            (self.server.engine.clone(), self.inventory(), self.session.clone());
        let result = tokio::task::spawn_blocking(move || work(&engine, &inventory, &session)).await;
        if let Some(answer) = context.and_then(answer_of) {
            answer.set_size(LIST_BYTES);
        }
        result.map_err(|_| ErrorData::internal_error("the request failed", None))
    }

    /// Reads the files of the skill, if it has forms.
    pub(super) async fn form_trust(&self, skill: &str, forms: &[Form]) -> Result<FormTrust, ErrorData> {
        if forms.is_empty() {
            return Ok(FormTrust { is_trusted: true, digest: None });
        }
        let (name, shown) = (skill.to_owned(), SkillDigest::new(Sha256::digest(format!("{forms:?}")).into()));
        self.read(None, move |engine, inventory, _| {
            let Some(served) = inventory.skill(&name) else { return FormTrust::default() };
            match engine.trusted_files(&served.skill) {
                Ok(trusted) => {
                    FormTrust { is_trusted: true, digest: Some(format!("{} {shown}", trusted.digest)) }
                }
                // A skill may have no digest, because of what else lies in its folder.
                Err(_) => FormTrust {
                    is_trusted: engine.trust_state(&served.skill).is_trusted(),
                    digest: Some(shown.to_string()),
                },
            }
        })
        .await
    }

    /// What questions need that are the answer of a request; `None` in sessions, and if the client cannot ask.
    pub(super) fn request_states(&self, context: &RequestContext<RoleServer>) -> Option<&RequestStates> {
        self.server.request_states.as_ref().filter(|_| can_ask(context) && !needs_objects(context))
    }

    /// By what a person is asked in a session; `None` without one, and if the client cannot ask.
    pub(super) fn elicitor(
        &self,
        context: &RequestContext<RoleServer>,
        task: Option<Arc<Task>>,
    ) -> Option<Elicitor> {
        let asks = self.server.request_states.is_some() && can_ask(context) && needs_objects(context);
        asks.then(|| Elicitor::new(context, task))
    }

    /// Whose the state of a request with these arguments is, without the name of what it is about.
    pub(super) fn state_owner<'a>(
        &self,
        context: &RequestContext<RoleServer>,
        method: &'static str,
        arguments: &'a Value,
    ) -> StateOwner<'a> {
        let client = client_name(context).unwrap_or_default();
        StateOwner { caller: self.caller().number, client, method, name: "", arguments }
    }

    /// The task that a caller means.
    pub(super) fn task(
        &self,
        id: &str,
        context: &RequestContext<RoleServer>,
    ) -> Result<Arc<Task>, ErrorData> {
        self.caller().tasks.find(&self.task_owner(context), id).ok_or_else(|| {
            let sentence = "there is no task with this id: it has expired, or was of an earlier server; call the tool again";
            ErrorData::invalid_params(sentence, None)
        })
    }

    /// Whose the tasks of a request are, where there are no sessions: the caller's, from the client of this name.
    pub(super) fn task_owner(&self, context: &RequestContext<RoleServer>) -> String {
        format!("{} {}", self.caller().number, client_name(context).unwrap_or_default())
    }
}

/// The name by which the client of a request calls itself.
pub(super) fn client_name(context: &RequestContext<RoleServer>) -> Option<String> {
    context.client_info().map(|client| client.name)
}

/// Whether the client speaks a revision with sessions, in which structured content is always an object.
pub(super) fn needs_objects(context: &RequestContext<RoleServer>) -> bool {
    context.protocol_version().is_none_or(|version| version.has_initialize())
}

/// The answer to this request, where it counts.
pub(super) fn answer_of(context: &RequestContext<RoleServer>) -> Option<&Arc<Answer>> {
    let of_http = || context.extensions.get::<::http::request::Parts>()?.extensions.get();
    context.extensions.get().or_else(of_http)
}

/// Waits until the caller has space for so many bytes more of the answer to this request.
pub(super) async fn reserve(context: &RequestContext<RoleServer>, bytes: usize) -> Result<(), ErrorData> {
    match answer_of(context) {
        Some(answer) => uncancelled(context, answer.reserve(bytes)).await,
        None => Ok(()),
    }
}

/// The result, whose answer has so many bytes.
pub(super) fn set_size<T>(context: &RequestContext<RoleServer>, bytes: usize, result: T) -> T {
    if let Some(answer) = answer_of(context) {
        answer.set_size(bytes);
    }
    result
}

/// What is waited for, unless the request is cancelled before: nobody reads its answer then.
async fn uncancelled<T>(
    context: &RequestContext<RoleServer>,
    awaited: impl Future<Output = T>,
) -> Result<T, ErrorData> {
    tokio::select! {
        biased;
        value = awaited => Ok(value),
        () = context.ct.cancelled() => Err(ErrorData::internal_error("the request was cancelled", None)),
    }
}

pub(super) fn request_error(error: &SkillError) -> ErrorData {
    let sentence = shown_text(error.message());
    match error.kind() {
        ErrorKind::Io => ErrorData::internal_error(sentence, None),
        _ => ErrorData::invalid_params(sentence, Some(json!({"kind": error.kind().name()}))),
    }
}
