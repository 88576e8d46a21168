//! What the engine and the runtimes know of a run besides what a program that embeds metier sees of it: its files, how its process starts,
//! its budgets and its standard streams.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{HostApiClient, RunFiles, SharedFacts, SkillContext};
use crate::error::{ErrorKind, Result, SkillError};
use crate::host::extensions::Extensions;
use crate::host::files::Files;
use crate::host::host_paths::HostPaths;
use crate::host::memory::{HostMemory, OperationLimits};
use crate::host::streams::{OutputSinks, StdinSource};
use crate::policy::{
    CancelToken, ExecutionMode, Limits, MemoryBudget, SandboxMode, SkillDigest, ThreadBudget, WorkerOptions,
};

/// What the engine and the runtimes know of a run, and do with it.
///
/// For metier's packages: programs that embed metier do not see it.
pub trait RunContext: Sized {
    /// What the engine and the runtimes know of this run.
    fn facts(&self) -> &SharedFacts;

    /// The files that the processes of this run may create.
    fn new_files(&self) -> &[String];

    /// The values that the embedder attached to the invocation.
    fn extensions(&self) -> &Extensions;

    /// The project's files; `unavailable` when the run has no project.
    fn project(&self) -> Result<&Files>;

    /// The skill's own files, read-only; `unavailable` when the script has no folder.
    fn skill_files(&self) -> Result<&Files>;

    /// Depth of the skill calls that led here; 0 for the skill that was invoked first.
    fn depth(&self) -> usize;

    /// Whether the process of an external script is a worker that serves further runs.
    fn worker(&self) -> Option<WorkerOptions>;

    /// The digest of the skill's own files when the run began: of a worker whose files have one.
    fn worker_files(&self) -> Option<SkillDigest>;

    /// Where scripts of embedded languages run: those of this run and of the skills that it calls.
    fn execution_mode(&self) -> ExecutionMode;

    /// The client that forwards its host API calls, if the host is another process.
    fn host_api_client(&self) -> Option<&dyn HostApiClient>;

    /// How strictly the sandbox of a process is required before the process may start.
    fn sandbox_mode(&self) -> SandboxMode;

    /// The limits for skills that this one calls: as its own caller set them, regardless of changes by the runtime.
    fn callee_limits(&self) -> &Limits;

    /// The same context for a part of the run that may have to stop earlier than the run.
    fn with_cancel(&self, cancel: CancelToken) -> Self;

    /// The same context for one call of a plan; a plan of the called skill is recorded in the journal at that path.
    fn with_callee_journal(&self, journal: Option<PathBuf>) -> Self;

    /// The same context for steps that see these files.
    fn with_files(&self, files: Arc<RunFiles>) -> Self;

    /// The same context for the step at that index of its plan.
    fn in_step(self, at: usize) -> Self;

    /// Whether a plan step makes calls with this context, and not a script.
    fn is_called_by_step(&self) -> bool;

    /// The journal path for the plan of a skill that is called now.
    fn callee_journal_file(&self) -> Option<&Path>;

    /// The index of the plan step that makes calls with this context; `None` for a script.
    fn step(&self) -> Option<usize>;

    /// By which the host reaches what the run sees in its project.
    fn host_paths(&self) -> HostPaths;

    /// The thread budget of the run besides its own thread, shared with the runs that called it and those that it calls.
    fn thread_budget(&self) -> &ThreadBudget;

    /// The memory budget for step values that plans keep, shared by this run and all runs that it calls.
    fn plan_memory(&self) -> &MemoryBudget;

    /// The memory that host functions may hold for this run and for all runs that it calls.
    fn host_memory(&self) -> &HostMemory;

    /// Does a part of the run on another thread, in the span of the run.
    fn in_span<T>(&self, work: impl FnOnce() -> T) -> T;

    /// Whether its standard input is passed through. A skill that another one calls has none of the streams of the invocation.
    fn has_stdin_source(&self) -> bool;

    /// All of its standard input, if that is a text that was there from the beginning.
    fn stdin_text(&self) -> Option<&str>;

    /// What its standard input is read from, for the first process that takes it.
    fn take_stdin(&self) -> Option<Box<dyn Read + Send>>;

    /// Where its output goes, in place of the outcome.
    fn output_sinks(&self) -> Option<&OutputSinks>;
}

#[doc(hidden)]
impl RunContext for SkillContext {
    fn facts(&self) -> &SharedFacts {
        &self.inner.facts
    }

