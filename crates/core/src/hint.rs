//! What the program that runs the skill can do about an error, as a value that it puts in its own words.

use serde::{Deserialize, Serialize};

/// What the program that runs the skill can change so that the run succeeds; see [`SkillError::hint`].
///
/// The help of an error says the same in a sentence, without the flags or menus of any program.
///
/// [`SkillError::hint`]: crate::error::SkillError::hint
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Hint {
    /// Let models act on their own this far, from 0 to 100.
    Autonomy(u8),
    /// Deciding about the pending call with this id.
    Pending(String),
    /// Listing the calls that wait for a decision.
    PendingCalls,
    /// Another value of this limit.
    Limit(LimitKind),
    /// Granting the permission of this name, within the scope that suits the user.
    Grant(String),
    /// Trusting the skills of the project in this folder, after a look at them.
    Trust(String),
    /// Setting the secret of this name.
    Secret(String),
    /// Setting the value of this name that the skill reads.
    Setting(String),
    /// Preparing the packages of the skill of this name.
    Prepare(String),
    /// Preparing the packages of the skill of this name with these as well, which are not written into its files.
    PrepareWith(String, Vec<String>),
    /// Naming one of the skill's scripts.
    Script,
    /// Calling one of the tools that the skill offers.
    Tool,
    /// Confirming the call of a tool.
    Confirm,
    /// Another folder for the journal.
    Journal,
    /// A run without a journal.
    NoJournal,
    /// A run in this process, without a worker process.
    InProcess,
    /// A sandbox that is as strong as the machine allows.
    BestEffortSandbox,
    /// No sandbox.
    NoSandbox,
    /// Showing this skill, its instructions and its contract.
    ShowSkill(String),
    /// Validating the skill, which shows what is wrong with it.
    Validate,
    /// The list of the host API's functions.
    ListFunctions,
    /// Choosing fewer operations of a description.
    OperationChoice,
    /// Naming the URL below which the operations of a description are.
    BaseUrl,
    /// Saying how calls of a description authenticate.
    Authentication,
    /// Naming the skill that is made.
    SkillName,
    /// The diagnosis of the machine.
    Diagnosis,
    /// An AppArmor profile that allows user namespaces to the program.
    ApparmorProfile,
}

impl Hint {
    /// The same with its name changed, if it has one.
    pub(crate) fn map_names(&self, change: impl Fn(&str) -> String) -> Self {
        match self {
            Self::Grant(name) => Self::Grant(change(name)),
            Self::Trust(name) => Self::Trust(change(name)),
            Self::Secret(name) => Self::Secret(change(name)),
            Self::Setting(name) => Self::Setting(change(name)),
            Self::Prepare(name) => Self::Prepare(change(name)),
            Self::PrepareWith(name, packages) => {
                Self::PrepareWith(change(name), packages.iter().map(|package| change(package)).collect())
            }
            Self::ShowSkill(name) => Self::ShowSkill(change(name)),
            other => other.clone(),
        }
    }
}

/// A limit of a run, a field of [`Limits`](crate::policy::Limits).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum LimitKind {
    /// The time until the deadline.
    Timeout,
    /// Memory.
    Memory,
    /// Operations.
    Operations,
    /// Processor time.
    Cpu,
    /// The size of a written file.
    FileSize,
    /// Open files.
    OpenFiles,
    /// The output cap, and what happens there.
    Output,
    /// The size of what a skill keeps.
    StateSize,
}
