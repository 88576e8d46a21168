//! The result of one step, as the run receives it.

use std::time::Duration;

use serde_json::{Map, Value};

use super::scope::StepOutcome;
use metier_core::error::SkillError;
use metier_core::host::{CallAccess, StepStatus};

/// The result of a step.
pub(crate) struct StepResult {
    pub(crate) outcome: Result<StepOutcome, ErrorWithInput>,
    pub(crate) status: StepStatus,
    pub(crate) attempts: u32,
    pub(crate) duration: Duration,
}

/// An error, and the input of the step.
pub(crate) struct ErrorWithInput {
    pub(crate) error: SkillError,
    pub(crate) input: Option<Map<String, Value>>,
    /// What the calls of the step had.
    pub(crate) access: Vec<CallAccess>,
    /// Whether the error is the result of an earlier run, from the journal.
    pub(crate) is_from_journal: bool,
}

impl From<SkillError> for ErrorWithInput {
    fn from(error: SkillError) -> Self {
        Self { error, input: None, access: Vec::new(), is_from_journal: false }
    }
}
