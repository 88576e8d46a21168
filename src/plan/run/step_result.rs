//! The result of one step, as the run receives it.

use std::time::Duration;

use serde_json::{Map, Value};

use super::scope::StepOutcome;
use crate::error::SkillError;
use crate::host::{CallAccess, StepStatus};

/// The result of a step.
pub(in crate::plan) struct StepResult {
    pub(in crate::plan) outcome: Result<StepOutcome, ErrorWithInput>,
    pub(in crate::plan) status: StepStatus,
    pub(in crate::plan) attempts: u32,
    pub(in crate::plan) duration: Duration,
}

/// An error, and the input of the step.
pub(in crate::plan) struct ErrorWithInput {
    pub(in crate::plan) error: SkillError,
    pub(in crate::plan) input: Option<Map<String, Value>>,
    /// What the calls of the step had.
    pub(in crate::plan) access: Vec<CallAccess>,
    /// Whether the error is the result of an earlier run, from the journal.
    pub(in crate::plan) is_from_journal: bool,
}

impl From<SkillError> for ErrorWithInput {
    fn from(error: SkillError) -> Self {
        Self { error, input: None, access: Vec::new(), is_from_journal: false }
    }
}
