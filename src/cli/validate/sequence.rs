//! The sequence of a skill, read and checked as far as that goes without knowing what there is to call.

use std::path::Path;

use cap_std::fs::Dir;
use metier::skill::Diagnostic;
use serde::Serialize;

use super::rule;
use super::skill_file;

const FILE: &str = "scripts/sequence.json";

/// The answer for one sequence, as it is in JSON.
#[derive(Serialize)]
pub struct CheckedSequence {
    /// The file in the skill's folder.
    pub file: String,
    /// What is wrong: all of it keeps the skill from running.
    pub diagnostics: Vec<Diagnostic>,
    /// Where it lies.
    #[serde(skip)]
    pub path: String,
    /// Its text; empty where there is none.
    #[serde(skip)]
    pub text: String,
}

impl CheckedSequence {
    /// The sequence in a folder, where there is one.
    pub fn of(folder: &Path, dir: &Dir) -> Option<Self> {
        dir.symlink_metadata(FILE).ok()?;
        let path = folder.join(FILE).display().to_string();
        let (text, diagnostics) = match skill_file::read(dir, FILE) {
            Ok(read) => {
                (read.bytes.utf8_chunks().next().map_or("", |chunk| chunk.valid()).to_owned(), found(&read))
            }
            Err(error) => {
                let message = format!("failed to read {FILE}: {error}");
                (String::new(), vec![Diagnostic::new(&rule::UNREADABLE, "", &(0..0), message)])
            }
        };
        Some(Self { file: FILE.to_owned(), diagnostics, path, text })
    }
}

fn found(read: &skill_file::SkillFile) -> Vec<Diagnostic> {
    if read.is_cut {
        let message =
            format!("{FILE} is larger than {} KiB, and is not checked", skill_file::MAX_BYTES / 1024);
        return vec![Diagnostic::new(&rule::SKILL_FILE_LARGE, "", &(0..0), message)];
    }
    metier::plan::diagnostics(&read.bytes, FILE, None)
}
