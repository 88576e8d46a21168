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

use crate::protected::path_trace::{PathTrace, TraceStep};
use crate::protected::quarantine::quarantine;
use crate::protected::scan::{is_git_dir_name, scan_protected};
use crate::protected::scan_result::{ScanNotes, Version};
use crate::protected::top_names::TopNames;
use metier_core::error::{ErrorKind, Result, SkillError};
use metier_core::host::metier_dirs::{permission_dirs, resolve_existing};
use metier_core::host::{HostPaths, RunContext, RunMessages, SkillContext, git};
use metier_core::policy::{
    Access, Permissions, RunPermissions, is_quarantined_name, run_on_open_paths, secret_paths_in_folders,
};
use metier_sandbox::ProtectedPaths;

/// What existed when a process with write access began. Dropping it quarantines what has appeared since the last check.
pub(crate) struct CreationGuard {
    absent_paths: Arc<AbsentPaths>,
    /// Protected paths that existed, if all of them are known.
    known_protected: Option<BTreeSet<OsString>>,
    /// The files that builds and tests run, as they were.
    build_files: BTreeMap<OsString, Version>,
    /// The real paths below which the script may write, relative to the project. What appears elsewhere is not created by it.
    granted_paths: Vec<PathBuf>,
    /// The same, absolute.
    writable_dirs: Vec<PathBuf>,
    /// Whether git took the project itself for a repository.
    was_repository: bool,
}

/// Protected paths at the top of a project that did not exist.
struct AbsentPaths {
    project: PathBuf,
    /// By which the host reaches what the run sees there.
    host_paths: HostPaths,
    traces: Mutex<BTreeMap<String, PathTrace>>,
    /// The paths that did not exist and that the run may create.
    granted: Vec<String>,
    /// The protected names at the top that existed, or that a run was allowed to create since. There are too many names of secrets to
    /// follow each.
    known_names: Mutex<BTreeSet<String>>,
    permissions: Permissions,
}

/// The absent paths of all runs that are not over. What did not exist when the first run began, and exists when the second one
/// begins, may be created by the first.
static ACTIVE_GUARDS: Mutex<Vec<Weak<AbsentPaths>>> = Mutex::new(Vec::new());

/// The path of a folder, which need not exist, relative to the project, if it is in there.
fn path_inside(project: &Path, folder: &Path) -> Option<String> {
    resolve_existing(folder).strip_prefix(project).ok()?.to_str().map(str::to_owned)
}

/// Something that exists where nothing was.
struct CreatedPath {
    /// The protected path, relative to the project.
    protected_path: String,
    path: PathBuf,
    quarantined: io::Result<PathBuf>,
}

impl CreationGuard {
    /// `None` if there is nothing that the script may write to. `writable_dirs` are real paths; `found` are the protected paths
    /// that exist, `notes` what else the scan found.
    pub(crate) fn new(
        ctx: &SkillContext,
        project: &Path,
        writable_dirs: Vec<PathBuf>,
        found: &ProtectedPaths,
        notes: &ScanNotes,
    ) -> Option<Self> {
        if writable_dirs.is_empty() {
            return None;
        }
        let permissions = ctx.permissions();
        let known_protected = found
            .incomplete_reason
            .is_none()
            .then(|| found.read_only.iter().chain(&found.hidden).cloned().collect());
        let opened: Vec<String> = run_on_open_paths().chain(secret_paths_in_folders()).collect();
        let top = [".git"].into_iter().chain(opened.iter().map(String::as_str));
        let top: Vec<&str> = top.chain(permissions.protection().skill_folders()).collect();
        let (granted, watched): (Vec<&str>, Vec<&str>) =
            top.into_iter().partition(|path| permissions.allows(&Access::write(*path)));
        // No grant is for these. What a configuration of git names is listed only where no grant names it.
        let real_project = project.canonicalize().ok();
        let inside = |folder: &PathBuf| path_inside(real_project.as_deref()?, folder);
        let own: Vec<String> = permission_dirs().iter().filter_map(inside).collect();
        let unnamed = own.iter().chain(&notes.absent_git_targets).map(String::as_str);
        let watched: Vec<&str> = watched.into_iter().chain(unnamed).collect();
        // The script does not create what exists already.
        let host_paths = ctx.host_paths();
        let names = TopNames::read(project, &host_paths);
        let is_absent = |path: &&str| !names.follow(project, path, &host_paths).target_exists();
        let granted = granted.into_iter().filter(is_absent).map(str::to_owned).collect();
        Some(Self {
            was_repository: is_repository(project, &host_paths),
            absent_paths: AbsentPaths::register(
                (project, host_paths),
                &names,
                &watched,
                granted,
                permissions.clone(),
            ),
            known_protected,
            build_files: notes.build_files.iter().cloned().collect(),
            granted_paths: writable_dirs
                .iter()
                .filter_map(|folder| folder.strip_prefix(project).ok().map(Path::to_owned))
                .collect(),
            writable_dirs,
        })
    }

