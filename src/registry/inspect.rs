//! Inspects one folder: its skill, and its subfolders.

use std::ffi::OsStr;
use std::io;
use std::ops::ControlFlow;
use std::path::PathBuf;

use super::problem::Problem;
use crate::error::{Result, SkillError};
use crate::registry::contract_file;
use crate::registry::contract_file::ContractFile;
use crate::registry::frontmatter_reader;
use crate::registry::skill_dir::{DirEntryKind, SkillDir};
use crate::skill::contract::CONTRACT_FILES;
use crate::skill::{LoadedSkill, Severity, SkillLocation, load};

/// Maximum number of entries of one folder; the rest is ignored.
const MAX_ENTRIES: usize = 100_000;

/// The accepted file names; the first that exists counts.
const SKILL_FILE_NAMES: [&str; 3] = ["SKILL.md", "skill.md", "Skill.md"];
/// Folders that hold third-party files; folders that begin with a dot are skipped as well.
const SKIPPED_FOLDERS: [&str; 2] = ["node_modules", "target"];

/// A folder to inspect.
#[derive(Debug)]
pub(super) struct FolderCandidate {
    /// The path by which it was reached.
    pub(super) path: PathBuf,
    /// The path with links resolved; if the folder is a link itself, its target is not resolved yet.
    pub(super) real_path: PathBuf,
    pub(super) is_link: bool,
}

/// The result of an inspection.
#[derive(Default)]
pub(super) struct Inspection {
    pub(super) skill_file: Option<SkillFile>,
    pub(super) subfolders: Vec<FolderCandidate>,
    pub(super) entry_count: usize,
    pub(super) problems: Vec<Problem>,
}

/// The frontmatter of a `SKILL.md`, or why it could not be read.
pub(super) struct SkillFile {
    pub(super) file_name: &'static str,
    pub(super) parsed: Result<LoadedSkill>,
    pub(super) contract_file: Option<ContractFile>,
}

/// Inspects a folder. Nothing that is wrong with it or below it makes this fail.
pub(super) fn inspect_folder(spot: &FolderCandidate) -> Inspection {
    let mut looked = Inspection::default();
    let opened = SkillDir::open(&spot.path);
    if let Err(error) = opened.and_then(|folder| looked.read_entries(folder, spot)) {
        looked.problems.extend(unreadable_folder_problem(spot, error));
    }
    looked
}

impl Inspection {
    fn read_entries(&mut self, mut folder: SkillDir, spot: &FolderCandidate) -> io::Result<()> {
        let (mut file, mut contracts) = (None, [false; CONTRACT_FILES.len()]);
        let mut misnamed = None;
        folder.for_each_entry(&mut |name, kind| {
            self.entry_count += 1;
            if self.entry_count > MAX_ENTRIES {
                let message = format!("it holds more than {MAX_ENTRIES} names; the rest was not looked at");
                self.problems.push(Problem::skipped_entry(&spot.path, Severity::Warning, message));
                return ControlFlow::Break(());
            }
            let spelling = SKILL_FILE_NAMES.iter().position(|known| name == *known);
            if spelling.is_some() {
                file = file.min(spelling).or(spelling);
            } else if let Some(at) = CONTRACT_FILES.iter().position(|known| name == *known) {
                contracts[at] = true;
            } else if CONTRACT_FILES.iter().any(|known| name.eq_ignore_ascii_case(known)) {
                misnamed = misnamed.take().or_else(|| Some(spot.path.join(name)));
            } else if kind != DirEntryKind::Other && !is_skipped(name) {
                let (path, real) = (spot.path.join(name), spot.real_path.join(name));
                self.subfolders.push(FolderCandidate {
                    path,
                    real_path: real,
                    is_link: kind == DirEntryKind::Symlink,
                });
            }
            ControlFlow::Continue(())
        })?;
        self.subfolders.sort_unstable_by(|a, b| a.path.as_os_str().cmp(b.path.as_os_str()));
        self.problems.extend(misnamed.filter(|_| file.is_some()).map(misnamed_contract_problem));
        self.skill_file =
            file.map(|spelling| read_skill_file(&folder, spot, SKILL_FILE_NAMES[spelling], contracts));
        Ok(())
    }
}

fn read_skill_file(
    folder: &SkillDir,
    spot: &FolderCandidate,
    file: &'static str,
    contracts: [bool; CONTRACT_FILES.len()],
) -> SkillFile {
    let directory = spot.path.file_name().unwrap_or_default().to_string_lossy();
    let head = folder.open_file(file).and_then(frontmatter_reader::read_frontmatter);
    let parsed = head.map(|head| load(&head, SkillLocation { directory: &directory, file_name: file }));
    let manifest = parsed.as_ref().ok().and_then(|loaded| loaded.manifest.as_ref());
    let beside = manifest.and_then(|manifest| contract_file::read_contract(folder, contracts, manifest));
    SkillFile {
        file_name: file,
        parsed: parsed.map_err(|error| SkillError::io("it cannot be read", error)),
        contract_file: beside,
    }
}

/// The skill runs, but without a contract.
fn misnamed_contract_problem(path: PathBuf) -> Problem {
    let [known, _] = CONTRACT_FILES;
    Problem::note(path, Severity::Warning, format!("it is not read: a contract is called {known}"))
        .with_help(format!("rename it to {known}"))
}

fn is_skipped(name: &OsStr) -> bool {
    name.as_encoded_bytes().starts_with(b".") || SKIPPED_FOLDERS.iter().any(|passed| name == *passed)
}

fn unreadable_folder_problem(spot: &FolderCandidate, error: io::Error) -> Option<Problem> {
    // A link to a file contains no skills, which is not a problem.
    if spot.is_link && error.kind() == io::ErrorKind::NotADirectory {
        return None;
    }
    let message = SkillError::io("failed to look for skills", error).to_string();
    Some(Problem::skipped_entry(&spot.path, Severity::Warning, message))
}
