//! Builds a [`SkillContext`].

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, OnceLock};

use super::change_decisions::ChangeDecisions;
use super::{ContextInner, HostApiClient, JournalPlace, Providers, SharedFacts, SkillContext};
use crate::host::event::Observer;
use crate::host::extensions::Extensions;
use crate::host::files::Files;
use crate::host::log::RunLog;
use crate::host::redaction::Redaction;
use crate::host::run_events::RunEvents;
use crate::host::run_id::RunId;
use crate::host::{RunContext, next_run_id};
use crate::policy::{
    CancelToken, ConfigField, ExecutionMode, Limits, Permissions, RunArguments, SandboxMode, SkillDigest,
    ThreadBudget, WorkerOptions,
};

/// Builds a [`SkillContext`].
pub struct ContextBuilder {
    run_id: Option<RunId>,
    skill: String,
    qualified_name: Option<String>,
    project: Option<Box<Files>>,
    skill_files: Option<Box<Files>>,
    permissions: Option<Permissions>,
    limits: Limits,
    sandbox_mode: SandboxMode,
    execution_mode: ExecutionMode,
    host_api_client: Option<Arc<dyn HostApiClient>>,
    worker: Option<WorkerOptions>,
    worker_files: Option<Box<SkillDigest>>,
    thread_budget: Option<ThreadBudget>,
    cancel: Option<CancelToken>,
    observer: Option<Arc<dyn Observer>>,
    events: Option<Arc<RunEvents>>,
    span: Option<Box<tracing::Span>>,
    providers: Providers,
    extensions: Extensions,
    facts: SharedFacts,
    caller: Option<SkillContext>,
    callee_limits: Option<Box<Limits>>,
    host_memory: Option<u64>,
    journal: Option<Box<JournalPlace>>,
    config_fields: Option<Arc<[ConfigField]>>,
}

impl SkillContext {
    /// A context for the skill of that name: no grants, no files, default limits.
    pub fn builder(skill: impl Into<String>) -> ContextBuilder {
        ContextBuilder::new(skill.into())
    }
}

impl ContextBuilder {
    /// No grants, no files, default limits.
    pub(super) fn new(skill: String) -> Self {
        Self {
            run_id: None,
            skill,
            qualified_name: None,
            project: None,
            skill_files: None,
            permissions: None,
            limits: Limits::default(),
            sandbox_mode: SandboxMode::default(),
            execution_mode: ExecutionMode::default(),
            host_api_client: None,
            worker: None,
            worker_files: None,
            thread_budget: None,
            cancel: None,
            observer: None,
            events: None,
            span: None,
            providers: Providers::default(),
            extensions: Extensions::default(),
            facts: SharedFacts::default(),
            caller: None,
            callee_limits: None,
            host_memory: None,
            journal: None,
            config_fields: None,
        }
    }

    /// The project whose files the run may see.
    pub fn project(mut self, files: Files) -> Self {
        self.project = Some(Box::new(files));
        self
    }

    /// The permissions of the run.
    pub fn permissions(mut self, permissions: Permissions) -> Self {
        self.permissions = Some(permissions);
        self
    }

    /// The limits of the run. The deadline is enforced by a watchdog that the caller arms on the cancel token.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// The token that stops the run.
    pub fn cancel(mut self, cancel: CancelToken) -> Self {
        self.cancel = Some(cancel);
        self
    }

    /// The observer of the run's events.
    pub fn observer(mut self, observer: Arc<dyn Observer>) -> Self {
        self.observer = Some(observer);
        self
    }

    /// The services that the host offers besides files; none by default.
    pub fn providers(mut self, providers: Providers) -> Self {
        self.providers = providers;
        self
    }

    /// Builds the context.
    pub fn build(self) -> SkillContext {
        // Whether the folder exists is checked where it is used.
        crate::alloc_counter::ensure_reserve();
        let run_id = self.run_id.unwrap_or_else(next_run_id);
        let observed = |observer| RunEvents::new(observer, run_id, &self.skill, self.extensions.clone());
        let events = self.events.or_else(|| self.observer.map(observed));
        let inner = Arc::new(ContextInner {
            host_memory: OnceLock::new(),
            host_memory_bytes: self
                .host_memory
                .or(self.limits.memory)
                .unwrap_or(Limits::DEFAULT_MEMORY_IN_PROCESS),
            plan_memory: OnceLock::new(),
            run_id,
            skill: self.skill,
            qualified_name: self.qualified_name,
            project: self.project,
            skill_files: self.skill_files,
            permissions: self.permissions,
            log: RunLog::new(self.limits.output),
            limits: self.limits,
            sandbox_mode: self.sandbox_mode,
            execution_mode: self.execution_mode,
            host_api_client: self.host_api_client,
            worker: self.worker,
            worker_files: self.worker_files,
            events,
            span: self.span,
            providers: self.providers,
            extensions: self.extensions,
            facts: self.facts,
            caller: self.caller.map(Box::new),
            callee_limits: self.callee_limits,
            thread_budget: self.thread_budget.map(OnceLock::from).unwrap_or_default(),
            redaction: Redaction::default(),
            logged_lines: Mutex::default(),
            reports: Mutex::default(),
            change_decisions: ChangeDecisions::default(),
            config_fields: self.config_fields,
            journal: self.journal,
            steps: Mutex::default(),
            reads: OnceLock::new(),
            broker: OnceLock::new(),
            has_entered_secrets: AtomicBool::new(false),
        });
        SkillContext {
            inner,
            cancel: self.cancel.unwrap_or_default(),
            callee_journal: None,
            step: None,
            recorder: None,
            sample: None,
            is_silent: false,
            files: None,
        }
    }
}

