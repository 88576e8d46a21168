//! A state: whose it is, how large, and where a run finds it.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use metier_core::policy::Timestamp;

/// The state that a skill keeps in a project, or the values that its skills share in a store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct StoredState {
    #[serde(flatten)]
    pub(super) record: StateRecord,
    /// Bytes of its files.
    pub bytes: u64,
    /// Files and folders.
    pub files: u64,
    /// Values under keys.
    pub values: u64,
    /// Bytes of the values and their keys.
    pub value_bytes: u64,
    /// When a run last worked on it, or changed a value.
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

/// A value that a skill keeps, or that skills share.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct StoredValue {
    /// Its key.
    pub key: String,
    /// Its bytes, with those of the key.
    pub bytes: u64,
}

/// Whose state it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StateRecord {
    pub(super) skill: String,
    pub(super) folder: String,
    pub(super) project: String,
    /// The name of a store that skills share; then no skill is named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) store: Option<String>,
}

#[cfg_attr(not(unix), allow(dead_code, reason = "nothing is kept there"))]
impl StateRecord {
    /// What it is called in a sentence.
    pub(super) fn title(&self) -> String {
        match &self.store {
            Some(name) => format!("the store {name}"),
            None => format!("the state of {}", self.skill),
        }
    }
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
    /// The qualified name of the skill without its version, such as `project/.metier:notes`; empty for a store that skills share.
    pub fn skill(&self) -> &str {
        &self.record.skill
    }

    /// The path of the skill's folder; empty for a skill inside the program.
    pub fn folder(&self) -> &str {
        &self.record.folder
    }

    /// The name of a store that skills of the project share; `None` for what a skill keeps alone.
    pub fn store(&self) -> Option<&str> {
        self.record.store.as_deref()
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
