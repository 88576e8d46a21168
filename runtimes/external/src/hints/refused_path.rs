//! Hints about paths that stand in the output of a script.
//!
//! Words only choose which paths are looked at. Whether the run was refused one, and which grant would have allowed it, is what its rules say, as
//! for the accesses of a watched run: the hint is true whatever the script wrote.

use std::path::Path;

use crate::error_line::error_line;
use crate::hints::complaint::{Complaint, paths_in, refusal_in};
use crate::hints::user_home::mounted_file_hint;
use crate::hints::words::{contains_any, last_lines};
use crate::observation::{PathCheck, Refusal, changes};
use crate::permission_hint::{Help, narrow_hint, permission_hint};
use crate::policy::names_folder;
use crate::shown_path::{is_typable, shown_path};
use metier_core::host::RunContext;
use metier_core::policy::{Access, Permission, RunPermissions};
use metier_sandbox::AccessKind;

/// What says that something is not there, in lower case.
const ABSENCE_WORDS: &str = "can't find|cannot find|could not find|does not exist|doesn't exist|empty|enoent|missing|no |no_|no such file|not |\
    unable to find";

/// What says that a path was removed or replaced, which takes the folder around it.
const REMOVAL_WORDS: &str = "remov|unlink|renam|replac|rmdir| -> ";

/// The hint about a path in the line that says why the script failed, or in another one of its last lines that says that a path was
/// refused.
pub(crate) fn path_hint(check: PathCheck<'_>, text: &str) -> Option<Help> {
    let line = error_line(text)?;
    let found = Complaint::in_line(line);
    let refusals = || last_lines(text).filter_map(|line| Some((line, refusal_in(line)?)));
    let first = found.filter(|(complaint, _)| complaint.is_refusal()).map(|found| (line, found));
    let change = |line| if makes_folder(line, text) { AccessKind::CreateFolder } else { change_in(line) };
    let line_hint = |line, found: Option<(Complaint, usize)>| {
        let mut paths = paths_in(line, found).into_iter();
        paths.find_map(|path| match found {
            Some((complaint, _)) => refused_hint(check, path, complaint, change(line)),
            None => unseen_hint(check, path),
        })
    };
    let mut all = first.into_iter().chain(refusals());
    all.find_map(|(line, found)| line_hint(line, Some(found)))
        .or_else(|| line_hint(line, found))
        // `zip` gives its reason in the line before.
        .or_else(|| {
            let complaint = refusals().next()?.1.0;
            paths_in(line, None)
                .into_iter()
                .find_map(|path| refused_hint(check, path, complaint, change(line)))
        })
}

/// The grant for a change that one of the last lines of a script that went on says was refused.
pub(crate) fn refused_change_hint(
    check: PathCheck<'_>,
    text: &str,
    complaints: &[Complaint],
) -> Option<Help> {
    last_lines(text).find_map(|line| {
        let found = refusal_in(line).filter(|(complaint, _)| complaints.contains(complaint))?;
        let paths = paths_in(line, Some(found)).into_iter().map(|path| check.absolute(path));
        let refused = paths.filter_map(|path| check.refusal(&path, change_in(line)));
        // A secret it may have wanted to read.
        let protection = check.ctx.permissions().protection();
        let is_change = |refusal: &Refusal| {
            let is_secret = || refusal.path.to_str().is_none_or(|path| protection.protects_read(path));
            refusal.grant.is_ok() || is_in_project(refusal) && !is_secret()
        };
        refused.filter(is_change).find_map(|refusal| refusal_hint(check, &refusal))
    })
}

/// The hint about a path in a line that says that something is not there: the run could not see it.
pub(crate) fn missed_path_hint(check: PathCheck<'_>, said: &str) -> Option<Help> {
    /// How many are looked at.
    const MAX_PATHS: usize = 64;
    let lines = said.lines().filter(|line| says_absence(&line.to_lowercase()));
    let mut paths = lines.flat_map(|line| paths_in(line, None)).take(MAX_PATHS);
    paths.find_map(|path| unseen_hint(check, path))
}

/// Whether a text in lower case says that something is not there.
pub(crate) fn says_absence(small: &str) -> bool {
    contains_any(small, ABSENCE_WORDS)
}

/// The hint about what is at a path that the run could not see: hidden in the project, or in the home of the user.
pub(crate) fn unseen_hint(check: PathCheck<'_>, written: &str) -> Option<Help> {
    let path = check.absolute(written);
    let refusal = check.refusal(&path, AccessKind::Read).filter(|refusal| refusal.path.is_relative())?;
    refusal_hint(check, &refusal)
}

/// The hint for a script that was passed a path of the user's home: `~/data`.
pub(crate) fn passed_home_hint(check: PathCheck<'_>, args: &[String]) -> Option<Help> {
    let mut passed = args.iter().filter(|argument| argument.starts_with("~/"));
    passed.find_map(|path| unseen_hint(check, path.trim_end_matches('/')).filter(|(_, hint)| hint.is_some()))
}

