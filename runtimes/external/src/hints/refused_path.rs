//! The rule about paths: one that stands in the output of a script is checked against what the run may read and change.
//!
//! Words decide only which paths are looked at. What is said of a path is true of the run, whatever the script wrote.

use std::path::{Component, Path, PathBuf};

use crate::audience::is_for_person;
use crate::error_line::error_line;
use crate::hints::complaint::{Complaint, paths_in, refusal_in};
use crate::hints::permission_hint::{Help, narrow_hint, permission_hint};
use crate::hints::shown_path::{is_typable, shown_path};
use crate::hints::user_home::home_hint;
use crate::hints::words::last_lines;
use crate::outside_repository::RepositoryAccess;
use crate::policy::names_folder;
use crate::system_paths::is_system_path;
use metier_core::error::Hint;
use metier_core::executor::DefiningFiles;
use metier_core::host::SkillContext;
use metier_core::policy::{Access, Permission};
use metier_sandbox::PRIVATE_TMP;

/// Where a script ran.
#[derive(Clone, Copy)]
pub(crate) struct RunFolders<'a> {
    pub(crate) project: &'a Path,
    /// The home folder that the script had, if it is not that of the user.
    pub(crate) home: Option<&'a Path>,
}

/// The hint about a path in the line that says why the script failed, or in another one of its last lines that says that a path was
/// refused.
pub(crate) fn path_hint(ctx: &SkillContext, folders: RunFolders<'_>, text: &str) -> Option<Help> {
    let line = error_line(text)?;
    let accepts_folder = line.contains("ENOENT")
        || text.lines().any(|line| line.starts_with("    ") && line.contains("exist_ok=True"));
    let check_all = |paths: Vec<&str>, complaint| {
        paths
            .into_iter()
            .find_map(|written| PathCheck { ctx, folders, written, accepts_folder }.hint(complaint))
    };
    let check_line = |line, found: Option<(Complaint, usize)>| check_all(paths_in(line, found), found?.0);
    let found = Complaint::in_line(line);
    let refusals = || last_lines(text).filter_map(|line| Some((line, refusal_in(line)?)));
    check_line(line, found.filter(|(complaint, _)| complaint.is_refusal()))
        .or_else(|| refusals().find_map(|(line, refusal)| check_line(line, Some(refusal))))
        .or_else(|| check_line(line, found))
        // `zip` gives its reason in the line before.
        .or_else(|| check_all(paths_in(line, None), refusals().next()?.1.0))
        .or_else(|| {
            let mut paths = paths_in(line, None).into_iter();
            paths.find_map(|path| home_hint(ctx, (folders.project, folders.home), Path::new(path), None))
        })
}

/// The grant for a change that one of the last lines of a script that went on says was refused.
pub(crate) fn refused_change_hint(
    ctx: &SkillContext,
    folders: RunFolders<'_>,
    text: &str,
    complaints: &[Complaint],
) -> Option<Help> {
    last_lines(text).find_map(|line| {
        let refusal = refusal_in(line).filter(|(complaint, _)| complaints.contains(complaint))?;
        let mut paths = paths_in(line, Some(refusal)).into_iter();
        let check = |written| PathCheck { ctx, folders, written, accepts_folder: false };
        let is_change = |help: &Help| matches!(&help.1, Some(Hint::Grant(name)) if !name.starts_with("read"));
        paths.find_map(|path| check(path).project_hint(refusal.0)).filter(is_change)
    })
}

/// One path of a line, and what the run may do there.
struct PathCheck<'a> {
    ctx: &'a SkillContext,
    folders: RunFolders<'a>,
    written: &'a str,
    /// It may be a folder that the script makes by a call which succeeds if the folder is there.
    accepts_folder: bool,
}

