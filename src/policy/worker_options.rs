//! A process that is kept between runs, where its skill asks for that.

use std::time::Duration;

use serde::Serialize;
use serde_json::Value;

use crate::error::{ErrorKind, Result, SkillError};

/// How long a process is kept that answers many runs, one after the other. What a script keeps in memory or in its own folder
/// goes from one run to the next; only runs with the same grants, limits and project share a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[non_exhaustive]
pub struct WorkerOptions {
    /// Runs after which it makes way for a new one; 100 by default.
    pub runs: u64,
    /// How long it waits for the next run; 30 s by default.
    #[serde(rename = "idle_ms", serialize_with = "milliseconds")]
    pub idle_timeout: Duration,
}

/// The word for the protocol: a request a line, an answer a line.
const PROTOCOL: &str = "json-lines";

/// Letters of another word that are repeated.
const MAX_SHOWN_CHARS: usize = 60;

impl WorkerOptions {
    /// Whether `metadata.worker` of a skill asks for one: by `json-lines`, or `true` for the only protocol there is.
    /// `invalid-skill` for a word that no worker speaks.
    pub fn is_requested(word: &Value) -> Result<bool> {
        match word.as_str() {
            Some(PROTOCOL | "true") => Ok(true),
            Some("false" | "") => Ok(false),
            _ => {
                let word: String = word.to_string().chars().take(MAX_SHOWN_CHARS).collect();
                let sentence = format!("metadata.worker is {word}, and no worker speaks that");
                Err(SkillError::new(ErrorKind::InvalidSkill, sentence)
                    .with_help(format!("write `worker: {PROTOCOL}`, or leave it out")))
            }
        }
    }

    /// The same, for so many runs, one at least.
    pub fn runs(mut self, runs: u64) -> Self {
        self.runs = runs.max(1);
        self
    }

    /// Whether its process answers one run, and can be held to all limits of that run.
    pub(crate) fn is_single_run(self) -> bool {
        self.runs == 1
    }

    /// The same, waiting so long.
    pub fn idle_timeout(mut self, idle: Duration) -> Self {
        self.idle_timeout = idle;
        self
    }
}

impl Default for WorkerOptions {
    fn default() -> Self {
        Self { runs: 100, idle_timeout: Duration::from_secs(30) }
    }
}

fn milliseconds<S: serde::Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(u64::try_from(time.as_millis()).unwrap_or(u64::MAX))
}
