//! The skill behind a command that a person runs without a skill. No registry lists it.

use std::path::PathBuf;
use std::sync::Arc;

use super::embedded::EmbeddedSkill;
use super::origin::{RootOrigin, SkillAddress};
use super::root::Scope;
use super::skill::Skill;
use crate::registry::definition::{Definition, DefinitionContent};
use crate::registry::skill_folder::SkillFolder;
use metier_core::error::{ErrorKind, Result, SkillError};
use metier_skill::{SkillLocation, load};

const FILE_NAME: &str = "SKILL.md";

/// Its script becomes the command that its arguments name: an external script like any other.
static COMMAND_SKILL: EmbeddedSkill = EmbeddedSkill::new(
    "exec",
    &[
        (FILE_NAME, b"---\nname: exec\ndescription: Runs a command.\n---\n"),
        (COMMAND_SCRIPT, b"#!/bin/sh\nexec \"$@\"\n"),
    ],
);

/// The path of its script.
pub(crate) const COMMAND_SCRIPT: &str = "command";

/// The skill that runs the command in its arguments.
pub(crate) fn command_skill() -> Result<Skill> {
    let location = SkillLocation { directory: COMMAND_SKILL.name(), file_name: FILE_NAME };
    let loaded = load(COMMAND_SKILL.file(FILE_NAME).unwrap_or_default(), location);
    let invalid = || SkillError::new(ErrorKind::InvalidSkill, "the skill that runs commands does not load");
    let manifest = loaded.manifest.ok_or_else(invalid)?;
    let origin = RootOrigin {
        scope: Scope::Builtin,
        label: "metier".to_owned(),
        // It is in no root.
        rank: usize::MAX,
        path: PathBuf::new(),
    };
    let folder = SkillFolder::Embedded(&COMMAND_SKILL);
    let address = SkillAddress { origin: Arc::new(origin), folder, file_name: FILE_NAME };
    let content = DefinitionContent::new(manifest, loaded.diagnostics, None);
    Ok(Skill::new(Definition::new(address, content, None)))
}
