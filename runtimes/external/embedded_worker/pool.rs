//! Worker processes that wait for their next run.

use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::super::process::WorkerSession;
use super::EmbeddedWorkerKey;
use crate::host::{Redaction, SandboxReport};

/// How many wait in one engine; the one that has waited longest makes room.
const MAX_IDLE: usize = 8;

/// How many runs one process answers.
const MAX_RUNS: u64 = 1000;

/// A worker process. Dropping it kills the process and waits until it is gone.
pub(super) struct EmbeddedWorker {
    pub(super) session: WorkerSession,
    /// What holds of its sandbox.
    pub(super) sandbox: SandboxReport,
    /// What its runs were handed.
    pub(super) secrets: Redaction,
    runs: u64,
}

impl EmbeddedWorker {
    pub(super) fn new(session: WorkerSession, sandbox: SandboxReport) -> Self {
        Self { session, sandbox, secrets: Redaction::default(), runs: 0 }
    }

    pub(super) fn is_new(&self) -> bool {
        self.runs == 0
    }

    /// The number of its next run.
    pub(super) fn next_run_id(&mut self) -> u64 {
        self.runs += 1;
        self.runs
    }
}

/// The workers of one engine that wait, each for a run of the same script under the same limits.
#[derive(Default)]
pub(in super::super::super) struct EmbeddedWorkerPool {
    idle: Mutex<Vec<(EmbeddedWorkerKey, EmbeddedWorker)>>,
    sandbox_report: Mutex<Option<SandboxReport>>,
}

impl EmbeddedWorkerPool {
    /// A worker that waits for such a run. One that has ended or spoken meanwhile is not asked again.
    pub(super) fn checkout(&self, key: &EmbeddedWorkerKey) -> Option<EmbeddedWorker> {
        loop {
            let mut idle = self.idle();
            let at = idle.iter().rposition(|(known, _)| known == key)?;
            let (_, mut worker) = idle.remove(at);
            drop(idle);
            if worker.session.is_idle() {
                return Some(worker);
            }
        }
    }

    pub(super) fn checkin(&self, key: EmbeddedWorkerKey, worker: EmbeddedWorker) {
        if worker.runs >= MAX_RUNS {
            return;
        }
        let mut idle = self.idle();
        let outworn = (idle.len() == MAX_IDLE).then(|| idle.remove(0));
        idle.push((key, worker));
        drop(idle);
        drop(outworn);
    }

    /// What holds of the sandbox, asked once.
    pub(super) fn sandbox_report(
        &self,
        probe: impl FnOnce() -> io::Result<SandboxReport>,
    ) -> io::Result<SandboxReport> {
        let mut held = self.sandbox_report.lock().unwrap_or_else(PoisonError::into_inner);
        match *held {
            Some(report) => Ok(report),
            None => probe().map(|report| *held.insert(report)),
        }
    }

    fn idle(&self) -> MutexGuard<'_, Vec<(EmbeddedWorkerKey, EmbeddedWorker)>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
