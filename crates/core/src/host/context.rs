//! The context of one run: the project's files, the skill's files, permissions, limits and log. Scripts see it as `ctx`.
//!
//! Beside it stand the traits of providers, which an embedder implements and which get the context: tools, other skills, a model,
//! settings, secrets, a store of values, an HTTP client, an approver. All are small, and may block; [`Async`](crate::host::Async) makes them of
//! asynchronous ones.
//!
//! A provider's result counts against the memory of the run once it is complete: only the provider can keep it from becoming too
//! large while it is built, and nothing counts the other memory that it takes.
//!
//! Permissions are checked before a provider is called. Every method but those of [`SkillProvider`] is called on a thread of its
//! own: when its run stops, the run ends without waiting for it, and what it returns later is dropped. A method that waits should
//! still listen to `ctx.cancel()`, so that its thread ends. A panic fails the call and nothing else.
//!
//! A provider gets the arguments as the script passed them, including secrets: tools and web pages need them.

mod access;
mod approval;
mod approval_request;
mod authorization;
mod builder;
mod change_decisions;
mod file_editor;
mod http_request;
mod log;
mod reports;
mod run_context;
mod sample;
mod sample_stream;
mod sampling;
mod tool;

use std::any::Any;
use std::collections::BTreeSet;
use std::ops::{Deref, DerefMut};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, Mutex, OnceLock};
use std::time::Duration;

use serde_json::{Map, Value};

use self::change_decisions::ChangeDecisions;
use self::sample_stream::SampleStream;
use super::call_access::{CallAccess, CallRecorder};
use super::extensions::Extensions;
use super::files::{ChangeDecision, FileChange, FileEditor, Files, FilesView};
use super::leftovers::LeftoverPath;
use super::memory::HostMemory;
use super::read_record::ReadRecord;
use super::redaction::Redaction;
use super::report::RunReports;
use super::run_events::RunEvents;
use super::run_facts::{InheritedTrust, NewFiles, OutcomeFilter, ProjectDelta, RunOwner, WithheldValues};
use super::run_id::RunId;
use super::secret_broker::SecretBroker;
use super::secret_origin::SecretOrigin;
use super::steps::StepReport;
use super::streams::{OutputSinks, StdinSource};
use super::variables::Environment;
use crate::error::{ErrorKind, Result, SkillError};
use crate::host::log::RunLog;
use crate::policy::{
    Approval, CancelToken, ConfigField, ExecutionMode, Limits, MemoryBudget, Permissions, SandboxMode,
    SkillDigest, ThreadBudget, WorkerOptions,
};

pub use self::access::{CallRecords, have_same_values};
pub use self::approval::{
    ask_about_host, ask_before_start, ask_to_apply, ask_to_call, ask_to_repeat, ask_to_start,
    may_ask_about_host,
};
pub use self::approval_request::{ApprovalNeed, ApprovalRequest, ConsentReason};
pub use self::authorization::{AuthorizationRequest, Authorizer, authorize};
pub use self::builder::{ContextBuilder, RunContextBuilder};
pub use self::http_request::{HttpRequest, HttpResponse};
pub use self::log::RunMessages;
pub use self::reports::RunReporting;
pub use self::run_context::RunContext;
pub use self::sample::{SampleMessage, SampleRequest, SampleResponse, SampleRole, SampleUsage, StopReason};
pub use self::tool::Tool;

/// Forwards host API calls of a run that executes in another process than its host.
pub trait HostApiClient: Send + Sync {
    /// Calls that function in the host.
    fn call(&self, function: &str, arguments: Vec<Value>) -> Result<Value>;
}

/// The context of one run. The engine creates it; executors call host functions through it and stop when its token is cancelled.
///
/// Cloning is cheap; clones share the same context.
#[derive(Clone)]
pub struct SkillContext {
    inner: Arc<ContextInner>,
    cancel: CancelToken,
    /// The journal path for the plan of a skill that is called now.
    callee_journal: Option<Arc<Path>>,
    /// The index of the plan step that makes calls with this context; `None` for a script.
    step: Option<usize>,
    /// Records what the calls of that step have, if its plan keeps a journal.
    recorder: Option<Arc<CallRecorder>>,
    /// Where the text of a model goes while it comes, in the context of a provider that is asked for it.
    sample: Option<Arc<SampleStream>>,
    /// Whether its calls log nothing.
    is_silent: bool,
    /// What the run sees since a review of its plan, in the place of what it saw at its start.
    files: Option<Arc<RunFiles>>,
}

