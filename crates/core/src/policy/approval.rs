//! What an approver answers.

use super::argument_pattern::ArgumentPattern;

/// An approver's answer to a question.
///
/// A yes holds until the invoked run ends, for the skill that asked and those that it calls. `true` is `Once` and `false` is `No`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Approval {
    /// Refused.
    No,
    /// Permitted in this run.
    Once,
    /// Permitted in this run, and later in the same engine and its clones: to the same skill, called by the same skills, while
    /// their files do not change, in the same project, for the same permission. Not for runs that a model chose if a person chose this
    /// one, or the other way round, and not where another approver is asked.
    Session,
    /// As `Session`, and for good: remembered in the engine's trust store, for runs whose arguments fit the pattern. Where nothing
    /// can be stored it holds for the session, with a warning in the log of the run; so it does if a secret that the skill may
    /// read is in the pattern.
    Always(ArgumentPattern),
}

impl From<bool> for Approval {
    fn from(is_approved: bool) -> Self {
        if is_approved { Self::Once } else { Self::No }
    }
}
