//! The context of one run: the project's files, the skill's files, permissions, limits and log. Scripts see it as `ctx`.

mod approver;
mod builder;
mod file_editor;
mod log;
mod providers;
mod sampling;

use std::any::Any;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Mutex, OnceLock, PoisonError};

use serde_json::Value;

use super::extensions::Extensions;
use super::files::{FileEditor, Files, FilesView};
use super::memory::{HostMemory, OperationLimits};
use super::redaction::{Redacted, Redaction};
use super::report::{ProcessReport, SandboxReport};
use super::run_events::RunEvents;
use super::run_id::RunId;
use super::steps::StepReport;
use crate::error::{ErrorKind, Result, SkillError};
use crate::host::event::EventKind;
use crate::host::log::RunLog;
use crate::policy::{
    CancelToken, ConfigField, ExecutionMode, Limits, MemoryBudget, Permissions, SandboxMode, SkillDigest,
    ThreadBudget, WorkerOptions,
};

pub use approver::{ApprovalNeed, ApprovalRequest, Approver};
pub use builder::ContextBuilder;
pub use providers::{
    ConfigProvider, FileProvider, HttpClient, HttpRequest, HttpResponse, Providers, SamplingProvider,
    SecretProvider, SkillProvider, Tool, ToolProvider,
};
pub use sampling::{SampleMessage, SampleRequest, SampleResponse, SampleRole, SampleUsage, StopReason};

/// Forwards host API calls of a run that executes in another process than its host.
pub(crate) trait HostApiClient: Send + Sync {
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
    /// Where the text of a model goes while it comes, in the context of a provider that is asked for it.
    sample: Option<Arc<sampling::SampleStream>>,
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
    caller: Option<SkillContext>,
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
    reports: Mutex<(Option<Box<ProcessReport>>, Option<SandboxReport>)>,
    /// Used in the run that nobody called.
    change_decisions: file_editor::ChangeDecisions,
    config_fields: Option<Arc<[ConfigField]>>,
    journal_file: Option<PathBuf>,
    steps: Mutex<Vec<StepReport>>,
}

/// What a run may do for which no permissions were set.
static READ_ONLY: LazyLock<Permissions> = LazyLock::new(Permissions::read_only);

impl SkillContext {
    /// A context for the skill of that name: no grants, no files, default limits.
    pub fn builder(skill: impl Into<String>) -> ContextBuilder {
        ContextBuilder::new(skill.into())
    }

    /// The identity of this run. A skill that it calls has another one.
    pub fn run_id(&self) -> RunId {
        self.inner.run_id
    }

    /// The context of the run whose skill calls this one.
    pub fn caller(&self) -> Option<&Self> {
        self.inner.caller.as_ref()
    }

    /// The value of that type that the embedder attached to the invocation with
    /// [`Invocation::extension`](crate::engine::Invocation::extension); skills that the skill calls have it too.
    pub fn extension<T: Any + Send + Sync>(&self) -> Option<&T> {
        self.inner.extensions.get()
    }

    pub(crate) fn extensions(&self) -> &Extensions {
        &self.inner.extensions
    }

    /// The skill's name.
    pub fn skill(&self) -> &str {
        &self.inner.skill
    }

    /// The skill's qualified name, if it has one: it distinguishes the skill from others of the same name.
    pub fn qualified_name(&self) -> Option<&str> {
        self.inner.qualified_name.as_deref()
    }

    /// The project's files; `unavailable` when the run has no project.
    #[doc(hidden)]
    pub fn project(&self) -> Result<&Files> {
        self.inner.project.as_deref().ok_or_else(|| {
            SkillError::new(ErrorKind::Unavailable, "this run has no project, so it has no files")
        })
    }

