//! The hint about a file that a script may not change, or not see: which grant would allow it, if one does.

use std::path::{Component, Path, PathBuf};

use crate::audience::is_for_person;
use crate::error_line::error_line;
use crate::hints::denied_file::{READ_ONLY_TEXTS, denied_file, missing_file, read_only_file};
use crate::hints::failed_write::unwritten_file;
use crate::hints::permission_hint::{Help, permission_hint};
use crate::hints::script_text::ScriptText;
use crate::hints::shown_path::{is_path, is_typable, shown_path};
use crate::hints::user_home::home_grant;
use crate::hints::words::contains_word;
use crate::policy::names_folder;
use crate::system_paths::is_system_path;
use metier_core::error::Hint;
use metier_core::executor::DefiningFiles;
use metier_core::host::SkillContext;
use metier_core::policy::Access;
use metier_sandbox::PRIVATE_TMP;

/// The hint about the file of the error line, if that can mean nothing but a refused change.
pub(crate) fn refused_change_hint(ctx: &SkillContext, project: &Path, text: &str) -> Option<Help> {
    let line = error_line(text)?;
    let file = read_only_file(line).filter(|file| is_path(file)).or_else(|| failed_mkdir(line, project))?;
    let denial = Denial::in_line(line);
    let accepts_folder = denial.accepts_folder || accepts_existing_folder(text);
    project_file_hint(ctx, project, file, Denial { accepts_folder, ..denial })
}

/// The last file that was denied, and whether the sandbox could be the reason.
pub(crate) fn denied_file_hint(ctx: &SkillContext, project: &Path, text: &str) -> Option<Help> {
    // Node names the code of an error once more below it.
    let is_field = |line: &&str| line.trim_start().starts_with("code: ");
    let in_line = |line| Some((denied_file(line)?, Denial::in_line(line)));
    let (written, denial) = error_line(text)
        .and_then(in_line)
        .or_else(|| text.lines().rev().filter(|line| !is_field(line)).find_map(in_line))
        .or_else(|| {
            let mut lines = text.lines().rev().filter(|_| is_for_person(ctx));
            lines.find_map(|line| Some((covered_file(line, project)?, Denial::default())))
        })?;
    if !is_path(written) {
        return None;
    }
    if let Some(help) = project_file_hint(ctx, project, written, denial) {
        return Some(help);
    }
    let path = normalize_lexically(&project.join(written));
    let shown = shown_path(written);
    let is_system = is_system_path(&path);
    let reach = if is_system { "change nothing of the system" } else { "reach nothing there" };
    let advice =
        if is_system { "write to the project, or to $HOME" } else { "copy what it needs into the project" };
    let is_own = path.starts_with(std::env::temp_dir()) && path.to_string_lossy().contains("/metier-");
    if let Some((help, hint)) = home_grant(ctx, &path).filter(|_| !denial.is_change) {
        let text = format!("{shown} lies outside of the project; if the script is to read it, {help}");
        return Some((text, hint));
    }
    (!is_own).then(|| {
        let text = format!("{shown} lies outside of the project, and scripts in a sandbox {reach}; {advice}");
        (text, None)
    })
}

/// The grant for the file that the error line says could not be written, in words of the script, if that was certainly refused: the
/// folder of the file is there, and the script has a call that writes.
pub(crate) fn unwritten_file_hint(
    ctx: &SkillContext,
    project: &Path,
    script: &ScriptText<'_>,
    text: &str,
) -> Option<Help> {
    let file = unwritten_file(error_line(text)?).filter(|file| is_path(file))?;
    let path = normalize_lexically(&project.join(file));
    let is_possible = path.starts_with(project) && path.parent().is_some_and(Path::is_dir) && !path.is_dir();
    if !is_possible || !script.writes_files() {
        return None;
    }
    let denial = Denial { is_change: true, ..Denial::default() };
    let advice = project_file_advice(ctx, project, file, denial)?;
    advice.names_permission.then_some(advice.help)
}

/// The grant for the first of these lines that says that a file was denied which a grant would open.
pub(crate) fn refused_changes<'a>(
    ctx: &SkillContext,
    project: &Path,
    mut lines: impl Iterator<Item = &'a str>,
) -> Option<Help> {
    lines.find_map(|line| {
        let file = denied_file(line).filter(|file| is_path(file))?;
        let advice = project_file_advice(ctx, project, file, Denial::in_line(line))?;
        // A secret that was not read is not a refused change.
        let is_read =
            matches!(&advice.help.1, Some(Hint::Grant(permission)) if permission.starts_with("read"));
        (advice.names_permission && !is_read).then_some(advice.help)
    })
}

