//! What a script made where a guarded path would be, had there been one when it began.
//!
//! Nothing can be put over what is not there. So a history or a folder of skills that appears while a script runs that may
//! not make one is set aside afterwards where the project has its own, at the top: the first thing on the way to it that was
//! not there, whatever it is. Where that cannot be done the run has failed. Wherever else one lies it is told of: others work
//! in a project too, and what they make is not for a run to move.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use super::super::sandbox::{Guarded, Version};
use super::aside::set_aside;
use super::guarded::{guarded, is_git};
use super::reach;
use super::run::warn;
use super::trail::{Step, Trail};
use crate::error::{ErrorKind, Result, SkillError};
use crate::host::{SkillContext, git};
use crate::policy::{Need, opened_at_the_top};

/// What was there when a process began that may write. Dropping it sets aside what has come since nobody asked any more.
pub(super) struct Before {
    free: Arc<Free>,
    /// Guarded paths that were there, where all of them are known.
    known: Option<BTreeSet<OsString>>,
    /// What builds and tests run, as it was.
    built: BTreeMap<OsString, Version>,
    /// Below these the script may write, from the project. What appears elsewhere is not its doing.
    writable: Vec<String>,
    /// The same, without links.
    open: Vec<PathBuf>,
    /// Whether the project itself is what git takes for a repository.
    is_repository: bool,
}

/// Places at the top of a project where nothing was.
struct Free {
    project: PathBuf,
    places: Mutex<BTreeMap<String, Trail>>,
    /// Places that the run may fill, of those where nothing was.
    granted: Vec<String>,
}

/// Those of all runs that are not over. What was not there when the first of them began may be its doing when the next one
/// does.
static LIVING: Mutex<Vec<Weak<Free>>> = Mutex::new(Vec::new());

/// What has come to be where nothing was.
struct Made {
    /// The path that is guarded, from the project.
    guarded: String,
    path: PathBuf,
    moved: io::Result<PathBuf>,
}

impl Before {
    /// Nothing where the script may not write; `found` is what is guarded, where that was looked for already.
    pub(super) fn of(ctx: &SkillContext, project: &Path, found: Option<&Guarded>) -> Option<Self> {
        let permissions = ctx.permissions();
        let writable = permissions.writable();
        let open = reach::writable(ctx.project().ok()?, &writable);
        let open: Vec<PathBuf> = open.into_iter().map(|place| place.path.into()).collect();
        if open.is_empty() {
            return None;
        }
        let own = found.is_none().then(|| guarded(ctx, project));
        let found = found.or(own.as_ref());
        let known =
            found.filter(|found| found.more.is_none()).map(|found| found.kept.iter().cloned().collect());
        let built = found.map(|found| found.built.iter().cloned().collect()).unwrap_or_default();
        let opened: Vec<String> = opened_at_the_top().collect();
        let top = [".git"].into_iter().chain(opened.iter().map(String::as_str));
        let top: Vec<&str> = top.chain(permissions.protection().skill_folders()).collect();
        let (granted, watched): (Vec<&str>, Vec<&str>) =
            top.into_iter().partition(|path| permissions.allows(&Need::write(*path)));
        // What is there already was not made by it.
        let is_free = |path: &&str| !Trail::of(project, Path::new(path)).leads_somewhere();
        let granted = granted.into_iter().filter(is_free).map(str::to_owned).collect();
        let is_repository = is_repository(project);
        Some(Self { free: Free::of(project, &watched, granted), known, built, writable, open, is_repository })
    }

