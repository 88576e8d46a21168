//! Skills from inside the binary, laid out on disk when a script of theirs needs files around it.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use crate::error::{Result, SkillError};
use crate::host::temp_places::TempFolder;
use crate::registry::{Folder, Shipped};

/// Folders unpacked so far; removed with the engine.
#[derive(Default)]
pub(super) struct Unpacked(Mutex<HashMap<&'static str, TempFolder>>);

impl Unpacked {
    /// The skill's folder on disk, unpacked first where the skill comes from the binary.
    pub(super) fn folder(&self, folder: &Folder) -> Result<PathBuf> {
        match folder {
            Folder::Disk(path) => Ok(path.clone()),
            Folder::Shipped(shipped) => self.unpacked(shipped),
        }
    }

    /// Whether that is where the skill's folder lies, or was unpacked to.
    pub(super) fn is_at(&self, folder: &Folder, path: &Path) -> bool {
        match folder {
            Folder::Disk(own) => own == path,
            Folder::Shipped(shipped) => {
                let folders = self.0.lock().unwrap_or_else(PoisonError::into_inner);
                folders.get(shipped.name).is_some_and(|folder| folder.path() == path)
            }
        }
    }

    fn unpacked(&self, shipped: &'static Shipped) -> Result<PathBuf> {
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

fn unpack(shipped: &Shipped) -> std::io::Result<TempFolder> {
    let folder = TempFolder::away_from(&[])?;
    for (path, content) in shipped.files {
        let target = folder.path().join(path);
        if let Some(parent) = target.parent() {
            std::fs::create_dir_all(parent)?;
        }
        std::fs::write(target, content)?;
    }
    Ok(folder)
}