/// The files that a run sees.
pub struct RunFiles {
    /// Those of its project.
    pub project: Files,
    /// Those of its skill, if they are in the project; elsewhere they stay what they are.
    pub skill: Option<Files>,
}

/// One is made for each run. The large parts that not every run has are boxed: beyond 1,032 bytes, glibc tidies up its free
/// memory at each allocation, which makes a small call 0.5 µs slower.
struct ContextInner {
    run_id: RunId,
    skill: String,
    qualified_name: Option<String>,
    project: Option<Box<Files>>,
    skill_files: Option<Box<Files>>,
    /// Those of a run for which none were set are [`READ_ONLY`].
    permissions: Option<Permissions>,
    limits: Limits,
    sandbox_mode: SandboxMode,
    execution_mode: ExecutionMode,
    host_api_client: Option<Arc<dyn HostApiClient>>,
    worker: Option<WorkerOptions>,
    worker_files: Option<Box<SkillDigest>>,
    log: RunLog,
    /// Where its events go, if somebody observes it.
    events: Option<Arc<RunEvents>>,
    /// Its span, if anybody traces.
    span: Option<Box<tracing::Span>>,
    providers: Providers,
    extensions: Extensions,
    facts: SharedFacts,
    caller: Option<Box<SkillContext>>,
    callee_limits: Option<Box<Limits>>,
    /// Shared budgets, each made where it is first needed, as most small runs need none.
    thread_budget: OnceLock<ThreadBudget>,
    /// In the run that nobody called.
    plan_memory: OnceLock<MemoryBudget>,
    host_memory: OnceLock<HostMemory>,
    host_memory_bytes: u64,
    redaction: Redaction,
    /// Messages that were logged once and are not logged again.
    logged_lines: Mutex<BTreeSet<String>>,
    reports: Mutex<RunReports>,
    /// Used in the run that nobody called.
    change_decisions: ChangeDecisions,
    config_fields: Option<Arc<[ConfigField]>>,
    journal: Option<Box<JournalPlace>>,
    steps: Mutex<Vec<StepReport>>,
    /// What it reads, if that is recorded.
    reads: OnceLock<Arc<ReadRecord>>,
    /// The secrets that it and those that it calls use and do not read, in the run that nobody called.
    broker: OnceLock<Arc<SecretBroker>>,
    /// Whether all that it may use are entered there.
    has_entered_secrets: AtomicBool,
}

