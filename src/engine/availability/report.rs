//! The answer: whether a skill could run, and the state of each of its requirements.

use serde::Serialize;

use metier_core::error::{ErrorKind, SkillError};
use metier_core::executor::RuntimeId;

/// Whether a skill could run now, and if not, why. No code of the skill runs to determine this.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Availability {
    /// The runtime of the script that would run; absent when no single script can be selected.
    pub runtime: Option<RuntimeId>,
    /// What there is to run; absent when its files have an error.
    pub content: Option<SkillContent>,
    /// Why a run that names nothing but the skill would not start.
    pub reason: Option<SkillError>,
    /// Optional requirements that are not met, one sentence each; the skill runs without them.
    pub warnings: Vec<String>,
    /// What the skill requires, and whether it is there: its runtime and interpreter, and what its contract names.
    pub requirements: Vec<Requirement>,
    /// Whether the reason concerns all that there is to run.
    pub(in crate::engine) is_unusable: bool,
}

/// What there is of a skill to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum SkillContent {
    /// A script that runs when nobody names one.
    Script,
    /// Several scripts, of which one has to be named.
    Scripts,
    /// Tools, and no script besides.
    Tools,
    /// Nothing: it holds instructions for a model.
    Instructions,
}

impl Availability {
    /// Whether the skill could run now, without more than its name.
    pub fn is_runnable(&self) -> bool {
        self.reason.is_none()
    }

    /// Why nothing of it can run. Nothing is wrong with a skill that holds instructions only, and with one of several scripts or tools of
    /// which at least one can run.
    pub fn cannot_run(&self) -> Option<&SkillError> {
        self.reason.as_ref().filter(|_| self.is_unusable)
    }

    /// The answer for a skill that is not there, or whose files have an error.
    pub(super) fn not_found(reason: SkillError) -> Self {
        Self {
            runtime: None,
            content: None,
            is_unusable: reason.kind() == ErrorKind::InvalidSkill,
            reason: Some(reason),
            warnings: Vec::new(),
            requirements: Vec::new(),
        }
    }
}

/// Something that a skill requires.
///
/// In JSON every key is always present: `{kind, name, version, required, state, found, purpose, reason}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Requirement {
    /// What it is.
    pub kind: RequirementKind,
    /// Its name.
    pub name: String,
    /// The accepted versions; `None` for any.
    pub version: Option<String>,
    /// Whether the skill cannot run without it.
    pub required: bool,
    /// Whether it is there.
    pub state: RequirementState,
    /// The version that was found, where one was looked for.
    pub found: Option<String>,
    /// What the skill needs it for.
    pub purpose: Option<String>,
    /// Why it does not count as available.
    pub reason: Option<String>,
    /// How to get it.
    #[serde(skip)]
    pub(in crate::engine) help: Option<String>,
}

/// What a requirement is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum RequirementKind {
    /// The runtime of the script.
    Runtime,
    /// The program that runs an external script.
    Interpreter,
    /// The packages that a file of the skill names for its script.
    Packages,
    /// The operating system.
    System,
    /// A program on `PATH`.
    Program,
    /// Another skill, which must be able to run as well.
    Skill,
    /// A service, a variable or a file.
    Infrastructure,
    /// A setting of the skill.
    Setting,
    /// A secret of the skill.
    Secret,
    /// A service of the host.
    Capability,
}

/// Whether a requirement is met.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum RequirementState {
    /// It is there, in an accepted version.
    Available,
    /// It is not there, or not in an accepted version.
    Missing,
    /// It is not there, and preparing the skill would get it.
    Preparable,
    /// Nothing was looked for: it is probed only on request, or only its use would tell.
    Unchecked,
}

impl Requirement {
    /// A requirement that is met.
    pub(super) fn available(kind: RequirementKind, name: impl Into<String>) -> Self {
        Self {
            kind,
            name: name.into(),
            version: None,
            required: true,
            state: RequirementState::Available,
            found: None,
            purpose: None,
            reason: None,
            help: None,
        }
    }

    pub(super) fn version(self, version: Option<String>) -> Self {
        Self { version, ..self }
    }

    pub(super) fn required(self, required: bool) -> Self {
        Self { required, ..self }
    }

    pub(super) fn purpose(self, purpose: Option<String>) -> Self {
        Self { purpose, ..self }
    }

    pub(super) fn found_version(self, found: Option<String>) -> Self {
        Self { found, ..self }
    }

    /// The same, missing for this reason.
    pub(super) fn missing(self, reason: String, help: impl Into<String>) -> Self {
        Self { state: RequirementState::Missing, reason: Some(reason), help: Some(help.into()), ..self }
    }

    /// The same, to be prepared for this reason.
    pub(super) fn preparable(self, reason: String, help: impl Into<String>) -> Self {
        Self { state: RequirementState::Preparable, reason: Some(reason), help: Some(help.into()), ..self }
    }

    /// The same, unchecked for this reason.
    pub(super) fn unchecked(self, reason: impl Into<String>) -> Self {
        Self { state: RequirementState::Unchecked, reason: Some(reason.into()), ..self }
    }

    /// `helm >=3.12.0 is not on PATH (renders the chart)`: what is missing, why, and what it is needed for.
    pub(super) fn describe(&self, subject: &str, state: &str) -> String {
        let version = self.version.as_ref().map(|version| format!(" {version}")).unwrap_or_default();
        let purpose = self.purpose.as_ref().map(|purpose| format!(" ({purpose})")).unwrap_or_default();
        format!("{subject}{version} {state}{purpose}")
    }

    /// Whether the skill cannot run because of it.
    pub(super) fn is_missing(&self) -> bool {
        self.required && self.state == RequirementState::Missing
    }
}
