//! Scans one root after the other, level by level: near folders are found before any cap is reached, and the order is always
//! the same.

use std::collections::{BTreeSet, HashSet};
use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::broken::BrokenSkill;
use super::origin::{RootOrigin, SkillAddress};
use super::problem::Problem;
use super::root::Root;
use super::skill::Skill;
use super::unloaded::UnloadedSkill;
use crate::registry::contract_file;
use crate::registry::definition::{Definition, DefinitionContent};
use crate::registry::drop_in;
use crate::registry::embedded::EmbeddedRoot;
use crate::registry::file_names::{SKILL_FILE_NAMES, drop_in_name};
use crate::registry::fingerprint::Fingerprint;
use crate::registry::inspect::{FolderCandidate, SkillFile, inspect_folder, inspect_script};
use crate::registry::parallel;
use crate::registry::skill_folder::SkillFolder;
use metier_core::error::SkillError;
use metier_core::host::canonical_folder::canonical_folder;
use metier_skill::{Severity, SkillLocation, load};

/// Maximum depth of a skill below a root.
const MAX_DEPTH: usize = 6;
/// Maximum number of folders inspected in one root.
const MAX_FOLDERS: usize = 50_000;
/// Maximum number of entries in all folders of one root; beyond it no further level is inspected.
const MAX_ENTRIES: usize = 1_000_000;

/// The results of a scan so far.
#[derive(Default)]
pub(super) struct Scan {
    pub(super) skills: Vec<Skill>,
    pub(super) broken: Vec<BrokenSkill>,
    pub(super) problems: Vec<Problem>,
    /// Where a skill may appear that does not load now.
    pub(super) unloaded: Vec<UnloadedSkill>,
    /// Targets of links below which skills were found.
    pub(super) linked_folders: BTreeSet<PathBuf>,
    /// Targets of links.
    pub(super) link_targets: HashSet<PathBuf>,
    /// Inspected folders, with links resolved: a folder counts once, however many paths lead to it.
    pub(super) visited_folders: HashSet<PathBuf>,
}

impl Scan {
    /// Adds the skills below a root.
    pub(super) fn scan_root(&mut self, root: &Root, rank: usize) {
        let start = match canonical_folder(&root.path) {
            Ok(real) => {
                FolderCandidate { real_path: real, is_root: true, ..FolderCandidate::new(&root.path) }
            }
            Err(error) => return self.report_unreachable(&root.path, error),
        };
        let origin = Arc::new(RootOrigin::from_root(root, rank));
        let (mut level, mut folders, mut names) = (vec![start], 0, 0);
        let (mut skill_folders, mut unfinished, mut scripts) = (Vec::new(), Vec::new(), Vec::new());
        for depth in 0..=MAX_DEPTH {
            level = self.skip_visited(level);
            let space = if names > MAX_ENTRIES { 0 } else { MAX_FOLDERS - folders };
            self.cap_level(&mut level, space, root);
            folders += level.len();
            let inspections = parallel::parallel_map(&level, inspect_folder);
            let mut below = Vec::new();
            for (candidate, inspection) in level.into_iter().zip(inspections) {
                names += inspection.entry_count;
                self.problems.extend(inspection.problems);
                below.extend(inspection.subfolders);
                if depth == 0 && inspection.skill_file.is_none() {
                    scripts = inspection.scripts;
                }
                if inspection.skill_file.is_some() {
                    skill_folders.push(candidate.path.clone());
                }
                if let Some(sign) = inspection.skill_sign.filter(|_| depth > 0) {
                    unfinished.push((candidate.path.clone(), sign));
                }
                if let Some(text) = inspection.skill_file {
                    let is_target = |above: &&Path| self.link_targets.contains(*above);
                    let has_links = !self.link_targets.is_empty();
                    let target = candidate.real_path.ancestors().filter(|_| has_links).find(is_target);
                    self.linked_folders.extend(target.map(Path::to_owned));
                    self.add_skill(&origin, SkillFolder::Disk(candidate.path), text);
                }
            }
            level = below;
        }
        self.add_scripts(&origin, scripts.into_iter().map(|script| root.path.join(script)));
        // Comparing the paths of all skills takes as long as a fifth of the search, and few roots need it.
        if !unfinished.is_empty() {
            self.add_unfinished_folders(&origin, skill_folders.into_iter().collect(), unfinished);
        }
        if let Some(first) = level.first() {
            let message =
                format!("{} folders lie more than {MAX_DEPTH} deep and were not searched", level.len());
            self.problems.push(Problem::skipped_entry(&first.path, Severity::Info, message));
        }
    }