/// What the engine and the runtimes know of a run, and its script does not see. The skills that it calls have the same, but for what is said to be
/// its own.
#[derive(Clone, Default)]
#[allow(clippy::struct_excessive_bools, reason = "each is a fact of the run")]
pub struct RunFacts {
    /// Whether a model chose it, or a run that calls it: what a person approved for their own run is not approved for it, and what is only for
    /// the person is not shown.
    pub is_for_model: bool,
    /// Whether the approver is asked about each host that a process tries to reach and nobody granted.
    pub has_host_questions: bool,
    /// Whether it is a trial: a script is given random placeholders in the place of secrets that it reads and was not granted, so that it goes on
    /// and its other needs are seen.
    pub has_placeholders: bool,
    /// Whether nothing runs, and the value of an earlier call is there already.
    pub is_completed_call: bool,
    /// Whether it works in a copy of the project, which a process without a sandbox could leave.
    pub is_in_copy: bool,
    /// Whether the changes in the copy are applied without a question when it has ended.
    pub applies_copy: bool,
    /// The copy, if only the host functions know it.
    pub delta: Option<Arc<ProjectDelta>>,
    /// What its processes may create, if its project is an overlay of its own for that.
    pub new_files: Option<Arc<NewFiles>>,
    /// Reviews the changes of a plan that has reviews: the plan runs in copies of the project until the last of them.
    pub reviewer: Option<Arc<dyn ChangeReviewer>>,
    /// Is given what is taken out of its outcome.
    pub outcome_filter: Option<OutcomeFilter>,
    /// Is notified of what it reads and is refused.
    pub listener: Option<Arc<dyn AccessListener>>,
    /// What the skills that it calls inherit of its trust.
    pub inherited_trust: Option<Arc<InheritedTrust>>,
    /// Its own, if the user's configuration sets anything for its skill.
    pub withheld_values: Option<Arc<WithheldValues>>,
    /// The projects that are not trusted as a whole, canonical, if a model chose the run. Interpreters and packages come from the skill and the
    /// system, not from these projects, where another script may have put them.
    pub untrusted_projects: Arc<[PathBuf]>,
    /// For whom it is, in a program that serves several callers.
    pub owner: Option<RunOwner>,
    /// Files and folders besides its own that a process may read: what a package manager needs. They are real paths.
    pub readable_paths: Arc<[PathBuf]>,
    /// Hosts that the user has configured: a process that may connect to them may do so wherever they are.
    pub configured_hosts: Arc<[String]>,
    /// The variables that it brings. Which of them reach a process, its permissions decide.
    pub environment: Option<Arc<Environment>>,
    /// Where its standard input comes from, if no skill calls it.
    pub stdin: Option<Arc<StdinSource>>,
    /// Where its output goes as it comes, if no skill calls it.
    pub output_sinks: Option<OutputSinks>,
    /// What is copied into the project after the run, if no skill calls it.
    pub leftovers_to_copy: Vec<LeftoverPath>,
    /// The folders in which skills are looked for: a process that changes one makes skills.
    pub skill_roots: Arc<[PathBuf]>,
}

/// What is known of a run; takes no memory where all is as usual.
#[derive(Clone, Default)]
pub struct SharedFacts(Option<Arc<RunFacts>>);

impl Deref for SharedFacts {
    type Target = RunFacts;

    fn deref(&self) -> &RunFacts {
        static USUAL: LazyLock<RunFacts> = LazyLock::new(RunFacts::default);
        self.0.as_deref().unwrap_or_else(|| &USUAL)
    }
}

impl DerefMut for SharedFacts {
    fn deref_mut(&mut self) -> &mut RunFacts {
        Arc::make_mut(self.0.get_or_insert_default())
    }
}

/// Is notified of what a run reads and is refused.
pub trait AccessListener: Send + Sync {
    /// The run reads the secret of this name. An error keeps it from that.
    fn on_secret(&self, ctx: &SkillContext, name: &str, origin: &SecretOrigin) -> Result<()>;

    /// A call of this host function was refused.
    fn on_refusal(&self, ctx: &SkillContext, function: &'static str, error: &SkillError);
}

/// Reviews the changes of a plan.
pub trait ChangeReviewer: Send + Sync {
    /// Shows a person what the steps so far have changed in the copy, with this text of the plan, and applies it if the person agrees. Returns
    /// the value of the step, and the files that later steps see.
    fn review(&self, ctx: &SkillContext, step: &str, text: &str) -> Result<(Value, RunFiles)>;

    /// Ends the copy of a plan that has ended; what no review has applied is lost, and the log says so.
    fn end(&self, ctx: &SkillContext);
}

/// Where the steps of a plan are recorded, and the project whose they are.
pub(crate) struct JournalPlace {
    pub(crate) file: PathBuf,
    /// What tells the project from another one at the same path.
    pub(crate) project: Option<String>,
}

/// What a run may do for which no permissions were set.
static READ_ONLY: LazyLock<Permissions> = LazyLock::new(Permissions::read_only);

impl SkillContext {
    /// The identity of this run. A skill that it calls has another one.
    pub fn run_id(&self) -> RunId {
        self.inner.run_id
    }

    /// The context of the run whose skill calls this one.
    pub fn caller(&self) -> Option<&Self> {
        self.inner.caller.as_deref()
    }

