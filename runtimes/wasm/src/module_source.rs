//! A module of a plug-in before it is compiled: its bytes, what the plug-in uses it for, and what it may import from.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use metier_core::error::SkillError;
use metier_core::executor::Script;

/// The name of the module that has the entry function, as Extism calls it. No module imports from it.
pub(super) const MAIN_MODULE: &str = "main";

#[derive(Clone)]
pub(super) struct ModuleSource {
    /// What messages call it: the file of the script, with the module's name if the plug-in has several.
    pub(super) label: String,
    /// Binary, or the text format.
    pub(super) bytes: Arc<[u8]>,
    pub(super) role: ModuleRole,
    /// The names of all libraries of the plug-in, sorted.
    pub(super) libraries: Vec<String>,
}

/// What a plug-in uses a module for.
#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum ModuleRole {
    /// It has the entry function, of this name.
    Main { function: String },
    /// The other modules may import its functions from this name.
    Library { name: String },
}

impl ModuleSource {
    /// The only module of a plug-in.
    pub(super) fn single(script: &Script, bytes: Arc<[u8]>) -> Self {
        Self { label: script.path.clone(), bytes, role: ModuleRole::main(script), libraries: Vec::new() }
    }

    /// The error, with the module in its sentence if the plug-in has several.
    pub(super) fn name_module(&self, error: SkillError) -> SkillError {
        if self.libraries.is_empty() {
            return error;
        }
        error.with_message(format!("{}: {}", self.label, error.message()))
    }

    /// The name of the library; `None` for the main module.
    pub(super) fn library_name(&self) -> Option<&str> {
        match &self.role {
            ModuleRole::Main { .. } => None,
            ModuleRole::Library { name } => Some(name),
        }
    }
}

impl ModuleRole {
    /// The main module of a script, with the function that the contract names, or else `run`.
    pub(super) fn main(script: &Script) -> Self {
        Self::Main { function: script.function.clone().unwrap_or_else(|| "run".into()) }
    }
}