    /// Sets aside what has come since, or tells of it, in the log of the run. Says whether there was any; the error is that it
    /// is still there.
    pub(super) fn settle(&mut self, ctx: &SkillContext, script: &str) -> Result<bool> {
        let (mut has_come, mut failure) = (false, None);
        for made in self.set_aside() {
            has_come = true;
            let (path, guarded) = (self.within(&made.path), &made.guarded);
            let sentence = format!("{script} made {path}, which takes the permission write:{guarded}");
            let sentence = match made.moved {
                Ok(aside) => format!("{sentence}; it was moved to {}", self.within(&aside)),
                Err(error) => {
                    let sentence = format!("{sentence}; it could not be moved aside ({error})");
                    let way_out = "look at it, and remove it, before you run git or skills in the project";
                    failure = Some(SkillError::new(ErrorKind::Denied, &sentence).with_help(way_out));
                    sentence
                }
            };
            warn(ctx, sentence);
        }
        self.tell(ctx, script);
        failure.map_or(Ok(has_come), Err)
    }

    /// The outcome of a run, which is none where something is left of it that must not be.
    pub(super) fn settled<T>(&mut self, ctx: &SkillContext, script: &str, outcome: Result<T>) -> Result<T> {
        let settled = self.settle(ctx, script);
        outcome.and_then(|outcome| settled.map(|_| outcome))
    }

    fn within(&self, path: &Path) -> String {
        let path = path.strip_prefix(&self.free.project).unwrap_or(path);
        path.to_string_lossy().escape_debug().to_string()
    }

    fn set_aside(&self) -> Vec<Made> {
        self.free.confirm();
        let places = self.free.places().clone();
        let places = places.into_iter().filter(|(guarded, _)| !self.free.is_granted_to_another(guarded));
        let mut all: Vec<Made> = places.flat_map(|(guarded, before)| self.clear(&guarded, &before)).collect();
        all.extend(self.take_apart());
        all
    }

    /// Takes from the project what makes a repository of it that it was not, should the script have been able to.
    fn take_apart(&self) -> Option<Made> {
        const NEEDED: &str = "HEAD";
        let project = &self.free.project;
        let is_its_doing = self.open.iter().any(|open| open == project);
        if self.is_repository || !is_its_doing || !is_repository(project) {
            return None;
        }
        let moved = set_aside(project, project, OsStr::new(NEEDED));
        let is_gone = moved.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::NotFound);
        (!is_gone).then(|| Made { guarded: NEEDED.to_owned(), path: project.join(NEEDED), moved })
    }

    /// What was at one place. Other runs may be under way, and make it again.
    fn clear(&self, guarded: &str, before: &Trail) -> Vec<Made> {
        let project = &self.free.project;
        let mut all = Vec::new();
        for tries in 1.. {
            let now = Trail::of(project, Path::new(guarded));
            let is_its_doing = |step: &&Step| self.open.iter().any(|open| step.folder.starts_with(open));
            let Some(step) = now.new_since(before).filter(is_its_doing) else { break };
            let moved = match tries {
                ..=TRIES => set_aside(project, &step.folder, &step.name),
                _ => Err(io::Error::other("it is made again and again")),
            };
            match &moved {
                // Another run was quicker.
                Err(error) if error.kind() == io::ErrorKind::NotFound && step.is_seen() => continue,
                // Nobody could see that there is nothing.
                Err(error) if error.kind() == io::ErrorKind::NotFound => break,
                _ => {}
            }
            let has_failed = moved.is_err();
            let path = step.folder.join(&step.name);
            all.push(Made { guarded: guarded.to_owned(), path, moved });
            if has_failed {
                break;
            }
        }
        all
    }

    /// Tells of histories deeper down.
    fn tell(&mut self, ctx: &SkillContext, script: &str) {
        let Some(known) = &mut self.known else { return };
        let project = &self.free.project;
        let now = guarded(ctx, project);
        let protection = ctx.permissions().protection();
        for place in now.kept.iter().filter(|path| known.insert((*path).clone())).map(Path::new) {
            let is_named = place.file_name().and_then(OsStr::to_str).is_some_and(is_git);
            let path = place.strip_prefix(project).unwrap_or(place);
            let runs = protection.guards_change_of_last(&path.to_string_lossy())
                && !protection.skill_folders().any(|folder| path.starts_with(folder));
            if !is_below(&self.writable, path) || !(is_named || runs || is_repository(place)) {
                continue;
            }
            let path = path.to_string_lossy().escape_debug().to_string();
            let came = if is_named || runs { "came" } else { "became a repository of git's" };
            let sentence = format!("{path} {came} while {script} ran, which may not have made it");
            let before = if runs { "before you open the folder" } else { "before you let git" };
            warn(ctx, format!("{sentence}; look at it {before}"));
        }
        self.tell_of_what_runs(ctx, script, now.built.into_iter().collect());
    }

    /// Tells of what builds and tests run and is not what it was.
    fn tell_of_what_runs(&mut self, ctx: &SkillContext, script: &str, now: BTreeMap<OsString, Version>) {
        const NAMED: usize = 20;
        let is_new = |(path, version): &(&OsString, &Version)| self.built.get(*path) != Some(*version);
        let inside = |(path, _): (&OsString, &Version)| self.within(Path::new(path));
        let changed: Vec<String> = now.iter().filter(is_new).map(inside).collect();
        if !changed.is_empty() {
            let more = changed.len().saturating_sub(NAMED);
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            let named = changed.get(..NAMED).unwrap_or(&changed).join(", ");
            let sentence =
                format!("{named}{more} changed while {script} ran, and runs at the next build, test or push");
            warn(ctx, format!("{sentence}; look at it before"));
        }
        self.built = now;
    }
}