    /// The value of that type that the embedder attached to the invocation with
    /// `Invocation::extension`; skills that the skill calls have it too.
    pub fn extension<T: Any + Send + Sync>(&self) -> Option<&T> {
        self.inner.extensions.get()
    }

    /// The skill's name.
    pub fn skill(&self) -> &str {
        &self.inner.skill
    }

    /// The skill's qualified name, if it has one: it distinguishes the skill from others of the same name.
    pub fn qualified_name(&self) -> Option<&str> {
        self.inner.qualified_name.as_deref()
    }

    /// The project's files as this run may see them: with its permissions and limits.
    pub(super) fn project_view(&self) -> Result<FilesView<'_>> {
        let files = FilesView::with_permissions(self.project()?, self.permissions())
            .with_limits(self.operation_limits());
        Ok(files.with_editor(self.providers().files.as_ref().map(|_| self as &dyn FileEditor)))
    }

    /// The project's root, if there is one.
    pub fn project_root(&self) -> Option<&Path> {
        self.project_files().map(Files::root)
    }

    fn project_files(&self) -> Option<&Files> {
        self.files.as_deref().map(|files| &files.project).or(self.inner.project.as_deref())
    }

    /// What the run may do.
    pub fn permissions(&self) -> &Permissions {
        self.inner.permissions.as_ref().unwrap_or_else(|| &READ_ONLY)
    }

    /// The services that the host offers besides files.
    pub fn providers(&self) -> &Providers {
        &self.inner.providers
    }

    /// Whether the secrets of the run are to be entered now; true once.
    pub(super) fn begins_to_enter_secrets(&self) -> bool {
        !self.inner.has_entered_secrets.swap(true, Ordering::Relaxed)
    }

    /// Where the secrets are kept that the run uses and does not read.
    pub(super) fn broker_cell(&self) -> &OnceLock<Arc<SecretBroker>> {
        &self.inner.broker
    }

    /// The settings and secrets that the skill declares; empty where it declares none.
    pub(crate) fn config_fields(&self) -> &[ConfigField] {
        self.inner.config_fields.as_deref().unwrap_or_default()
    }

    /// The limits of the run.
    pub fn limits(&self) -> &Limits {
        &self.inner.limits
    }

    /// The token that stops the run when the caller cancels it or its deadline passes.
    pub fn cancel(&self) -> &CancelToken {
        &self.cancel
    }
}

/// The services that the host of a run offers besides files. Absent ones are `unavailable` to scripts.
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct Providers {
    /// Tools of the embedder, for `ctx.tool`.
    pub tools: Option<Arc<dyn ToolProvider>>,
    /// Other skills, for `ctx.skill`. The engine sets itself here.
    pub skills: Option<Arc<dyn SkillProvider>>,
    /// A model, for `ctx.sample`.
    pub sampling: Option<Arc<dyn SamplingProvider>>,
    /// Settings, for `ctx.config`; without a provider no skill has any.
    pub config: Option<Arc<dyn ConfigProvider>>,
    /// Secrets, for `ctx.secret`.
    pub secrets: Option<Arc<dyn SecretProvider>>,
    /// Values that skills keep, for `ctx.store_get` and the like. An engine with a folder for state sets its own here.
    pub store: Option<Arc<dyn StoreProvider>>,
    /// HTTP requests, for `ctx.http`.
    pub http: Option<Arc<dyn HttpClient>>,
    /// Decides about permissions that nobody granted; without one, they are refused.
    pub approver: Option<Arc<dyn Approver>>,
    /// The view of an editor over the files of the project.
    pub files: Option<Arc<dyn FileProvider>>,
}

impl Providers {
    /// The same with these tools.
    pub fn tools(self, tools: impl ToolProvider + 'static) -> Self {
        Self { tools: Some(Arc::new(tools)), ..self }
    }

    /// The same with this provider of other skills.
    pub fn skills(self, skills: impl SkillProvider + 'static) -> Self {
        Self { skills: Some(Arc::new(skills)), ..self }
    }

    /// The same with this model.
    pub fn sampling(self, model: impl SamplingProvider + 'static) -> Self {
        Self { sampling: Some(Arc::new(model)), ..self }
    }

