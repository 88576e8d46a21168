//! Inspects one folder: its skill, its subfolders, and the scripts in it; or a script that is a skill by itself.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use super::problem::Problem;
use crate::registry::contract_file;
use crate::registry::contract_file::{ContractFile, PresentContracts};
use crate::registry::drop_in;
use crate::registry::file_names::{SCRIPT_EXTENSIONS, SKILL_FILE_NAMES, drop_in_name};
use crate::registry::fingerprint::{DefinitionStats, Fingerprint};
use crate::registry::frontmatter_reader;
use crate::registry::skill_dir::SkillDir;
use metier_core::error::{Result, SkillError};
use metier_core::host::file_stat::{FileStat, now};
use metier_core::host::files::EntryKind;
use metier_core::host::outward_link::{open_linked_skill_file, outward_link_error};
use metier_skill::Manifest;
use metier_skill::contract::CONTRACT_FILES;
use metier_skill::inline_metadata::{InlineMetadata, MAX_HEAD, undescribed_diagnostic};
use metier_skill::{LoadedSkill, Severity, SkillLocation, load};

/// Maximum number of entries of one folder; the rest is ignored.
const MAX_ENTRIES: usize = 100_000;

/// The folder of a skill's scripts.
const SCRIPTS_FOLDER: &str = "scripts";
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
    /// Whether it is a root. That may be a folder of anything, in which a file that is called like a definition means something else.
    pub(super) is_root: bool,
    /// Whether a folder around it is a skill: then such a file is one of that skill.
    pub(super) is_in_skill: bool,
}

/// The result of an inspection.
#[derive(Default)]
pub(super) struct Inspection {
    pub(super) skill_file: Option<SkillFile>,
    /// Without a `SKILL.md` and a definition: the name of a file or folder by which this was probably meant to be a skill.
    pub(super) skill_sign: Option<String>,
    /// The files that are skills by themselves if the folder is a root: their names.
    pub(super) scripts: Vec<String>,
    pub(super) subfolders: Vec<FolderCandidate>,
    pub(super) entry_count: usize,
    pub(super) problems: Vec<Problem>,
}

/// The frontmatter of a `SKILL.md` or a definition without one, or why it could not be read.
pub(super) struct SkillFile {
    pub(super) file_name: &'static str,
    pub(super) parsed: Result<LoadedSkill>,
    pub(super) contract_file: Option<ContractFile>,
    /// Why a file that is called like a contract is left out.
    pub(super) left_out: Option<Problem>,
    /// By which an edit is recognised; `None` inside the program.
    pub(super) fingerprint: Option<Fingerprint>,
}

impl SkillFile {
    /// Whether its frontmatter names a runtime: then the skill is a script.
    fn declares_runtime(&self) -> bool {
        let manifest = self.parsed.as_ref().ok().and_then(|loaded| loaded.manifest.as_ref());
        manifest.is_some_and(|manifest| manifest.runtime.is_some())
    }
}

impl FolderCandidate {
    /// A folder that was found before.
    pub(super) fn new(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
            real_path: path.to_owned(),
            is_link: false,
            is_root: false,
            is_in_skill: false,
        }
    }
}

/// Inspects a folder. Nothing that is wrong with it or below it makes this fail.
pub(super) fn inspect_folder(candidate: &FolderCandidate) -> Inspection {
    let mut inspection = Inspection::default();
    let opened = SkillDir::open(&candidate.path);
    if let Err(error) = opened.and_then(|folder| inspection.read_entries(folder, candidate)) {
        inspection.problems.extend(unreadable_folder_problem(candidate, error));
    }
    inspection
}