impl Drop for Before {
    fn drop(&mut self) {
        self.set_aside();
    }
}

impl Free {
    fn of(project: &Path, watched: &[&str], granted: Vec<String>) -> Arc<Self> {
        let mut living = living();
        living.retain(|free| free.strong_count() > 0);
        let others: Vec<Arc<Self>> = living.iter().filter_map(Weak::upgrade).collect();
        let others: Vec<_> = others.iter().filter(|other| other.project == project).collect();
        let trail = |path: &str| {
            let known = others.iter().find_map(|other| other.places().get(path).cloned());
            known.unwrap_or_else(|| Trail::of(project, Path::new(path)))
        };
        let places = watched.iter().map(|path| ((*path).to_owned(), trail(path)));
        let places = places.filter(|(_, trail)| !trail.leads_somewhere()).collect();
        let free = Arc::new(Self { project: project.to_owned(), places: Mutex::new(places), granted });
        living.push(Arc::downgrade(&free));
        free
    }

    /// What has come to be at these places was permitted, whoever else is under way.
    fn confirm(&self) {
        if self.granted.is_empty() {
            return;
        }
        let living: Vec<Arc<Self>> = living().iter().filter_map(Weak::upgrade).collect();
        for other in living.iter().filter(|other| other.project == self.project) {
            for path in &self.granted {
                if let Some(trail) = other.places().get_mut(path) {
                    *trail = Trail::of(&self.project, Path::new(path));
                }
            }
        }
    }

    /// Whether a run that is under way may fill this place. What it does there it says when it is over.
    fn is_granted_to_another(&self, guarded: &str) -> bool {
        let living: Vec<Arc<Self>> = living().iter().filter_map(Weak::upgrade).collect();
        let mut others = living.iter().filter(|other| other.project == self.project);
        others.any(|other| {
            !std::ptr::eq(&raw const **other, self) && other.granted.iter().any(|path| path == guarded)
        })
    }

    fn places(&self) -> MutexGuard<'_, BTreeMap<String, Trail>> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn living() -> MutexGuard<'static, Vec<Weak<Free>>> {
    LIVING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether git takes a folder for a repository, whatever its name.
fn is_repository(folder: &Path) -> bool {
    git::is_repository(|name| folder.join(name).symlink_metadata().is_ok())
}

/// How often one place is cleared at a time.
const TRIES: u32 = 8;

/// Whether a path lies in one of these folders; the empty one is the project.
fn is_below(folders: &[String], path: &Path) -> bool {
    folders.iter().any(|folder| path.starts_with(folder))
}