/// What an output says about the access that was denied.
#[derive(Clone, Copy, Default)]
struct Denial {
    /// It was to change a file, not to read it.
    is_change: bool,
    /// It was to create a folder, by a call that succeeds if the folder is there.
    accepts_folder: bool,
}

impl Denial {
    fn in_line(line: &str) -> Self {
        let small = line.to_ascii_lowercase();
        let is_change = READ_ONLY_TEXTS.iter().any(|words| contains_word(&small, words));
        Self { is_change, accepts_folder: line.contains("ENOENT") }
    }
}

/// Whether a traceback shows that the script creates its folders if they are missing: then a grant may create the folder first.
fn accepts_existing_folder(text: &str) -> bool {
    text.lines().any(|line| line.starts_with("    ") && line.contains("exist_ok=True"))
}

/// The hint about a file that was denied, if it lies in the project or beside the script.
fn project_file_hint(ctx: &SkillContext, project: &Path, written: &str, denial: Denial) -> Option<Help> {
    project_file_advice(ctx, project, written, denial).map(|advice| advice.help)
}

/// A hint about a file.
struct FileAdvice {
    help: Help,
    /// Whether it names a permission that would open the file: to be granted, or to be listed by a skill.
    names_permission: bool,
}

impl FileAdvice {
    fn with_permission(help: Help) -> Self {
        Self { help, names_permission: true }
    }

    fn without_permission(text: String) -> Self {
        Self { help: (text, None), names_permission: false }
    }
}

fn project_file_advice(
    ctx: &SkillContext,
    project: &Path,
    written: &str,
    denial: Denial,
) -> Option<FileAdvice> {
    let real = canonicalize_existing(&normalize_lexically(&project.join(written)));
    let shown = shown_path(written);
    if let Some(help) = own_folder_hint(ctx, &real, &shown) {
        return Some(FileAdvice::with_permission(help));
    }
    let inside = real.strip_prefix(project).ok()?.to_str()?;
    let exists = |path: &str| project.join(path).symlink_metadata().is_ok();
    let grantable = grantable_path(ctx, project, inside, denial);
    let is_protected = ctx.permissions().protection().protects_write(&grantable);
    if !exists(&grantable) && is_protected && !names_folder(&grantable) {
        return Some(FileAdvice::without_permission(uncreated_help(ctx, &grantable, &shown)));
    }
    if let Some((help, hint)) = secret_hint(ctx, inside).filter(|_| !denial.is_change && exists(inside)) {
        if !is_typable(inside) {
            let text = format!("the sandbox keeps {shown}, where secrets may be, from this script");
            return Some(FileAdvice::without_permission(text));
        }
        let text = format!(
            "the sandbox keeps {shown}, where secrets may be, from this script, which takes write:{inside} to change it; if it \
             should read it, {help}"
        );
        return Some(FileAdvice::with_permission((text, hint)));
    }
    if let Err(refusal) = ctx.permissions().require(&Access::write(grantable), "") {
        let text = format!("the sandbox lets this script read the project, not change {shown}");
        let help = refusal.help().filter(|_| refusal.missing_permission().is_some_and(is_typable));
        return Some(match help {
            Some(help) => {
                let text = format!("{text}; if it should, {help}");
                FileAdvice::with_permission((text, refusal.hint().cloned()))
            }
            None => FileAdvice::without_permission(text),
        });
    }
    // Granted, but denied anyway.
    let text = format!(
        "to change {shown} is granted, but a sandbox opens what exists when the run begins; create it before, or see \
         whose it is"
    );
    Some(FileAdvice::without_permission(text))
}

/// The help for a script that may not create a protected file: a grant that names only what does not exist opens nothing.
fn uncreated_help(ctx: &SkillContext, path: &str, shown: &str) -> String {
    if !is_typable(path) {
        return format!("the sandbox does not let this script create {shown}, which is protected");
    }
    // Where a skill does not list it, no grant is enough.
    if let Err(refusal) = ctx.permissions().require(&Access::write(path), "")
        && let Some(help) = refusal.help().filter(|help| help.starts_with("list "))
    {
        return format!(
            "the sandbox does not let this script create {shown}, which is protected; if it should, {help}, or create it before the run"
        );
    }
    let is_named = ctx.permissions().allows(&Access::write(path));
    let grants = if is_named { "write as well".to_owned() } else { format!("write and write:{path}") };
    let besides = if is_named { String::new() } else { format!(" and grant write:{path}") };
    format!(
        "the sandbox does not let this script create {shown}, which is protected; if it should, grant {grants}, or create it before the \
         run{besides}"
    )
}

