//! One root after the other, level by level: what lies near is found before any cap is reached, and in the same order
//! every time.

use std::collections::{BTreeSet, HashSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::beside;
use super::broken::Broken;
use super::folder::Folder;
use super::look::{Spot, Text, look};
use super::origin::{Address, Origin};
use super::problem::Problem;
use super::root::Root;
use super::shipped::SHIPPED;
use super::side_by_side;
use super::skill::Skill;
use crate::error::SkillError;
use crate::skill::{Place, Severity, load};

/// How deep below a root a skill may lie.
const DEEPEST: usize = 6;
/// Folders of one root that are looked into.
const MOST_FOLDERS: usize = 50_000;
/// Names the folders of one root may hold together before no further level is looked into.
const MOST_NAMES: usize = 1_000_000;

/// What was found so far.
#[derive(Default)]
pub(super) struct Scan {
    pub(super) skills: Vec<Skill>,
    pub(super) broken: Vec<Broken>,
    pub(super) problems: Vec<Problem>,
    /// Where links led that skills were found below.
    pub(super) linked: BTreeSet<PathBuf>,
    /// Where links led.
    targets: HashSet<PathBuf>,
    /// Folders looked into, without links: however many ways lead to one, it counts once.
    seen: HashSet<PathBuf>,
}

impl Scan {
    /// Adds what lies below a root.
    pub(super) fn search(&mut self, root: &Root, rank: usize) {
        let start = match std::fs::canonicalize(&root.place) {
            Ok(real) => Spot { path: root.place.clone(), real, is_link: false },
            Err(error) => return self.note_unreachable(&root.place, error),
        };
        let origin = Arc::new(Origin::of(root, rank));
        let (mut level, mut folders, mut names) = (vec![start], 0, 0);
        for _ in 0..=DEEPEST {
            level = self.unseen(level);
            let space = if names > MOST_NAMES { 0 } else { MOST_FOLDERS - folders };
            self.shorten(&mut level, space, root);
            folders += level.len();
            let looked = side_by_side::map(&level, look);
            let mut below = Vec::new();
            for (spot, looked) in level.into_iter().zip(looked) {
                names += looked.names;
                self.problems.extend(looked.problems);
                below.extend(looked.folders);
                if let Some(text) = looked.text {
                    let target = spot.real.ancestors().find(|above| self.targets.contains(*above));
                    self.linked.extend(target.map(Path::to_owned));
                    self.add(&origin, Folder::Disk(spot.path), text);
                }
            }
            level = below;
        }
        if let Some(first) = level.first() {
            let message =
                format!("{} folders lie more than {DEEPEST} deep and were not searched", level.len());
            self.problems.push(Problem::skipped(&first.path, Severity::Info, message));
        }
    }

    /// Adds the skills inside the binary.
    pub(super) fn unpack(&mut self, rank: usize) {
        let origin = Arc::new(Origin::shipped(rank));
        for shipped in SHIPPED {
            let file = "SKILL.md";
            let place = Place { directory: shipped.name, file };
            let parsed = load(shipped.file(file).unwrap_or_default(), place);
            let beside = parsed.manifest.as_ref().and_then(|manifest| beside::shipped(shipped, manifest));
            self.add(&origin, Folder::Shipped(shipped), Text { file, parsed: Ok(parsed), beside });
        }
    }

    /// The folders no way has led to yet; those that are no links themselves come first, so that they keep their own path.
    fn unseen(&mut self, level: Vec<Spot>) -> Vec<Spot> {
        let (links, mut unseen): (Vec<_>, Vec<_>) = level.into_iter().partition(|spot| spot.is_link);
        unseen.retain(|spot| self.seen.insert(spot.real.clone()));
        let targets = side_by_side::map(&links, |link| std::fs::canonicalize(&link.path));
        for (link, target) in links.into_iter().zip(targets) {
            match target {
                Ok(target) if link.real.starts_with(&target) => {
                    let message = "the link leads back to a folder it lies in; it was not followed";
                    self.problems.push(Problem::skipped(link.path, Severity::Warning, message));
                }
                Ok(target) if self.seen.insert(target.clone()) => {
                    self.targets.insert(target.clone());
                    unseen.push(Spot { real: target, ..link });
                }
                Ok(_) => {}
                Err(error) => {
                    let message = SkillError::io("the link cannot be followed", error).to_string();
                    self.problems.push(Problem::skipped(link.path, Severity::Warning, message));
                }
            }
        }
        unseen
    }

    /// Takes the folders away for which there is no room, and says so.
    fn shorten(&mut self, level: &mut Vec<Spot>, space: usize, root: &Root) {
        if level.len() > space {
            let left_out = level.len() - space;
            let message = format!(
                "too much lies below it (at most {MOST_FOLDERS} folders and {MOST_NAMES} names are looked at); \
                 {left_out} folders and what they hold were not searched"
            );
            self.problems.push(Problem::skipped(&root.place, Severity::Warning, message));
            level.truncate(space);
        }
    }

    fn add(&mut self, origin: &Arc<Origin>, folder: Folder, Text { file, parsed, beside }: Text) {
        let address = Address { origin: origin.clone(), folder, file };
        let broken = match parsed {
            Ok(parsed) => match parsed.manifest {
                Some(manifest) => {
                    let skill = Skill::new(address, manifest, parsed.diagnostics, beside);
                    self.problems.extend(skill.contract_problem());
                    return self.skills.push(skill);
                }
                None => Broken::text(address, parsed.diagnostics),
            },
            Err(error) => Broken::file(address, &error),
        };
        self.problems.push(broken.problem.clone());
        self.broken.push(broken);
    }

    /// A root that does not exist is no problem; one that is a link to nothing, or behind a locked door, is.
    fn note_unreachable(&mut self, root: &Path, error: io::Error) {
        if error.kind() == io::ErrorKind::NotFound && std::fs::symlink_metadata(root).is_err() {
            return;
        }
        let message = SkillError::io("failed to look for skills", error).to_string();
        self.problems.push(Problem::skipped(root, Severity::Warning, message));
    }
}
