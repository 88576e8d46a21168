//! Reads the contract beside a `SKILL.md`, or a definition without one, if the listing of the folder contains it.

use std::io::{self, Read};
use std::path::Path;

use super::problem::Problem;
use crate::registry::embedded::EmbeddedSkill;
use crate::registry::file_names::SKILL_FILE_NAMES;
use metier_skill::contract::{
    CONTRACT_FILES, Contract, MAX_CONTRACT, ParsedContract, duplicate_contracts, unreadable_contract,
};
use metier_skill::formats;
use metier_skill::{Diagnostic, LoadedSkill, Manifest, Severity};

/// Which of the contract's file names a folder has.
pub(super) type PresentContracts = [bool; CONTRACT_FILES.len()];

/// A contract as discovery found it.
#[derive(Clone, Debug)]
pub(super) struct ContractFile {
    /// Its file name.
    pub(super) file_name: &'static str,
    /// The contract; present exactly when the skill may run by it. Most skills have none, and it is large.
    pub(super) contract: Option<Box<Contract>>,
    pub(super) diagnostics: Vec<Diagnostic>,
}

/// The contract of that name with this source, in a folder whose listing showed which of the contract's file names exist.
pub(super) fn parse_contract(
    file: &'static str,
    source: io::Result<&[u8]>,
    present: PresentContracts,
    manifest: &Manifest,
) -> ContractFile {
    let parsed = match (source, duplicates(present)) {
        (_, Some(names)) => duplicate_contracts(&names),
        (Ok(source), None) => formats::load(file, source, Some(manifest)),
        (Err(error), None) => unreadable_contract(error),
    };
    ContractFile::new(file, parsed)
}

/// The skill of a definition without a `SKILL.md`, in a folder of that name.
pub(super) fn parse_definition(
    file: &'static str,
    source: &[u8],
    present: PresentContracts,
    directory: &str,
) -> (LoadedSkill, ContractFile) {
    if let Some(names) = duplicates(present) {
        let parsed = duplicate_contracts(&names);
        let loaded = LoadedSkill { manifest: None, diagnostics: parsed.diagnostics.clone() };
        return (loaded, ContractFile::new(file, parsed));
    }
    let (loaded, parsed) = formats::load_alone(file, source, directory);
    (loaded, ContractFile::new(file, parsed))
}

/// The contract in the frontmatter of a `SKILL.md` of that name without a definition beside it, if it has one.
pub(super) fn frontmatter_contract(
    file: &'static str,
    source: &[u8],
    manifest: &Manifest,
) -> Option<ContractFile> {
    Some(ContractFile::new(file, formats::frontmatter_contract(source, manifest)?))
}

/// The names of several contracts in one folder.
fn duplicates(present: PresentContracts) -> Option<Vec<&'static str>> {
    let names =
        CONTRACT_FILES.into_iter().zip(present).filter_map(|(name, is_there)| is_there.then_some(name));
    Some(names.collect::<Vec<_>>()).filter(|names| names.len() > 1)
}

/// The contract among these files that is read.
pub(super) fn contract_name(present: PresentContracts) -> Option<&'static str> {
    present.iter().position(|is_there| *is_there).map(|at| CONTRACT_FILES[at])
}

/// The contract of a skill inside the program.
pub(super) fn embedded_contract(skill: &EmbeddedSkill, manifest: &Manifest) -> Option<ContractFile> {
    let present = CONTRACT_FILES.map(|file| skill.file(file).is_some());
    let Some(file) = contract_name(present) else {
        let [name, ..] = SKILL_FILE_NAMES;
        return frontmatter_contract(name, skill.file(name)?, manifest);
    };
    let parsed = parse_contract(file, Ok(skill.file(file)?), present, manifest);
    (!parsed.is_left_out()).then_some(parsed)
}

impl ContractFile {
    fn new(file: &'static str, ParsedContract { contract, diagnostics, .. }: ParsedContract) -> Self {
        Self { file_name: file, contract: contract.map(Box::new), diagnostics }
    }

    /// Whether it is no contract, and says nothing of the skill.
    fn is_left_out(&self) -> bool {
        self.contract.is_none() && self.blocking_diagnostic().is_none()
    }

    /// Why the file in this folder is left out, if it is no contract.
    pub(super) fn left_out_problem(&self, folder: &Path) -> Option<Problem> {
        let Diagnostic { message, help, .. } = self.diagnostics.first().filter(|_| self.is_left_out())?;
        let problem = Problem::note(folder.join(self.file_name), Severity::Warning, message);
        Some(match help {
            Some(help) => problem.with_help(help),
            None => problem,
        })
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