    /// Quarantines what has appeared since, or warns about it in the log of the run. Returns whether there was any; the error is
    /// that it is still there.
    pub(crate) fn enforce(&mut self, ctx: &SkillContext, script: &str) -> Result<bool> {
        let (mut has_created, mut failure) = (false, None);
        for created in self.quarantine_created() {
            has_created = true;
            let (path, protected) = (self.display_path(&created.path), &created.protected_path);
            let sentence =
                format!("{script} made {path}, which takes the permission write:{protected} as well");
            let sentence = match created.quarantined {
                Ok(new_path) => format!("{sentence}; it was moved to {}", self.display_path(&new_path)),
                Err(error) => {
                    let sentence = format!("{sentence}; it could not be quarantined ({error})");
                    let help = "look at it, and remove it, before you run git or skills in the project";
                    failure = Some(SkillError::new(ErrorKind::Denied, &sentence).with_help(help));
                    sentence
                }
            };
            ctx.warn(sentence);
        }
        self.warn_of_nested_creations(ctx, script);
        failure.map_or(Ok(has_created), Err)
    }

    /// The outcome of a run, or the error that something could not be quarantined.
    pub(crate) fn enforce_on<T>(
        &mut self,
        ctx: &SkillContext,
        script: &str,
        outcome: Result<T>,
    ) -> Result<T> {
        let enforced = self.enforce(ctx, script);
        outcome.and_then(|outcome| enforced.map(|_| outcome))
    }

    fn display_path(&self, path: &Path) -> String {
        let path = path.strip_prefix(&self.absent_paths.project).unwrap_or(path);
        path.to_string_lossy().escape_debug().to_string()
    }

    fn quarantine_created(&self) -> Vec<CreatedPath> {
        let absent = &self.absent_paths;
        absent.accept_granted();
        let names = TopNames::read(&absent.project, &absent.host_paths);
        let untraced = absent.trace_new_names(&names);
        let traces = absent.traces().clone();
        let is_possible = |path: &str| names.may_have_first_part(path) && !absent.is_granted_to_another(path);
        let traces = traces.into_iter().filter(|(path, _)| is_possible(path));
        let mut all: Vec<CreatedPath> =
            traces.flat_map(|(path, before)| self.quarantine_at(&path, &before)).collect();
        all.extend(self.quarantine_new_repository());
        all.extend(untraced.map(|name| CreatedPath {
            path: self.absent_paths.project.join(&name),
            protected_path: name,
            quarantined: Err(io::Error::other("there are too many such files")),
        }));
        all
    }

