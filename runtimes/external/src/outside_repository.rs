//! The repository of a project where it lies outside of the project: what of it a run may read, or also change.

use std::path::{Path, PathBuf};

use metier_core::host::SkillContext;
use metier_core::host::git::{OutsideRepository, UnprovenRepository};
use metier_core::policy::Access;

/// The paths outside of its project that a run may read as its repository, and those of them that it may change.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct RepositoryAccess {
    pub(crate) read: Vec<PathBuf>,
    pub(crate) write: Vec<PathBuf>,
}

impl RepositoryAccess {
    /// A linked worktree whose repository points back to it is open as a `.git` in the project is, and everything else with `git`.
    pub(crate) fn new(ctx: &SkillContext, project: &Path) -> Self {
        let OutsideRepository { worktree, unproven } = OutsideRepository::find(project);
        let granted = unproven.into_iter().filter(|repository| is_granted(ctx, repository));
        let (named, git_files): (Vec<_>, Vec<_>) = granted.map(|one| (one.folder, one.git_file)).unzip();
        let folders = worktree.into_iter().chain(named);
        if ctx.permissions().allows(&Access::write(".git")) {
            Self { read: git_files.into_iter().flatten().collect(), write: folders.collect() }
        } else {
            Self { read: folders.chain(git_files.into_iter().flatten()).collect(), write: Vec::new() }
        }
    }
}

/// Whether a person has granted the run this repository.
pub(crate) fn is_granted(ctx: &SkillContext, repository: &UnprovenRepository) -> bool {
    access(repository).is_some_and(|need| ctx.permissions().allows(&need))
}

/// The access to a repository, if its path is text.
pub(crate) fn access(repository: &UnprovenRepository) -> Option<Access> {
    repository.folder.to_str().map(Access::git)
}
