//! The files of a run: what it may read and change, what of it is observed where it is watched, and where a path that it names lies.

use std::path::{Path, PathBuf};

use crate::observation::baseline;
use crate::outside_repository::RepositoryAccess;
use crate::policy::RunPaths;
use crate::system_paths::real_path;
use crate::user_packages::UserPackages;
use metier_core::executor::WatchedAccess;
use metier_core::host::{RunContext, SkillContext};
use metier_sandbox::{
    AccessKinds, FileRules, LaunchRequest, PRIVATE_TMP, PinnedPath, Restrictions, SupervisorReport,
    WatchRules, WatchedFolder,
};

/// What is remembered of a run until it has ended, to know what it was refused.
pub(crate) struct RunFiles {
    pub(super) files: FileRules,
    pub(super) project: PathBuf,
    pub(super) skill: PathBuf,
    /// Where the script's home lies.
    pub(super) home: PathBuf,
    /// The home of the user, without links first.
    pub(super) user_homes: Vec<PathBuf>,
    /// What the script has in the place of a folder of the machine, if it has mounts.
    private_folders: Vec<PrivateFolder>,
    /// The folders of its `PATH`.
    pub(super) path_dirs: Vec<PathBuf>,
    /// The first files of packages of the user that only this trial may import.
    trial_modules: Vec<PathBuf>,
}

/// A folder as the script names it, and where its content lies.
struct PrivateFolder {
    path: PathBuf,
    content: PathBuf,
}

/// Where a path of a script lies.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// In the project, with the rest of the path.
    Project(PathBuf),
    /// In the skill's own folder.
    Skill,
    /// In the script's own home.
    OwnHome {
        rest: PathBuf,
        /// Where it lies outside.
        own: PathBuf,
    },
    /// In the home of the user.
    UserHome(PathBuf),
    /// In the script's own `/tmp`, and where it lies outside.
    OwnTmp(PathBuf),
    /// In that of the machine.
    Tmp,
    Elsewhere,
}

/// What the sandbox enforced, as far as it says whether an access was refused.
#[derive(Clone, Copy)]
pub(super) struct Covered {
    /// Protected files are hidden.
    pub(super) protected_paths: bool,
    /// Private folders are mounted.
    pub(super) private_folders: bool,
    /// What has no rule is not there at all.
    pub(super) everything: bool,
}

impl Covered {
    pub(super) fn in_report(report: &SupervisorReport) -> Self {
        Self {
            protected_paths: report.enforcement.has(Restrictions::PROTECTED_PATHS),
            private_folders: report.enforcement.has(Restrictions::NAMESPACES),
            everything: report.enforcement.has(Restrictions::MOUNT_ROOT),
        }
    }
}

impl RunFiles {
    pub(crate) fn new(request: &LaunchRequest, paths: &RunPaths<'_>) -> Self {
        let run = Self::of_request(request, paths.project, paths.skill, paths.home);
        let trial_modules = paths.user_packages.map(UserPackages::trial_modules).unwrap_or_default();
        Self { trial_modules, ..run }
    }

    pub(super) fn of_request(request: &LaunchRequest, project: &Path, skill: &Path, home: &Path) -> Self {
        let variable =
            |name: &str| request.environment.iter().find(|(known, _)| known == name).map(|(_, value)| value);
        let path_dirs = variable("PATH").map(|path| std::env::split_paths(path).collect());
        let user_home = std::env::home_dir().filter(|home| home.parent().is_some());
        let real_home = user_home.as_deref().and_then(real_path);
        let files = request.sandbox.files.clone();
        let private = files.private_folders.iter().map(|folder| PrivateFolder {
            path: PathBuf::from(&folder.path),
            content: PathBuf::from(&folder.content.path),
        });
        Self {
            private_folders: private.collect(),
            files,
            project: project.to_owned(),
            skill: skill.to_owned(),
            home: home.to_owned(),
            user_homes: real_home.into_iter().chain(user_home).collect(),
            path_dirs: path_dirs.unwrap_or_default(),
            trial_modules: Vec::new(),
        }
    }

    /// What its sandbox is to observe; `None` if this run is not watched.
    pub(crate) fn watch_rules(&self, ctx: &SkillContext) -> Option<WatchRules> {
        ctx.extensions().get::<WatchedAccess>().map(|_| self.rules())
    }

    pub(super) fn rules(&self) -> WatchRules {
        const MAX_HIDDEN: usize = 256;
        let (all, changes, none) = (AccessKinds::all(), AccessKinds::CHANGES, AccessKinds::empty());
        let programs = AccessKinds::LOOK_UP | AccessKinds::EXECUTE;
        let mut folders = Vec::new();
        let mut watch = |path: &Path, accesses: AccessKinds| {
            folders.push(WatchedFolder { path: path.into(), accesses });
        };
        // Of two rules for one folder the first counts.
        self.path_dirs.iter().for_each(|folder| watch(folder, programs));
        self.trial_modules.iter().for_each(|file| watch(file, AccessKinds::LOOK_UP | AccessKinds::READ));
        let hidden = self.files.protected_paths.hidden.iter().take(MAX_HIDDEN);
        hidden.for_each(|path| watch(Path::new(path), all));
        watch(&self.skill, changes);
        watch(&self.project, changes);
        watch(&self.home, all);
        self.user_homes.iter().for_each(|home| watch(home, all));
        watch(Path::new(PRIVATE_TMP), all);
        // What the run may use is not refused, and would fill the list.
        let own = self.files.write.iter().chain(&self.files.socket_dirs);
        let is_around_home = |pinned: &&PinnedPath| !self.is_home_or_project(Path::new(&pinned.path));
        own.filter(is_around_home).for_each(|pinned| watch(Path::new(&pinned.path), none));
        self.files.read.iter().for_each(|path| watch(Path::new(path), none));
        watch(Path::new("/dev/shm"), changes);
        baseline::system_folders().for_each(|folder| watch(folder, none));
        watch(Path::new("/"), changes | AccessKinds::READ);
        WatchRules { folders, programs: true }
    }

