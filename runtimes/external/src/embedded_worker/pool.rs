//! The idle worker processes of one engine.

use std::io;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use crate::worker::session::WorkerSession;
use metier_core::executor::idle_pool::IdlePool;
use metier_core::executor::{RuntimeId, ScriptDialect};
use metier_core::host::{FolderId, Redaction, SandboxReport};
use metier_core::policy::{Permissions, SandboxMode};

/// Maximum number of idle processes. The one that has been idle longest is removed first.
const MAX_IDLE: usize = 8;

/// Maximum number of requests to one process: its runs, and for a compiled script one that loads it.
const MAX_REQUESTS: u64 = 1000;

/// What all runs of one process have in common. The host checks permissions at every call; they are part of it so that a process that
/// was taken over brings nothing from one run to another that may do something else with it.
#[derive(PartialEq)]
pub(super) struct EmbeddedWorkerKey {
    pub(super) runtime: RuntimeId,
    pub(super) dialect: ScriptDialect,
    pub(super) project: Option<PathBuf>,
    /// Another folder at the same path is another project.
    pub(super) project_id: Option<FolderId>,
    pub(super) permissions: Permissions,
    pub(super) skill: String,
    pub(super) path: String,
    pub(super) folder: Option<PathBuf>,
    pub(super) function: Option<String>,
    pub(super) digest: [u8; 32],
    pub(super) memory: Option<u64>,
    /// Whether its machine code counts operations, if it has any.
    pub(super) counts_operations: bool,
    pub(super) sandbox_mode: SandboxMode,
}

/// A worker process. Dropping it kills the process and waits until it is gone.
pub(super) struct EmbeddedWorker {
    pub(super) session: WorkerSession,
    /// What its sandbox enforces.
    pub(super) sandbox: SandboxReport,
    /// The secrets that its runs received.
    pub(super) secrets: Redaction,
    requests: u64,
}

impl EmbeddedWorker {
    pub(super) fn new(session: WorkerSession, sandbox: SandboxReport) -> Self {
        Self { session, sandbox, secrets: Redaction::default(), requests: 0 }
    }

    pub(super) fn is_new(&self) -> bool {
        self.requests == 0
    }

    /// The number of its next request.
    pub(super) fn next_request_id(&mut self) -> u64 {
        self.requests += 1;
        self.requests
    }
}

/// The idle workers of one engine.
pub struct EmbeddedWorkerPool {
    idle: IdlePool<(EmbeddedWorkerKey, EmbeddedWorker)>,
    sandbox_report: Mutex<Option<SandboxReport>>,
}

impl Default for EmbeddedWorkerPool {
    fn default() -> Self {
        Self { idle: IdlePool::new(MAX_IDLE), sandbox_report: Mutex::default() }
    }
}

impl EmbeddedWorkerPool {
    /// An idle worker for this key. A worker that has exited or written something in the meantime is dropped.
    pub(super) fn checkout(&self, key: &EmbeddedWorkerKey) -> Option<EmbeddedWorker> {
        loop {
            let (_, mut worker) = self.idle.checkout(|(known, _)| known == key)?;
            if worker.session.is_idle() {
                return Some(worker);
            }
        }
    }

    pub(super) fn checkin(&self, key: EmbeddedWorkerKey, worker: EmbeddedWorker) {
        if worker.requests < MAX_REQUESTS {
            self.idle.checkin((key, worker));
        }
    }

    /// What the sandbox enforces, probed once.
    pub(super) fn sandbox_report(
        &self,
        probe: impl FnOnce() -> io::Result<SandboxReport>,
    ) -> io::Result<SandboxReport> {
        let mut cached = self.sandbox_report.lock().unwrap_or_else(PoisonError::into_inner);
        match *cached {
            Some(report) => Ok(report),
            None => probe().map(|report| *cached.insert(report)),
        }
    }
}