    /// The same with these settings.
    pub fn config(self, settings: impl ConfigProvider + 'static) -> Self {
        Self { config: Some(Arc::new(settings)), ..self }
    }

    /// The same with these secrets.
    pub fn secrets(self, secrets: impl SecretProvider + 'static) -> Self {
        Self { secrets: Some(Arc::new(secrets)), ..self }
    }

    /// The same with this store.
    pub fn store(self, store: impl StoreProvider + 'static) -> Self {
        Self { store: Some(Arc::new(store)), ..self }
    }

    /// The same with this HTTP client.
    pub fn http(self, client: impl HttpClient + 'static) -> Self {
        Self { http: Some(Arc::new(client)), ..self }
    }

    /// The same with this approver.
    pub fn approver(self, approver: impl Approver + 'static) -> Self {
        Self { approver: Some(Arc::new(approver)), ..self }
    }

    /// The same with this view of an editor.
    pub fn files(self, editor: impl FileProvider + 'static) -> Self {
        Self { files: Some(Arc::new(editor)), ..self }
    }
}

/// The providers of `base`, with those of `others` in place of the same ones.
pub fn override_providers(base: &Providers, others: &Providers) -> Providers {
    Providers {
        tools: others.tools.as_ref().or(base.tools.as_ref()).cloned(),
        skills: others.skills.as_ref().or(base.skills.as_ref()).cloned(),
        sampling: others.sampling.as_ref().or(base.sampling.as_ref()).cloned(),
        config: others.config.as_ref().or(base.config.as_ref()).cloned(),
        secrets: others.secrets.as_ref().or(base.secrets.as_ref()).cloned(),
        store: others.store.as_ref().or(base.store.as_ref()).cloned(),
        http: others.http.as_ref().or(base.http.as_ref()).cloned(),
        approver: others.approver.as_ref().or(base.approver.as_ref()).cloned(),
        files: others.files.as_ref().or(base.files.as_ref()).cloned(),
    }
}

/// Tools of the embedder.
pub trait ToolProvider: Send + Sync {
    /// All tools.
    fn tools(&self) -> Vec<Tool>;

    /// The tool of that name. Called before every tool call, so a provider with many tools should answer without building the
    /// list.
    fn tool(&self, name: &str) -> Option<Tool> {
        self.tools().into_iter().find(|tool| tool.name == name)
    }

    /// Whether a tool of that name exists, even one without a description. Also called before every tool call.
    fn has(&self, name: &str) -> bool {
        self.tool(name).is_some()
    }

    /// Refuses arguments that the tool does not accept, before it is called: scripts see the error as it is. An engine also
    /// validates them against [`Tool::input_schema`], whatever this returns.
    fn check(&self, name: &str, args: &Value) -> Result<()> {
        let _ = (name, args);
        Ok(())
    }

    /// Calls a tool. Scripts see a failure as an error of kind `tool` with this error's message; the kinds of limits stay. The
    /// result counts against the memory of the run once it is complete, so bound here what a script can make large.
    fn call(&self, ctx: &SkillContext, name: &str, args: &Value) -> Result<Value>;
}

/// Runs other skills for a skill.
pub trait SkillProvider: Send + Sync {
    /// Runs the skill of that name to its end and returns its value. Its permissions are limited to those of the caller. The
    /// input `null` means no input.
    fn run(&self, ctx: &SkillContext, name: &str, input: Value) -> Result<Value>;

    /// Whether a skill that the running one may see offers a tool of that name, `SKILL.TOOL`. Asked where the tools of the host have
    /// none of that name.
    fn has_tool(&self, ctx: &SkillContext, name: &str) -> bool {
        let _ = (ctx, name);
        false
    }

    /// Calls the tool of a skill, by `SKILL.TOOL`, or by `.TOOL` that of the running one, to its end and returns its value. Its permissions are limited to those of the caller.
    /// The input `null` means no input.
    fn call_tool(&self, ctx: &SkillContext, name: &str, input: Value) -> Result<Value> {
        let _ = (ctx, input);
        Err(SkillError::new(ErrorKind::Tool, format!("no tool is called `{name}`")))
    }

