//! Builtin skills, unpacked to disk when one of their scripts needs files around it.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use crate::error::{Result, SkillError};
use crate::host::temp_dirs::PrivateTempDir;
use crate::registry::{BuiltinSkill, SkillFolder};

/// Folders unpacked so far; removed with the engine.
#[derive(Default)]
pub(super) struct UnpackedSkills(Mutex<HashMap<&'static str, PrivateTempDir>>);

impl UnpackedSkills {
    /// The skill's folder on disk; a builtin skill is unpacked first.
    pub(super) fn disk_folder(&self, folder: &SkillFolder) -> Result<PathBuf> {
        match folder {
            SkillFolder::Disk(path) => Ok(path.clone()),
            SkillFolder::Builtin(builtin) => self.get_or_unpack(builtin),
        }
    }

    /// Whether `path` is the skill's folder, or the folder it was unpacked to.
    pub(super) fn is_located_at(&self, folder: &SkillFolder, path: &Path) -> bool {
        match folder {
            SkillFolder::Disk(own) => own == path,
            SkillFolder::Builtin(builtin) => {
                let folders = self.0.lock().unwrap_or_else(PoisonError::into_inner);
                folders.get(builtin.name).is_some_and(|folder| folder.path() == path)
            }
        }
    }

    fn get_or_unpack(&self, builtin: &'static BuiltinSkill) -> Result<PathBuf> {
        let mut folders = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(folder) = folders.get(builtin.name) {
            return Ok(folder.path().to_owned());
        }
        let folder = unpack(builtin).map_err(|source| {
            SkillError::io(format_args!("failed to unpack skill {}", builtin.name), source)
        })?;
        let path = folder.path().to_owned();
        folders.insert(builtin.name, folder);
        Ok(path)
    }
}

fn unpack(builtin: &BuiltinSkill) -> std::io::Result<PrivateTempDir> {
    let folder = PrivateTempDir::outside(&[])?;
    for (path, content) in builtin.files {
        let target = folder.path().join(path);
        if let Some(parent) = target.parent() {
            std::fs::create_dir_all(parent)?;
        }
        std::fs::write(target, content)?;
    }
    Ok(folder)
}