    fn new_files(&self) -> &[String] {
        let own = self.facts().new_files.as_ref().filter(|files| files.depth == self.depth());
        own.map_or(&[], |files| &files.paths)
    }

    fn extensions(&self) -> &Extensions {
        &self.inner.extensions
    }

    fn project(&self) -> Result<&Files> {
        self.project_files().ok_or_else(|| {
            SkillError::new(ErrorKind::Unavailable, "this run has no project, so it has no files")
        })
    }

    fn skill_files(&self) -> Result<&Files> {
        let since_review = self.files.as_deref().and_then(|files| files.skill.as_ref());
        since_review.or(self.inner.skill_files.as_deref()).ok_or_else(|| {
            SkillError::new(ErrorKind::Unavailable, "this script has no skill folder, so it has no assets")
        })
    }

    fn depth(&self) -> usize {
        self.inner.caller.as_ref().map_or(0, |caller| caller.depth() + 1)
    }

    fn worker(&self) -> Option<WorkerOptions> {
        self.inner.worker
    }

    fn worker_files(&self) -> Option<SkillDigest> {
        self.inner.worker_files.as_deref().copied()
    }

    fn execution_mode(&self) -> ExecutionMode {
        self.inner.execution_mode
    }

    fn host_api_client(&self) -> Option<&dyn HostApiClient> {
        self.inner.host_api_client.as_deref()
    }

    fn sandbox_mode(&self) -> SandboxMode {
        self.inner.sandbox_mode
    }

    fn callee_limits(&self) -> &Limits {
        self.inner.callee_limits.as_deref().unwrap_or(&self.inner.limits)
    }

    fn with_cancel(&self, cancel: CancelToken) -> Self {
        Self { cancel, callee_journal: None, ..self.clone() }
    }

    fn with_callee_journal(&self, journal: Option<PathBuf>) -> Self {
        Self { callee_journal: journal.map(Into::into), ..self.clone() }
    }

    fn with_files(&self, files: Arc<RunFiles>) -> Self {
        Self { files: Some(files), ..self.clone() }
    }

    fn in_step(self, at: usize) -> Self {
        Self { step: Some(at), ..self }
    }

    fn is_called_by_step(&self) -> bool {
        self.step.is_some()
    }

    fn callee_journal_file(&self) -> Option<&Path> {
        self.callee_journal.as_deref()
    }

    fn step(&self) -> Option<usize> {
        self.step
    }

    fn host_paths(&self) -> HostPaths {
        self.project_files().map(Files::host_paths).cloned().unwrap_or_default()
    }

    fn thread_budget(&self) -> &ThreadBudget {
        self.inner.thread_budget.get_or_init(ThreadBudget::default)
    }

    fn plan_memory(&self) -> &MemoryBudget {
        match &self.inner.caller {
            Some(caller) => caller.plan_memory(),
            None => self.inner.plan_memory.get_or_init(|| {
                MemoryBudget::new(self.limits().memory.unwrap_or(Limits::DEFAULT_MEMORY_IN_PROCESS))
            }),
        }
    }

    fn host_memory(&self) -> &HostMemory {
        self.inner.host_memory.get_or_init(|| match &self.inner.caller {
            Some(caller) => HostMemory::with_caller(self.inner.host_memory_bytes, caller.host_memory()),
            None => HostMemory::new(self.inner.host_memory_bytes),
        })
    }

    fn in_span<T>(&self, work: impl FnOnce() -> T) -> T {
        match &self.inner.span {
            Some(span) => span.in_scope(work),
            None => work(),
        }
    }

    fn has_stdin_source(&self) -> bool {
        self.stdin_source().is_some()
    }

    fn stdin_text(&self) -> Option<&str> {
        self.stdin_source()?.as_text()
    }

    fn take_stdin(&self) -> Option<Box<dyn Read + Send>> {
        self.stdin_source()?.take()
    }

    fn output_sinks(&self) -> Option<&OutputSinks> {
        self.facts().output_sinks.as_ref().filter(|_| self.caller().is_none())
    }
}

impl SkillContext {
    /// The limits of each host operation for this run: memory, file size, and the cancel token.
    pub(in crate::host) fn operation_limits(&self) -> OperationLimits<'_> {
        let file_size = self.inner.limits.file_size.unwrap_or(Limits::DEFAULT_FILE_SIZE);
        OperationLimits { memory: self.host_memory(), file_size, cancel: &self.cancel }
    }

    fn stdin_source(&self) -> Option<&StdinSource> {
        self.facts().stdin.as_deref().filter(|_| self.caller().is_none())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::RunContextBuilder;

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
}
