//! What a path on the command line means: a skill, the skills below a folder, or an error.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use metier::error::SkillError;
use metier::skill::{Diagnostic, Rule};
use metier_skill::contract::CONTRACT_FILES;
use walkdir::{DirEntry, WalkDir};

use crate::cli::validate::lints;
use crate::cli::validate::project_skills::ProjectSkills;

/// The names that a skill's file may have, the one of the specification first; the last ones are those of a definition that is a
/// skill without a `SKILL.md`.
const SKILL_FILES: [&str; 5] =
    ["SKILL.md", "skill.md", CONTRACT_FILES[0], CONTRACT_FILES[1], CONTRACT_FILES[2]];
/// Folders that are not searched for skills.
const SKIPPED_FOLDERS: [&str; 3] = [".git", "node_modules", "target"];
const MAX_DEPTH: usize = 16;
const MAX_ENTRIES: usize = 200_000;

/// A path to check.
pub struct Target {
    /// The skill's folder, or the path with the error; as the caller wrote it.
    pub path: PathBuf,
    /// The name of the skill's file, empty if the path is a script that is a skill by itself; or why there is none to read.
    pub file: Result<String, Diagnostic>,
}

/// The targets of a path, sorted; never empty. A path that does not exist may be the name of a skill.
pub fn targets(path: &Path, project: &ProjectSkills) -> Vec<Target> {
    let found = fs::metadata(path).map(|metadata| metadata.is_dir());
    match found {
        Ok(true) => match skill_file_name(path) {
            Some(file) => vec![Target { path: path.to_owned(), file: Ok(file.to_owned()) }],
            None => skills_below(path, project),
        },
        // If SKILL.md is a broken link, a FIFO or a device, the attempt to read it reports that.
        _ if is_skill_file_name(path) && path.symlink_metadata().is_ok() => vec![file_target(path)],
        Ok(false) if is_definition(path) => vec![definition_target(path)],
        Ok(false) if project.script_skill(path).is_some() => vec![script_target(path)],
        Ok(false) => vec![
            invalid_target(path, &lints::NOT_A_DIRECTORY, format!("Not a directory: {}", path.display()))
                .with_help("name a skill's folder or its SKILL.md"),
        ],
        Err(error) if is_not_found(&error) => match project.skill_folder(path) {
            Ok(script) if script.is_file() => vec![script_target(&script)],
            Ok(folder) => match skill_file_name(&folder) {
                Some(file) => vec![file_target(&folder.join(file))],
                None => skills_below(&folder, project),
            },
            Err(help) => {
                let message = format!("Path does not exist: {}", path.display());
                vec![invalid_target(path, &lints::PATH_MISSING, message).with_help(help)]
            }
        },
        Err(error) => vec![unreadable_target(path, error)],
    }
}

/// Whether an error says that there is no such file.
pub fn is_not_found(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

fn script_target(path: &Path) -> Target {
    Target { path: path.to_owned(), file: Ok(String::new()) }
}

fn file_target(path: &Path) -> Target {
    let folder = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    Target { path: folder.to_owned(), file: Ok(name) }
}

/// The skill that a definition belongs to.
fn definition_target(path: &Path) -> Target {
    let target = file_target(path);
    let beside = skill_file_name(&target.path).map(|name| Ok(name.to_owned()));
    Target { file: beside.unwrap_or(target.file), ..target }
}

fn is_definition(path: &Path) -> bool {
    path.file_name().is_some_and(|name| CONTRACT_FILES.iter().any(|known| name == *known))
}

fn is_skill_file_name(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.eq_ignore_ascii_case(SKILL_FILES[0]))
}

fn skill_file_name(folder: &Path) -> Option<&'static str> {
    SKILL_FILES.into_iter().find(|name| folder.join(name).symlink_metadata().is_ok())
}

/// The skills below a folder that is not a skill itself. Links to folders are not followed further.
fn skills_below(folder: &Path, project: &ProjectSkills) -> Vec<Target> {
    let mut found = Vec::new();
    let walk = WalkDir::new(folder).min_depth(1).max_depth(MAX_DEPTH).sort_by_file_name();
    let mut is_truncated = false;
    for (seen, entry) in walk.into_iter().filter_entry(is_searched).enumerate() {
        is_truncated |= seen == MAX_ENTRIES || entry.as_ref().is_ok_and(is_too_deep);
        if seen == MAX_ENTRIES {
            break;
        }
        found.extend(entry.map_or_else(
            |error| Some(unsearchable_target(folder, error)),
            |entry| target_at(&entry, project),
        ));
    }
    if is_truncated {
        found.push(search_truncated(folder));
    }
    if found.is_empty() {
        found.push(no_skills_found(folder));
    }
    found
}

fn is_searched(entry: &DirEntry) -> bool {
    !SKIPPED_FOLDERS.iter().any(|skipped| entry.file_name() == *skipped)
}

fn is_too_deep(entry: &DirEntry) -> bool {
    entry.depth() == MAX_DEPTH && entry.file_type().is_dir()
}

/// The skill in a folder, or behind a link to one; or a script that is a skill by itself.
fn target_at(entry: &DirEntry, project: &ProjectSkills) -> Option<Target> {
    if entry.path().is_file() {
        return project.script_skill(entry.path()).map(|_| script_target(entry.path()));
    }
    let file = entry.path().is_dir().then(|| skill_file_name(entry.path()))??;
    Some(Target { path: entry.path().to_owned(), file: Ok(file.to_owned()) })
}

fn no_skills_found(folder: &Path) -> Target {
    let misspelled = fs::read_dir(folder).into_iter().flatten().flatten().take(MAX_ENTRIES);
    let misspelled = misspelled.map(|entry| entry.path()).find(|path| is_skill_file_name(path));
    let target = invalid_target(folder, &lints::SKILL_FILE_MISSING, "Missing required file: SKILL.md");
    match misspelled.as_deref().and_then(Path::file_name) {
        Some(name) => target.with_help(format!("rename {} to SKILL.md", name.display())),
        None => target.with_help("no folder below it contains one either"),
    }
}

fn search_truncated(folder: &Path) -> Target {
    let message = format!("the search stopped at {MAX_ENTRIES} entries or {MAX_DEPTH} folders deep");
    invalid_target(folder, &lints::TOO_MANY_FOLDERS, message)
        .with_help("name the folders below it that hold skills")
}

fn unsearchable_target(folder: &Path, error: walkdir::Error) -> Target {
    let path = error.path().unwrap_or(folder).to_owned();
    unreadable_target(
        &path,
        error.into_io_error().unwrap_or_else(|| io::Error::other("links lead in a circle")),
    )
}

fn unreadable_target(path: &Path, error: io::Error) -> Target {
    let error = SkillError::io(format_args!("failed to read {}", path.display()), error);
    invalid_target(path, &lints::UNREADABLE, error.message())
}

fn invalid_target(path: &Path, rule: &Rule, message: impl Into<String>) -> Target {
    Target { path: path.to_owned(), file: Err(Diagnostic::new(rule, "", &(0..0), message)) }
}

impl Target {
    fn with_help(self, help: impl Into<String>) -> Self {
        Self { file: self.file.map_err(|diagnostic| diagnostic.with_help(help)), ..self }
    }
}
