//! Reports about the steps of a plan.

use std::time::Duration;

use serde::Serialize;
use serde_json::Value;

use super::duration::as_milliseconds;

/// How a step ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum StepStatus {
    /// It returned a value.
    Ok,
    /// It failed.
    Failed,
    /// It was stopped, because another step had ended the run.
    Stopped,
    /// Its condition did not hold, or the run ended before it could start.
    Skipped,
    /// It finished in an earlier run, according to the journal.
    Resumed,
}

impl StepStatus {
    /// The name in JSON.
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

/// The report of one step, in the outcome of the run.
///
/// In JSON: `{index, id, call, status, attempts, duration_ms, input, error, value}`.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct StepReport {
    /// Its index, from 0.
    pub index: usize,
    /// Its id.
    pub id: String,
    /// What it calls.
    pub call: String,
    /// How it ended.
    pub status: StepStatus,
    /// The number of attempts, over all items of a loop; 0 when it was not tried.
    pub attempts: u32,
    /// How long it took. In JSON `duration_ms`, in milliseconds.
    #[serde(rename = "duration_ms", serialize_with = "as_milliseconds")]
    pub duration: Duration,
    /// The input of the step that ended the run, if the input was complete and fits the output limit; otherwise `null`.
    pub input: Value,
    /// Why it failed, at most 2,000 characters; `null` if it did not fail.
    pub error: Option<String>,
    /// Its value, if the run failed and this step did not: input for a further attempt. Otherwise `null`.
    pub value: Value,
}

impl StepReport {
    /// Maximum characters of a step's error that are repeated.
    pub(super) const MAX_ERROR_CHARS: usize = 2_000;
}

/// The report of a step that never began: its index, its id and what it would have called.
pub fn skipped_step(index: usize, id: String, call: String) -> StepReport {
    StepReport {
        index,
        id,
        call,
        status: StepStatus::Skipped,
        attempts: 0,
        duration: Duration::ZERO,
        input: Value::Null,
        error: None,
        value: Value::Null,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_report_of_a_step_in_json_is_in_milliseconds() {
        let report = StepReport {
            index: 1,
            id: "a".into(),
            call: "grep".into(),
            status: StepStatus::Stopped,
            attempts: 2,
            duration: Duration::from_micros(3_999),
            input: Value::Null,
            error: None,
            value: Value::Null,
        };
        assert_eq!(
            serde_json::to_string(&report).unwrap(),
            r#"{"index":1,"id":"a","call":"grep","status":"stopped","attempts":2,"duration_ms":3,"input":null,"#
                .to_owned()
                + r#""error":null,"value":null}"#
        );
    }
}
