//! Everything of a skill that a run can select: its main script, those that a caller can name, and those of its tools.

use super::{Engine, EngineInner, Invocation};
use crate::engine::requested_permissions::{declared_permissions, narrowed_permissions};
use crate::engine::script_selection::{ScriptChoice, SelectedScript, scripts};
use crate::registry::{Skill, parallel_map};
use crate::runtimes;
use metier_core::executor::RuntimeId;
use metier_core::policy::{
    Limits, PathProtection, Permission, Permissions, RequestedPermissions, RunPermissions,
};
use metier_skill::contract::Contract;

/// A script of a skill that a caller can name.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NamedScript {
    /// Its path in the skill's folder.
    pub path: String,
    /// What runs it.
    pub runtime: RuntimeId,
}

impl Engine {
    /// The scripts of the skill that a caller can name, each once: those of [`Engine::scripts`] that a runtime runs, and the
    /// entrypoints of the contract. Whether they can run now, [`Engine::script_availability`] says.
    pub fn named_scripts(&self, skill: &Skill) -> Vec<NamedScript> {
        let selected = self.0.listed_scripts(skill).into_iter();
        selected.map(|script| NamedScript { path: script.path, runtime: script.runtime }).collect()
    }

    /// The same for several skills, in their order.
    pub fn named_scripts_of_each(&self, skills: &[&Skill]) -> Vec<Vec<NamedScript>> {
        parallel_map(skills, |skill| self.named_scripts(skill))
    }

    /// Whether the skill has no main script, and several that a caller can name: it runs what the caller names.
    pub fn runs_named_scripts_only(&self, skill: &Skill) -> bool {
        self.0.selected_script(skill, ScriptChoice::Main).is_err() && self.named_scripts(skill).len() > 1
    }

    /// Whether every grant applies to what this invocation of the skill runs, since it is an external script of a skill that lists no
    /// permission of metier.
    pub fn run_uses_any_grant(&self, skill: &Skill, invocation: &Invocation) -> bool {
        let Ok(choice) = invocation.script_choice() else { return false };
        let selected = self.0.selected_script(skill, choice);
        selected.is_ok_and(|selected| uses_any_grant(skill, &selected))
    }

    /// Whether a grant of this permission applies to what this invocation of the skill runs: it is requested there, or every grant
    /// applies.
    pub fn run_uses_grant(&self, skill: &Skill, invocation: &Invocation, permission: &Permission) -> bool {
        let Ok(choice) = invocation.script_choice() else { return false };
        let Ok(selected) = self.0.selected_script(skill, choice) else { return false };
        let narrowed = selected.tool.as_deref().and_then(|tool| narrowed_permissions(skill, tool));
        let requested = narrowed
            .map_or_else(|| declared_permissions(skill, selected.runtime), RequestedPermissions::Listed);
        let permissions = Permissions::new(requested, [permission.clone()], PathProtection::default());
        permissions.effective().contains(permission)
    }
}

impl EngineInner {
    /// The scripts of the skill that a list for a caller has.
    pub(super) fn listed_scripts(&self, skill: &Skill) -> Vec<SelectedScript> {
        self.named_scripts(skill, scripts(&self.runtimes, skill).unwrap_or_default())
    }

    /// Every script of the skill that a run can select, each once: the main one first.
    pub(super) fn selectable_scripts(&self, skill: &Skill) -> Vec<SelectedScript> {
        let mut found: Vec<SelectedScript> =
            self.selected_script(skill, ScriptChoice::Main).into_iter().collect();
        let mut paths = scripts(&self.runtimes, skill).unwrap_or_default();
        // Those in subfolders can be named too, whether the text names them or not.
        paths.extend(skill.folder().files_under("scripts").unwrap_or_default());
        let tools = skill.contract().into_iter().flat_map(Contract::all_tools);
        let of_tools =
            tools.filter_map(|tool| self.selected_script(skill, ScriptChoice::Tool(&tool.name)).ok());
        for script in self.named_scripts(skill, paths).into_iter().chain(of_tools) {
            let is_same = |known: &SelectedScript| {
                (&known.path, known.runtime, &known.tool) == (&script.path, script.runtime, &script.tool)
            };
            if !found.iter().any(is_same) {
                found.push(script);
            }
        }
        found
    }

    /// The scripts at these paths and the entrypoints of the contract, as far as a runtime runs them, each once.
    fn named_scripts(&self, skill: &Skill, paths: Vec<String>) -> Vec<SelectedScript> {
        let entrypoints = skill.contract().map_or(&[][..], |contract| &contract.entrypoints);
        let names = paths.into_iter().chain(entrypoints.iter().map(|(name, _)| name.clone()));
        let mut found: Vec<SelectedScript> = Vec::new();
        for name in names {
            let Ok(script) = self.selected_script(skill, ScriptChoice::Named(&name)) else { continue };
            let is_same =
                |known: &SelectedScript| (&known.path, known.runtime) == (&script.path, script.runtime);
            if !found.iter().any(is_same) && self.is_script(skill, &script) {
                found.push(script);
            }
        }
        found
    }

    /// Whether a runtime runs the file: of data beside scripts nothing does.
    fn is_script(&self, skill: &Skill, script: &SelectedScript) -> bool {
        let services = self.script_cache.services();
        let has_interpreter =
            |source: &[u8]| runtimes::interpreter_name(services, &script.path, source).is_some();
        let source = || skill.folder().read(&script.path, Limits::MAX_READ_SIZE).unwrap_or_default();
        if runtimes::is_plugin_manifest(&script.path) {
            return runtimes::looks_like_script(&self.runtimes, &script.path, || Some(source()));
        }
        script.runtime != RuntimeId::EXTERNAL
            || script.handler.is_some()
            || has_interpreter(&[])
            || has_interpreter(&source())
    }
}

/// Whether every grant applies to a run of this script, or of this tool.
pub(super) fn uses_any_grant(skill: &Skill, selected: &SelectedScript) -> bool {
    let is_narrowed = || {
        let tool = selected.tool.as_deref();
        tool.is_some_and(|tool| narrowed_permissions(skill, tool).is_some())
    };
    declared_permissions(skill, selected.runtime) == RequestedPermissions::All && !is_narrowed()
}
