//! Processes that are kept between runs, each on a thread of its own, which ends with it.
//!
//! Runs share a process only where nothing of what they may do differs, nor of what is kept from them. Whatever is out of
//! order ends the process: a limit that was met, a word out of turn, too long a wait. The next run starts another one.

use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use serde_json::Value;

use super::guarded::Marks;
use super::life::Life;
use super::reach;
use crate::error::{ErrorKind, Result, SkillError};
use crate::executor::SkillInput;
use crate::host::SkillContext;
use crate::policy::{Isolation, Limits, Permissions};

/// How many of one script wait for their next run; the one that has waited longest makes room.
const MOST_IDLE: usize = 8;

/// The processes of one script that wait for their next run. Dropping this ends them, and waits until they are gone.
#[derive(Default)]
pub(super) struct Workers(Mutex<Vec<(Key, Kept)>>);

/// What all runs of one process have in common: everything that its cage and its host answer by.
#[derive(PartialEq)]
pub(super) struct Key {
    project: PathBuf,
    permissions: Permissions,
    limits: Limits,
    isolation: Isolation,
    /// A cage guards what was there when it was put up.
    marks: Marks,
}

/// A process on its thread.
struct Kept {
    jobs: Sender<Job>,
    /// Wakes the thread; hangs up when nobody will ask any more.
    call: Option<PipeWriter>,
    thread: Option<JoinHandle<()>>,
}

/// One run, on its way to a process.
struct Job {
    ctx: SkillContext,
    input: SkillInput,
    /// From here on the run has begun.
    is_taken: Arc<AtomicBool>,
    reply: Sender<Done>,
}

struct Done {
    result: Result<Value>,
    is_kept: bool,
}

impl Key {
    pub(super) fn of(ctx: &SkillContext) -> Result<Self> {
        let project = ctx.project()?.root();
        Ok(Self {
            marks: Marks::of(&reach::guarded_in(ctx, project)),
            project: project.to_owned(),
            permissions: ctx.permissions().clone(),
            limits: ctx.limits().clone(),
            isolation: ctx.isolation(),
        })
    }
}

impl Workers {
    /// Runs on a process that waits, or on one that is started for it.
    pub(super) fn run(
        &self,
        key: Key,
        input: &SkillInput,
        ctx: &SkillContext,
        start: impl FnOnce() -> Result<Life>,
    ) -> Result<Value> {
        while let Some(kept) = self.taken(&key) {
            let (job, waiting) = Job::new(input, ctx);
            if let Some(done) = kept.ask(job).then(|| waiting.done()).flatten() {
                return self.settled(key, kept, done);
            }
            // It ended while it waited, and has not seen the run.
        }
        let (job, waiting) = Job::new(input, ctx);
        let life = start()?;
        let key = Key { marks: life.marks().clone(), ..key };
        let kept = Kept::new(life, job)?;
        let lost = || SkillError::new(ErrorKind::Script, "the thread of the process was lost");
        let done = waiting.done().ok_or_else(lost)?;
        self.settled(key, kept, done)
    }

    fn settled(&self, key: Key, kept: Kept, done: Done) -> Result<Value> {
        if done.is_kept {
            let mut idle = self.idle();
            let outworn = (idle.len() == MOST_IDLE).then(|| idle.remove(0));
            idle.push((key, kept));
            drop(idle);
            drop(outworn);
        }
        done.result
    }

    fn taken(&self, key: &Key) -> Option<Kept> {
        let mut idle = self.idle();
        let at = idle.iter().rposition(|(known, _)| known == key)?;
        Some(idle.remove(at).1)
    }

    fn idle(&self) -> MutexGuard<'_, Vec<(Key, Kept)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A caller that waits for its run.
struct Waiting {
    is_taken: Arc<AtomicBool>,
    reply: Receiver<Done>,
}

impl Job {
    fn new(input: &SkillInput, ctx: &SkillContext) -> (Self, Waiting) {
        let (reply, receiver) = channel();
        let is_taken = Arc::new(AtomicBool::new(false));
        let waiting = Waiting { is_taken: is_taken.clone(), reply: receiver };
        (Self { ctx: ctx.clone(), input: input.clone(), is_taken, reply }, waiting)
    }
}

impl Waiting {
    /// What came of the run; nothing where it never began.
    fn done(self) -> Option<Done> {
        match self.reply.recv() {
            Ok(done) => Some(done),
            Err(_) if self.is_taken.load(Ordering::Acquire) => Some(Done {
                result: Err(SkillError::new(
                    ErrorKind::Script,
                    "the thread of the process was lost in a run",
                )),
                is_kept: false,
            }),
            Err(_) => None,
        }
    }
}

impl Kept {
    fn new(life: Life, first: Job) -> Result<Self> {
        let failed = |source: io::Error| SkillError::io("failed to keep a process", source);
        let (called, call) = io::pipe().map_err(failed)?;
        let (jobs, receiver) = channel();
        let work = move || live(life, first, &called, &receiver);
        let thread = thread::Builder::new().name("metier-worker".into()).spawn(work).map_err(failed)?;
        Ok(Self { jobs, call: Some(call), thread: Some(thread) })
    }

    /// Whether the run is on its way.
    fn ask(&self, job: Job) -> bool {
        let wakes = |mut call: &PipeWriter| call.write_all(b"!").is_ok();
        self.jobs.send(job).is_ok() && self.call.as_ref().is_some_and(wakes)
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        drop(self.call.take());
        if let Some(thread) = self.thread.take() {
            thread.join().ok();
        }
    }
}

/// One run after the other, until there is a reason to end.
fn live(mut life: Life, first: Job, mut called: &PipeReader, jobs: &Receiver<Job>) {
    let mut next = Some(first);
    while let Some(job) = next.take() {
        job.is_taken.store(true, Ordering::Release);
        let (result, is_kept) = life.run(&job.input, &job.ctx);
        if !is_kept {
            // Nothing of it goes on when the caller hears what came of it.
            let result = life.end(&job.ctx, result);
            job.reply.send(Done { result, is_kept }).ok();
            return;
        }
        job.reply.send(Done { result, is_kept }).ok();
        drop(job);
        if life.waits(called) && matches!(called.read(&mut [0; 1]), Ok(1)) {
            next = jobs.try_recv().ok();
        }
    }
}
