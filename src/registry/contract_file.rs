//! Reads the contract beside a `SKILL.md`, if the listing of the folder contains one.

use std::io::{self, Read};

use crate::registry::builtin::BuiltinSkill;
use crate::registry::skill_dir::SkillDir;
use crate::skill::contract::{CONTRACT_FILES, MAX_CONTRACT, ParsedContract, load_with_manifest};
use crate::skill::{Contract, Diagnostic, Manifest};

/// A contract as discovery found it.
#[derive(Clone, Debug)]
pub(super) struct ContractFile {
    /// Its file name.
    pub(super) file_name: &'static str,
    /// The contract; present exactly when the skill may run by it.
    pub(super) contract: Option<Contract>,
    pub(super) diagnostics: Vec<Diagnostic>,
}

/// The contract in an open folder, whose listing showed which of the contract's file names exist.
pub(super) fn read_contract(
    folder: &SkillDir,
    present: [bool; CONTRACT_FILES.len()],
    manifest: &Manifest,
) -> Option<ContractFile> {
    let file = CONTRACT_FILES[present.iter().position(|is_there| *is_there)?];
    if present.iter().all(|is_there| *is_there) {
        return Some(ContractFile::new(file, ParsedContract::duplicate_files()));
    }
    let parsed = match folder.open_file(file).and_then(read_capped) {
        Ok(source) => load_with_manifest(&source, manifest),
        Err(error) => ParsedContract::unreadable(error),
    };
    Some(ContractFile::new(file, parsed))
}

/// The contract of a skill inside the binary.
pub(super) fn builtin_contract(skill: &BuiltinSkill, manifest: &Manifest) -> Option<ContractFile> {
    let file = CONTRACT_FILES[0];
    Some(ContractFile::new(file, load_with_manifest(skill.file(file)?, manifest)))
}

impl ContractFile {
    fn new(file: &'static str, ParsedContract { contract, diagnostics }: ParsedContract) -> Self {
        Self { file_name: file, contract, diagnostics }
    }

    /// The diagnostic that blocks the skill from running.
    pub(super) fn blocking_diagnostic(&self) -> Option<&Diagnostic> {
        self.diagnostics.iter().find(|diagnostic| diagnostic.blocks)
    }
}

/// The file, or up to one byte more than a contract may have.
fn read_capped(file: impl Read) -> io::Result<Vec<u8>> {
    let mut source = Vec::new();
    file.take(MAX_CONTRACT as u64 + 1).read_to_end(&mut source)?;
    Ok(source)
}
