//! What the forms of `metier import` share: files that are read, and folders that are made of them.

use std::fs;
use std::io::{Read, Write};
use std::path::Path;

use metier::error::{ErrorKind, Result, SkillError};
use metier::formats::ImportedSkill;
use serde_json::{Value, json};

use super::new::refuse_links;
use super::output;
use super::terminal::escape_line;

/// A skill that is made, and where it comes from.
pub(super) struct Import {
    pub(super) skill: ImportedSkill,
    pub(super) origin: String,
}

/// The bytes of a regular file, at most so many.
pub(super) fn read_file(path: &Path, max_bytes: u64) -> Result<Vec<u8>> {
    let failed = |error| SkillError::io(format_args!("failed to read {}", path.display()), error);
    if !path.metadata().map_err(failed)?.is_file() {
        let sentence = format!("failed to read {}: it is not a regular file", path.display());
        return Err(SkillError::new(ErrorKind::Usage, sentence));
    }
    let mut content = Vec::new();
    fs::File::open(path)
        .and_then(|file| file.take(max_bytes + 1).read_to_end(&mut content))
        .map_err(failed)?;
    if content.len() as u64 > max_bytes {
        let sentence = format!("failed to read {}: it has more than {} MiB", path.display(), max_bytes >> 20);
        return Err(
            SkillError::new(ErrorKind::Usage, sentence).with_help("remove the file, or make it smaller")
        );
    }
    Ok(content)
}

/// Refuses a folder to which a link in its path leads.
pub(super) fn refuse_linked_folder(out: &Path) -> Result<()> {
    if out.is_relative() { refuse_links(Path::new(""), out, "--out DIR") } else { Ok(()) }
}

/// Makes the folders of skills below `out`, or none of them if one is there already.
pub(super) fn make_folders(out: &Path, imported: &[Import]) -> Result<()> {
    for Import { skill: ImportedSkill { name, .. }, .. } in imported {
        if out.join(name).symlink_metadata().is_ok()
            || imported.iter().filter(|other| other.skill.name == *name).count() > 1
        {
            let sentence =
                format!("failed to import {}: there is a skill of that name already", escape_line(name));
            return Err(
                SkillError::new(ErrorKind::Usage, sentence).with_help("nothing was made; rename one of them")
            );
        }
    }
    imported.iter().try_for_each(|import| make_folder(out, &import.skill))
}

fn make_folder(out: &Path, skill: &ImportedSkill) -> Result<()> {
    let folder = out.join(&skill.name);
    for (path, content) in &skill.files {
        let path = folder.join(path);
        let failed = |error| SkillError::io(format_args!("failed to write {}", path.display()), error);
        fs::create_dir_all(path.parent().unwrap_or(&folder)).map_err(failed)?;
        let created = fs::OpenOptions::new().write(true).create_new(true).open(&path);
        created.and_then(|mut created| created.write_all(content)).map_err(failed)?;
    }
    Ok(())
}

/// A skill that was made, as JSON.
pub(super) fn record(out: &Path, Import { skill, origin }: &Import) -> Value {
    let files: Vec<&String> = skill.files.iter().map(|(path, _)| path).collect();
    json!({
        "name": skill.name, "path": folder(out, skill), "origin": origin, "files": files, "missing": skill.missing,
        "diagnostics": skill.diagnostics,
    })
}

/// The same for a person.
pub(super) fn print_import(out: &Path, Import { skill, origin }: &Import) -> Result<()> {
    output::print(&format!("made {} from {}", escape_line(&folder(out, skill)), escape_line(origin)))?;
    for found in &skill.diagnostics {
        output::eprint(&format!("note: {}: {}", escape_line(&skill.name), escape_line(&found.message)));
    }
    for missing in &skill.missing {
        let (name, missing) = (escape_line(&skill.name), escape_line(missing));
        output::eprint(&format!(
            "note: {name}: it names {missing}, which is not there: put it into the folder"
        ));
    }
    Ok(())
}

fn folder(out: &Path, skill: &ImportedSkill) -> String {
    out.join(&skill.name).display().to_string()
}