    /// Adds the skill in one folder of a root, and looks no further. A folder that is gone has none.
    pub(super) fn scan_folder(&mut self, origin: &Arc<RootOrigin>, folder: &Path) {
        if !folder.exists() {
            return;
        }
        let inspection = inspect_folder(&FolderCandidate::new(folder));
        self.problems.extend(inspection.problems);
        if let Some(sign) = inspection.skill_sign.filter(|_| folder != origin.path) {
            let skills =
                self.skills.iter().filter_map(|skill| skill.folder().disk_path()).map(Path::to_owned);
            self.add_unfinished_folders(origin, skills.collect(), vec![(folder.to_owned(), sign)]);
        }
        if let Some(file) = inspection.skill_file {
            self.add_skill(origin, SkillFolder::Disk(folder.to_owned()), file);
        }
    }

    /// Adds the skill at this address as it is now, and looks no further.
    pub(super) fn scan_again(&mut self, address: &SkillAddress) {
        match &address.folder {
            SkillFolder::Script(script) if script.symlink_metadata().is_ok() => {
                self.add_scripts(&address.origin, std::iter::once(script.clone()));
            }
            SkillFolder::Disk(folder) => {
                let name = folder.file_name().and_then(OsStr::to_str).unwrap_or_default();
                let is_in_root = folder.parent() == Some(&address.origin.path);
                match drop_in::namesake(&address.origin.path, folder, name).filter(|_| is_in_root) {
                    Some(other) => {
                        self.add_namesake(&address.origin, SkillFolder::Disk(folder.clone()), name, &other);
                    }
                    None => self.scan_folder(&address.origin, folder),
                }
            }
            SkillFolder::Script(_) | SkillFolder::Embedded(_) => {}
        }
    }

    /// Adds scripts that are skills by themselves, unless another skill beside one has its name: then neither is a skill.
    fn add_scripts(&mut self, origin: &Arc<RootOrigin>, scripts: impl Iterator<Item = PathBuf>) {
        let namesakes: HashSet<PathBuf> =
            scripts.filter_map(|script| self.add_script(origin, script)).collect();
        if !namesakes.is_empty() {
            let is_namesake = |path: &Path| namesakes.contains(path);
            self.skills.retain(|skill| {
                skill.root_rank() != origin.rank || !skill.folder().disk_path().is_some_and(is_namesake)
            });
        }
    }

    /// Adds a script, or neither it nor the skill with its name, whose path is the answer.
    fn add_script(&mut self, origin: &Arc<RootOrigin>, script: PathBuf) -> Option<PathBuf> {
        let file_name = script.file_name().and_then(OsStr::to_str).unwrap_or_default();
        let name = drop_in_name(file_name)?.to_owned();
        let Some(other) = drop_in::namesake(&origin.path, &script, &name) else {
            let found = inspect_script(&script);
            self.add_skill(origin, SkillFolder::Script(script), found);
            return None;
        };
        if other.is_dir() {
            self.add_namesake(origin, SkillFolder::Disk(other.clone()), &name, &script);
        }
        self.add_namesake(origin, SkillFolder::Script(script), &name, &other);
        Some(other)
    }

    /// A skill that is not loaded because the other one has its name.
    fn add_namesake(&mut self, origin: &Arc<RootOrigin>, folder: SkillFolder, name: &str, other: &Path) {
        let [file_name, ..] = SKILL_FILE_NAMES;
        let address = SkillAddress { origin: origin.clone(), folder, file_name };
        let own = address.folder.disk_path().unwrap_or(other);
        let error = drop_in::namesake_error(name, [own, other]);
        let problem = Problem::skipped_entry(own, Severity::Error, error.message())
            .with_help(error.help().unwrap_or_default());
        self.problems.push(problem.clone());
        self.unloaded.push(UnloadedSkill::in_folder(&address, Fingerprint::without_definition(&address)));
        self.broken.push(BrokenSkill::new(address, problem));
    }

    /// Adds the skills of a root inside the program.
    pub(super) fn add_embedded(&mut self, root: &EmbeddedRoot, rank: usize) {
        let origin = Arc::new(RootOrigin::from_embedded(root, rank));
        for skill in root.skills {
            let file = "SKILL.md";
            if let Some(version) = skill.version().and_then(|version| version.parse().ok()) {
                let address = SkillAddress {
                    origin: origin.clone(),
                    folder: SkillFolder::Embedded(skill),
                    file_name: file,
                };
                self.skills.push(Skill::new(Definition::builtin(address, skill.name(), version)));
                continue;
            }
            let location = SkillLocation { directory: skill.name(), file_name: file };
            let parsed = load(skill.file(file).unwrap_or_default(), location);
            let contract_file = parsed
                .manifest
                .as_ref()
                .and_then(|manifest| contract_file::embedded_contract(skill, manifest));
            self.add_skill(
                &origin,
                SkillFolder::Embedded(skill),
                SkillFile {
                    file_name: file,
                    parsed: Ok(parsed),
                    contract_file,
                    left_out: None,
                    fingerprint: None,
                },
            );
        }
    }