impl Inspection {
    fn read_entries(&mut self, mut folder: SkillDir, candidate: &FolderCandidate) -> io::Result<()> {
        let (mut file, mut contracts) = (None, [false; CONTRACT_FILES.len()]);
        let mut misnamed = None;
        let mut sign: Option<(u8, OsString)> = None;
        folder.for_each_entry(&mut |name, kind| {
            self.entry_count += 1;
            if self.entry_count > MAX_ENTRIES {
                let message = format!("it holds more than {MAX_ENTRIES} names; the rest was not looked at");
                self.problems.push(Problem::skipped_entry(&candidate.path, Severity::Warning, message));
                return ControlFlow::Break(());
            }
            if let Some(clarity) = sign_of_skill(name, kind)
                && sign.as_ref().is_none_or(|(best, known)| (*best, known.as_os_str()) < (clarity, name))
            {
                sign = Some((clarity, name.to_owned()));
            }
            if kind != EntryKind::Dir
                && let Some(script) = name.to_str().filter(|name| drop_in_name(name).is_some())
            {
                self.scripts.push(script.to_owned());
            }
            let spelling = SKILL_FILE_NAMES.iter().position(|known| name == *known);
            if spelling.is_some() {
                file = file.min(spelling).or(spelling);
            } else if let Some(at) = CONTRACT_FILES.iter().position(|known| name == *known) {
                contracts[at] = true;
            } else if CONTRACT_FILES.iter().any(|known| name.eq_ignore_ascii_case(known)) {
                misnamed = misnamed.take().or_else(|| Some(candidate.path.join(name)));
            } else if matches!(kind, EntryKind::Dir | EntryKind::Symlink) && !is_skipped(name) {
                let (path, real) = (candidate.path.join(name), candidate.real_path.join(name));
                self.subfolders.push(FolderCandidate {
                    path,
                    real_path: real,
                    is_link: kind == EntryKind::Symlink,
                    is_root: false,
                    is_in_skill: candidate.is_in_skill,
                });
            }
            ControlFlow::Continue(())
        })?;
        self.subfolders.sort_unstable_by(|a, b| a.path.as_os_str().cmp(b.path.as_os_str()));
        self.problems.extend(misnamed.filter(|_| file.is_some()).map(misnamed_contract_problem));
        self.skill_sign =
            sign.filter(|_| file.is_none()).map(|(_, name)| name.to_string_lossy().into_owned());
        self.scripts.sort_unstable();
        let definition = contract_file::contract_name(contracts);
        let definition = definition.filter(|_| !candidate.is_root && !candidate.is_in_skill);
        self.skill_file = match (file, definition) {
            (Some(spelling), _) => {
                Some(read_skill_file(&folder, candidate, SKILL_FILE_NAMES[spelling], contracts))
            }
            (None, Some(name)) => Some(read_definition(&folder, candidate, name, contracts)),
            (None, None) => None,
        };
        if let Some(found) = &mut self.skill_file {
            self.problems.extend(found.left_out.take());
            self.skill_sign = None;
            self.subfolders.iter_mut().for_each(|subfolder| subfolder.is_in_skill = true);
            if found.declares_runtime() && !candidate.is_root {
                // Its folders hold its scripts and what they read, and no other skills.
                self.subfolders.clear();
            }
        }
        Ok(())
    }
}

/// How clearly an entry shows that its folder was meant to be a skill; `None` if it does not.
fn sign_of_skill(name: &OsStr, kind: EntryKind) -> Option<u8> {
    let name = name.to_str()?;
    let is_file = kind != EntryKind::Dir;
    let has_script_extension =
        || name.rsplit_once('.').is_some_and(|(_, extension)| SCRIPT_EXTENSIONS.contains(&extension));
    match name {
        // One of the spellings that are read is not a sign: then the folder is a skill.
        name if name.eq_ignore_ascii_case(SKILL_FILE_NAMES[0]) && is_file => Some(4),
        SCRIPTS_FOLDER if matches!(kind, EntryKind::Dir | EntryKind::Symlink) => Some(1),
        _ => (is_file && has_script_extension()).then_some(0),
    }
}

fn read_skill_file(
    folder: &SkillDir,
    candidate: &FolderCandidate,
    file: &'static str,
    contracts: PresentContracts,
) -> SkillFile {
    let directory = candidate.path.file_name().unwrap_or_default().to_string_lossy();
    // The clock and the stats come before what they describe: a later edit changes them.
    let began = now();
    let folder_stat = folder.stat().ok();
    let mut stats = DefinitionStats { folder: folder_stat, file: None, contract: None };
    let (mut head, mut contract) = (Vec::new(), Vec::new());
    let read = read_with_stat(folder, file, frontmatter_reader::read_frontmatter).or_else(|error| {
        let linked = open_linked_skill_file(&candidate.path, file).ok_or(error)?;
        let stat = FileStat::of_open(&linked)?;
        Ok((frontmatter_reader::read_frontmatter(linked)?, stat))
    });
    let parsed = match read {
        Ok((read, stat)) => {
            (head, stats.file) = (read, Some(stat));
            Ok(load(&head, SkillLocation { directory: &directory, file_name: file }))
        }
        Err(error) => {
            stats.file = FileStat::at_path(&candidate.path.join(file));
            Err(unreadable_error(candidate, file, error))
        }
    };
    let manifest = parsed.as_ref().ok().and_then(|loaded| loaded.manifest.as_ref());
    let contract_name = contract_file::contract_name(contracts);
    let contract_file = manifest.zip(contract_name).map(|(manifest, name)| {
        let source = read_with_stat(folder, name, contract_file::read_capped).map(|(read, stat)| {
            (contract, stats.contract) = (read, Some(stat));
            &contract[..]
        });
        let source = source.map_err(|error| named_link_error(candidate, name).unwrap_or(error));
        contract_file::parse_contract(name, source, contracts, manifest)
    });
    let left_out = contract_file.as_ref().and_then(|found| found.left_out_problem(&candidate.path));
    let contract_file = contract_file.filter(|_| left_out.is_none());
    let contract_file = contract_file.or_else(|| contract_file::frontmatter_contract(file, &head, manifest?));
    let fingerprint = Some(Fingerprint::new(began, stats, contract_name, &[&head, &contract]));
    SkillFile { file_name: file, parsed, contract_file, left_out, fingerprint }
}

