//! The options of a worker: a process that is kept between runs, if its skill requests one.

use std::time::Duration;

use serde::Serialize;
use serde_json::Value;

use crate::error::{ErrorKind, Result, SkillError};

/// How long a worker process is kept, which serves many runs, one after the other. Data that a script keeps in memory or in its
/// own folder passes from one run to the next; only runs with the same grants, limits and project share a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[non_exhaustive]
pub struct WorkerOptions {
    /// Maximum runs before the worker is replaced; 100 by default.
    pub runs: u64,
    /// How long an idle worker waits for the next run; 30 s by default.
    #[serde(rename = "idle_ms", serialize_with = "milliseconds")]
    pub idle_timeout: Duration,
}

/// The name of the protocol: one request per line, one reply per line.
const PROTOCOL: &str = "json-lines";

/// Maximum characters of another name that an error repeats.
const MAX_SHOWN_CHARS: usize = 60;

impl WorkerOptions {
    /// Whether its process serves one run, so that all limits of that run can be enforced on it.
    pub fn is_single_run(self) -> bool {
        self.runs == 1
    }
}

/// Whether `metadata.worker` of a skill requests a worker: with `json-lines`, or with `true` for the only protocol. `None` for a word
/// of another client, such as the name of a model; `invalid-skill` for a protocol that does not exist.
pub fn requests_worker(word: &Value) -> Result<Option<bool>> {
    match word.as_str().map(str::trim) {
        Some(PROTOCOL | "true") => Ok(Some(true)),
        Some("false" | "") => Ok(Some(false)),
        None => Ok(None),
        Some(text) if !resembles_protocol(text) => Ok(None),
        Some(_) => {
            let word: String = word.to_string().chars().take(MAX_SHOWN_CHARS).collect();
            let sentence = format!("invalid metadata.worker {word}; expected {PROTOCOL}");
            Err(SkillError::new(ErrorKind::InvalidSkill, sentence)
                .with_help(format!("write `worker: {PROTOCOL}`, or leave it out")))
        }
    }
}

/// A worker whose process serves one run.
pub fn single_run_worker() -> WorkerOptions {
    WorkerOptions { runs: 1, ..WorkerOptions::default() }
}

impl Default for WorkerOptions {
    fn default() -> Self {
        Self { runs: 100, idle_timeout: Duration::from_secs(30) }
    }
}

/// Whether a word is more likely a protocol than anything else.
fn resembles_protocol(word: &str) -> bool {
    let word = word.to_ascii_lowercase();
    ["json", "line", "rpc", "stdio"].iter().any(|part| word.contains(part))
}

fn milliseconds<S: serde::Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(u64::try_from(time.as_millis()).unwrap_or(u64::MAX))
}
