//! Whether one observed access was refused, and which grant would have allowed it.

use std::path::{Path, PathBuf};

use crate::audience::is_for_person;
use crate::home_files::HomeFile;
use crate::leftovers::is_of_tool;
use crate::observation::baseline;
use crate::observation::run_files::{Covered, Place, RunFiles};
use crate::policy::names_folder;
use crate::shown_path::is_typable;
use metier_core::host::{LeftoverPlace, RunContext, SkillContext};
use metier_core::policy::{Access, Permission, RunPermissions};
use metier_sandbox::{AccessKind, ObservedAccess, PRIVATE_TMP};

/// A refused access.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// As it is shown.
    pub(crate) path: PathBuf,
    /// The smallest permission that would have allowed it, or the reason why there is none.
    pub(crate) grant: Result<String, &'static str>,
    pub(crate) kind: AccessKind,
    pub(super) count: u64,
}

const SECRET: &str = "it is protected, since it holds secrets or the history of the project";
const RUN_BY_PROGRAMS: &str = "it is protected, since other programs run or obey it by themselves";
const NOT_GRANTABLE: &str = "it is in your home folder, and no grant opens it: it may hold secrets, or programs run or obey it by themselves";
const WHOLE_HOME: &str = "it is in your home folder, which is never opened as a whole; use a folder in it";
const OF_MACHINE: &str = "a script has a /tmp of its own; copy the file into the project";
pub(super) const OUTSIDE: &str =
    "it is outside of the project, where no grant opens anything; copy it into the project";
pub(super) const OUTSIDE_CHANGE: &str = "it is outside of the project, where no grant allows changes; write into the project, or into the folder TMPDIR";
const UNTYPABLE: &str = "its name has characters that a grant cannot have";

/// `None` if it was allowed, if there was nothing to read, or if programs do it by themselves. `created` says of a path whether the run
/// also created something there.
pub(super) fn refusal(
    ctx: &SkillContext,
    run: &RunFiles,
    covered: Covered,
    access: &ObservedAccess,
    created: impl Fn(&Path) -> bool,
) -> Option<Refusal> {
    let (path, kind) = (Path::new(&access.path), access.kind);
    let is_allowed = || if changes(kind) { run.may_write(path) } else { run.may_read(path) };
    let exists = |path: &Path| path.symlink_metadata().is_ok();
    let protection = ctx.permissions().protection();
    let unless_granted = |need: Access, reason: &'static str| {
        let is_granted = ctx.permissions().allows(&need);
        if is_granted { Err(reason) } else { Ok(need.narrowest_permission(protection).to_string()) }
    };
    if let Some(module) = run.trial_module(path) {
        let grant = Ok(Access::user_packages().narrowest_permission(protection).to_string());
        return Some(Refusal { path: module, grant, kind, count: access.count });
    }
    let found = match run.place(path, covered) {
        _ if baseline::is_cache(path) => None,
        Place::Project(rest) => {
            let grant = project_grant(ctx, run, covered, (path, &rest), kind);
            grant.or_else(|| passing_file_grant(ctx, path, &rest, kind)).map(|grant| (rest, grant))
        }
        Place::Skill => {
            let is_refused = changes(kind) && (run.is_read_only(path) || !run.may_write(path));
            is_refused.then(|| (path.to_owned(), unless_granted(Access::own_folder(), RUN_BY_PROGRAMS)))
        }
        Place::Elsewhere | Place::Tmp | Place::OwnTmp(_)
            if changes(kind) && !is_allowed() && run.is_of_outside_repository(ctx, path) =>
        {
            Some((path.to_owned(), unless_granted(Access::write(".git"), OUTSIDE_CHANGE)))
        }
        // What lies where the script cannot look is only for the person who runs it.
        Place::OwnHome { .. } | Place::UserHome(_) | Place::OwnTmp(_) if !is_for_person(ctx) => None,
        Place::OwnHome { rest, own } => {
            let user = run.user_homes.first()?.join(&rest);
            let has_folder = |path: &Path| path.parent().is_some_and(&exists);
            let is_refused = match (run.may_read(&user), kind) {
                (true, kind) => changes(kind) && !run.may_write(&user),
                // It can make what it likes in its own home, but not in folders that only the user has.
                (false, kind) if makes(kind) => !has_folder(&own) && has_folder(&user),
                (false, _) => !(exists(&own) || created(path) && has_folder(&own)),
            };
            let grant = is_refused.then(|| user_home_grant(ctx, &rest, &user, kind)).flatten();
            let is_left = || kind == AccessKind::Create && !is_refused && exists(&own);
            let grant = grant.or_else(|| if is_left() { leftover_grant(ctx, run, &rest) } else { None });
            grant.map(|grant| (Path::new("~").join(rest), grant))
        }
        Place::UserHome(rest) => {
            // To look is restricted by mounts only.
            let is_seen = kind == AccessKind::LookUp && !covered.everything;
            let is_refused = !is_seen && !is_allowed();
            let grant = is_refused.then(|| user_home_grant(ctx, &rest, path, kind)).flatten();
            grant.map(|grant| (Path::new("~").join(rest), grant))
        }
        Place::OwnTmp(own) => {
            let is_refused =
                !changes(kind) && !created(path) && !exists(&own) && exists(path) && !is_allowed();
            (is_refused && path != Path::new(PRIVATE_TMP)).then(|| (path.to_owned(), Err(OF_MACHINE)))
        }
        Place::Elsewhere if path.starts_with("/dev/shm") => {
            let grant = unless_granted(Access::shm(), OUTSIDE);
            grant.is_ok().then(|| (PathBuf::from("/dev/shm"), grant))
        }
        Place::Elsewhere | Place::Tmp if baseline::is_system_setting(path) || kind == AccessKind::LookUp => {
            None
        }
        Place::Elsewhere | Place::Tmp => {
            let place = if makes(kind) { path.parent()? } else { path };
            // That something is not there is nothing that a sandbox refuses; what is there is only for the person.
            let is_refused = is_for_person(ctx) && exists(place) && !is_allowed();
            let reason = if changes(kind) { OUTSIDE_CHANGE } else { OUTSIDE };
            is_refused.then(|| (path.to_owned(), Err(reason)))
        }
    };
    let (path, grant) = found?;
    let grant =
        grant.and_then(|permission| if is_typable(&permission) { Ok(permission) } else { Err(UNTYPABLE) });
    Some(Refusal { path, grant, kind, count: access.count })
}

