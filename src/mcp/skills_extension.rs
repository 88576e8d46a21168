//! The Skills extension of the protocol (SEP-2640): skills as their authors wrote them, file by file with digests.

use std::collections::BTreeSet;

use rmcp::model::{Resource, Skill as SkillEntry, SkillFrontmatter, SkillResource, SkillResources};
use serde_json::{Map, Value};

use super::inventory::Inventory;
use super::resources::{SkillResourceFile, file_resource, find_file, skill_files};
use super::skill_content::{file_uri, read_file};
use crate::engine::Engine;
use crate::registry::Skill;
use metier_core::error::{ErrorKind, Result, SkillError};
use metier_core::sanitizer::{json_for_model, text_for_model};
use metier_skill::{Profile, SkillLocation, typed_frontmatter};

/// The file that stands for a skill in this extension.
const SKILL_FILE: &str = "SKILL.md";
/// What every client has to accept of one skill.
const MAX_FILES: usize = 512;
const MAX_BYTES: u64 = 16 << 20;
/// The type of a folder.
const FOLDER: &str = "inode/directory";

/// The entry of a skill that passes the specification. One that does not would make a client drop the whole list.
pub(super) fn listed_entry(engine: &Engine, skill: &Skill) -> Option<SkillEntry> {
    entry(engine, skill).ok()
}

/// The entry of the skill whose text has this address.
pub(super) fn entry_at(engine: &Engine, inventory: &Inventory, uri: &str) -> Result<SkillEntry> {
    match find_file(inventory, uri)? {
        (skill, path) if path == SKILL_FILE => entry(engine, skill),
        _ => Err(SkillError::new(
            ErrorKind::InvalidArgument,
            "the address is not that of the SKILL.md of a skill",
        )),
    }
}

fn entry(engine: &Engine, skill: &Skill) -> Result<SkillEntry> {
    let invalid = |why: &str| {
        SkillError::new(
            ErrorKind::InvalidSkill,
            format!("the skill {} is not offered by this extension: {why}", skill.name()),
        )
    };
    let files = skill_files(engine, skill)?;
    let source = read_file(engine, skill, SKILL_FILE)?;
    let directory = skill
        .folder()
        .disk_path()
        .and_then(|path| path.file_stem())
        .map(|name| name.to_string_lossy().into_owned());
    let directory = directory.unwrap_or_else(|| skill.name().to_owned());
    let parsed = metier_skill::parse(&source, SkillLocation { directory: &directory, file_name: SKILL_FILE });
    if !parsed.is_valid(Profile::Spec) {
        return Err(invalid("its SKILL.md does not pass the specification"));
    }
    let mut fields =
        typed_frontmatter(&source).ok_or_else(|| invalid("its frontmatter cannot be written as JSON"))?;
    let (Some(Value::String(name)), Some(Value::String(description))) =
        (fields.shift_remove("name"), fields.shift_remove("description"))
    else {
        return Err(invalid("its name or its description is not text"));
    };
    if let Some(objection) = client_objection(&name, &fields) {
        return Err(invalid(objection));
    }
    let size: u64 = files.iter().filter_map(|file| Some(file.facts.as_ref()?.0)).sum();
    if files.len() > MAX_FILES || size > MAX_BYTES {
        return Err(invalid("it has more files, or larger ones, than clients accept"));
    }
    let mut frontmatter = SkillFrontmatter::new(name, text_for_model(&description));
    frontmatter.extra =
        fields.into_iter().map(|(name, value)| (text_for_model(&name), json_for_model(value))).collect();
    let resource = |file: &SkillResourceFile| {
        let (size, digest) = file.facts.as_ref()?;
        Some(SkillResource::new(file_uri(skill.name(), &file.path), digest.clone(), *size))
    };
    let listed: Option<Vec<SkillResource>> = files.iter().map(resource).collect();
    let resources = listed.map_or(SkillResources::Dynamic, SkillResources::Files);
    let uri = file_uri(skill.name(), SKILL_FILE);
    // The text that was read must be the one that the list has.
    let is_listed = match &resources {
        SkillResources::Files(files) => {
            files.iter().any(|file| file.uri == uri && file.verify(&source).is_ok())
        }
        _ => true,
    };
    if !is_listed {
        return Err(invalid("its SKILL.md changed while it was read"));
    }
    let entry = SkillEntry::new(uri, frontmatter, resources);
    entry.validate().map_err(|error| invalid(&error.to_string()))?;
    Ok(entry)
}

/// Why the official client would refuse the entry, and with it the whole list: it reads the specification more strictly.
fn client_objection(name: &str, fields: &Map<String, Value>) -> Option<&'static str> {
    let is_plain = name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-');
    let is_text = |value: &Value| value.is_string();
    let has_texts = |value: &Value| value.as_object().is_some_and(|values| values.values().all(is_text));
    if !is_plain {
        Some("its name has other letters than a to z")
    } else if !fields.get("compatibility").is_none_or(is_text) {
        Some("its compatibility is not text")
    } else if !fields.get("metadata").is_none_or(has_texts) {
        Some("a value of its metadata is not text, as YAML reads it; quotes make it one")
    } else {
        None
    }
}

/// What lies directly in a folder of a skill.
pub(super) fn folder(engine: &Engine, inventory: &Inventory, uri: &str) -> Result<Vec<Resource>> {
    // The folder of a skill is also meant without the slash at its end.
    let (skill, path) = find_file(inventory, &format!("{}/", uri.strip_suffix('/').unwrap_or(uri)))?;
    let prefix = if path.is_empty() { String::new() } else { format!("{path}/") };
    let files = skill_files(engine, skill)?;
    let (mut folders, mut children) = (BTreeSet::new(), Vec::new());
    for file in &files {
        match file.path.strip_prefix(&prefix).map(|rest| rest.split_once('/')) {
            None => {}
            Some(None) => children.push(file_resource(skill, file)),
            Some(Some((folder, _))) => {
                folders.insert(folder);
            }
        }
    }
    if folders.is_empty() && children.is_empty() {
        return Err(SkillError::new(ErrorKind::InvalidArgument, "the address is not that of a folder"));
    }
    let folder = |name: &&str| {
        Resource::new(format!("{}/", file_uri(skill.name(), &format!("{prefix}{name}"))), *name)
            .with_mime_type(FOLDER)
    };
    let mut found: Vec<Resource> = folders.iter().map(folder).collect();
    found.append(&mut children);
    Ok(found)
}
