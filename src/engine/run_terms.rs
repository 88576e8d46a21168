//! What is known of a run before its script starts: the skill that was found, and the terms that were settled.

use std::path::Path;
use std::sync::Arc;

use super::Preview;
use super::invocation::JournalTarget;
use crate::engine::limits::RunLimits;
use crate::engine::project_folders::ProjectFolder;
use crate::engine::run_target::RunTarget;
use crate::engine::script_selection::SelectedScript;
use crate::engine::skill_set::SkillSet;
use crate::engine::trust::RunTrust;
use crate::registry::Skill;
use metier_core::error::{ErrorKind, Result, SkillError};
use metier_core::executor::{RuntimeId, Script};
use metier_core::host::{Extensions, Files, Providers, SharedFacts, SkillContext};
use metier_core::policy::{
    CancelToken, ExecutionMode, GrantOrigin, Permission, SandboxMode, SkillDigest, ToolFilter,
};
use serde_json::Value;

/// A skill as it is on disk, the set it was found in, and what was found of its trust and its script.
pub(super) struct FoundSkill {
    pub(super) set: Arc<SkillSet>,
    pub(super) skill: Skill,
    /// What is known about its trust, in engines that ask; an error if it must not run.
    pub(super) trust: Result<Option<RunTrust>>,
    pub(super) script: FoundScript,
}

/// The script of a run.
#[allow(clippy::large_enum_variant, reason = "one is made for each run")]
pub(super) enum FoundScript {
    /// None can be selected.
    Unselected(SkillError),
    /// This one, and what was read of it.
    Selected(SelectedScript, Result<(Script, Files)>),
}

impl FoundScript {
    pub(super) fn selected(&self) -> Option<&SelectedScript> {
        match self {
            Self::Unselected(_) => None,
            Self::Selected(selected, _) => Some(selected),
        }
    }

    /// The folder from which it was read.
    pub(super) fn folder(&self) -> Option<&Files> {
        match self {
            Self::Selected(_, Ok((_, files))) => Some(files),
            _ => None,
        }
    }
}

impl FoundSkill {
    pub(super) fn is_untrusted(&self) -> bool {
        self.trust.as_ref().is_err_and(|error| error.kind() == ErrorKind::Untrusted)
    }
}

/// What runs, for whom, where, and what it may do: decided, with nothing of its script loaded.
#[allow(clippy::struct_excessive_bools, reason = "each is a fact of the run")]
pub(super) struct RunTerms<'e> {
    pub(super) set: Arc<SkillSet>,
    pub(super) skill: Skill,
    pub(super) selected: SelectedScript,
    pub(super) cancel: CancelToken,
    /// The run whose skill calls this one.
    pub(super) caller: Option<SkillContext>,
    /// Whether it runs a command, and no skill.
    pub(super) is_command: bool,
    /// The folder on which it works, and its index.
    pub(super) folder: (usize, &'e ProjectFolder),
    /// What is granted to it, unless another skill calls it.
    pub(super) grants: Vec<(Permission, GrantOrigin)>,
    pub(super) tool_filter: Option<Arc<ToolFilter>>,
    pub(super) limits: RunLimits,
    pub(super) sandbox_mode: SandboxMode,
    pub(super) execution_mode: ExecutionMode,
    /// Of all files that it may use, in engines that know a trust store.
    pub(super) digest: Option<SkillDigest>,
    /// Whether it was trusted, or invoked, for exactly the files with this digest.
    pub(super) is_for_these_files: bool,
    /// Whether the approver is asked about everything before it starts.
    pub(super) asks_first: bool,
    /// Whether its caller agrees to the call of a tool: never where a model or another skill calls.
    pub(super) is_confirmed: bool,
    pub(super) journal: Option<JournalTarget>,
    pub(super) preview: Option<Preview>,
    pub(super) extensions: Extensions,
    pub(super) facts: SharedFacts,
}

/// What goes from the invocation to the script.
pub(super) struct ScriptCall {
    pub(super) source: Result<(Script, Files)>,
    pub(super) providers: Providers,
    pub(super) input: Option<Value>,
    /// The text from which the input was parsed.
    pub(super) input_text: Option<Arc<str>>,
    pub(super) args: Vec<String>,
}

impl ScriptCall {
    pub(super) fn script(&self) -> Option<&Script> {
        self.source.as_ref().ok().map(|(script, _)| script)
    }
}

impl RunTerms<'_> {
    /// What is called: the skill, or a tool of it.
    pub(super) fn target(&self) -> RunTarget<'_> {
        RunTarget { skill: &self.skill, tool: self.selected.tool.as_deref() }
    }

    pub(super) fn is_in_process(&self) -> bool {
        self.selected.runtime != RuntimeId::EXTERNAL
    }

    /// The folder of the skill, if a process of its script could change it.
    pub(super) fn process_folder(&self) -> Option<&Path> {
        self.skill.folder().disk_path().filter(|_| !self.is_in_process())
    }

    /// The project on which it works, canonical.
    pub(super) fn project(&self) -> &Path {
        &self.folder.1.path
    }

    pub(super) fn granted(&self) -> impl Iterator<Item = &Permission> {
        self.grants.iter().map(|(permission, _)| permission)
    }
}
