//! Scripts directly in a root, each of which is a skill by itself. Everybody else sees such a script as a folder with a
//! `SKILL.md`, a contract if the script has one in a comment, and the script in `scripts/`.

use std::path::{Path, PathBuf};

use crate::registry::file_names::{SCRIPT_EXTENSIONS, SKILL_FILE_NAMES, drop_in_name};
use crate::registry::file_reader::read_file;
use metier_core::error::{ErrorKind, Result, SkillError};
use metier_core::host::Files;
use metier_core::policy::Limits;
use metier_skill::contract::CONTRACT_FILES;
use metier_skill::inline_metadata::InlineMetadata;

/// Another skill of the same name beside this one in the root: a script, or a folder with a `SKILL.md` or a definition.
pub(super) fn namesake(root: &Path, own: &Path, name: &str) -> Option<PathBuf> {
    let is_other = |path: &PathBuf| path != own && path.symlink_metadata().is_ok();
    let folder = root.join(name);
    let mut definitions = SKILL_FILE_NAMES.iter().chain(&CONTRACT_FILES);
    if is_other(&folder) && definitions.any(|file| folder.join(file).symlink_metadata().is_ok()) {
        return Some(folder);
    }
    let scripts = SCRIPT_EXTENSIONS.iter().map(|extension| root.join(format!("{name}.{extension}")));
    scripts.into_iter().find(is_other)
}

/// The files of the folder as which others see the script: paths and bytes.
pub(crate) fn virtual_files(script: &Path) -> Result<Vec<(String, Vec<u8>)>> {
    let files = Files::open(parent(script))?;
    let source = read_file(&files, name(script), Limits::MAX_READ_SIZE)?;
    let metadata = InlineMetadata::parse(extension(script), &source);
    let [skill_file, ..] = SKILL_FILE_NAMES;
    let mut found = vec![(skill_file.to_owned(), skill_text(script, &metadata).into_bytes())];
    if let Some(Ok(contract)) = metadata.contract {
        let [contract_file, ..] = CONTRACT_FILES;
        found.push((contract_file.to_owned(), contract.into_bytes()));
    }
    found.push((script_path(script), source));
    Ok(found)
}

/// The path of the script in the folder as which others see it.
pub(super) fn script_path(script: &Path) -> String {
    format!("scripts/{}", name(script))
}

/// The `SKILL.md` that a script would have.
pub(super) fn skill_text(script: &Path, metadata: &InlineMetadata) -> String {
    let is_printable = |c: &char| !c.is_control() && !matches!(c, '\u{fffe}' | '\u{ffff}');
    let quoted = |text: &str| {
        serde_json::Value::from(text.chars().filter(is_printable).collect::<String>()).to_string()
    };
    let described = if metadata.description.is_empty() {
        format!("Runs {}.", name(script))
    } else {
        metadata.description.clone()
    };
    let skill = drop_in_name(name(script)).unwrap_or_default();
    format!("---\nname: {}\ndescription: {}\n---\n\n{}\n", quoted(skill), quoted(&described), metadata.text)
}

/// The error if two skills in one root have one name by their files.
pub(super) fn namesake_error(name: &str, paths: [&Path; 2]) -> SkillError {
    let [first, second] = paths.map(|path| path.display().to_string());
    let message = format!("{first} and {second} are both the skill `{name}`, so neither is loaded");
    SkillError::new(ErrorKind::InvalidSkill, message).with_help("rename one of them")
}

pub(super) fn parent(path: &Path) -> &Path {
    path.parent().unwrap_or(Path::new("."))
}

pub(super) fn name(path: &Path) -> &str {
    path.file_name().and_then(std::ffi::OsStr::to_str).unwrap_or_default()
}

pub(super) fn extension(path: &Path) -> &str {
    path.extension().and_then(std::ffi::OsStr::to_str).unwrap_or_default()
}
