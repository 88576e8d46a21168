//! The Python packages that the user installed for all programs, by `pip install --user`.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use crate::audience::is_for_person;
use metier_core::executor::WatchedAccess;
use metier_core::host::untrusted::{self, UntrustedDirs};
use metier_core::host::{RunContext, SkillContext};
use metier_core::policy::Access;
use metier_packages::{Ecosystem, Requirements};
use metier_sandbox::LaunchRequest;

/// The variable by which the user, and metier, tell Python where these packages are.
const BASE_VARIABLE: &str = "PYTHONUSERBASE";

/// How many packages and modules a trial observes.
const MAX_TRIAL_MODULES: usize = 512;

/// The folders of these packages, one for each release of Python, and the folder that they lie in.
pub(super) struct UserPackages {
    base: PathBuf,
    folders: Vec<PathBuf>,
    /// Whether only a trial has them, and not a permission.
    is_for_trial: bool,
}

impl UserPackages {
    /// Those that a script of this interpreter may import; `None` if the permission is missing, or there are none. A trial imports them
    /// without it: the script would stop at its first import, and what it needs after that would take another trial.
    pub(super) fn for_run(
        ctx: &SkillContext,
        program: &Path,
        untrusted: impl FnOnce() -> UntrustedDirs,
    ) -> Option<Self> {
        let is_granted = ctx.permissions().allows(&Access::user_packages());
        if !is_python(program) || !(is_granted || is_trial(ctx)) {
            return None;
        }
        Self::find(&untrusted()).map(|found| Self { is_for_trial: !is_granted, ..found })
    }

    /// Those of this user, without folders whose place a script could determine.
    fn find(untrusted: &UntrustedDirs) -> Option<Self> {
        let base = base()?;
        let folders: Vec<PathBuf> = site_packages(&base)
            .into_iter()
            .filter(|folder| !untrusted.may_control(folder))
            .filter_map(|folder| std::fs::canonicalize(folder).ok())
            .collect();
        (!folders.is_empty()).then_some(Self { base, folders, is_for_trial: false })
    }

    /// Readable for the script, at their real paths.
    pub(super) fn folders(&self) -> &[PathBuf] {
        &self.folders
    }

    /// The first file of each package and module that Python looks at to import it, if only a trial may.
    pub(super) fn trial_modules(&self) -> Vec<PathBuf> {
        let folders = self.folders.iter().filter(|_| self.is_for_trial);
        let entries = folders.filter_map(|folder| std::fs::read_dir(folder).ok()).flatten().flatten();
        let module = |path: PathBuf| {
            let name = path.file_name()?.to_str()?;
            // Python itself reads `.pth` files, and those import modules whose names begin so.
            if name.starts_with(['_', '.']) || path.extension() == Some(OsStr::new("pth")) {
                return None;
            }
            let package = path.join("__init__.py");
            if package.is_file() { Some(package) } else { path.is_file().then_some(path) }
        };
        entries.filter_map(|entry| module(entry.path())).take(MAX_TRIAL_MODULES).collect()
    }

    /// Lets a sandboxed script find them. Python itself chooses the folder of its release, and none in a virtual environment.
    pub(super) fn add_to_request(&self, request: &mut LaunchRequest) {
        request.environment.push((BASE_VARIABLE.into(), self.base.clone().into()));
    }
}

/// Whether the user has installed a package with this module.
pub fn has_module(module: &str) -> bool {
    let has =
        |folder: &PathBuf| folder.join(module).is_dir() || folder.join(format!("{module}.py")).is_file();
    base().is_some_and(|base| site_packages(&base).iter().any(has))
}

/// Whether a person tries what a script would need: watched, and in a copy of the project.
fn is_trial(ctx: &SkillContext) -> bool {
    ctx.extensions().get::<WatchedAccess>().is_some() && ctx.facts().is_in_copy && is_for_person(ctx)
}

fn is_python(program: &Path) -> bool {
    let name = program.file_name().and_then(OsStr::to_str).unwrap_or_default();
    Requirements::ecosystem_of_program(name) == Some(Ecosystem::Python)
}

/// Where Python looks for them.
fn base() -> Option<PathBuf> {
    let variable = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let home = || variable("HOME").or_else(|| untrusted::home_dir().cloned());
    variable(BASE_VARIABLE).or_else(|| Some(home()?.join(".local")))
}

fn site_packages(base: &Path) -> Vec<PathBuf> {
    let releases = std::fs::read_dir(base.join("lib")).into_iter().flatten().filter_map(Result::ok);
    let is_python = |name: &OsStr| name.to_str().is_some_and(|name| name.starts_with("python"));
    let folders = releases.filter(|folder| is_python(&folder.file_name()));
    folders.map(|folder| folder.path().join("site-packages")).filter(|folder| folder.is_dir()).collect()
}
