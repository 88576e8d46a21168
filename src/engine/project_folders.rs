//! The folders of an engine: a project, or the several of an editor's workspace. Each run works on one of them.

use std::path::{Path, PathBuf};

use super::Invocation;
use crate::engine::skill_set::SkillSet;
use crate::registry::Skill;
use metier_core::error::{ErrorKind, Result, SkillError};
use metier_core::host::SkillContext;
use metier_core::host::canonical_folder::canonical_folder;
use metier_core::host::files::SecretLinks;

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
        if let Some(root) = invocation.caller.as_ref().and_then(SkillContext::project_root) {
            return self.find(root).ok_or_else(|| self.foreign_folder_error(root));
        }
        let Some(named) = &invocation.folder else {
            if let Some(of_journal) = invocation.journal_project.as_ref().and_then(|path| self.find(path)) {
                return Ok(of_journal);
            }
            let own =
                set.registry.folder_of_skill(skill).and_then(|index| self.iter().enumerate().nth(index));
            return Ok(own.unwrap_or(first));
        };
        self.find_canonical(named).ok_or_else(|| self.foreign_folder_error(named))
    }

    /// The index of the folder on which the run works, as far as it is known before its skill: that of the run that called it,
    /// or that of the invocation. `None` where the engine has one folder.
    pub(super) fn before_lookup(&self, invocation: &Invocation) -> Option<usize> {
        if self.others.is_empty() {
            return None;
        }
        if let Some(caller) = &invocation.caller {
            return self.of_caller(caller);
        }
        let named = invocation.folder.as_ref().map(|folder| self.find_canonical(folder));
        let of_journal = || self.find(invocation.journal_project.as_ref()?);
        named.unwrap_or_else(of_journal).map(|(index, _)| index)
    }

    /// The same for what a running skill calls.
    pub(super) fn of_caller(&self, caller: &SkillContext) -> Option<usize> {
        let root = caller.project_root().filter(|_| !self.others.is_empty())?;
        self.find(root).map(|(index, _)| index)
    }

    fn find(&self, path: &Path) -> Option<(usize, &ProjectFolder)> {
        self.iter().enumerate().find(|(_, folder)| folder.path == path)
    }

    fn find_canonical(&self, path: &Path) -> Option<(usize, &ProjectFolder)> {
        std::fs::canonicalize(path).ok().and_then(|path| self.find(&path))
    }

    fn foreign_folder_error(&self, path: &Path) -> SkillError {
        let sentence = format!("failed to run in {}: it is not a folder of this engine", path.display());
        let known: Vec<String> = self.iter().map(|folder| folder.path.display().to_string()).collect();
        SkillError::new(ErrorKind::Usage, sentence).with_help(format!("its folders are {}", known.join(", ")))
    }
}

impl ProjectFolder {
    fn open(path: &Path) -> Result<Self> {
        let failed = |source| SkillError::io(format_args!("failed to open {}", path.display()), source);
        let path = canonical_folder(path).map_err(failed)?;
        Ok(Self { path, secret_links: SecretLinks::default() })
    }
}
