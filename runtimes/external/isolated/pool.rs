//! Worker processes that wait for their next run.

use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::super::process::Session;
use super::Key;
use crate::host::{Redaction, SandboxReport};

/// How many wait in one engine; the one that has waited longest makes room.
const MOST_IDLE: usize = 8;

/// How many runs one process answers.
const MOST_RUNS: u64 = 1000;

/// A worker process. Dropping it kills the process and waits until it is gone.
pub(super) struct Worker {
    pub(super) session: Session,
    /// What holds of its sandbox.
    pub(super) sandbox: SandboxReport,
    /// What its runs were handed.
    pub(super) secrets: Redaction,
    runs: u64,
}

impl Worker {
    pub(super) fn new(session: Session, sandbox: SandboxReport) -> Self {
        Self { session, sandbox, secrets: Redaction::default(), runs: 0 }
    }

    pub(super) fn is_new(&self) -> bool {
        self.runs == 0
    }

    /// The number of its next run.
    pub(super) fn next(&mut self) -> u64 {
        self.runs += 1;
        self.runs
    }
}

/// The workers of one engine that wait, each for a run of the same script under the same limits.
#[derive(Default)]
pub(in super::super::super) struct Pool {
    idle: Mutex<Vec<(Key, Worker)>>,
    held: Mutex<Option<SandboxReport>>,
}

impl Pool {
    /// A worker that waits for such a run. One that has ended or spoken meanwhile is not asked again.
    pub(super) fn taken(&self, key: &Key) -> Option<Worker> {
        loop {
            let mut idle = self.idle();
            let at = idle.iter().rposition(|(known, _)| known == key)?;
            let (_, mut worker) = idle.remove(at);
            drop(idle);
            if worker.session.is_quiet() {
                return Some(worker);
            }
        }
    }

    pub(super) fn keep(&self, key: Key, worker: Worker) {
        if worker.runs >= MOST_RUNS {
            return;
        }
        let mut idle = self.idle();
        let outworn = (idle.len() == MOST_IDLE).then(|| idle.remove(0));
        idle.push((key, worker));
        drop(idle);
        drop(outworn);
    }

    /// What holds of the sandbox, asked once.
    pub(super) fn held(
        &self,
        probe: impl FnOnce() -> io::Result<SandboxReport>,
    ) -> io::Result<SandboxReport> {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        match *held {
            Some(report) => Ok(report),
            None => probe().map(|report| *held.insert(report)),
        }
    }

    fn idle(&self) -> MutexGuard<'_, Vec<(Key, Worker)>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
