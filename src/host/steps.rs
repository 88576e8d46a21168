//! How far a plan has come, as its steps start and end.

use std::time::Duration;

use serde::Serialize;
use serde_json::Value;

/// A step of a plan has started or ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepEvent {
    /// Its place, from 0.
    pub index: usize,
    /// How many steps the plan has.
    pub step_count: usize,
    /// Its id.
    pub id: String,
    /// What it calls: `grep`, `tool search`, `skill word-count`.
    pub call: String,
    /// How it ended, or nothing when it has just started.
    pub status: Option<StepStatus>,
    /// How long it took; zero when it has just started.
    pub duration: Duration,
}

/// How a step ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum StepStatus {
    /// It answered.
    Ok,
    /// It failed.
    Failed,
    /// It was stopped, since another step had ended the run.
    Stopped,
    /// Its condition did not hold, or the run ended before it could start.
    Skipped,
    /// It finished in an earlier run, as the journal says.
    Resumed,
}

impl StepStatus {
    /// The word in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Failed => "failed",
            Self::Stopped => "stopped",
            Self::Skipped => "skipped",
            Self::Resumed => "resumed",
        }
    }
}

/// What came of one step, in the outcome of the run.
///
/// In JSON: `{index, id, call, status, attempts, duration_ms, input, error, value}`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StepReport {
    /// Its place, from 0.
    pub index: usize,
    /// Its id.
    pub id: String,
    /// What it calls.
    pub call: String,
    /// How it ended.
    pub status: StepStatus,
    /// How often it was tried, all items of a loop counted; 0 when it was not.
    pub attempts: u32,
    /// Milliseconds it took.
    pub duration_ms: u64,
    /// What the step that ended the run was given, where that came so far and the output limit lets it; `null` otherwise.
    pub input: Value,
    /// Why it failed, at most 2,000 characters of it; `null` where it did not.
    pub error: Option<String>,
    /// Its value, where the run failed and this step did not: what there is to go on from. `null` otherwise.
    pub value: Value,
}

impl StepReport {
    /// Characters of an error that are repeated for its step.
    pub(super) const MAX_ERROR_CHARS: usize = 2_000;
}