impl PathCheck<'_> {
    fn hint(&self, complaint: Complaint) -> Option<Help> {
        let project = self.folders.project;
        let path = normalize_lexically(&project.join(self.written));
        match complaint {
            Complaint::Taken => self.created_folder_hint(),
            Complaint::Unwritten => {
                let is_possible = path.parent().is_some_and(Path::is_dir) && !path.is_dir();
                is_possible.then(|| self.project_hint(complaint)).flatten()
            }
            _ => home_hint(
                self.ctx,
                (self.folders.project, self.folders.home),
                Path::new(self.written),
                Some(complaint),
            )
            .or_else(|| self.project_hint(complaint))
            .or_else(|| self.outside_hint(&path, complaint)),
        }
    }

    /// The hint about a path in the project, or beside the script.
    fn project_hint(&self, complaint: Complaint) -> Option<Help> {
        let (ctx, project) = (self.ctx, self.folders.project);
        let real = canonicalize_existing(&normalize_lexically(&project.join(self.written)));
        let shown = shown_path(self.written);
        if complaint == Complaint::Absent {
            return self.skill_file_hint(&real, &shown);
        }
        if let Some(help) = own_folder_hint(ctx, &real, &shown) {
            return Some(help);
        }
        let inside = real.strip_prefix(project).ok()?.to_str()?;
        // Git writes some paths from its own folder on.
        let is_of_git = |path: &&str| {
            path.split_once('/').is_some_and(|(first, _)| {
                !project.join(first).exists() && project.join(".git").join(first).is_dir()
            })
        };
        let in_git = Some(inside).filter(is_of_git).map(|path| format!(".git/{path}"));
        let inside = in_git.as_deref().unwrap_or(inside);
        let exists = |path: &str| project.join(path).symlink_metadata().is_ok();
        // Below a file there is no folder.
        let existing = real.ancestors().find(|above| above.symlink_metadata().is_ok())?;
        if complaint == Complaint::Busy || existing != real && !existing.is_dir() {
            return None;
        }
        let protection = ctx.permissions().protection();
        let grantable = self.grantable_path(inside);
        if !exists(&grantable) && protection.protects_write(&grantable) && !names_folder(&grantable) {
            let text = format!(
                "the sandbox does not let this script create {shown}, which is protected; if it should, create it before the run and \
                 grant write:{grantable}"
            );
            return Some((text, None)).filter(|_| is_typable(&grantable));
        }
        // Version control is no secret.
        let is_history = || inside.split('/').any(|part| part.eq_ignore_ascii_case(".git"));
        if complaint == Complaint::Denied
            && exists(inside)
            && protection.protects_read(inside)
            && !is_history()
        {
            let (help, hint) = permission_hint(ctx, &Access::read(inside)).filter(|_| is_typable(inside))?;
            let text = format!(
                "the sandbox keeps {shown}, where secrets may be, from this script, which takes write:{inside} to change it; if it \
                 should read it, {help}"
            );
            return Some((text, hint));
        }
        let permission = match grantable.as_str() {
            "" => Permission::WRITE,
            path => Permission::write(path).ok().filter(|_| is_typable(path))?,
        };
        // The script may have written the path for no other reason than to have it granted.
        let is_protected = protection.protects_write(&grantable);
        let reason = if is_protected {
            ", which is protected because other programs run or trust what is there"
        } else {
            ""
        };
        match narrow_hint(ctx, &Access::write(grantable), &permission) {
            // What is protected is granted by somebody who writes it, and not by a yes; the history alone is no secret.
            Some((help, hint)) => Some((
                format!(
                    "the sandbox lets this script read the project, not change {shown}{reason}; if it should, {help}"
                ),
                hint.filter(|_| !is_protected || is_history()),
            )),
            // The script may be wrong about what it did not write.
            None if complaint == Complaint::Unwritten => None,
            None => {
                let text = format!(
                    "to change {shown} is granted, but a sandbox opens what exists when the run begins; create it before, or see \
                     whose it is"
                );
                Some((text, None))
            }
        }
    }

    /// The path of the project that a grant has to name so that this one can be created, changed or removed: the folder around it, or itself
    /// if it is there and protected; the whole of `.git` for what git creates there. Where nothing of it exists, the first name that a
    /// permission has to name, such as `.claude`. The project itself is empty.
    fn grantable_path(&self, path: &str) -> String {
        let exists = |path: &str| self.folders.project.join(path).symlink_metadata().is_ok();
        let protects = |path: &str| self.ctx.permissions().protection().protects_write(path);
        if exists(path) && protects(path) {
            return path.to_owned();
        }
        let parents = || std::iter::successors(Some(path), |path| Some(path.rsplit_once('/')?.0)).skip(1);
        if let Some(folder) = parents().find(|path| path.rsplit('/').next() == Some(".git")) {
            return folder.to_owned();
        }
        let new = std::iter::once(path).chain(parents()).filter(|path| !exists(path));
        let outermost = new.filter(|path| protects(path)).last();
        let existing = parents().find(|folder| exists(folder)).unwrap_or_default();
        // What a grant names is created before the run if it is missing, and a call that creates a folder may fail if it is there.
        let may_come_first = |path: &&str| self.accepts_folder && names_folder(path);
        if protects(existing) && !existing.is_empty() {
            return outermost.filter(may_come_first).unwrap_or(existing).to_owned();
        }
        outermost.unwrap_or(existing).to_owned()
    }

    /// The hint for a file that is missing in the project, where scripts run, and lies in the folder of the skill.
    fn skill_file_hint(&self, path: &Path, shown: &str) -> Option<Help> {
        let inside = path.strip_prefix(self.folders.project).ok()?.to_str()?;
        let files = self.ctx.skill_files().ok().filter(|files| files.root() != self.folders.project)?;
        // A name alone, such as package.json, is more likely that of the project. What lies behind a link is not looked at.
        let is_beside_script = inside.contains('/') && files.file_id(Path::new(inside)).is_ok();
        (is_beside_script && path.symlink_metadata().is_err()).then(|| {
            let text = format!(
                "scripts run in the project, which has no {shown}; it is in the folder of the skill, whose path the script finds in \
                 METIER_SKILL_DIR"
            );
            (text, None)
        })
    }

    /// The hint for an empty folder that a permission of the script names, and whose name the script found taken.
    fn created_folder_hint(&self) -> Option<Help> {
        let named = Path::new(self.written);
        let is_empty = |path: &Path| {
            path.symlink_metadata().is_ok_and(|about| about.is_dir())
                && path.read_dir().is_ok_and(|mut entries| entries.next().is_none())
        };
        let writable = self.ctx.permissions().writable_paths();
        let path = writable.iter().find(|path| {
            let is_named = named.ends_with(path) || Path::new(path).ends_with(named);
            names_folder(path) && is_named && is_empty(&self.folders.project.join(path))
        })?;
        let text = format!(
            "metier creates the folder {} before the run, since {} opens only what exists; make it with `mkdir -p`, or create the file \
             before the run if it is to be one",
            shown_path(path),
            Access::write(path)
        );
        Some((text, None))
    }

    /// The hint about a path outside of all that a run has. What is there is only for the person who runs the script.
    fn outside_hint(&self, path: &Path, complaint: Complaint) -> Option<Help> {
        let is_own = path.starts_with(std::env::temp_dir()) && path.to_string_lossy().contains("/metier-");
        let real = canonicalize_existing(path);
        let is_covered = || is_for_person(self.ctx) && path.starts_with(PRIVATE_TMP) && path.exists();
        let is_refused = complaint.is_refusal() || complaint == Complaint::Absent && is_covered();
        if !is_refused
            || is_own
            || real.starts_with(self.folders.project)
            || !self.written.contains('/') && real == path
        {
            return None;
        }
        if let Some(help) = self.outside_repository_hint(&real) {
            return Some(help);
        }
        let (reach, advice) = if is_system_path(path) {
            ("change nothing of the system", "write to the project, or to $HOME")
        } else {
            ("reach nothing there", "copy what it needs into the project")
        };
        let shown = shown_path(self.written);
        Some((
            format!("{shown} lies outside of the project, and scripts in a sandbox {reach}; {advice}"),
            None,
        ))
    }

    /// The hint about the repository of the project where it lies outside and the run may read it: it is changed by the grant for `.git`.
    fn outside_repository_hint(&self, path: &Path) -> Option<Help> {
        let readable = RepositoryAccess::new(self.ctx, self.folders.project).read;
        if !readable.iter().any(|folder| path.starts_with(folder)) {
            return None;
        }
        let (help, hint) = narrow_hint(self.ctx, &Access::write(".git"), &Permission::write(".git").ok()?)?;
        let shown = shown_path(self.written);
        let text = format!(
            "the sandbox lets this script read the repository of the project, not change {shown}; if it should, {help}"
        );
        Some((text, hint))
    }
}

/// The grant that would let a script write beside itself.
fn own_folder_hint(ctx: &SkillContext, path: &Path, shown: &str) -> Option<Help> {
    let is_possible = ctx.extensions().get::<Option<DefiningFiles>>().is_some_and(Option::is_some);
    if !is_possible || !path.starts_with(ctx.skill_files().ok()?.root()) {
        return None;
    }
    let (help, hint) = permission_hint(ctx, &Access::own_folder())?;
    let text = format!(
        "the sandbox lets this script read the folder of its skill, not change {shown}; if it should, {help}"
    );
    Some((text, hint))
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
    let existing = path.ancestors().find_map(|above| Some((above, std::fs::canonicalize(above).ok()?)));
    existing.map_or_else(
        || path.to_owned(),
        |(above, real)| path.strip_prefix(above).map_or_else(|_| path.to_owned(), |rest| real.join(rest)),
    )
}