    /// Quarantines the file that turned the project into a git repository, if the script could have created it.
    fn quarantine_new_repository(&self) -> Option<CreatedPath> {
        const REPOSITORY_MARKER: &str = "HEAD";
        let project = &self.absent_paths.project;
        let is_writable = self.writable_dirs.iter().any(|folder| folder == project);
        if self.was_repository || !is_writable || !is_repository(project, &self.absent_paths.host_paths) {
            return None;
        }
        let moved =
            quarantine(project, &self.absent_paths.host_paths, project, OsStr::new(REPOSITORY_MARKER));
        let is_gone = moved.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::NotFound);
        (!is_gone).then(|| CreatedPath {
            protected_path: REPOSITORY_MARKER.to_owned(),
            path: project.join(REPOSITORY_MARKER),
            quarantined: moved,
        })
    }

    /// Quarantines what was created at one path. Another run may create it again at the same time.
    fn quarantine_at(&self, protected_path: &str, before: &PathTrace) -> Vec<CreatedPath> {
        let (project, host_paths) = (&self.absent_paths.project, &self.absent_paths.host_paths);
        let mut all = Vec::new();
        for tries in 1.. {
            let now = PathTrace::follow(project, Path::new(protected_path), host_paths);
            let is_writable =
                |step: &&TraceStep| self.writable_dirs.iter().any(|folder| step.folder.starts_with(folder));
            let Some(step) = now.first_new_step(before).filter(is_writable) else { break };
            let moved = match tries {
                ..=MAX_TRIES => quarantine(project, host_paths, &step.folder, &step.name),
                _ => Err(io::Error::other("it is made again and again")),
            };
            match &moved {
                // Another run was faster.
                Err(error) if error.kind() == io::ErrorKind::NotFound && step.is_accessible() => continue,
                // The folder cannot be read, and there is nothing in it.
                Err(error) if error.kind() == io::ErrorKind::NotFound => break,
                _ => {}
            }
            let has_failed = moved.is_err();
            let path = step.folder.join(&step.name);
            all.push(CreatedPath { protected_path: protected_path.to_owned(), path, quarantined: moved });
            if has_failed {
                break;
            }
        }
        all
    }

    /// Warns about protected paths that appeared below the top of the project.
    fn warn_of_nested_creations(&mut self, ctx: &SkillContext, script: &str) {
        let Some(known) = &mut self.known_protected else { return };
        let project = &self.absent_paths.project;
        let now = scan_protected(ctx, project);
        let protection = ctx.permissions().protection();
        for place in now.paths.read_only.iter().filter(|path| known.insert((*path).clone())).map(Path::new) {
            let is_named = place.file_name().and_then(OsStr::to_str).is_some_and(is_git_dir_name);
            let path = place.strip_prefix(project).unwrap_or(place);
            let runs = protection.protects_change_of_last(&path.to_string_lossy())
                && !protection.skill_folders().any(|folder| path.starts_with(folder));
            if !is_below(&self.granted_paths, path)
                || !(is_named || runs || is_repository(place, &self.absent_paths.host_paths))
            {
                continue;
            }
            let path = path.to_string_lossy().escape_debug().to_string();
            let came = if is_named || runs { "came" } else { "became a repository of git's" };
            let sentence = format!("{path} {came} while {script} ran, which may not have made it");
            let before = if runs { "before you open the folder" } else { "before you let git" };
            ctx.warn(format!("{sentence}; look at it {before}"));
        }
        let is_new = |path: &&OsString| known.insert((*path).clone());
        let new_secrets = now.paths.hidden.iter().filter(is_new).map(Path::new);
        let new_secrets = new_secrets.map(|place| place.strip_prefix(project).unwrap_or(place));
        let is_own = |path: &&Path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let is_quarantined = is_quarantined_name(&name);
            !is_quarantined && is_below(&self.granted_paths, path)
        };
        let new_secrets: Vec<String> = new_secrets
            .filter(is_own)
            .map(|path| path.to_string_lossy().escape_debug().to_string())
            .collect();
        if !new_secrets.is_empty() {
            let sentence =
                format!("{} came while {script} ran, which may not have made it", list(&new_secrets));
            ctx.warn(format!("{sentence}; look at it before a program takes its settings or keys from it"));
        }
        self.warn_of_changed_build_files(ctx, script, now.notes.build_files.into_iter().collect());
    }

    /// Warns about files that builds and tests execute and that have changed.
    fn warn_of_changed_build_files(
        &mut self,
        ctx: &SkillContext,
        script: &str,
        now: BTreeMap<OsString, Version>,
    ) {
        let is_new = |(path, version): &(&OsString, &Version)| self.build_files.get(*path) != Some(*version);
        let inside = |(path, _): (&OsString, &Version)| self.display_path(Path::new(path));
        let changed: Vec<String> = now.iter().filter(is_new).map(inside).collect();
        if !changed.is_empty() {
            let sentence = format!(
                "{} changed while {script} ran, and runs at the next build, test or push",
                list(&changed)
            );
            ctx.warn(format!("{sentence}; look at it before"));
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
    fn register(
        (project, host_paths): (&Path, HostPaths),
        names: &TopNames,
        watched: &[&str],
        granted: Vec<String>,
        permissions: Permissions,
    ) -> Arc<Self> {
        let mut guards = active_guards();
        guards.retain(|guard| guard.strong_count() > 0);
        let others: Vec<Arc<Self>> = guards.iter().filter_map(Weak::upgrade).collect();
        let others: Vec<_> = others
            .iter()
            .filter(|other| other.project == project && other.host_paths.is_same(&host_paths))
            .collect();
        let trace = |path: &str| {
            let known = others.iter().find_map(|other| other.traces().get(path).cloned());
            known.unwrap_or_else(|| names.follow(project, path, &host_paths))
        };
        let traces = watched.iter().map(|path| ((*path).to_owned(), trace(path)));
        let traces = traces.filter(|(_, trace)| !trace.target_exists()).collect();
        // What appeared during another run is for that run to judge.
        let is_known = |name: &String| others.iter().all(|other| other.accepts_name(name));
        let known_names = names.protected_by(&permissions).into_iter().filter(is_known).collect();
        let paths = Arc::new(Self {
            project: project.to_owned(),
            host_paths,
            traces: Mutex::new(traces),
            granted,
            known_names: Mutex::new(known_names),
            permissions,
        });
        guards.push(Arc::downgrade(&paths));
        paths
    }

    /// Whether a protected name at the top existed when the run began, or is one that it may create.
    fn accepts_name(&self, name: &str) -> bool {
        self.known_names().contains(name) || self.permissions.allows(&Access::write(name))
    }

    /// Follows the protected names that have appeared at the top; returns one that is too many.
    fn trace_new_names(&self, names: &TopNames) -> Option<String> {
        let names = names.protected_by(&self.permissions).into_iter();
        let mut new_names = names.filter(|name| !self.accepts_name(name));
        for name in new_names.by_ref().take(MAX_NEW_NAMES) {
            let missing = PathTrace::missing(&self.project, &name);
            self.traces().entry(name).or_insert(missing);
        }
        new_names.next()
    }

    /// Makes other runs accept what exists at the paths that this run may create.
    fn accept_granted(&self) {
        let guards: Vec<Arc<Self>> = active_guards().iter().filter_map(Weak::upgrade).collect();
        let others = || {
            guards
                .iter()
                .filter(|other| self.is_of_same_project(other) && !std::ptr::eq(&raw const ***other, self))
        };
        if others().next().is_none() {
            return;
        }
        let new_names = TopNames::read(&self.project, &self.host_paths).protected_by(&self.permissions);
        let granted_names: Vec<String> =
            new_names.into_iter().filter(|name| self.permissions.allows(&Access::write(name))).collect();
        for other in others() {
            for name in &granted_names {
                other.known_names().insert(name.clone());
                if let Some(trace) = other.traces().get_mut(name) {
                    *trace = PathTrace::follow(&self.project, Path::new(name), &self.host_paths);
                }
            }
            for path in &self.granted {
                if let Some(trace) = other.traces().get_mut(path) {
                    *trace = PathTrace::follow(&self.project, Path::new(path), &self.host_paths);
                }
            }
        }
    }

    /// Whether the other run sees the same folder there.
    fn is_of_same_project(&self, other: &Self) -> bool {
        self.project == other.project && self.host_paths.is_same(&other.host_paths)
    }

    /// Whether another active run may create this path. That run accepts it when it ends.
    fn is_granted_to_another(&self, protected_path: &str) -> bool {
        let guards: Vec<Arc<Self>> = active_guards().iter().filter_map(Weak::upgrade).collect();
        let mut others = guards.iter().filter(|other| self.is_of_same_project(other));
        others.any(|other| {
            let is_granted = other.granted.iter().any(|path| path == protected_path)
                || (!protected_path.contains('/')
                    && !other.known_names().contains(protected_path)
                    && other.permissions.allows(&Access::write(protected_path)));
            !std::ptr::eq(&raw const **other, self) && is_granted
        })
    }

    fn known_names(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.known_names.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn traces(&self) -> MutexGuard<'_, BTreeMap<String, PathTrace>> {
        self.traces.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn active_guards() -> MutexGuard<'static, Vec<Weak<AbsentPaths>>> {
    ACTIVE_GUARDS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The first of these paths, and how many more there are.
pub(super) fn list(paths: &[String]) -> String {
    const MAX_LISTED: usize = 20;
    let more = paths.len().saturating_sub(MAX_LISTED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}{more}", paths.get(..MAX_LISTED).unwrap_or(paths).join(", "))
}

/// Whether git takes a folder for a repository, whatever its name.
fn is_repository(folder: &Path, paths: &HostPaths) -> bool {
    git::is_repository(|name| paths.symlink_metadata(&folder.join(name)).is_ok())
}

/// How many names that have appeared at the top are quarantined at a time.
const MAX_NEW_NAMES: usize = 1000;

/// How often one path is quarantined after one run.
const MAX_TRIES: u32 = 8;

/// Whether a path is below one of these folders. The empty path is the project.
fn is_below(folders: &[PathBuf], path: &Path) -> bool {
    folders.iter().any(|folder| path.starts_with(folder))
}