/// The folder that a line says could not be made because a folder above it is missing, if the one above that is there: Node says so
/// where it makes folders one inside the other in a read-only place.
fn failed_mkdir<'a>(line: &'a str, project: &Path) -> Option<&'a str> {
    let (_, written) = line.split_once("ENOENT: no such file or directory, mkdir '")?;
    let written = written.strip_suffix('\'').filter(|written| is_path(written))?;
    let path = normalize_lexically(&project.join(written));
    let existing = path.ancestors().find(|above| above.symlink_metadata().is_ok())?;
    let is_possible = existing != path && existing.is_dir() && path.starts_with(project);
    is_possible.then_some(written)
}

/// Whether a grant could let a script write beside itself.
pub(crate) fn may_change_own_folder(ctx: &SkillContext) -> bool {
    ctx.extensions().get::<Option<DefiningFiles>>().is_some_and(Option::is_some)
}

/// The grant that would let a script write beside itself.
fn own_folder_hint(ctx: &SkillContext, path: &Path, shown: &str) -> Option<Help> {
    if !may_change_own_folder(ctx) || !path.starts_with(ctx.skill_files().ok()?.root()) {
        return None;
    }
    let (help, hint) = permission_hint(ctx, &Access::own_folder())?;
    let text = format!(
        "the sandbox lets this script read the folder of its skill, not change {shown}; if it should, {help}"
    );
    Some((text, hint))
}

/// The path of the project that a grant has to name so that this one can be written: itself if it exists, otherwise the folder in
/// which it would be created, which is the whole of `.git` for what git creates there. Where nothing of it exists, the first name
/// that a permission has to name, such as `.claude`.
fn grantable_path(ctx: &SkillContext, project: &Path, path: &str, denial: Denial) -> String {
    let exists = |path: &str| project.join(path).symlink_metadata().is_ok();
    if exists(path) {
        return path.to_owned();
    }
    let parents = || std::iter::successors(Some(path), |path| Some(path.rsplit_once('/')?.0)).skip(1);
    let is_git_dir = |path: &&str| path.rsplit('/').next() == Some(".git");
    if let Some(folder) = parents().find(is_git_dir) {
        return folder.to_owned();
    }
    let protection = ctx.permissions().protection();
    let new = std::iter::once(path).chain(parents()).filter(|path| !exists(path));
    let outermost = new.filter(|path| protection.protects_write(path)).last();
    let existing = parents().find(|folder| exists(folder));
    // Nothing can be created in a protected folder without a grant that names the folder. What the grant names is created before
    // the run if it is missing, and a call that creates a folder may fail if it is there.
    let may_come_first = |path: &&str| denial.accepts_folder && names_folder(path);
    if let Some(folder) = existing.filter(|folder| protection.protects_write(folder)) {
        return outermost.filter(may_come_first).unwrap_or(folder).to_owned();
    }
    outermost.or(existing).unwrap_or(path).to_owned()
}

/// The grant that would show a script a secret of the project; `None` if the path is not a secret or is shown already. Version
/// control is not a secret.
fn secret_hint(ctx: &SkillContext, path: &str) -> Option<Help> {
    let is_history = path.split('/').any(|part| part.eq_ignore_ascii_case(".git"));
    let is_secret = ctx.permissions().protection().protects_read(path) && !is_history;
    if is_secret { permission_hint(ctx, &Access::read(path)) } else { None }
}

/// The file that a line says is not there, if it is there, outside of the project and in the `/tmp` that the script does not see.
fn covered_file<'a>(line: &'a str, project: &Path) -> Option<&'a str> {
    let written = missing_file(line).filter(|written| is_path(written))?;
    let path = std::fs::canonicalize(normalize_lexically(&project.join(written))).ok()?;
    let is_covered = path.starts_with(PRIVATE_TMP) && !path.starts_with(project);
    is_covered.then_some(written)
}

/// Resolves `.` and `..` without reading the disk.
pub(crate) fn normalize_lexically(path: &Path) -> PathBuf {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_node_could_not_make_is_one_below_a_folder_that_is_there() {
        let project = tempfile::tempdir().unwrap();
        std::fs::create_dir(project.path().join("docs")).unwrap();
        std::fs::write(project.path().join("file"), "").unwrap();
        let made = |path: &str| {
            let line = format!("Error: ENOENT: no such file or directory, mkdir '{path}'");
            failed_mkdir(&line, project.path()).map(str::to_owned)
        };
        for path in ["a", "a/b/c", "docs/a", "docs/a/b", "./a/b"] {
            assert_eq!(made(path).as_deref(), Some(path));
        }
        // What is there, what is below a file, and what is elsewhere.
        for path in ["docs", "file/a/b", "../a/b", "/nowhere/a/b"] {
            assert_eq!(made(path), None, "{path}");
        }
    }
}
