//! Finds the files behind the digest of a skill: its own, and those of every skill that it can call by name.

use std::collections::HashSet;

use super::EngineInner;
use crate::engine::callee_resolver::load_plan;
use crate::engine::requested_permissions::{callable_skill_names, declared_permissions};
use crate::engine::script_selection::{ScriptChoice, SelectedScript, select_script};
use crate::engine::skill_set::SkillSet;
use crate::engine::tool_selection::tool_plans;
use crate::registry::{FileList, ListedFile, Skill};
use crate::trust::{CalleeFiles, SkillFiles};
use metier_core::error::{ErrorKind, Result, SkillError};
use metier_core::executor::RuntimeId;
use metier_core::policy::{CancelToken, RequestedPermissions, split_tool_name};
use metier_plan::{Plan, callee_names};

/// Maximum number of skills that a skill may call, directly or not.
const MAX_CALLEES: usize = 1_000;

impl EngineInner {
    /// The files of a skill and of all that it can call by name: the skills of its plan, of its permissions and of its contract.
    pub(super) fn skill_files(
        &self,
        set: &SkillSet,
        skill: &Skill,
        cancel: &CancelToken,
    ) -> Result<SkillFiles> {
        let files = self.digests.list(skill, cancel)?;
        let mut callees = Vec::new();
        self.add_callees(set, skill, &files, cancel, &mut HashSet::new(), &mut callees)?;
        let qualified_name = set.registry.unversioned_name(skill);
        let mut packages = self.package_digests(skill, &files);
        packages
            .extend(callees.iter().flat_map(|(callee, files)| self.package_digests(callee, &files.files)));
        packages.sort_unstable();
        packages.dedup();
        let callees: Vec<CalleeFiles> = callees.into_iter().map(|(_, files)| files).collect();
        Ok(SkillFiles {
            name: skill.name().to_owned(),
            version: skill.version().to_string(),
            folder: self.folder_in_project(set, skill),
            state: skill.contract().map(|contract| contract.state.clone()).unwrap_or_default(),
            digest: SkillFiles::combined_digest(&qualified_name, &files, &callees, &packages),
            packages,
            qualified_name,
            files,
            callees,
        })
    }

    fn add_callees(
        &self,
        set: &SkillSet,
        skill: &Skill,
        files: &FileList,
        cancel: &CancelToken,
        seen: &mut HashSet<String>,
        callees: &mut Vec<(Skill, CalleeFiles)>,
    ) -> Result<()> {
        let find = || self.read_callee_names(skill, files);
        let names = self.digests.callee_names(skill, files.digest(), set.generation, find);
        if names.is_empty() {
            return Ok(());
        }
        seen.insert(skill.path());
        for name in names.iter() {
            // A name that means no skill calls none, until a skill of that name is there and is not among these.
            let Some(callee) = set.registry.find_any_for_caller(skill, name) else { continue };
            if !seen.insert(callee.path()) {
                continue;
            }
            if callees.len() == MAX_CALLEES {
                let sentence = format!("skill {} leads to more than {MAX_CALLEES} skills", skill.name());
                return Err(SkillError::new(ErrorKind::InvalidSkill, sentence));
            }
            // It may have been edited since it was read, and then calls others.
            let (set, callee) = self.skills.current_version(callee)?;
            let list = self.digests.list(&callee, cancel)?;
            let files = CalleeFiles::new(set.registry.unversioned_name(&callee), list.clone());
            callees.push((callee.clone(), files));
            self.add_callees(&set, &callee, &list, cancel, seen, callees)?;
        }
        Ok(())
    }

    /// Those of all scripts that a run may select.
    fn read_callee_names(&self, skill: &Skill, files: &FileList) -> Vec<String> {
        if self.names_no_callee(skill, files) {
            return Vec::new();
        }
        let selected = self.selected_script(skill, ScriptChoice::Main).ok();
        let runtime = selected.as_ref().map_or(RuntimeId::TOOL_SEQUENCE, |script| script.runtime);
        let contract = skill.contract();
        let entrypoints = contract.map_or(&[][..], |contract| &contract.entrypoints);
        let entrypoints =
            entrypoints.iter().filter_map(|(name, _)| select_script(&self.runtimes, skill, Some(name)).ok());
        let declared = contract.and_then(|contract| contract.runtime.as_deref());
        let declared = declared.or(skill.manifest().runtime.as_deref());
        let declared = declared.and_then(|name| self.runtimes.find(name).ok());
        let is_plan = |path: &&str| {
            self.runtimes.for_script(path, declared, false) == RuntimeId::TOOL_SEQUENCE
                || skill.contract_file() == Some(*path)
        };
        let paths = files.files().iter().map(|file| file.path.as_str()).filter(is_plan);
        let by_path = paths.map(|path| SelectedScript::new(path.to_owned(), RuntimeId::TOOL_SEQUENCE));
        let scripts =
            selected.into_iter().chain(entrypoints).chain(tool_plans(&self.runtimes, skill)).chain(by_path);
        let plans: Vec<Plan> =
            scripts.filter_map(|script| load_plan(skill, &script).ok().flatten()).collect();
        let permitted = permitted_callee_names(skill, runtime);
        let needed = skill.contract().map_or(&[][..], |contract| &contract.dependencies.skills);
        let needed = needed.iter().map(|needed| needed.name.clone());
        let planned = plans.iter().flat_map(callee_names);
        let of_tools = plans.iter().flat_map(Plan::tools).filter_map(split_tool_name).map(|(skill, _)| skill);
        let planned = planned.chain(of_tools).map(str::to_owned);
        let mut names: Vec<String> = planned.chain(permitted).chain(needed).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// Whether nothing can call a skill by name, whatever script is selected: in a skill without a contract and a plan, whose text lists
    /// none.
    fn names_no_callee(&self, skill: &Skill, files: &FileList) -> bool {
        let is_plan = |file: &ListedFile| self.runtimes.for_path(&file.path) == RuntimeId::TOOL_SEQUENCE;
        skill.contract_file().is_none()
            && skill.manifest().runtime.is_none()
            && !files.files().iter().any(is_plan)
            && permitted_callee_names(skill, RuntimeId::TOOL_SEQUENCE).is_empty()
    }
}

/// The names of the skills that a script of this runtime may call by its permissions; of a plan's, all that the skill lists.
fn permitted_callee_names(skill: &Skill, runtime: RuntimeId) -> Vec<String> {
    match declared_permissions(skill, runtime) {
        RequestedPermissions::Listed(listed) => callable_skill_names(&listed),
        RequestedPermissions::All => Vec::new(),
    }
}