/// Reads a definition without a `SKILL.md`.
fn read_definition(
    folder: &SkillDir,
    candidate: &FolderCandidate,
    file_name: &'static str,
    contracts: PresentContracts,
) -> SkillFile {
    let directory = candidate.path.file_name().unwrap_or_default().to_string_lossy();
    let (began, folder_stat) = (now(), folder.stat().ok());
    let mut stats = DefinitionStats { folder: folder_stat, file: None, contract: None };
    let mut source = Vec::new();
    let read = read_with_stat(folder, file_name, contract_file::read_capped).map(|(read, stat)| {
        (source, stats.file) = (read, Some(stat));
        contract_file::parse_definition(file_name, &source, contracts, &directory)
    });
    let (parsed, contract_file) = match read {
        Ok((loaded, contract_file)) => (Ok(loaded), Some(contract_file)),
        Err(error) => {
            stats.file = FileStat::at_path(&candidate.path.join(file_name));
            (Err(unreadable_error(candidate, file_name, error)), None)
        }
    };
    let fingerprint = Some(Fingerprint::new(began, stats, None, &[&source]));
    SkillFile { file_name, parsed, contract_file, left_out: None, fingerprint }
}

/// Reads the definition of the skill that a script in a root is.
pub(super) fn inspect_script(path: &Path) -> SkillFile {
    let (began, [file_name, ..]) = (now(), SKILL_FILE_NAMES);
    let read = || {
        let (file, stat) = SkillDir::open(drop_in::parent(path))?.open_file(drop_in::name(path))?;
        let mut head = Vec::new();
        file.take(MAX_HEAD as u64).read_to_end(&mut head)?;
        Ok((head, stat))
    };
    let (head, stat) = match read() {
        Ok(read) => read,
        Err(error) => {
            let parsed = Err(SkillError::io("it cannot be read", error));
            return SkillFile { file_name, parsed, contract_file: None, left_out: None, fingerprint: None };
        }
    };
    let metadata = InlineMetadata::parse(drop_in::extension(path), &head);
    let skill_text = drop_in::skill_text(path, &metadata);
    let directory = drop_in_name(drop_in::name(path)).unwrap_or_default();
    let mut loaded = load(skill_text.as_bytes(), SkillLocation { directory, file_name });
    for diagnostic in &mut loaded.diagnostics {
        // They are about the name of the file.
        (diagnostic.line, diagnostic.column, diagnostic.span) = (1, 1, 0..0);
    }
    if metadata.description.is_empty() {
        loaded.diagnostics.push(undescribed_diagnostic(drop_in::name(path)));
    }
    let contract_file =
        loaded.manifest.as_ref().and_then(|manifest| parse_inline_contract(metadata.contract, manifest));
    let stats = DefinitionStats { folder: None, file: Some(stat), contract: None };
    let fingerprint = Some(Fingerprint::new(began, stats, None, &[&head]));
    SkillFile { file_name, parsed: Ok::<LoadedSkill, _>(loaded), contract_file, left_out: None, fingerprint }
}

fn parse_inline_contract(
    contract: Option<std::result::Result<String, &'static str>>,
    manifest: &Manifest,
) -> Option<ContractFile> {
    let contract = contract?.map_err(std::io::Error::other);
    let source =
        contract.as_ref().map(String::as_bytes).map_err(|error| std::io::Error::other(error.to_string()));
    let [name, ..] = CONTRACT_FILES;
    let present = CONTRACT_FILES.map(|file| file == name);
    Some(contract_file::parse_contract(name, source, present, manifest))
}

/// A file, and its stat from before it was read.
fn read_with_stat(
    folder: &SkillDir,
    name: &str,
    read: impl FnOnce(File) -> io::Result<Vec<u8>>,
) -> io::Result<(Vec<u8>, FileStat)> {
    let (file, stat) = folder.open_file(name)?;
    Ok((read(file)?, stat))
}

/// Why a file that defines a skill cannot be read.
fn unreadable_error(candidate: &FolderCandidate, name: &str, error: io::Error) -> SkillError {
    outward_link_error(&candidate.path, name).unwrap_or_else(|| SkillError::io("it cannot be read", error))
}

fn named_link_error(candidate: &FolderCandidate, name: &str) -> Option<io::Error> {
    Some(io::Error::other(outward_link_error(&candidate.path, name)?.message().to_owned()))
}

/// The skill runs, but without a contract.
fn misnamed_contract_problem(path: PathBuf) -> Problem {
    let is_meant = |known: &&str| path.file_name().is_some_and(|name| name.eq_ignore_ascii_case(known));
    let known = CONTRACT_FILES.into_iter().find(is_meant).unwrap_or(CONTRACT_FILES[0]);
    Problem::note(path, Severity::Warning, format!("it is not read: a contract is called {known}"))
        .with_help(format!("rename it to {known}"))
}

fn is_skipped(name: &OsStr) -> bool {
    name.as_encoded_bytes().starts_with(b".") || SKIPPED_FOLDERS.iter().any(|passed| name == *passed)
}

fn unreadable_folder_problem(candidate: &FolderCandidate, error: io::Error) -> Option<Problem> {
    // A link to a file contains no skills, which is not a problem.
    if candidate.is_link && error.kind() == io::ErrorKind::NotADirectory {
        return None;
    }
    let message = SkillError::io("failed to look for skills", error).to_string();
    Some(Problem::skipped_entry(&candidate.path, Severity::Warning, message))
}