/// The grant for a path of the project. Reading is allowed but for what is hidden.
fn project_grant(
    ctx: &SkillContext,
    run: &RunFiles,
    covered: Covered,
    (path, rest): (&Path, &Path),
    kind: AccessKind,
) -> Option<Result<String, &'static str>> {
    let is_hidden = run.is_hidden(path);
    if !changes(kind) {
        return (is_hidden && covered.protected_paths && path.symlink_metadata().is_ok())
            .then_some(Err(SECRET));
    }
    let is_fixed = covered.protected_paths && (is_hidden || run.is_read_only(path));
    if run.may_write(path) && !is_fixed {
        return None;
    }
    let protection = ctx.permissions().protection();
    let Some(text) = rest.to_str() else { return Some(Err(UNTYPABLE)) };
    if rest.starts_with(".git") {
        return Some(Permission::write(".git").map(|permission| permission.to_string()).map_err(|_| SECRET));
    }
    if is_hidden || protection.protects_read(text) {
        return Some(Err(SECRET));
    }
    if is_fixed || protection.protects_write(text) {
        return Some(Err(RUN_BY_PROGRAMS));
    }
    Some(smallest_write(path, rest, kind).map_err(|()| UNTYPABLE))
}

/// The smallest grant to change this path of the project: the file if it exists and stays, a folder that is to be made, otherwise the
/// folder around it, since a sandbox opens only what exists.
pub(super) fn smallest_write(path: &Path, rest: &Path, kind: AccessKind) -> Result<String, ()> {
    let is_file = path.symlink_metadata().is_ok_and(|found| found.is_file());
    let text = rest.to_str().ok_or(())?;
    let is_itself = match kind {
        AccessKind::CreateFolder => names_folder(text),
        AccessKind::Remove => false,
        _ => is_file,
    };
    // What the grant names is there, or can be made before the run.
    let around = rest.ancestors().zip(path.ancestors()).skip(usize::from(!is_itself));
    let is_there = |place: &Path, full: &Path| full.exists() || place.to_str().is_some_and(names_folder);
    let place =
        around.into_iter().find(|(place, full)| is_there(place, full)).map_or(rest, |(place, _)| place);
    match place.to_str().ok_or(())? {
        "" => Ok(Permission::WRITE.to_string()),
        place => Permission::write(place).map(|permission| permission.to_string()).map_err(drop),
    }
}

