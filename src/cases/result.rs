//! The result of a case.

use std::time::Duration;

use serde::Serialize;
use serde::ser::{SerializeStruct, Serializer};

use super::difference::Difference;
use crate::engine::Outcome;
use crate::registry::Skill;
use metier_core::error::{Hint, SkillError};

/// The result of a case.
///
/// In JSON `{skill, case, status, reason, differences, duration_ms, log}`.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CaseResult {
    /// The skill's name.
    pub skill: String,
    /// The case's name.
    pub case: String,
    /// Whether the case passed.
    pub status: CaseStatus,
    /// Wall clock time of the run itself.
    pub duration: Duration,
    /// What would let a case run that did not, as its reason says in words. Not in JSON.
    pub hint: Option<Hint>,
    /// The outcome of the run, if there was one: its log shows why a case failed.
    pub outcome: Option<Outcome>,
}

/// Whether a case passed.
#[derive(Clone, Debug, PartialEq)]
pub enum CaseStatus {
    /// Everything was as expected.
    Passed,
    /// These differences were found.
    Failed(Vec<Difference>),
    /// The case proves nothing here, for this reason.
    NotRun(String),
}

impl CaseResult {
    /// The result for a case that could not be run at all.
    pub(super) fn not_run(skill: &Skill, case: &str, error: &SkillError) -> Self {
        let line = error.location().and_then(|place| place.line);
        let line = line.map_or(String::new(), |line| format!(" (line {line})"));
        let status = CaseStatus::NotRun(format!("{error}{line}"));
        let (skill, case) = (skill.name().to_owned(), case.to_owned());
        Self { skill, case, status, duration: Duration::ZERO, hint: None, outcome: None }
    }
}

impl CaseStatus {
    /// `passed`, `failed` or `not-run`.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Failed(_) => "failed",
            Self::NotRun(_) => "not-run",
        }
    }
}

impl Serialize for CaseResult {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let milliseconds = u64::try_from(self.duration.as_millis()).unwrap_or(u64::MAX);
        let (reason, differences) = match &self.status {
            CaseStatus::Passed => (None, &[][..]),
            CaseStatus::Failed(differences) => (None, differences.as_slice()),
            CaseStatus::NotRun(reason) => (Some(reason), &[][..]),
        };
        let log = self.outcome.as_ref().map_or(&[][..], |outcome| &outcome.log);
        let mut record = serializer.serialize_struct("Verdict", 7)?;
        record.serialize_field("skill", &self.skill)?;
        record.serialize_field("case", &self.case)?;
        record.serialize_field("status", self.status.name())?;
        record.serialize_field("reason", &reason)?;
        record.serialize_field("differences", differences)?;
        record.serialize_field("duration_ms", &milliseconds)?;
        record.serialize_field("log", log)?;
        record.end()
    }
}