    /// The project's files as this run may see them: with its permissions and limits.
    pub(super) fn project_view(&self) -> Result<FilesView<'_>> {
        let files = self.project()?.with_permissions(self.permissions()).with_limits(self.operation_limits());
        Ok(files.with_editor(self.providers().files.as_ref().map(|_| self as &dyn FileEditor)))
    }

    /// The project's root, if there is one.
    pub fn project_root(&self) -> Option<&Path> {
        self.inner.project.as_deref().map(Files::root)
    }

    /// The skill's own files, read-only; `unavailable` when the script has no folder.
    #[doc(hidden)]
    pub fn skill_files(&self) -> Result<&Files> {
        self.inner.skill_files.as_deref().ok_or_else(|| {
            SkillError::new(ErrorKind::Unavailable, "this script has no skill folder, so it has no assets")
        })
    }

    /// What the run may do.
    pub fn permissions(&self) -> &Permissions {
        self.inner.permissions.as_ref().unwrap_or_else(|| &READ_ONLY)
    }

    /// The services that the host offers besides files.
    pub fn providers(&self) -> &Providers {
        &self.inner.providers
    }

    /// The settings and secrets that the skill declares; empty where it declares none.
    pub(crate) fn config_fields(&self) -> &[ConfigField] {
        self.inner.config_fields.as_deref().unwrap_or_default()
    }

    /// Depth of the skill calls that led here; 0 for the skill that was invoked first.
    #[doc(hidden)]
    pub fn depth(&self) -> usize {
        self.inner.caller.as_ref().map_or(0, |caller| caller.depth() + 1)
    }

    /// The limits of the run.
    pub fn limits(&self) -> &Limits {
        &self.inner.limits
    }

    /// The thread budget of the run besides its own thread, shared with the runs that called it and those that it calls.
    #[doc(hidden)]
    pub fn thread_budget(&self) -> &ThreadBudget {
        self.inner.thread_budget.get_or_init(ThreadBudget::default)
    }

    /// The memory budget for step values that plans keep, shared by this run and all runs that it calls.
    pub(crate) fn plan_memory(&self) -> &MemoryBudget {
        match &self.inner.caller {
            Some(caller) => caller.plan_memory(),
            None => self.inner.plan_memory.get_or_init(|| {
                MemoryBudget::new(self.limits().memory.unwrap_or(Limits::DEFAULT_MEMORY_IN_PROCESS))
            }),
        }
    }

    /// The limits of each host operation for this run: memory, file size, and the cancel token.
    pub(super) fn operation_limits(&self) -> OperationLimits<'_> {
        let file_size = self.inner.limits.file_size.unwrap_or(Limits::DEFAULT_FILE_SIZE);
        OperationLimits { memory: self.host_memory(), file_size, cancel: &self.cancel }
    }

    /// The memory that host functions may hold for this run and for all runs that it calls.
    pub(crate) fn host_memory(&self) -> &HostMemory {
        self.inner.host_memory.get_or_init(|| match &self.inner.caller {
            Some(caller) => HostMemory::with_caller(self.inner.host_memory_bytes, caller.host_memory()),
            None => HostMemory::new(self.inner.host_memory_bytes),
        })
    }

    /// Whether the process of an external script is a worker that serves further runs.
    #[doc(hidden)]
    pub fn worker(&self) -> Option<WorkerOptions> {
        self.inner.worker
    }

    /// The digest of the skill's own files when the run began: of a worker whose files have one.
    pub(crate) fn worker_files(&self) -> Option<SkillDigest> {
        self.inner.worker_files.as_deref().copied()
    }

    /// Where scripts of embedded languages run: those of this run and of the skills that it calls.
    #[doc(hidden)]
    pub fn execution_mode(&self) -> ExecutionMode {
        self.inner.execution_mode
    }

    /// The client that forwards its host API calls, if the host is another process.
    pub(crate) fn host_api_client(&self) -> Option<&dyn HostApiClient> {
        self.inner.host_api_client.as_deref()
    }

    /// How strictly the sandbox of a process is required before the process may start.
    #[doc(hidden)]
    pub fn sandbox_mode(&self) -> SandboxMode {
        self.inner.sandbox_mode
    }

    /// The limits for skills that this one calls: as its own caller set them, regardless of changes by the runtime.
    pub(crate) fn callee_limits(&self) -> &Limits {
        self.inner.callee_limits.as_deref().unwrap_or(&self.inner.limits)
    }

    /// The token that stops the run when the caller cancels it or its deadline passes.
    pub fn cancel(&self) -> &CancelToken {
        &self.cancel
    }

    /// The same context for a part of the run that may have to stop earlier than the run.
    pub(crate) fn with_cancel(&self, cancel: CancelToken) -> Self {
        Self { cancel, callee_journal: None, ..self.clone() }
    }

    /// The same context for one call of a plan; a plan of the called skill is recorded in the journal at that path.
    pub(crate) fn with_callee_journal(&self, journal: Option<PathBuf>) -> Self {
        Self { callee_journal: journal.map(Into::into), ..self.clone() }
    }

    /// The same context for the step at that index of its plan.
    pub(crate) fn in_step(self, at: usize) -> Self {
        Self { step: Some(at), ..self }
    }

    /// Whether a plan step makes calls with this context, and not a script.
    pub(crate) fn is_called_by_step(&self) -> bool {
        self.step.is_some()
    }

    /// The journal path of this run's plan, if the caller wants a journal.
    pub(crate) fn journal_file(&self) -> Option<&Path> {
        self.inner.journal_file.as_deref()
    }

    /// The journal path for the plan of a skill that is called now.
    pub(crate) fn callee_journal_file(&self) -> Option<&Path> {
        self.callee_journal.as_deref()
    }

    /// Whether somebody observes the run.
    pub(crate) fn is_observed(&self) -> bool {
        self.inner.events.is_some()
    }

    /// Where the events of the run go, if somebody observes it.
    pub(crate) fn events(&self) -> Option<&RunEvents> {
        self.inner.events.as_deref()
    }

    /// Notifies the observer, if there is one, without secrets.
    pub(crate) fn notify(&self, kind: impl FnOnce() -> EventKind) {
        if let Some(events) = &self.inner.events {
            events.notify(self.redaction(), kind());
        }
    }

    /// Does a part of the run on another thread, in the span of the run.
    pub(crate) fn in_span<T>(&self, work: impl FnOnce() -> T) -> T {
        match &self.inner.span {
            Some(span) => span.in_scope(work),
            None => work(),
        }
    }

    /// The index of the plan step that makes calls with this context; `None` for a script.
    pub(crate) fn step(&self) -> Option<usize> {
        self.step
    }

    /// Records the reports of the plan's steps, also when the run fails; without secrets, and with each error truncated to the
    /// length that a report repeats.
    pub(crate) fn report_steps(&self, steps: Vec<StepReport>) {
        *self.inner.steps.lock().unwrap_or_else(PoisonError::into_inner) = steps;
    }

    /// The recorded step reports of the run's plan; empty afterwards.
    pub(crate) fn take_redacted_steps(&self) -> Redacted<Vec<StepReport>> {
        let steps = std::mem::take(&mut *self.inner.steps.lock().unwrap_or_else(PoisonError::into_inner));
        self.redaction().steps(steps)
    }

    /// Records how the run's process ended, also when the run fails.
    #[doc(hidden)]
    pub fn report_process(&self, report: ProcessReport) {
        self.inner.reports.lock().unwrap_or_else(PoisonError::into_inner).0 = Some(Box::new(report));
    }

    /// Records which sandbox was in force. Of several reports the weaker counts: a skill that calls one without a sandbox has
    /// none.
    pub(crate) fn report_sandbox(&self, report: SandboxReport) {
        let mut reports = self.inner.reports.lock().unwrap_or_else(PoisonError::into_inner);
        reports.1 = Some(reports.1.map_or(report, |earlier| earlier.weaker(report)));
    }

    /// The sandbox report recorded so far; empty afterwards.
    pub(crate) fn take_reports(&self) -> (Option<ProcessReport>, Option<SandboxReport>) {
        let mut reports = self.inner.reports.lock().unwrap_or_else(PoisonError::into_inner);
        let (process, sandbox) = std::mem::take(&mut *reports);
        (process.map(|report| *report), sandbox)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_callee_reserves_of_the_memory_of_its_caller_whoever_is_first() {
        for caller_is_first in [true, false] {
            let outer = SkillContext::builder("outer").host_memory(1000).build();
            if caller_is_first {
                outer.host_memory().empty_reservation().add(1000).unwrap();
            }
            let inner = SkillContext::builder("inner").host_memory(1000).called_by(outer.clone()).build();
            let mut held = inner.host_memory().empty_reservation();
            held.add(800).unwrap();
            assert!(outer.host_memory().empty_reservation().add(300).is_err());
            drop(held);
            outer.host_memory().empty_reservation().add(300).unwrap();
        }
    }

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