/// What the engine sets of a run besides what a program that embeds metier can.
///
/// For metier's packages: programs that embed metier do not see it.
pub trait RunContextBuilder: Sized {
    /// The skill's qualified name, if it has one.
    fn qualified_name(self, name: impl Into<String>) -> Self;

    /// The skill's own folder, for `asset`.
    fn skill_files(self, files: Files) -> Self;

    /// What the skill is called with, for an approver to see.
    fn arguments(self, arguments: impl FnOnce() -> RunArguments) -> Self;

    /// The identity of the run; a new one by default.
    fn run_id(self, run: RunId) -> Self;

    /// The span of the run, which its threads enter.
    fn span(self, span: &tracing::Span) -> Self;

    /// Where the events of the run go, in place of an observer.
    fn events(self, events: Option<Arc<RunEvents>>) -> Self;

    /// The values that the embedder attached to the invocation.
    fn extensions(self, extensions: Extensions) -> Self;

    /// What the engine and the runtimes know of the run.
    fn facts(self, facts: SharedFacts) -> Self;

    /// How strictly the sandbox of a process is required before the process may start; `required` by default.
    fn sandbox_mode(self, mode: SandboxMode) -> Self;

    /// Where scripts of embedded languages run; in process by default.
    fn execution_mode(self, mode: ExecutionMode) -> Self;

    /// The client that forwards its host API calls, if the host is another process.
    fn host_api_client(self, host: Arc<dyn HostApiClient>) -> Self;

    /// Whether the process of an external script is a worker that serves further runs; off by default.
    fn worker(self, worker: Option<WorkerOptions>) -> Self;

    /// The digest of the files that the worker may load, without which it serves one run.
    fn worker_files(self, files: Option<SkillDigest>) -> Self;

    /// The limits for skills that this one calls; its own by default.
    fn callee_limits(self, limits: Limits) -> Self;

    /// Bytes that host functions may hold for it at a time; its memory limit by default.
    fn host_memory(self, bytes: u64) -> Self;

    /// The thread budget besides its own thread; the default of a run if not set.
    fn thread_budget(self, threads: ThreadBudget) -> Self;

    /// The run whose skill calls this one. The log of this run goes to its caller's log, and it shares
    /// its caller's thread budget.
    fn called_by(self, caller: SkillContext) -> Self;

    /// The journal of the plan, from which the plan can be resumed.
    fn journal(self, file: impl Into<PathBuf>, project: Option<String>) -> Self;

    /// The settings and secrets that the skill declares.
    fn config_fields(self, fields: Option<Arc<[ConfigField]>>) -> Self;
}

#[doc(hidden)]
impl RunContextBuilder for ContextBuilder {
    fn qualified_name(mut self, name: impl Into<String>) -> Self {
        self.qualified_name = Some(name.into());
        self
    }

    fn skill_files(mut self, files: Files) -> Self {
        self.skill_files = Some(Box::new(files));
        self
    }

    fn arguments(mut self, arguments: impl FnOnce() -> RunArguments) -> Self {
        self.permissions = self.permissions.map(|permissions| permissions.with_arguments(arguments));
        self
    }

    fn run_id(mut self, run: RunId) -> Self {
        self.run_id = Some(run);
        self
    }

    fn span(mut self, span: &tracing::Span) -> Self {
        self.span = (!span.is_disabled()).then(|| Box::new(span.clone()));
        self
    }

    fn events(mut self, events: Option<Arc<RunEvents>>) -> Self {
        self.events = events;
        self
    }

    fn extensions(mut self, extensions: Extensions) -> Self {
        self.extensions = extensions;
        self
    }

    fn facts(mut self, facts: SharedFacts) -> Self {
        self.facts = facts;
        self
    }

    fn sandbox_mode(mut self, mode: SandboxMode) -> Self {
        self.sandbox_mode = mode;
        self
    }

    fn execution_mode(mut self, mode: ExecutionMode) -> Self {
        self.execution_mode = mode;
        self
    }

    fn host_api_client(mut self, host: Arc<dyn HostApiClient>) -> Self {
        self.host_api_client = Some(host);
        self
    }

    fn worker(mut self, worker: Option<WorkerOptions>) -> Self {
        self.worker = worker;
        self
    }

    fn worker_files(mut self, files: Option<SkillDigest>) -> Self {
        self.worker_files = files.map(Box::new);
        self
    }

    fn callee_limits(mut self, limits: Limits) -> Self {
        self.callee_limits = Some(Box::new(limits));
        self
    }

    fn host_memory(mut self, bytes: u64) -> Self {
        self.host_memory = Some(bytes);
        self
    }

    fn thread_budget(mut self, threads: ThreadBudget) -> Self {
        self.thread_budget = Some(threads);
        self
    }

    fn called_by(mut self, caller: SkillContext) -> Self {
        self.thread_budget = Some(caller.thread_budget().clone());
        self.caller = Some(caller);
        self
    }

    fn journal(mut self, file: impl Into<PathBuf>, project: Option<String>) -> Self {
        self.journal = Some(Box::new(JournalPlace { file: file.into(), project }));
        self
    }

    fn config_fields(mut self, fields: Option<Arc<[ConfigField]>>) -> Self {
        self.config_fields = fields;
        self
    }
}
