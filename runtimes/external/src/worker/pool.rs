//! Worker processes that are reused between runs. Each has a thread of its own, which ends with it.
//!
//! Runs share a process only if they have the same skill's files, permissions, limits, environment variables and protected paths. An exceeded limit, output outside of a
//! run, or too long a wait ends the process, and the next run starts another one.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};

use serde_json::Value;

use crate::policy::ProjectAccess;
use crate::protected::fingerprint::Fingerprint;
use crate::worker::process::{WorkerProcess, WorkerResult};
use metier_core::error::{ErrorKind, Result, SkillError};
use metier_core::executor::SkillInput;
use metier_core::executor::idle_pool::IdlePool;
use metier_core::host::{FolderId, RunContext, RunOwner, SkillContext};
use metier_core::policy::{Limits, Permissions, RunPermissions, SandboxMode, SkillDigest};

/// Maximum number of idle workers of one script.
const MAX_IDLE: usize = 8;

/// The idle workers of one script. Dropping this ends them and waits until they are gone.
pub(crate) struct WorkerPool(IdlePool<(WorkerKey, PooledWorker)>);

/// What all runs of one process have in common: everything that decides what its sandbox and its host allow.
#[derive(PartialEq)]
pub(crate) struct WorkerKey {
    project: PathBuf,
    /// Another folder at the same path is another project.
    project_id: FolderId,
    /// Whose run it is, in a program that serves several callers.
    owner: Option<RunOwner>,
    permissions: Permissions,
    limits: Limits,
    sandbox_mode: SandboxMode,
    /// A sandbox protects the files that existed when it was set up.
    fingerprint: Fingerprint,
    /// What its environment has besides that of every script, secrets included.
    variables: BTreeMap<OsString, OsString>,
    /// The skill's files, which a process may have loaded. Without them no process is reused.
    skill_files: Option<SkillDigest>,
}

/// A worker process and its thread.
struct PooledWorker {
    jobs: Sender<Job>,
    /// Wakes the thread. Hangs up when there will be no further run.
    wake_pipe: Option<PipeWriter>,
    thread: Option<JoinHandle<()>>,
}

/// One run that is sent to a process.
struct Job {
    ctx: SkillContext,
    input: SkillInput,
    /// Set when the run begins.
    has_started: Arc<AtomicBool>,
    reply: Sender<WorkerResult>,
}

impl WorkerKey {
    pub(crate) fn new(ctx: &SkillContext, variables: &BTreeMap<OsString, OsString>) -> Result<Self> {
        let project = ctx.project()?.root();
        let access = ProjectAccess::new(ctx, project)?;
        Ok(Self {
            fingerprint: Fingerprint::new(&access.protected, &access.writable_dirs()),
            project: project.to_owned(),
            project_id: FolderId::new(project).map_err(|source| {
                SkillError::io(format_args!("failed to open {}", project.display()), source)
            })?,
            owner: ctx.facts().owner,
            // What is approved later does not widen the sandbox of the process.
            permissions: ctx.permissions().frozen(),
            limits: ctx.limits().clone(),
            sandbox_mode: ctx.sandbox_mode(),
            variables: variables.clone(),
            skill_files: ctx.worker_files(),
        })
    }
}

impl Default for WorkerPool {
    fn default() -> Self {
        Self(IdlePool::new(MAX_IDLE))
    }
}

impl WorkerPool {
    /// Executes the run in an idle process, or in one that `start` starts.
    pub(crate) fn run(
        &self,
        key: WorkerKey,
        input: &SkillInput,
        ctx: &SkillContext,
        start: impl FnOnce() -> Result<WorkerProcess>,
    ) -> Result<Value> {
        while let Some((_, worker)) =
            self.0.checkout(|(known, _)| known.skill_files.is_some() && *known == key)
        {
            let (job, handle) = Job::new(input, ctx);
            if let Some(done) = worker.submit(job).then(|| handle.wait()).flatten() {
                return self.checkin(key, worker, done);
            }
            // The process ended before the run began.
        }
        let (job, handle) = Job::new(input, ctx);
        let process = start()?;
        let key = WorkerKey { fingerprint: process.fingerprint().clone(), ..key };
        let worker = PooledWorker::new(process, job)?;
        let lost = || SkillError::new(ErrorKind::Script, "the thread of the process was lost");
        let done = handle.wait().ok_or_else(lost)?;
        self.checkin(key, worker, done)
    }

    fn checkin(&self, key: WorkerKey, worker: PooledWorker, done: WorkerResult) -> Result<Value> {
        if done.is_reusable && key.skill_files.is_some() {
            self.0.checkin((key, worker));
        }
        done.result
    }
}

/// Waits for the result of a run.
struct JobHandle {
    has_started: Arc<AtomicBool>,
    reply: Receiver<WorkerResult>,
}

impl Job {
    fn new(input: &SkillInput, ctx: &SkillContext) -> (Self, JobHandle) {
        let (reply, receiver) = channel();
        let has_started = Arc::new(AtomicBool::new(false));
        let handle = JobHandle { has_started: has_started.clone(), reply: receiver };
        (Self { ctx: ctx.clone(), input: input.clone(), has_started, reply }, handle)
    }
}

impl JobHandle {
    /// The result of the run; `None` if it never began.
    fn wait(self) -> Option<WorkerResult> {
        match self.reply.recv() {
            Ok(done) => Some(done),
            Err(_) if self.has_started.load(Ordering::Acquire) => {
                let sentence = "the thread of the process was lost in a run";
                Some(WorkerResult::last(Err(SkillError::new(ErrorKind::Script, sentence))))
            }
            Err(_) => None,
        }
    }
}

impl PooledWorker {
    fn new(process: WorkerProcess, first: Job) -> Result<Self> {
        let failed = |source: io::Error| SkillError::io("failed to keep a process", source);
        let (called, call) = io::pipe().map_err(failed)?;
        let (jobs, receiver) = channel();
        let work = move || run_jobs(process, first, &called, &receiver);
        let thread = thread::Builder::new().name("metier-worker".into()).spawn(work).map_err(failed)?;
        Ok(Self { jobs, wake_pipe: Some(call), thread: Some(thread) })
    }

    /// Sends a run. Returns whether the thread could be woken.
    fn submit(&self, job: Job) -> bool {
        let wakes = |mut call: &PipeWriter| call.write_all(b"!").is_ok();
        self.jobs.send(job).is_ok() && self.wake_pipe.as_ref().is_some_and(wakes)
    }
}

impl Drop for PooledWorker {
    fn drop(&mut self) {
        drop(self.wake_pipe.take());
        if let Some(thread) = self.thread.take() {
            thread.join().ok();
        }
    }
}

/// Executes one run after the other, until the process ends or there are no more runs.
fn run_jobs(mut process: WorkerProcess, first: Job, mut called: &PipeReader, jobs: &Receiver<Job>) {
    let mut next = Some(first);
    while let Some(job) = next.take() {
        job.has_started.store(true, Ordering::Release);
        let done = process.run(&job.input, &job.ctx);
        if !done.is_reusable {
            // The process is gone before the caller receives the result.
            let result = process.shut_down(&job.ctx, done.result);
            job.reply.send(WorkerResult::last(result)).ok();
            return;
        }
        job.reply.send(done).ok();
        drop(job);
        if process.wait_for_call(called) && matches!(called.read(&mut [0; 1]), Ok(1)) {
            next = jobs.try_recv().ok();
        }
    }
}
