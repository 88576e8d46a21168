//! Whether a skill asks that its process be kept between runs.

use crate::error::{ErrorKind, Result, SkillError};
use crate::executor::SkillRuntime;
use crate::policy::{Limits, Worker};
use crate::skill::Manifest;

/// The word for the protocol: a request a line, an answer a line.
const PROTOCOL: &str = "json-lines";

/// `metadata.worker` of an external script: `json-lines`, or `true` for the only protocol there is; `invalid-skill` for
/// another word. The system counts the processor time of a process from its start, so that one for which the caller named a
/// limit answers a single run: no skill lifts a limit.
pub(super) fn asked_for(
    manifest: &Manifest,
    runtime: SkillRuntime,
    named: &Limits,
) -> Result<Option<Worker>> {
    let Some(word) = manifest.metadata.get("worker").filter(|_| runtime == SkillRuntime::External) else {
        return Ok(None);
    };
    match word.as_str() {
        Some(PROTOCOL | "true") if named.cpu.is_some() => Ok(Some(Worker::default().runs(1))),
        Some(PROTOCOL | "true") => Ok(Some(Worker::default())),
        Some("false" | "") => Ok(None),
        _ => {
            let sentence = format!("metadata.worker is {word}, and no worker speaks that");
            Err(SkillError::new(ErrorKind::InvalidSkill, sentence)
                .with_help(format!("write `worker: {PROTOCOL}`, or leave it out")))
        }
    }
}

/// The limits that hold: the processor time of a process says nothing of one run of many.
pub(super) fn held_by(worker: Option<Worker>, limits: &Limits) -> Limits {
    Limits { cpu: limits.cpu.filter(|_| worker.is_none_or(|worker| worker.is_single())), ..limits.clone() }
}
