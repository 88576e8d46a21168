//! The folders of an engine: a project, or the several of an editor's workspace. Each run works on one of them.

use std::path::{Path, PathBuf};

use super::Invocation;
use crate::engine::skill_set::SkillSet;
use crate::error::{ErrorKind, Result, SkillError};
use crate::host::SkillContext;
use crate::host::files::SecretLinks;
use crate::registry::Skill;

/// A folder that runs may work on.
pub(super) struct ProjectFolder {
    /// Canonical.
    pub(super) path: PathBuf,
    pub(super) secret_links: SecretLinks,
}

/// The folders of an engine; there is at least one.
pub(super) struct ProjectFolders {
    first: ProjectFolder,
    others: Vec<ProjectFolder>,
}

impl ProjectFolders {
    /// Opens the folders; `io` when one cannot be opened. A folder that is named twice counts once.
    pub(super) fn open(first: &Path, others: &[PathBuf]) -> Result<Self> {
        let mut folders = Self { first: ProjectFolder::open(first)?, others: Vec::new() };
        for path in others {
            let folder = ProjectFolder::open(path)?;
            if !folders.iter().any(|known| known.path == folder.path) {
                folders.others.push(folder);
            }
        }
        Ok(folders)
    }

    pub(super) fn first(&self) -> &ProjectFolder {
        &self.first
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &ProjectFolder> {
        std::iter::once(&self.first).chain(&self.others)
    }

    pub(super) fn paths(&self) -> Vec<PathBuf> {
        self.iter().map(|folder| folder.path.clone()).collect()
    }

    /// The folder that a run works on, and its index: that of the run that called it, or that of the invocation, or that in which
    /// the skill was found, or the first.
    pub(super) fn of_run(
        &self,
        set: &SkillSet,
        skill: &Skill,
        invocation: &Invocation,
    ) -> Result<(usize, &ProjectFolder)> {
        let first = (0, &self.first);
        if self.others.is_empty() && invocation.folder.is_none() {
            return Ok(first);
        }
        let at = |path: &Path| self.iter().enumerate().find(|(_, folder)| folder.path == path);
        if let Some(root) = invocation.caller.as_ref().and_then(SkillContext::project_root) {
            return Ok(at(root).unwrap_or(first));
        }
        let Some(named) = &invocation.folder else {
            let own = set.folder_of_skill(skill).and_then(|index| self.iter().enumerate().nth(index));
            return Ok(own.unwrap_or(first));
        };
        std::fs::canonicalize(named).ok().and_then(|path| at(&path)).ok_or_else(|| {
            let sentence = format!("failed to run in {}: it is no folder of this engine", named.display());
            let known: Vec<String> = self.iter().map(|folder| folder.path.display().to_string()).collect();
            SkillError::new(ErrorKind::Usage, sentence)
                .with_help(format!("its folders are {}", known.join(", ")))
        })
    }
}

impl ProjectFolder {
    fn open(path: &Path) -> Result<Self> {
        let failed = |source| SkillError::io(format_args!("failed to open {}", path.display()), source);
        let path = std::fs::canonicalize(path).map_err(failed)?;
        Ok(Self { path, secret_links: SecretLinks::default() })
    }
}
