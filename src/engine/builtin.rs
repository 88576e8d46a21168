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
            SkillFolder::Builtin(shipped) => self.get_or_unpack(shipped),
        }
    }

    /// Whether `path` is the skill's folder, or the folder it was unpacked to.
    pub(super) fn is_located_at(&self, folder: &SkillFolder, path: &Path) -> bool {
        match folder {
            SkillFolder::Disk(own) => own == path,
            SkillFolder::Builtin(shipped) => {
                let folders = self.0.lock().unwrap_or_else(PoisonError::into_inner);
                folders.get(shipped.name).is_some_and(|folder| folder.path() == path)
            }
        }
    }

    fn get_or_unpack(&self, shipped: &'static BuiltinSkill) -> Result<PathBuf> {
        let mut folders = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(folder) = folders.get(shipped.name) {
            return Ok(folder.path().to_owned());
        }
        let folder = unpack(shipped).map_err(|source| {
            SkillError::io(format_args!("failed to unpack skill {}", shipped.name), source)
        })?;
        let path = folder.path().to_owned();
        folders.insert(shipped.name, folder);
        Ok(path)
    }
}

fn unpack(shipped: &BuiltinSkill) -> std::io::Result<PrivateTempDir> {
    let folder = PrivateTempDir::outside(&[])?;
    for (path, content) in shipped.files {
        let target = folder.path().join(path);
        if let Some(parent) = target.parent() {
            std::fs::create_dir_all(parent)?;
        }
        std::fs::write(target, content)?;
    }
    Ok(folder)
}
