//! A skill's folder, on disk or inside the program.

use std::path::{Path, PathBuf};

use super::shipped::Shipped;
use crate::error::{ErrorKind, Result, SkillError};
use crate::host::Files;
use crate::host::files::{EntryKind, Tidy, Walk};
use crate::policy::CancelToken;

/// Where a skill's files are.
#[derive(Clone, Debug)]
pub enum Folder {
    /// On disk, an absolute path.
    Disk(PathBuf),
    /// Inside the program.
    Shipped(&'static Shipped),
}

impl Folder {
    /// The path, where it lies on disk.
    pub fn on_disk(&self) -> Option<&Path> {
        match self {
            Self::Disk(path) => Some(path),
            Self::Shipped(_) => None,
        }
    }
}

impl Folder {
    /// A file of the skill, of at most `cap` bytes. Links that leave the folder are refused.
    pub fn read(&self, path: &str, cap: u64) -> Result<Vec<u8>> {
        let bytes = match self {
            Self::Disk(folder) => Files::open(folder)?.unguarded().read(path)?,
            Self::Shipped(shipped) => shipped.file(path).ok_or_else(|| missing(shipped.name, path))?.to_vec(),
        };
        if bytes.len() as u64 > cap {
            let sentence = format!("{path} is larger than the {cap} bytes that are read of it");
            return Err(SkillError::new(ErrorKind::InvalidSkill, sentence));
        }
        Ok(bytes)
    }

    /// The paths of the skill's files, `/`-separated, sorted; hidden ones and links left out.
    pub fn files(&self) -> Result<Vec<String>> {
        let mut paths = match self {
            Self::Disk(folder) => on_disk(folder)?,
            Self::Shipped(shipped) => shipped.files.iter().map(|(path, _)| (*path).to_owned()).collect(),
        };
        paths.sort();
        Ok(paths)
    }
}

/// Folders deep that a skill's files are listed.
const DEPTH: usize = 8;

fn on_disk(folder: &Path) -> Result<Vec<String>> {
    let files = Files::open(folder)?;
    let walk = Walk { cancel: &CancelToken::new(), tidy: Tidy::Nothing, depth: Some(DEPTH) };
    let mut paths = Vec::new();
    files.unguarded().walk("", &walk, |entry| {
        let is_hidden = entry.path.split('/').any(|part| part.starts_with('.'));
        if entry.kind == EntryKind::File && !is_hidden {
            paths.push(entry.path);
        }
        Ok(())
    })?;
    Ok(paths)
}

fn missing(skill: &str, path: &str) -> SkillError {
    SkillError::new(ErrorKind::UnknownSkill, format!("skill {skill} has no file {path}"))
}