/// The grant for a file that the script made in a copy of the project and that is gone again: programs write a file beside the one that
/// they then replace, which takes the folder.
fn passing_file_grant(
    ctx: &SkillContext,
    path: &Path,
    rest: &Path,
    kind: AccessKind,
) -> Option<Result<String, &'static str>> {
    let is_in_copy = ctx.facts().is_in_copy;
    let exists = |path: &Path| path.symlink_metadata().is_ok();
    let is_gone = kind == AccessKind::Create && !exists(path) && path.parent().is_some_and(exists);
    // What nobody may write was not made.
    let protection = ctx.permissions().protection();
    let is_protected = || rest.to_str().is_none_or(|rest| protection.protects_write(rest));
    (is_in_copy && is_gone && !is_protected())
        .then(|| smallest_write(path, rest, kind).map_err(|()| UNTYPABLE))
}

/// The grant by which this file, which the script left in its own home, would be in that of the user: the file if it is there, or else the
/// outermost folder that is not. Hidden files are the skill's own state. At the top of the home nothing is opened.
fn leftover_grant(ctx: &SkillContext, run: &RunFiles, rest: &Path) -> Option<Result<String, &'static str>> {
    let (text, user_home) = (rest.to_str()?, run.user_homes.first()?);
    let state = Access::state();
    let is_of_program = is_of_tool(LeftoverPlace::Home, text) || baseline::is_home_setting(rest);
    if is_of_program || ctx.permissions().allows(&state) {
        return None;
    }
    let protection = ctx.permissions().protection();
    if text.starts_with('.') {
        return Some(Ok(state.narrowest_permission(protection).to_string()));
    }
    let is_missing = |path: &&Path| user_home.join(path).symlink_metadata().is_err();
    let place = match rest.ancestors().take_while(is_missing).last() {
        None => rest,
        Some(file) if file == rest => file.parent()?,
        Some(folder) => folder,
    };
    let place = place.to_str().filter(|place| HomeFile::is_advisable(ctx, place, true))?;
    Some(Ok(Access::home_write(place).narrowest_permission(protection).to_string()))
}

/// The grant for a path of the user's home that exists there, or is to be made there.
fn user_home_grant(
    ctx: &SkillContext,
    rest: &Path,
    outside: &Path,
    kind: AccessKind,
) -> Option<Result<String, &'static str>> {
    let is_whole = rest.as_os_str().is_empty();
    if is_whole || baseline::is_home_setting(rest) || (!makes(kind) && outside.symlink_metadata().is_err()) {
        return None;
    }
    let is_change = changes(kind);
    // What is made or removed takes the folder around it.
    let is_itself = !is_change || (kind != AccessKind::Remove && outside.is_file());
    let place = if is_itself { rest } else { rest.parent().unwrap_or(rest) };
    let Some(text) = place.to_str() else { return Some(Err(UNTYPABLE)) };
    if text.is_empty() {
        return Some(Err(WHOLE_HOME));
    }
    if !HomeFile::is_advisable(ctx, text, is_change) {
        return Some(Err(NOT_GRANTABLE));
    }
    let need = if is_change { Access::home_write(text) } else { Access::home(text) };
    Some(Ok(need.narrowest_permission(ctx.permissions().protection()).to_string()))
}

/// Whether this kind of access changes something.
pub(crate) fn changes(kind: AccessKind) -> bool {
    matches!(kind, AccessKind::Write | AccessKind::Remove) || makes(kind)
}

/// Whether it makes something that need not exist.
fn makes(kind: AccessKind) -> bool {
    matches!(kind, AccessKind::Create | AccessKind::CreateFolder)
}
