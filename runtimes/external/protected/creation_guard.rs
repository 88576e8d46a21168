//! Detects protected paths that a script created during its run, and quarantines those at the project's top.
//!
//! A mount cannot cover what does not exist. So a `.git` or skill folder that appears while a script runs that may not create one
//! is quarantined afterwards if it is at the top of the project: the first new component on its path, whatever it is. If that
//! fails, the run fails. Anywhere else a warning reports it: others work in a project too, and a run must not move what they
//! create.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crate::error::{ErrorKind, Result, SkillError};
use crate::host::{SkillContext, git};
use crate::policy::{Access, run_on_open_paths};
use crate::runtimes::external::executor::log_warning;
use crate::runtimes::external::policy;
use crate::runtimes::external::protected::path_trace::{PathTrace, TraceStep};
use crate::runtimes::external::protected::quarantine::quarantine;
use crate::runtimes::external::protected::scan::{is_git_dir_name, scan_protected};
use crate::runtimes::sandbox::{ProtectedPaths, Version};

/// What existed when a process with write access began. Dropping it quarantines what has appeared since the last check.
pub(in crate::runtimes::external) struct CreationGuard {
    absent_paths: Arc<AbsentPaths>,
    /// Protected paths that existed, if all of them are known.
    known_protected: Option<BTreeSet<OsString>>,
    /// What builds and tests run, as it was.
    build_files: BTreeMap<OsString, Version>,
    /// Below these the script may write, from the project. What appears elsewhere is not its doing.
    granted_paths: Vec<String>,
    /// The same, without links.
    writable_dirs: Vec<PathBuf>,
    /// Whether the project itself is what git takes for a repository.
    was_repository: bool,
}

/// Places at the top of a project where nothing was.
struct AbsentPaths {
    project: PathBuf,
    traces: Mutex<BTreeMap<String, PathTrace>>,
    /// Places that the run may fill, of those where nothing was.
    granted: Vec<String>,
}

/// Those of all runs that are not over. What was not there when the first of them began may be its doing when the next one
/// does.
static ACTIVE_GUARDS: Mutex<Vec<Weak<AbsentPaths>>> = Mutex::new(Vec::new());

/// What has come to be where nothing was.
struct CreatedPath {
    /// The path that is guarded, from the project.
    protected_path: String,
    path: PathBuf,
    quarantined: io::Result<PathBuf>,
}

impl CreationGuard {
    /// `None` if the script may not write; `found` are the protected paths, if they were scanned already.
    pub(in crate::runtimes::external) fn new(
        ctx: &SkillContext,
        project: &Path,
        found: Option<&ProtectedPaths>,
    ) -> Option<Self> {
        let permissions = ctx.permissions();
        let writable = permissions.writable_paths();
        let open = policy::writable_paths(ctx.project().ok()?, &writable);
        let open: Vec<PathBuf> = open.into_iter().map(|place| place.path.into()).collect();
        if open.is_empty() {
            return None;
        }
        let own = found.is_none().then(|| scan_protected(ctx, project));
        let found = found.or(own.as_ref());
        let known = found
            .filter(|found| found.incomplete_reason.is_none())
            .map(|found| found.read_only.iter().cloned().collect());
        let built = found.map(|found| found.build_files.iter().cloned().collect()).unwrap_or_default();
        let opened: Vec<String> = run_on_open_paths().collect();
        let top = [".git"].into_iter().chain(opened.iter().map(String::as_str));
        let top: Vec<&str> = top.chain(permissions.protection().skill_folders()).collect();
        let (granted, watched): (Vec<&str>, Vec<&str>) =
            top.into_iter().partition(|path| permissions.allows(&Access::write(*path)));
        // What is there already was not made by it.
        let is_free = |path: &&str| !PathTrace::follow(project, Path::new(path)).target_exists();
        let granted = granted.into_iter().filter(is_free).map(str::to_owned).collect();
        let is_repository = is_repository(project);
        Some(Self {
            absent_paths: AbsentPaths::register(project, &watched, granted),
            known_protected: known,
            build_files: built,
            granted_paths: writable,
            writable_dirs: open,
            was_repository: is_repository,
        })
    }

