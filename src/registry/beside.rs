//! The contract beside a `SKILL.md`, read where the listing of its folder showed one.

use std::io::{self, Read};

use super::door::Opened;
use super::shipped::Shipped;
use crate::skill::contract::{CONTRACT_FILES, MAX_CONTRACT, ParsedContract, load_beside};
use crate::skill::{Contract, Diagnostic, Manifest};

/// A contract as discovery found it.
#[derive(Clone, Debug)]
pub(super) struct Beside {
    /// What the file is called.
    pub(super) file: &'static str,
    /// The contract; there exactly when the skill may run by it.
    pub(super) contract: Option<Contract>,
    pub(super) diagnostics: Vec<Diagnostic>,
}

/// The contract in an open folder, whose listing showed which of the names are there.
pub(super) fn on_disk(
    folder: &Opened,
    present: [bool; CONTRACT_FILES.len()],
    manifest: &Manifest,
) -> Option<Beside> {
    let file = CONTRACT_FILES[present.iter().position(|is_there| *is_there)?];
    if present.iter().all(|is_there| *is_there) {
        return Some(Beside::of(file, ParsedContract::twice()));
    }
    let parsed = match folder.file(file).and_then(capped) {
        Ok(source) => load_beside(&source, manifest),
        Err(error) => ParsedContract::unreadable(error),
    };
    Some(Beside::of(file, parsed))
}

/// The contract of a skill inside the binary.
pub(super) fn shipped(skill: &Shipped, manifest: &Manifest) -> Option<Beside> {
    let file = CONTRACT_FILES[0];
    Some(Beside::of(file, load_beside(skill.file(file)?, manifest)))
}

impl Beside {
    fn of(file: &'static str, ParsedContract { contract, diagnostics }: ParsedContract) -> Self {
        Self { file, contract, diagnostics }
    }

    /// What keeps the skill from running.
    pub(super) fn cause(&self) -> Option<&Diagnostic> {
        self.diagnostics.iter().find(|diagnostic| diagnostic.blocks)
    }
}

/// The file, or one byte more of it than a contract may have.
fn capped(file: impl Read) -> io::Result<Vec<u8>> {
    let mut source = Vec::new();
    file.take(MAX_CONTRACT as u64 + 1).read_to_end(&mut source)?;
    Ok(source)
}
