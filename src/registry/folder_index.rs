//! Finds the skill in a folder without comparing it with every skill.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use crate::registry::skill::Skill;
use crate::registry::skill_folder::SkillFolder;

/// For each folder on disk the position of its skill in the list for which this was made; read when it is first asked for.
#[derive(Clone, Debug, Default)]
pub(super) struct FolderIndex(OnceLock<HashMap<PathBuf, usize>>);

impl FolderIndex {
    /// The first of these skills with that folder; always of the same list.
    pub(super) fn skill_in<'a>(&self, skills: &'a [Skill], folder: &SkillFolder) -> Option<&'a Skill> {
        let is_meant = |skill: &&Skill| skill.folder() == folder;
        match folder.disk_path() {
            Some(path) => self.skill_at(skills, path).filter(is_meant),
            // A program has few skills inside.
            None => skills.iter().find(is_meant),
        }
    }

    /// The same for the folder, or the script, at that path.
    pub(super) fn skill_at<'a>(&self, skills: &'a [Skill], path: &Path) -> Option<&'a Skill> {
        let positions = self.0.get_or_init(|| positions(skills));
        skills.get(*positions.get(path)?)
    }
}

fn positions(skills: &[Skill]) -> HashMap<PathBuf, usize> {
    let mut positions = HashMap::with_capacity(skills.len());
    for (position, skill) in skills.iter().enumerate() {
        if let Some(path) = skill.folder().disk_path() {
            positions.entry(path.to_owned()).or_insert(position);
        }
    }
    positions
}