/// The hint about a path of which a line says this, and that the script wanted to change in this way.
fn refused_hint(
    check: PathCheck<'_>,
    written: &str,
    complaint: Complaint,
    change: AccessKind,
) -> Option<Help> {
    let path = check.absolute(written);
    let read = AccessKind::Read;
    let kinds = match complaint {
        Complaint::Taken => return created_folder_hint(check, written),
        Complaint::Busy => return mounted_file_hint(check, written),
        Complaint::Absent => &[read][..],
        Complaint::Denied => &[read, change],
        Complaint::ReadOnly => &[change],
        Complaint::Unwritten if path.parent().is_some_and(Path::is_dir) && !path.is_dir() => &[change],
        Complaint::Unwritten => return None,
    };
    // Below a file there is no folder.
    let existing = path.ancestors().find(|above| above.symlink_metadata().is_ok())?;
    if existing != path && !existing.is_dir() {
        return None;
    }
    let refusal = kinds.iter().find_map(|kind| check.refusal(&path, *kind));
    match refusal {
        Some(refusal) => refusal_hint(check, &refusal),
        None if complaint == Complaint::Absent => skill_file_hint(check, &path),
        None => None,
    }
}

/// How a line says that a path is changed.
fn change_in(line: &str) -> AccessKind {
    if contains_any(&line.to_ascii_lowercase(), REMOVAL_WORDS) {
        AccessKind::Remove
    } else {
        AccessKind::Write
    }
}

/// Whether a line is about a folder that the script makes by a call which accepts that the folder is there.
fn makes_folder(line: &str, text: &str) -> bool {
    let mut code = text.lines().filter(|line| line.starts_with("    "));
    line.contains("ENOENT") || code.any(|line| line.contains("exist_ok=True"))
}

/// Whether its path is shown as one of the project.
fn is_in_project(refusal: &Refusal) -> bool {
    refusal.path.is_relative() && !refusal.path.starts_with("~")
}

fn refusal_hint(check: PathCheck<'_>, refusal: &Refusal) -> Option<Help> {
    let shown = shown_path(&refusal.path.to_string_lossy());
    let name = match &refusal.grant {
        Ok(name) => name,
        Err(_) if is_in_project(refusal) => return protected_hint(check, refusal, &shown),
        Err(reason) => return Some((format!("the sandbox refused the script {shown}: {reason}"), None)),
    };
    let permission: Permission = name.parse().ok()?;
    let (help, hint) = narrow_hint(check.ctx, &Access::from(&permission), &permission)?;
    let text = if changes(refusal.kind) {
        format!("the sandbox does not let this script change {shown}; if it should, {help}")
    } else {
        format!(
            "{shown} is in your home folder, and a script has a home of its own in the sandbox; if it should read that, {help}"
        )
    };
    Some((text, hint))
}

/// The hint about a protected path of the project. It is granted by somebody who writes it, and not by a yes: the script may have written
/// the path for no other reason.
fn protected_hint(check: PathCheck<'_>, refusal: &Refusal, shown: &str) -> Option<Help> {
    let inside = refusal.path.to_str().filter(|path| is_typable(path))?;
    if !changes(refusal.kind) {
        let (help, hint) = permission_hint(check.ctx, &Access::read(inside))?;
        let text = format!("the sandbox hides {shown} from this script; if it should read it, {help}");
        return Some((text, hint));
    }
    let Some(permission) = check.protected_write(&check.absolute(inside), refusal.kind) else {
        let text = format!(
            "the sandbox does not let this script create {shown}, which is protected; if it should, create it before the run and \
             grant write:{inside}"
        );
        return Some((text, None));
    };
    let (help, _) = narrow_hint(check.ctx, &Access::from(&permission), &permission)?;
    let text = format!(
        "the sandbox does not let this script change {shown}, which is protected because other programs run or trust what is there; \
         if it should, {help}"
    );
    Some((text, None))
}

/// The hint for a file that is missing in the project, where scripts run, and lies in the folder of the skill.
fn skill_file_hint(check: PathCheck<'_>, path: &Path) -> Option<Help> {
    let inside = check.path_in_project(path)?;
    let files = check.ctx.skill_files().ok().filter(|files| !path.starts_with(files.root()))?;
    // A name alone, such as package.json, is more likely that of the project. What lies behind a link is not looked at.
    let is_beside_script = inside.contains('/') && files.file_id(Path::new(inside)).is_ok();
    (is_beside_script && path.symlink_metadata().is_err()).then(|| {
        let text = format!(
            "scripts run in the project, which has no {}; it is in the folder of the skill, whose path the script finds in METIER_SKILL_DIR",
            shown_path(inside)
        );
        (text, None)
    })
}

/// The hint for an empty folder that a permission of the script names, and whose name the script found taken.
fn created_folder_hint(check: PathCheck<'_>, written: &str) -> Option<Help> {
    let is_empty = |path: &Path| path.read_dir().is_ok_and(|mut entries| entries.next().is_none());
    let writable = check.ctx.permissions().writable_paths();
    let path = writable.iter().find(|path| {
        let is_named = Path::new(written).ends_with(path) || Path::new(path).ends_with(written);
        names_folder(path) && is_named && is_empty(&check.absolute(path))
    })?;
    let text = format!(
        "metier creates the folder {} before the run, since {} opens only what exists; make it with `mkdir -p`, or create the file before \
         the run if it is to be one",
        shown_path(path),
        Access::write(path)
    );
    Some((text, None))
}