    /// Quarantines what has appeared since, or warns about it in the log of the run. Returns whether there was any; the error is
    /// that it is still there.
    pub(in crate::runtimes::external) fn enforce(
        &mut self,
        ctx: &SkillContext,
        script: &str,
    ) -> Result<bool> {
        let (mut wait_for_turn, mut failure) = (false, None);
        for made in self.quarantine_created() {
            wait_for_turn = true;
            let (path, guarded) = (self.display_path(&made.path), &made.protected_path);
            let sentence = format!("{script} made {path}, which takes the permission write:{guarded}");
            let sentence = match made.quarantined {
                Ok(aside) => format!("{sentence}; it was moved to {}", self.display_path(&aside)),
                Err(error) => {
                    let sentence = format!("{sentence}; it could not be moved aside ({error})");
                    let way_out = "look at it, and remove it, before you run git or skills in the project";
                    failure = Some(SkillError::new(ErrorKind::Denied, &sentence).with_help(way_out));
                    sentence
                }
            };
            log_warning(ctx, sentence);
        }
        self.warn_of_nested_creations(ctx, script);
        failure.map_or(Ok(wait_for_turn), Err)
    }

    /// The outcome of a run, which is none where something is left of it that must not be.
    pub(in crate::runtimes::external) fn enforce_on<T>(
        &mut self,
        ctx: &SkillContext,
        script: &str,
        outcome: Result<T>,
    ) -> Result<T> {
        let settled = self.enforce(ctx, script);
        outcome.and_then(|outcome| settled.map(|_| outcome))
    }

    fn display_path(&self, path: &Path) -> String {
        let path = path.strip_prefix(&self.absent_paths.project).unwrap_or(path);
        path.to_string_lossy().escape_debug().to_string()
    }

    fn quarantine_created(&self) -> Vec<CreatedPath> {
        self.absent_paths.accept_granted();
        let places = self.absent_paths.traces().clone();
        let places =
            places.into_iter().filter(|(guarded, _)| !self.absent_paths.is_granted_to_another(guarded));
        let mut all: Vec<CreatedPath> =
            places.flat_map(|(guarded, before)| self.quarantine_at(&guarded, &before)).collect();
        all.extend(self.quarantine_new_repository());
        all
    }

    /// Takes from the project what makes a repository of it that it was not, should the script have been able to.
    fn quarantine_new_repository(&self) -> Option<CreatedPath> {
        const REPOSITORY_MARKER: &str = "HEAD";
        let project = &self.absent_paths.project;
        let is_its_doing = self.writable_dirs.iter().any(|open| open == project);
        if self.was_repository || !is_its_doing || !is_repository(project) {
            return None;
        }
        let moved = quarantine(project, project, OsStr::new(REPOSITORY_MARKER));
        let is_gone = moved.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::NotFound);
        (!is_gone).then(|| CreatedPath {
            protected_path: REPOSITORY_MARKER.to_owned(),
            path: project.join(REPOSITORY_MARKER),
            quarantined: moved,
        })
    }

    /// What was at one place. Other runs may be under way, and make it again.
    fn quarantine_at(&self, guarded: &str, before: &PathTrace) -> Vec<CreatedPath> {
        let project = &self.absent_paths.project;
        let mut all = Vec::new();
        for tries in 1.. {
            let now = PathTrace::follow(project, Path::new(guarded));
            let is_its_doing =
                |step: &&TraceStep| self.writable_dirs.iter().any(|open| step.folder.starts_with(open));
            let Some(step) = now.first_new_step(before).filter(is_its_doing) else { break };
            let moved = match tries {
                ..=MAX_TRIES => quarantine(project, &step.folder, &step.name),
                _ => Err(io::Error::other("it is made again and again")),
            };
            match &moved {
                // Another run was quicker.
                Err(error) if error.kind() == io::ErrorKind::NotFound && step.is_accessible() => continue,
                // Nobody could see that there is nothing.
                Err(error) if error.kind() == io::ErrorKind::NotFound => break,
                _ => {}
            }
            let has_failed = moved.is_err();
            let path = step.folder.join(&step.name);
            all.push(CreatedPath { protected_path: guarded.to_owned(), path, quarantined: moved });
            if has_failed {
                break;
            }
        }
        all
    }

    /// Warns about repositories deeper down.
    fn warn_of_nested_creations(&mut self, ctx: &SkillContext, script: &str) {
        let Some(known) = &mut self.known_protected else { return };
        let project = &self.absent_paths.project;
        let now = scan_protected(ctx, project);
        let protection = ctx.permissions().protection();
        for place in now.read_only.iter().filter(|path| known.insert((*path).clone())).map(Path::new) {
            let is_named = place.file_name().and_then(OsStr::to_str).is_some_and(is_git_dir_name);
            let path = place.strip_prefix(project).unwrap_or(place);
            let runs = protection.protects_change_of_last(&path.to_string_lossy())
                && !protection.skill_folders().any(|folder| path.starts_with(folder));
            if !is_below(&self.granted_paths, path) || !(is_named || runs || is_repository(place)) {
                continue;
            }
            let path = path.to_string_lossy().escape_debug().to_string();
            let came = if is_named || runs { "came" } else { "became a repository of git's" };
            let sentence = format!("{path} {came} while {script} ran, which may not have made it");
            let before = if runs { "before you open the folder" } else { "before you let git" };
            log_warning(ctx, format!("{sentence}; look at it {before}"));
        }
        self.warn_of_changed_build_files(ctx, script, now.build_files.into_iter().collect());
    }

    /// Warns about files that builds and tests execute and that have changed.
    fn warn_of_changed_build_files(
        &mut self,
        ctx: &SkillContext,
        script: &str,
        now: BTreeMap<OsString, Version>,
    ) {
        const MAX_LISTED: usize = 20;
        let is_new = |(path, version): &(&OsString, &Version)| self.build_files.get(*path) != Some(*version);
        let inside = |(path, _): (&OsString, &Version)| self.display_path(Path::new(path));
        let changed: Vec<String> = now.iter().filter(is_new).map(inside).collect();
        if !changed.is_empty() {
            let more = changed.len().saturating_sub(MAX_LISTED);
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            let named = changed.get(..MAX_LISTED).unwrap_or(&changed).join(", ");
            let sentence =
                format!("{named}{more} changed while {script} ran, and runs at the next build, test or push");
            log_warning(ctx, format!("{sentence}; look at it before"));
        }
        self.build_files = now;
    }
}