    /// The folders not visited yet; those that are not links come first, so that they keep their own path.
    fn skip_visited(&mut self, level: Vec<FolderCandidate>) -> Vec<FolderCandidate> {
        let (links, mut unseen): (Vec<_>, Vec<_>) =
            level.into_iter().partition(|candidate| candidate.is_link);
        unseen.retain(|candidate| self.visited_folders.insert(candidate.real_path.clone()));
        let targets = parallel::parallel_map(&links, |link| std::fs::canonicalize(&link.path));
        for (link, target) in links.into_iter().zip(targets) {
            match target {
                Ok(target) if link.real_path.starts_with(&target) => {
                    let message = "the link leads back to a folder it lies in; it was not followed";
                    self.problems.push(Problem::skipped_entry(link.path, Severity::Warning, message));
                }
                Ok(target) if self.visited_folders.insert(target.clone()) => {
                    self.link_targets.insert(target.clone());
                    unseen.push(FolderCandidate { real_path: target, ..link });
                }
                Ok(_) => {}
                Err(error) => {
                    let message = SkillError::io("the link cannot be followed", error).to_string();
                    self.problems.push(Problem::skipped_entry(link.path, Severity::Warning, message));
                }
            }
        }
        unseen
    }

    /// Removes the folders beyond the cap, and reports it.
    fn cap_level(&mut self, level: &mut Vec<FolderCandidate>, space: usize, root: &Root) {
        if level.len() > space {
            let left_out = level.len() - space;
            let message = format!(
                "too much lies below it (at most {MAX_FOLDERS} folders and {MAX_ENTRIES} names are looked at); \
                 {left_out} folders and what they hold were not searched"
            );
            self.problems.push(Problem::skipped_entry(&root.path, Severity::Warning, message));
            level.truncate(space);
        }
    }

    fn add_skill(
        &mut self,
        origin: &Arc<RootOrigin>,
        folder: SkillFolder,
        SkillFile { file_name: file, parsed, contract_file, fingerprint, .. }: SkillFile,
    ) {
        let address = SkillAddress { origin: origin.clone(), folder, file_name: file };
        let broken = match parsed {
            Ok(parsed) => match parsed.manifest {
                Some(manifest) => {
                    let content = DefinitionContent::new(manifest, parsed.diagnostics, contract_file);
                    let skill = Skill::new(Definition::new(address, content, fingerprint));
                    self.problems.extend(skill.contract_problem());
                    return self.skills.push(skill);
                }
                None => BrokenSkill::from_diagnostics(address, parsed.diagnostics),
            },
            Err(error) => BrokenSkill::from_read_error(address, &error),
        };
        self.unloaded
            .extend(fingerprint.map(|fingerprint| UnloadedSkill::in_folder(&broken.address, fingerprint)));
        self.problems.push(broken.problem.clone());
        self.broken.push(broken);
    }

    /// Adds the folders with a sign of a skill that neither are part of a skill nor group skills.
    fn add_unfinished_folders(
        &mut self,
        origin: &Arc<RootOrigin>,
        mut skill_folders: BTreeSet<PathBuf>,
        unfinished: Vec<(PathBuf, String)>,
    ) {
        for (folder, sign) in unfinished {
            if !has_skill_around_or_below(&folder, &skill_folders) {
                skill_folders.insert(folder.clone());
                self.add_unfinished(origin, folder, &sign);
            }
        }
    }

    /// A folder that looks like a skill and has no `SKILL.md`.
    fn add_unfinished(&mut self, origin: &Arc<RootOrigin>, folder: PathBuf, sign: &str) {
        let [file_name, ..] = SKILL_FILE_NAMES;
        let message = format!("it has {sign}, but no {file_name}, so it is not a skill and no model sees it");
        let help = format!("add {} with a name and a description", folder.join(file_name).display());
        let problem = Problem::skipped_entry(&folder, Severity::Warning, message).with_help(help);
        let address = SkillAddress { origin: origin.clone(), folder: SkillFolder::Disk(folder), file_name };
        self.problems.push(problem.clone());
        let fingerprint = Fingerprint::without_definition(&address);
        self.unloaded.push(UnloadedSkill::in_folder(&address, fingerprint));
        self.broken.push(BrokenSkill::new(address, problem));
    }

    /// A root that does not exist is no problem; one that is a dangling link or cannot be accessed is.
    fn report_unreachable(&mut self, root: &Path, error: io::Error) {
        if error.kind() == io::ErrorKind::NotFound && std::fs::symlink_metadata(root).is_err() {
            return;
        }
        let message = SkillError::io("failed to look for skills", error).to_string();
        self.problems.push(Problem::skipped_entry(root, Severity::Warning, message));
    }
}

/// Whether a folder is part of a skill, or only groups skills.
fn has_skill_around_or_below(folder: &Path, skills: &BTreeSet<PathBuf>) -> bool {
    let is_below = skills.range(folder.to_owned()..).next().is_some_and(|skill| skill.starts_with(folder));
    is_below || folder.ancestors().any(|above| skills.contains(above))
}
