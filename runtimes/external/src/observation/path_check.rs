//! What the rules of a run say of one path that it names, also where nothing was observed: whether it is refused, and which grant would
//! allow it.

use std::path::{Component, Path, PathBuf};

use crate::audience::is_for_person;
use crate::observation::refusal::{OUTSIDE, OUTSIDE_CHANGE, Refusal, changes, refusal, smallest_write};
use crate::observation::run_files::{Covered, Place, RunFiles};
use crate::policy::names_folder;
use metier_core::host::SkillContext;
use metier_core::policy::{Permission, RunPermissions};
use metier_sandbox::{AccessKind, ObservedAccess, SupervisorReport};

/// The rules of a run that has ended, and whose folders are still there.
#[derive(Clone, Copy)]
pub(crate) struct PathCheck<'a> {
    pub(crate) ctx: &'a SkillContext,
    files: &'a RunFiles,
    covered: Covered,
}

impl<'a> PathCheck<'a> {
    pub(crate) fn new(ctx: &'a SkillContext, files: &'a RunFiles, report: &SupervisorReport) -> Self {
        Self { ctx, files, covered: Covered::in_report(report) }
    }

    /// What a path that the script wrote means: a relative one is of the project, or of the home if it leads nowhere there. A link is
    /// followed, but for one of the home.
    pub(crate) fn absolute(&self, written: &str) -> PathBuf {
        let (project, home) = (&self.files.project, &self.files.home);
        let in_home = written.strip_prefix("~/").map(|rest| home.join(rest)).or_else(|| {
            let is_of_home = !project.join(written).parent().is_some_and(Path::exists);
            Some(home.join(written)).filter(|path| is_of_home && path.exists())
        });
        let path = in_home.unwrap_or_else(|| project.join(self.path_of_git(written)));
        let path = normalize_lexically(&path);
        let mut homes = std::iter::once(home).chain(&self.files.user_homes);
        if homes.any(|home| path.starts_with(home)) { path } else { canonicalize_existing(&path) }
    }

    /// Git writes some paths from its own folder on.
    fn path_of_git(&self, written: &str) -> PathBuf {
        let first = written.split('/').next().unwrap_or_default();
        let is_in = |folder: &Path| folder.join(first).is_dir();
        let git = Path::new(".git");
        let is_of_git = !is_in(&self.files.project) && is_in(&self.files.project.join(git));
        if is_of_git { git.join(written) } else { written.into() }
    }

    /// `None` if the run could do it, and for what programs do by themselves.
    pub(crate) fn refusal(&self, path: &Path, kind: AccessKind) -> Option<Refusal> {
        let access = ObservedAccess { path: path.into(), kind, count: 1 };
        let found = refusal(self.ctx, self.files, self.covered, &access, |_| false);
        found.or_else(|| self.outside_refusal(path, kind))
    }

    /// The refusal of a place of the system, in which programs look for much by themselves.
    fn outside_refusal(&self, path: &Path, kind: AccessKind) -> Option<Refusal> {
        let is_outside = self.files.place(path, self.covered) == Place::Elsewhere;
        // What is there is only for the person who runs the script.
        let is_unseen = || !is_for_person(self.ctx) || path.symlink_metadata().is_err();
        let (is_allowed, reason) = if changes(kind) {
            (self.files.may_write(path), OUTSIDE_CHANGE)
        } else {
            (self.files.may_read(path) || is_unseen(), OUTSIDE)
        };
        let refused = Refusal { path: path.to_owned(), grant: Err(reason), kind, count: 1 };
        (is_outside && !is_allowed).then_some(refused)
    }

    /// The rest of a path of the project.
    pub(crate) fn path_in_project<'p>(&self, path: &'p Path) -> Option<&'p str> {
        path.strip_prefix(&self.files.project).ok()?.to_str()
    }

    /// The grant that lets a script change this protected path of the project, for a person who writes it: the folder around it, if that is
    /// protected as well. `None` for a new file, which a person has to create.
    pub(crate) fn protected_write(&self, path: &Path, kind: AccessKind) -> Option<Permission> {
        let rest = self.path_in_project(path)?;
        let around: Permission = smallest_write(path, Path::new(rest), kind).ok()?.parse().ok()?;
        let protects = |path: &str| self.ctx.permissions().protection().protects_write(path);
        if around.scope().is_some_and(protects) {
            return Some(around);
        }
        let is_there = path.symlink_metadata().is_ok() || names_folder(rest);
        is_there.then(|| Permission::write(rest).ok()).flatten()
    }
}

/// Resolves `.` and `..` without reading the disk.
fn normalize_lexically(path: &Path) -> PathBuf {
    path.components().fold(PathBuf::new(), |mut path, part| {
        match part {
            Component::ParentDir => drop(path.pop()),
            Component::CurDir => {}
            part => path.push(part),
        }
        path
    })
}

/// Resolves the symlinks of a path whose end may not exist.
fn canonicalize_existing(path: &Path) -> PathBuf {
    let resolve = |above: &Path| {
        let rest = path.strip_prefix(above).ok()?;
        // An empty path that is joined leaves a `/` at the end.
        Some(above.canonicalize().ok()?.join(rest).components().collect())
    };
    path.ancestors().find_map(resolve).unwrap_or_else(|| path.to_owned())
}