impl Drop for CreationGuard {
    fn drop(&mut self) {
        self.quarantine_created();
    }
}

impl AbsentPaths {
    fn register(project: &Path, watched: &[&str], granted: Vec<String>) -> Arc<Self> {
        let mut living = active_guards();
        living.retain(|free| free.strong_count() > 0);
        let others: Vec<Arc<Self>> = living.iter().filter_map(Weak::upgrade).collect();
        let others: Vec<_> = others.iter().filter(|other| other.project == project).collect();
        let trail = |path: &str| {
            let known = others.iter().find_map(|other| other.traces().get(path).cloned());
            known.unwrap_or_else(|| PathTrace::follow(project, Path::new(path)))
        };
        let places = watched.iter().map(|path| ((*path).to_owned(), trail(path)));
        let places = places.filter(|(_, trail)| !trail.target_exists()).collect();
        let free = Arc::new(Self { project: project.to_owned(), traces: Mutex::new(places), granted });
        living.push(Arc::downgrade(&free));
        free
    }

    /// What has come to be at these places was permitted, whoever else is under way.
    fn accept_granted(&self) {
        if self.granted.is_empty() {
            return;
        }
        let living: Vec<Arc<Self>> = active_guards().iter().filter_map(Weak::upgrade).collect();
        for other in living.iter().filter(|other| other.project == self.project) {
            for path in &self.granted {
                if let Some(trail) = other.traces().get_mut(path) {
                    *trail = PathTrace::follow(&self.project, Path::new(path));
                }
            }
        }
    }

    /// Whether a run that is under way may fill this place. What it does there it says when it is over.
    fn is_granted_to_another(&self, guarded: &str) -> bool {
        let living: Vec<Arc<Self>> = active_guards().iter().filter_map(Weak::upgrade).collect();
        let mut others = living.iter().filter(|other| other.project == self.project);
        others.any(|other| {
            !std::ptr::eq(&raw const **other, self) && other.granted.iter().any(|path| path == guarded)
        })
    }

    fn traces(&self) -> MutexGuard<'_, BTreeMap<String, PathTrace>> {
        self.traces.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn active_guards() -> MutexGuard<'static, Vec<Weak<AbsentPaths>>> {
    ACTIVE_GUARDS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether git takes a folder for a repository, whatever its name.
fn is_repository(folder: &Path) -> bool {
    git::is_repository(|name| folder.join(name).symlink_metadata().is_ok())
}

/// How often one place is cleared at a time.
const MAX_TRIES: u32 = 8;

/// Whether a path lies in one of these folders; the empty one is the project.
fn is_below(folders: &[String], path: &Path) -> bool {
    folders.iter().any(|folder| path.starts_with(folder))
}
