//! Skills inside the program, and scripts that are skills by themselves, unpacked to a folder for a run.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use crate::registry::drop_in::virtual_files;
use crate::registry::{EmbeddedSkill, FileList, SkillFolder};
use metier_core::error::{Result, SkillError};
use metier_core::host::files::path_below;
use metier_core::host::temp_dirs::PrivateTempDir;
use metier_core::policy::SkillDigest;

/// Folders unpacked so far. Removed with the engine.
#[derive(Default)]
pub(super) struct UnpackedSkills(Mutex<HashMap<UnpackedSkill, PrivateTempDir>>);

/// What was unpacked.
#[derive(PartialEq, Eq, Hash)]
enum UnpackedSkill {
    /// A skill inside the program, by its address: two roots may have skills of one name.
    Embedded(usize),
    /// A script with the content that it had.
    Script(PathBuf, SkillDigest),
}

impl UnpackedSkills {
    /// The skill's folder on disk; what has none is unpacked first. A script is unpacked as it is now.
    pub(super) fn disk_folder(&self, folder: &SkillFolder) -> Result<PathBuf> {
        match folder {
            SkillFolder::Disk(path) => Ok(path.clone()),
            SkillFolder::Script(script) => {
                let files = virtual_files(script)?;
                let files: Vec<(&str, &[u8])> =
                    files.iter().map(|(path, content)| (path.as_str(), content.as_slice())).collect();
                let digest = FileList::of_contents(files.iter().copied()).digest();
                self.get_or_unpack(UnpackedSkill::Script(script.clone(), digest), &files)
            }
            SkillFolder::Embedded(skill) => {
                self.get_or_unpack(UnpackedSkill::Embedded(address(skill)), skill.files())
            }
        }
    }

    /// Whether `path` is the skill's folder, or a folder it was unpacked to.
    pub(super) fn is_located_at(&self, folder: &SkillFolder, path: &Path) -> bool {
        let is_same = |unpacked: &UnpackedSkill| match (folder, unpacked) {
            (SkillFolder::Embedded(skill), UnpackedSkill::Embedded(known)) => address(skill) == *known,
            (SkillFolder::Script(script), UnpackedSkill::Script(known, _)) => script == known,
            _ => false,
        };
        if let SkillFolder::Disk(own) = folder {
            return own == path;
        }
        let folders = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        folders.iter().any(|(unpacked, folder)| is_same(unpacked) && folder.path() == path)
    }

    fn get_or_unpack(&self, skill: UnpackedSkill, files: &[(&str, &[u8])]) -> Result<PathBuf> {
        let mut folders = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(folder) = folders.get(&skill) {
            return Ok(folder.path().to_owned());
        }
        let folder = unpack(files)?;
        let path = folder.path().to_owned();
        folders.insert(skill, folder);
        Ok(path)
    }
}

fn address(skill: &'static EmbeddedSkill) -> usize {
    std::ptr::from_ref(skill).addr()
}

fn unpack(files: &[(&str, &[u8])]) -> Result<PrivateTempDir> {
    let failed = |source| SkillError::io("failed to unpack a skill", source);
    let folder = PrivateTempDir::outside(&[]).map_err(failed)?;
    for (path, content) in files {
        let target = folder.path().join(path_below(path, None, "the skill")?);
        let parent = target.parent().map_or(Ok(()), std::fs::create_dir_all);
        parent.and_then(|()| std::fs::write(&target, content)).map_err(failed)?;
    }
    Ok(folder)
}
