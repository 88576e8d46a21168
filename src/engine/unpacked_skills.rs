//! Skills inside the program, unpacked to disk when one of their scripts needs files around it.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use crate::error::{Result, SkillError};
use crate::host::files::path_below;
use crate::host::temp_dirs::PrivateTempDir;
use crate::registry::{EmbeddedSkill, SkillFolder};

/// Folders unpacked so far, by the addresses of their skills: two roots may have skills of one name. Removed with the engine.
#[derive(Default)]
pub(super) struct UnpackedSkills(Mutex<HashMap<usize, PrivateTempDir>>);

impl UnpackedSkills {
    /// The skill's folder on disk; a skill inside the program is unpacked first.
    pub(super) fn disk_folder(&self, folder: &SkillFolder) -> Result<PathBuf> {
        match folder {
            SkillFolder::Disk(path) => Ok(path.clone()),
            SkillFolder::Embedded(skill) => self.get_or_unpack(skill),
        }
    }

    /// Whether `path` is the skill's folder, or the folder it was unpacked to.
    pub(super) fn is_located_at(&self, folder: &SkillFolder, path: &Path) -> bool {
        match folder {
            SkillFolder::Disk(own) => own == path,
            SkillFolder::Embedded(skill) => {
                let folders = self.0.lock().unwrap_or_else(PoisonError::into_inner);
                folders.get(&address(skill)).is_some_and(|folder| folder.path() == path)
            }
        }
    }

    fn get_or_unpack(&self, skill: &'static EmbeddedSkill) -> Result<PathBuf> {
        let mut folders = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(folder) = folders.get(&address(skill)) {
            return Ok(folder.path().to_owned());
        }
        let folder = unpack(skill)?;
        let path = folder.path().to_owned();
        folders.insert(address(skill), folder);
        Ok(path)
    }
}

fn address(skill: &'static EmbeddedSkill) -> usize {
    std::ptr::from_ref(skill).addr()
}

fn unpack(skill: &EmbeddedSkill) -> Result<PrivateTempDir> {
    let failed = |source| SkillError::io(format_args!("failed to unpack skill {}", skill.name()), source);
    let folder = PrivateTempDir::outside(&[]).map_err(failed)?;
    for (path, content) in skill.files() {
        let target = folder.path().join(path_below(path, None, "the skill")?);
        let parent = target.parent().map_or(Ok(()), std::fs::create_dir_all);
        parent.and_then(|()| std::fs::write(&target, content)).map_err(failed)?;
    }
    Ok(folder)
}
