//! Whether a skill requests a worker: a process that is reused for several runs.

use metier_core::error::{Location, Result};
use metier_core::executor::RuntimeId;
use metier_core::policy::{Limits, WorkerOptions, requests_worker, single_run_worker};
use metier_skill::{Manifest, ManifestFacts};

/// `metadata.worker` of an external script; `invalid-skill` for an unknown protocol. The system counts the processor time of a
/// process from its start, so a worker for which the caller set a CPU limit serves a single run: no skill lifts a limit.
pub(super) fn requested_worker(
    manifest: &Manifest,
    runtime: RuntimeId,
    named: &Limits,
) -> Result<Option<WorkerOptions>> {
    let Some(word) = manifest.metadata.get("worker").filter(|_| runtime == RuntimeId::EXTERNAL) else {
        return Ok(None);
    };
    let place = || Location::new("SKILL.md", manifest.lines().worker, None);
    let requested = requests_worker(word).map_err(|error| error.with_location(place()))?;
    let worker = if named.cpu.is_some() { single_run_worker() } else { WorkerOptions::default() };
    Ok((requested == Some(true)).then_some(worker))
}

/// The limits that apply: the processor time of a process does not measure one of its many runs.
pub(super) fn without_cpu_limit_of_worker(worker: Option<WorkerOptions>, limits: &Limits) -> Limits {
    let mut limits = limits.clone();
    limits.cpu = limits.cpu.filter(|_| worker.is_none_or(WorkerOptions::is_single_run));
    limits
}
