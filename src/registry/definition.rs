//! What the files of a skill say. It is read when the skill is found; for a builtin skill, when it is first asked for, because
//! every command finds all of them and hardly one runs any.

use std::borrow::Cow;
use std::sync::OnceLock;

use super::origin::SkillAddress;
use crate::registry::contract_file::{ContractFile, embedded_contract};
use crate::registry::embedded::EmbeddedSkill;
use crate::registry::fingerprint::Fingerprint;
use crate::registry::skill_folder::SkillFolder;
use metier_skill::{Diagnostic, Manifest, SkillLocation, empty_manifest, load};

/// A skill's place, its name and version, and what else its files say.
#[derive(Debug)]
pub(super) struct Definition {
    pub(super) address: SkillAddress,
    pub(super) name: Cow<'static, str>,
    pub(super) version: semver::Version,
    pub(super) fingerprint: Option<Fingerprint>,
    content: OnceLock<DefinitionContent>,
}

/// What a `SKILL.md` and the contract beside it say.
#[derive(Debug)]
pub(super) struct DefinitionContent {
    pub(super) manifest: Manifest,
    pub(super) diagnostics: Vec<Diagnostic>,
    pub(super) contract_file: Option<ContractFile>,
}

impl Definition {
    /// The definition in files that were read.
    pub(super) fn new(
        address: SkillAddress,
        content: DefinitionContent,
        fingerprint: Option<Fingerprint>,
    ) -> Self {
        let (name, version) = (content.manifest.name.clone().into(), content.manifest.version.clone());
        Self { address, name, version, fingerprint, content: OnceLock::from(content) }
    }

    /// That of a builtin skill, whose name and version are known beforehand.
    pub(super) fn builtin(address: SkillAddress, name: &'static str, version: semver::Version) -> Self {
        Self { address, name: name.into(), version, fingerprint: None, content: OnceLock::new() }
    }

    /// What the files say.
    pub(super) fn content(&self) -> &DefinitionContent {
        self.content.get_or_init(|| match &self.address.folder {
            SkillFolder::Embedded(skill) => DefinitionContent::embedded(skill, self.address.file_name),
            // All others were read.
            SkillFolder::Disk(_) | SkillFolder::Script(_) => {
                DefinitionContent::new(empty_manifest(&self.name), Vec::new(), None)
            }
        })
    }
}

impl DefinitionContent {
    pub(super) fn new(
        mut manifest: Manifest,
        diagnostics: Vec<Diagnostic>,
        contract_file: Option<ContractFile>,
    ) -> Self {
        let contract = contract_file.as_ref().and_then(|contract_file| contract_file.contract.as_deref());
        if let Some(version) = contract.and_then(|contract| contract.version.clone()) {
            // If both declare a version they agree; otherwise there is no contract.
            manifest.version = version;
        }
        Self { manifest, diagnostics, contract_file }
    }

    fn embedded(skill: &EmbeddedSkill, file_name: &'static str) -> Self {
        let location = SkillLocation { directory: skill.name(), file_name };
        let loaded = load(skill.file(file_name).unwrap_or_default(), location);
        let manifest = loaded.manifest.unwrap_or_else(|| empty_manifest(skill.name()));
        let contract_file = embedded_contract(skill, &manifest);
        Self::new(manifest, loaded.diagnostics, contract_file)
    }
}