    /// Whether the running skill may make a call again that it made in an earlier run, whose value is to be used once more: asks
    /// whoever has to be asked, and runs nothing. Only what an engine recorded is checked here.
    #[doc(hidden)]
    fn check_call(&self, ctx: &SkillContext, call: &CallAccess) -> Result<()> {
        let _ = (ctx, call);
        Err(SkillError::new(ErrorKind::Unavailable, "this host cannot check a call of an earlier run"))
    }

    /// The digest of the files of the skill that runs, as text, for an approver; `None` if they are unknown or cannot be read: then
    /// the engine computes it, and where it cannot, the answer is no.
    fn digest(&self, ctx: &SkillContext) -> Option<String> {
        let _ = ctx;
        None
    }
}

/// A model that continues a text.
pub trait SamplingProvider: Send + Sync {
    /// The model's answer. What comes of it earlier may be handed on with [`SkillContext::stream_sample`].
    fn sample(&self, ctx: &SkillContext, request: &SampleRequest) -> Result<SampleResponse>;
}

/// Settings of skills.
pub trait ConfigProvider: Send + Sync {
    /// The settings of the skill that runs; empty if there are none. A skill of a project may have the name of another one:
    /// [`SkillContext::qualified_name`] tells them apart.
    fn config(&self, ctx: &SkillContext) -> Result<Map<String, Value>>;
}

/// Secrets of skills.
pub trait SecretProvider: Send + Sync {
    /// The secret of this name for the skill that runs, or `None`. Blank secrets are refused. A skill of a project may have the
    /// name of another one: [`SkillContext::qualified_name`] tells them apart.
    fn secret(&self, ctx: &SkillContext, name: &str) -> Result<Option<String>>;

    /// The hosts to which alone the secret of this name goes, each as a permission names it (`api.example.com`, `localhost:8443`); `None`,
    /// the default, if a skill that is permitted to read it reads it.
    fn hosts(&self, ctx: &SkillContext, name: &str) -> Option<Vec<String>> {
        let _ = (ctx, name);
        None
    }

    /// Whether there is a secret of this name, without reading it: asked before a run, and in lists of what can run. `None`, the default,
    /// if only reading it would tell.
    fn has(&self, ctx: &SkillContext, name: &str) -> Option<bool> {
        let _ = (ctx, name);
        None
    }

    /// Where the secret of this name comes from, for a record of who read what. The value is not read.
    #[doc(hidden)]
    fn origin(&self, ctx: &SkillContext, name: &str) -> SecretOrigin {
        let _ = (ctx, name);
        SecretOrigin::Provider
    }
}

/// Keeps values of skills from one run to the next. Permissions, the size of keys and values, and secrets in them were checked.
///
/// `shared` is the name of a store that the skills of the project share; `None` is the own store of the skill that runs, which
/// [`SkillContext::qualified_name`] tells from others.
pub trait StoreProvider: Send + Sync {
    /// The value under a key, or `None`.
    fn get(&self, ctx: &SkillContext, shared: Option<&str>, key: &str) -> Result<Option<Value>>;

    /// Puts a value under a key, in place of an earlier one.
    fn set(&self, ctx: &SkillContext, shared: Option<&str>, key: &str, value: &Value) -> Result<()>;

    /// The keys that begin with `prefix`, in any order.
    fn keys(&self, ctx: &SkillContext, shared: Option<&str>, prefix: &str) -> Result<Vec<String>>;

    /// Removes the value under a key; returns whether there was one.
    fn delete(&self, ctx: &SkillContext, shared: Option<&str>, key: &str) -> Result<bool>;
}

/// The view of an editor over the files of the project: what it has not saved is read in place of the disk, and changes are shown
/// to it before they are made.
///
/// It is asked about nothing that the run could not read or change without it: permissions, protected paths, links and limits were
/// checked, and hold for an unsaved content as for a file. Paths are relative to the project and contain no symbolic links, so each
/// file has one. The process of an external script reads and writes the disk itself; only what it does through `ctx` comes here.
pub trait FileProvider: Send + Sync {
    /// The unsaved content of a file, which need not exist on the disk; `None` if the disk has what is to be read. Asked at every
    /// read of a file.
    fn unsaved(&self, ctx: &SkillContext, path: &str) -> Result<Option<Vec<u8>>>;

