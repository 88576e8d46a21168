//! A state: whose it is, how large, and where a run finds it.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use metier_core::policy::Timestamp;

/// The state that a skill keeps in a project.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct StoredState {
    #[serde(flatten)]
    pub(super) record: StateRecord,
    /// Bytes of its files.
    pub bytes: u64,
    /// Files and folders.
    pub files: u64,
    /// When a run last worked on it.
    pub last_used: Timestamp,
}

/// A file that a skill keeps.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct StoredFile {
    /// Its path in the home of the skill.
    pub path: String,
    /// Its bytes.
    pub bytes: u64,
}

/// Whose state it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StateRecord {
    pub(super) skill: String,
    pub(super) folder: String,
    pub(super) project: String,
}

/// Where a run finds the state of its skill.
#[derive(Clone, Debug)]
#[cfg_attr(not(unix), allow(dead_code, reason = "no script runs there that has a state"))]
pub struct SkillState {
    pub(super) store: PathBuf,
    pub(super) project_name: String,
    pub(super) skill_name: String,
    pub(super) record: StateRecord,
}

impl StoredState {
    /// The qualified name of the skill without its version, such as `project/.metier:notes`.
    pub fn skill(&self) -> &str {
        &self.record.skill
    }

    /// The path of the skill's folder; empty for a skill inside the program.
    pub fn folder(&self) -> &str {
        &self.record.folder
    }

    /// The path of the project.
    pub fn project(&self) -> &str {
        &self.record.project
    }
}

#[cfg_attr(not(unix), allow(dead_code, reason = "no script runs there that has a state"))]
impl SkillState {
    /// Whether both are the same state.
    pub fn is_same(&self, other: &Self) -> bool {
        self.store == other.store
            && self.project_name == other.project_name
            && self.skill_name == other.skill_name
    }

    /// The qualified name of its skill.
    pub fn skill(&self) -> &str {
        &self.record.skill
    }
}
