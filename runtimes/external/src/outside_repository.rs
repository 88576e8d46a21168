//! The repository of a project where it lies outside of the project: what of it a run may read, or also change, and the grant for the rest.

use std::path::{Path, PathBuf};

use crate::hints::permission_hint::{Help, permission_hint};
use metier_core::host::SkillContext;
use metier_core::host::git::{OutsideRepository, UnprovenRepository};
use metier_core::policy::Access;

/// What git says where it finds no repository that it can read, in lower case.
const NO_REPOSITORY: [&str; 4] = [
    "not a git repository",
    "unable to normalize alternate object path",
    "unable to open object pack directory",
    // Of the file of a worktree.
    "/.git': permission denied",
];

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

fn is_granted(ctx: &SkillContext, repository: &UnprovenRepository) -> bool {
    access(repository).is_some_and(|need| ctx.permissions().allows(&need))
}

/// The access to a repository, if its path is text.
fn access(repository: &UnprovenRepository) -> Option<Access> {
    repository.folder.to_str().map(Access::git)
}

/// The hint for a script that wrote these lines, in which git found no repository: where the project has one, and the grant for it.
pub(crate) fn repository_hint<'a>(
    ctx: &SkillContext,
    project: &Path,
    mut lines: impl Iterator<Item = &'a str>,
) -> Option<Help> {
    let is_about_repository = |line: &str| {
        let small = line.to_lowercase();
        NO_REPOSITORY.iter().any(|words| small.contains(words))
    };
    lines.any(is_about_repository).then_some(())?;
    let unproven = OutsideRepository::find(project).unproven;
    let missing = unproven.iter().find(|repository| !is_granted(ctx, repository))?;
    let (help, hint) = permission_hint(ctx, &access(missing)?)?;
    let text = format!(
        "a script in a sandbox reads no repository outside of the project unless a person says so, and this one lies at {}: {}; {help}",
        missing.folder.display().to_string().escape_debug(),
        missing.reason
    );
    Some((text, hint))
}
