//! Which folder is meant: its path alone would trust whatever is put there later.

use std::fmt;
use std::path::Path;
use std::sync::OnceLock;
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use metier_core::error::{ErrorKind, Result, SkillError};

/// A folder by its canonical path, its number in the file system and its time of birth, where the file system has one. A folder
/// that was renamed, or removed and made again, has another identity.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ProjectIdentity {
    /// The canonical path.
    pub path: String,
    /// The number in the file system; 0 where there is none. That of the device is not kept: it changes when a system starts.
    pub inode: u64,
    /// The time of birth, in nanoseconds since 1970.
    pub born: Option<u64>,
}

/// The project in whose place this process has put a copy.
static COPIED_PROJECT: OnceLock<ProjectIdentity> = OnceLock::new();

impl ProjectIdentity {
    /// The identity of this folder; `io` if it cannot be opened, `unavailable` if its path is not UTF-8.
    pub fn new(folder: &Path) -> Result<Self> {
        let failed = |source| SkillError::io(format_args!("failed to open {}", folder.display()), source);
        Self::from_canonical(&std::fs::canonicalize(folder).map_err(failed)?)
    }

    /// From now on, the folder at this path, which must be without links, counts as what it is now: for a process that is about to put a copy
    /// in its place, which has another inode.
    #[doc(hidden)]
    pub fn fix_before_copy(folder: &Path) {
        if let Ok(identity) = Self::from_canonical(folder) {
            COPIED_PROJECT.set(identity).ok();
        }
    }

    /// The same for a path without links.
    pub(crate) fn from_canonical(folder: &Path) -> Result<Self> {
        if let Some(copied) = COPIED_PROJECT.get().filter(|copied| Path::new(&copied.path) == folder) {
            return Ok(copied.clone());
        }
        let failed = |source| SkillError::io(format_args!("failed to open {}", folder.display()), source);
        let about = std::fs::symlink_metadata(folder).map_err(failed)?;
        if !about.is_dir() {
            return Err(failed(std::io::ErrorKind::NotADirectory.into()));
        }
        let Some(path) = folder.to_str() else {
            let sentence =
                format!("the folder {} cannot be trusted: its path is not UTF-8", folder.display());
            return Err(SkillError::new(ErrorKind::Unavailable, sentence).with_help("rename the folder"));
        };
        let born = about.created().ok().and_then(|born| born.duration_since(SystemTime::UNIX_EPOCH).ok());
        let born = born.and_then(|born| u64::try_from(born.as_nanos()).ok());
        Ok(Self { path: path.to_owned(), inode: inode(&about), born })
    }

    /// Whether the folder at its path is still this one.
    pub(crate) fn is_current(&self) -> bool {
        Self::from_canonical(Path::new(&self.path)).is_ok_and(|now| now == *self)
    }
}

/// As a record names it: number, time of birth and path.
impl fmt::Display for ProjectIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.inode, self.born.unwrap_or_default(), self.path)
    }
}

#[cfg(unix)]
fn inode(about: &std::fs::Metadata) -> u64 {
    std::os::unix::fs::MetadataExt::ino(about)
}

#[cfg(not(unix))]
fn inode(_about: &std::fs::Metadata) -> u64 {
    0
}
