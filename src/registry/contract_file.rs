//! Reads the contract beside a `SKILL.md`, if the listing of the folder contains one.

use std::io::{self, Read};

use crate::registry::embedded::EmbeddedSkill;
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

/// The contract of that name with this source, in a folder whose listing showed which of the contract's file names exist.
pub(super) fn parse_contract(
    file: &'static str,
    source: io::Result<&[u8]>,
    present: [bool; CONTRACT_FILES.len()],
    manifest: &Manifest,
) -> ContractFile {
    let parsed = match source {
        _ if present.iter().all(|is_there| *is_there) => ParsedContract::duplicate_files(),
        Ok(source) => load_with_manifest(source, manifest),
        Err(error) => ParsedContract::unreadable(error),
    };
    ContractFile::new(file, parsed)
}

/// The contract among these files that is read.
pub(super) fn contract_name(present: [bool; CONTRACT_FILES.len()]) -> Option<&'static str> {
    present.iter().position(|is_there| *is_there).map(|at| CONTRACT_FILES[at])
}

/// The contract of a skill inside the program.
pub(super) fn embedded_contract(skill: &EmbeddedSkill, manifest: &Manifest) -> Option<ContractFile> {
    let mut present = CONTRACT_FILES.into_iter().filter_map(|file| Some((file, skill.file(file)?)));
    let (file, source) = present.next()?;
    let is_only = present.next().is_none();
    let parsed =
        if is_only { load_with_manifest(source, manifest) } else { ParsedContract::duplicate_files() };
    Some(ContractFile::new(file, parsed))
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
pub(super) fn read_capped(file: impl Read) -> io::Result<Vec<u8>> {
    let mut source = Vec::new();
    file.take(MAX_CONTRACT as u64 + 1).read_to_end(&mut source)?;
    Ok(source)
}