    /// Whether another rule is for this folder.
    fn is_home_or_project(&self, folder: &Path) -> bool {
        [&self.home, &self.project, &self.skill].iter().any(|known| known.as_path() == folder)
    }

    /// The package or module of the user that this file is the first of, if only this trial may import it.
    pub(super) fn trial_module(&self, file: &Path) -> Option<PathBuf> {
        self.trial_modules.iter().find(|known| *known == file)?;
        let is_package = file.file_name().is_some_and(|name| name == "__init__.py");
        let module = if is_package { file.parent()? } else { file };
        let home = self.user_homes.iter().find_map(|home| module.strip_prefix(home).ok());
        Some(home.map_or_else(|| module.to_owned(), |rest| Path::new("~").join(rest)))
    }

    /// Where this path lies: in the innermost of the folders.
    pub(super) fn place(&self, path: &Path, covered: Covered) -> Place {
        let private = self.private_folders.iter().filter(|_| covered.private_folders);
        let private = private.map(|folder| (folder.path.as_path(), FolderKind::Private(folder)));
        let own = [
            (self.project.as_path(), FolderKind::Project),
            (&self.skill, FolderKind::Skill),
            (&self.home, FolderKind::OwnHome),
        ];
        let user = self.user_homes.iter().map(|home| (home.as_path(), FolderKind::UserHome));
        let all =
            own.into_iter().chain(private).chain(user).chain([(Path::new(PRIVATE_TMP), FolderKind::Tmp)]);
        let around = all.filter(|(folder, _)| path.starts_with(folder));
        // Of two for one folder, the first counts.
        let innermost = around.min_by_key(|(folder, _)| std::cmp::Reverse(folder.as_os_str().len()));
        let Some((folder, kind)) = innermost else { return Place::Elsewhere };
        let rest = path.strip_prefix(folder).unwrap_or(path).to_owned();
        match kind {
            FolderKind::Project => Place::Project(rest),
            FolderKind::Skill => Place::Skill,
            FolderKind::OwnHome => Place::OwnHome { rest, own: path.to_owned() },
            FolderKind::Private(folder) if folder.content == self.home => {
                Place::OwnHome { own: folder.content.join(&rest), rest }
            }
            FolderKind::Private(folder) => Place::OwnTmp(folder.content.join(rest)),
            FolderKind::UserHome => Place::UserHome(rest),
            FolderKind::Tmp => Place::Tmp,
        }
    }

    /// Whether the run could read this path.
    pub(super) fn may_read(&self, path: &Path) -> bool {
        let read = self.files.read.iter().map(Path::new);
        let own = self.files.own.iter().map(|pinned| Path::new(&pinned.path));
        is_below_any(path, &read.chain(own).collect::<Vec<_>>()) || self.may_write(path)
    }

    /// Whether the run could change this path, apart from what is protected.
    pub(super) fn may_write(&self, path: &Path) -> bool {
        is_below_any(path, &self.files.write.iter().map(|pinned| Path::new(&pinned.path)).collect::<Vec<_>>())
    }

    /// Whether this is part of a repository outside of the project that the run may read as its own.
    pub(super) fn is_of_outside_repository(&self, ctx: &SkillContext, path: &Path) -> bool {
        RepositoryAccess::new(ctx, &self.project).read.iter().any(|folder| path.starts_with(folder))
    }

    /// Whether this is hidden from the run, or in such a folder.
    pub(super) fn is_hidden(&self, path: &Path) -> bool {
        let protected = &self.files.protected_paths;
        protected.hidden.iter().chain(&protected.own).any(|hidden| path.starts_with(Path::new(hidden)))
    }

    /// Whether this stays as it is in what the run may change.
    pub(super) fn is_read_only(&self, path: &Path) -> bool {
        self.files.protected_paths.read_only.iter().any(|fixed| path.starts_with(Path::new(fixed)))
    }
}

/// What a folder is to a run.
enum FolderKind<'a> {
    Project,
    Skill,
    OwnHome,
    Private(&'a PrivateFolder),
    UserHome,
    Tmp,
}

/// Whether a path is at or below one of these, as it is written or without its links.
fn is_below_any(path: &Path, folders: &[&Path]) -> bool {
    let is_below = |path: &Path| folders.iter().any(|folder| path.starts_with(folder));
    is_below(path) || {
        // The part of it that exists.
        let existing = path.ancestors().find_map(|above| Some((above, real_path(above)?)));
        existing.is_some_and(|(above, real)| {
            is_below(&path.strip_prefix(above).map_or_else(|_| real.clone(), |rest| real.join(rest)))
        })
    }
}
