//! The folders that a run may change besides those of the project: the state of its skill, and of a process the skill's own folder.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::EngineInner;
use crate::engine::run_terms::RunTerms;
use crate::registry::{FileList, Skill, SkillFolder};
use crate::trust::ProjectIdentity;
use metier_core::error::Result;
use metier_core::executor::DefiningFiles;
use metier_core::host::{Extensions, RunMessages, SkillContext};
use metier_core::policy::CancelToken;
use metier_packages::{ChildPackages, RequiredPython, SkillPackages};
use metier_state::{SkillState, skill_state};

impl EngineInner {
    /// Warns if the run changed files behind the digest of its skill.
    pub(super) fn warn_of_changed_files(&self, skill: &Skill, before: &FileList, context: &SkillContext) {
        let now = self.digests.list(skill, &CancelToken::new());
        if now.is_ok_and(|now| now.digest() == before.digest()) {
            return;
        }
        context.warn(format!(
            "the run changed files of the skill {}, so what was trusted or granted for exactly its files no longer applies; list the \
             paths that it may change under `state` in its contract",
            skill.name()
        ));
    }

    /// What the invocation carries, where the skill keeps its state, and for a process what it needs to know of its skill.
    pub(super) fn run_extensions(
        &self,
        terms: &RunTerms<'_>,
        source: &[u8],
        requests_store: bool,
    ) -> Result<Extensions> {
        let RunTerms { skill, selected, is_command, .. } = terms;
        let mut extensions = terms.extensions.clone();
        // In the place of what the caller of the skill has.
        let is_process = !terms.is_in_process();
        if self.state.is_some() && (is_process || requests_store) {
            extensions.insert::<Option<SkillState>>(self.skill_state(skill, terms.project()));
        } else if extensions.get::<Option<SkillState>>().is_some() {
            extensions.insert::<Option<SkillState>>(None);
        }
        if !is_process {
            return Ok(extensions);
        }
        extensions.insert(if *is_command {
            ChildPackages::default()
        } else {
            self.child_packages(skill, &CancelToken::new())?
        });
        extensions.insert::<Option<SkillPackages>>(if *is_command {
            None
        } else {
            self.packages_of_run(skill, &selected.path, source, &CancelToken::new())?
        });
        extensions.insert::<Option<RequiredPython>>(if *is_command {
            None
        } else {
            self.required_python(skill, &selected.path, source)
        });
        let defining = skill.folder().disk_path().filter(|_| matches!(skill.folder(), SkillFolder::Disk(_)));
        extensions.insert::<Option<DefiningFiles>>(defining.map(|folder| {
            let names = ["SKILL.md", selected.path.as_str()].into_iter().chain(skill.contract_file());
            DefiningFiles(names.map(|name| folder.join(name)).collect())
        }));
        Ok(extensions)
    }

    /// The engine's projects that are not trusted as a whole, canonical.
    pub(super) fn projects_without_trust(&self) -> Arc<[PathBuf]> {
        let projects = self.folders.iter().map(|folder| &folder.path);
        projects.filter(|project| !self.trusts_project(project)).cloned().collect()
    }

    /// Where the skill keeps its state in this project; `None` where it can keep nothing.
    fn skill_state(&self, skill: &Skill, project: &Path) -> Option<SkillState> {
        let store = self.state.as_ref()?;
        let identity = ProjectIdentity::from_canonical(project).ok()?;
        let text = serde_json::to_string(&identity).ok()?;
        let folder = match skill.folder().disk_path() {
            Some(folder) => root_and_name(folder)?,
            None => String::new(),
        };
        Some(skill_state(store, (&skill.qualified_name(), &folder), (&identity.path, &text)))
    }
}

/// The path of a skill's folder without links above it: what it is itself may be a link to another version tomorrow. `None` if it is
/// not UTF-8.
fn root_and_name(folder: &Path) -> Option<String> {
    let (above, name) = (folder.parent()?, folder.file_name()?);
    let above = if above.as_os_str().is_empty() { Path::new(".") } else { above };
    above.canonicalize().ok()?.join(name).to_str().map(str::to_owned)
}