    /// The paths of all files that have an unsaved content, at most 10,000, so that searches and lists ask for no other file.
    /// They are absolute or relative to the project, and without symbolic links; paths outside the project are left out.
    fn unsaved_paths(&self, ctx: &SkillContext) -> Result<Vec<String>>;

    /// Decides about a change. An error refuses it, as do a panic and an answer that takes longer than
    /// [`time_limit`](Self::time_limit) (`denied`); then nothing is changed. Nothing tells the provider that its time is over:
    /// it looks at its own clock, and at `ctx.cancel()` for a run that was stopped.
    ///
    /// The deadlines of the run stand still meanwhile: for the first 64 decisions in an invoked run with all that it calls, but for
    /// none that begins after they have stood still for one time limit in all. Then a deadline also stops a run that waits.
    fn before_change(&self, ctx: &SkillContext, change: &FileChange) -> Result<ChangeDecision> {
        let _ = (ctx, change);
        Ok(ChangeDecision::Proceed)
    }

    /// A change was made on the disk, after `before_change` answered [`ChangeDecision::Proceed`].
    fn changed(&self, ctx: &SkillContext, change: &FileChange) {
        let _ = (ctx, change);
    }

    /// The time that a decision may take; 5 minutes by default. After one that took longer, the invoked run and all that it calls
    /// are refused every change.
    fn time_limit(&self) -> Duration {
        Duration::from_mins(5)
    }
}

/// An HTTP client.
pub trait HttpClient: Send + Sync {
    /// Sends a request and reads the response. `net` of the URL's host was checked already; a client that follows a redirect
    /// checks the next host with `ctx.permissions()`.
    fn send(&self, ctx: &SkillContext, request: HttpRequest) -> Result<HttpResponse>;

    /// Whether it calls [`SkillContext::fill_secrets`] for each request that it sends. For a client that does not, the engine calls it
    /// once, and the client is told to follow no redirect away from a host that was sent a secret.
    fn fills_secrets(&self) -> bool {
        false
    }
}

/// Decides, while a run waits, about what nobody granted. It is asked about nothing that the skill, and every skill that called it,
/// did not request; never about leaving the sandbox.
///
/// An in-process script is interrupted at the call that needs the permission. Before an external script starts, it is asked about
/// the paths, the network and the shared memory that its skill lists, since a process cannot get them later. With
/// `Invocation::ask_first` it is asked once, before anything runs.
///
/// It is called on a thread of its own, which may block. The deadlines of the run stand still meanwhile; the process of an external
/// script goes on. A panic, an error, and an answer that comes later than [`time_limit`](Self::time_limit) are a no; the sentence of
/// an error of kind `denied`, `untrusted` or `pending` becomes that of the run. So is a yes if files of the skill changed while the question
/// stood; nobody is asked for a skill whose files cannot be read completely. What `ctx` lacks itself is refused there and asks
/// nobody. A yes holds at least until the invoked run ends, for the skill that asked and those that it calls; a no is not asked
/// again in that run.
pub trait Approver: Send + Sync {
    /// Whether the run may, and for how long. `Ok(false.into())` and `Ok(true.into())` answer for this run.
    fn approve(&self, ctx: &SkillContext, request: &ApprovalRequest) -> Result<Approval>;

    /// The time that an answer may take; 5 minutes by default.
    fn time_limit(&self) -> Duration {
        Duration::from_mins(5)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_for_which_no_permissions_were_set_only_reads() {
        let context = SkillContext::builder("test").build();
        assert_eq!(context.permissions(), &Permissions::read_only());
    }

    #[cfg(all(target_os = "linux", target_pointer_width = "64"))]
    #[test]
    fn a_context_is_no_larger_than_what_glibc_keeps_ready() {
        // Beside the two counters of its `Arc`.
        assert!(size_of::<ContextInner>() + 16 <= 1032, "{} bytes", size_of::<ContextInner>());
    }
}
