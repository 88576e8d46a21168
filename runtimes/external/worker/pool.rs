//! Worker processes that are reused between runs, each on a thread of its own, which ends with it.
//!
//! Runs share a process only if everything they may do, and everything denied to them, is the same. Anything
//! irregular ends the process: an exceeded limit, output out of turn, too long a wait. The next run starts another one.

use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use serde_json::Value;

use crate::error::{ErrorKind, Result, SkillError};
use crate::executor::SkillInput;
use crate::host::SkillContext;
use crate::policy::{Limits, Permissions, SandboxMode};
use crate::runtimes::external::policy;
use crate::runtimes::external::protected::scan::Fingerprint;
use crate::runtimes::external::worker::process::WorkerProcess;

/// Maximum number of idle workers of one script; the one that has waited longest is removed first.
const MAX_IDLE: usize = 8;

/// The idle workers of one script. Dropping this ends them, and waits until they are gone.
#[derive(Default)]
pub(in crate::runtimes::external) struct WorkerPool(Mutex<Vec<(WorkerKey, PooledWorker)>>);

/// What all runs of one process have in common: everything that its sandbox and its host answer by.
#[derive(PartialEq)]
pub(in crate::runtimes::external) struct WorkerKey {
    project: PathBuf,
    permissions: Permissions,
    limits: Limits,
    isolation: SandboxMode,
    /// A sandbox guards what was there when it was put up.
    fingerprint: Fingerprint,
}

/// A process on its thread.
struct PooledWorker {
    jobs: Sender<Job>,
    /// Wakes the thread; hangs up when nobody will ask any more.
    wake_pipe: Option<PipeWriter>,
    thread: Option<JoinHandle<()>>,
}

/// One run, on its way to a process.
struct Job {
    ctx: SkillContext,
    input: SkillInput,
    /// From here on the run has begun.
    has_started: Arc<AtomicBool>,
    reply: Sender<JobResult>,
}

struct JobResult {
    result: Result<Value>,
    is_reusable: bool,
}

impl WorkerKey {
    pub(in crate::runtimes::external) fn new(ctx: &SkillContext) -> Result<Self> {
        let project = ctx.project()?.root();
        Ok(Self {
            fingerprint: Fingerprint::new(&policy::protected_paths(ctx, project)),
            project: project.to_owned(),
            permissions: ctx.permissions().clone(),
            limits: ctx.limits().clone(),
            isolation: ctx.sandbox_mode(),
        })
    }
}

impl WorkerPool {
    /// Runs on a process that waits, or on one that is started for it.
    pub(in crate::runtimes::external) fn run(
        &self,
        key: WorkerKey,
        input: &SkillInput,
        ctx: &SkillContext,
        start: impl FnOnce() -> Result<WorkerProcess>,
    ) -> Result<Value> {
        while let Some(kept) = self.checkout(&key) {
            let (job, waiting) = Job::new(input, ctx);
            if let Some(done) = kept.submit(job).then(|| waiting.wait()).flatten() {
                return self.checkin(key, kept, done);
            }
            // It ended while it waited, and has not seen the run.
        }
        let (job, waiting) = Job::new(input, ctx);
        let life = start()?;
        let key = WorkerKey { fingerprint: life.fingerprint().clone(), ..key };
        let kept = PooledWorker::new(life, job)?;
        let lost = || SkillError::new(ErrorKind::Script, "the thread of the process was lost");
        let done = waiting.wait().ok_or_else(lost)?;
        self.checkin(key, kept, done)
    }

    fn checkin(&self, key: WorkerKey, kept: PooledWorker, done: JobResult) -> Result<Value> {
        if done.is_reusable {
            let mut idle = self.idle();
            let outworn = (idle.len() == MAX_IDLE).then(|| idle.remove(0));
            idle.push((key, kept));
            drop(idle);
            drop(outworn);
        }
        done.result
    }

    fn checkout(&self, key: &WorkerKey) -> Option<PooledWorker> {
        let mut idle = self.idle();
        let at = idle.iter().rposition(|(known, _)| known == key)?;
        Some(idle.remove(at).1)
    }

    fn idle(&self) -> MutexGuard<'_, Vec<(WorkerKey, PooledWorker)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A caller that waits for its run.
struct JobHandle {
    has_started: Arc<AtomicBool>,
    reply: Receiver<JobResult>,
}

impl Job {
    fn new(input: &SkillInput, ctx: &SkillContext) -> (Self, JobHandle) {
        let (reply, receiver) = channel();
        let is_taken = Arc::new(AtomicBool::new(false));
        let waiting = JobHandle { has_started: is_taken.clone(), reply: receiver };
        (Self { ctx: ctx.clone(), input: input.clone(), has_started: is_taken, reply }, waiting)
    }
}

impl JobHandle {
    /// What came of the run; nothing where it never began.
    fn wait(self) -> Option<JobResult> {
        match self.reply.recv() {
            Ok(done) => Some(done),
            Err(_) if self.has_started.load(Ordering::Acquire) => Some(JobResult {
                result: Err(SkillError::new(
                    ErrorKind::Script,
                    "the thread of the process was lost in a run",
                )),
                is_reusable: false,
            }),
            Err(_) => None,
        }
    }
}

impl PooledWorker {
    fn new(life: WorkerProcess, first: Job) -> Result<Self> {
        let failed = |source: io::Error| SkillError::io("failed to keep a process", source);
        let (called, call) = io::pipe().map_err(failed)?;
        let (jobs, receiver) = channel();
        let work = move || run_jobs(life, first, &called, &receiver);
        let thread = thread::Builder::new().name("metier-worker".into()).spawn(work).map_err(failed)?;
        Ok(Self { jobs, wake_pipe: Some(call), thread: Some(thread) })
    }

    /// Whether the run is on its way.
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

/// One run after the other, until there is a reason to end.
fn run_jobs(mut life: WorkerProcess, first: Job, mut called: &PipeReader, jobs: &Receiver<Job>) {
    let mut next = Some(first);
    while let Some(job) = next.take() {
        job.has_started.store(true, Ordering::Release);
        let (result, is_kept) = life.run(&job.input, &job.ctx);
        if !is_kept {
            // Nothing of it goes on when the caller hears what came of it.
            let result = life.shut_down(&job.ctx, result);
            job.reply.send(JobResult { result, is_reusable: is_kept }).ok();
            return;
        }
        job.reply.send(JobResult { result, is_reusable: is_kept }).ok();
        drop(job);
        if life.wait_for_call(called) && matches!(called.read(&mut [0; 1]), Ok(1)) {
            next = jobs.try_recv().ok();
        }
    }
}
