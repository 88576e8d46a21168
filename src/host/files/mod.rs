//! The files of a project or a skill, behind one directory handle: nothing outside it is ever reached.

mod path;

pub use path::relative;

use std::path::{Path, PathBuf};

use cap_std::ambient_authority;
use cap_std::fs::Dir;

use crate::error::{Result, SkillError};

/// A directory tree, opened once. Every operation goes through the handle, so a replaced or renamed root changes nothing.
pub struct Files {
    dir: Dir,
    root: PathBuf,
}

impl Files {
    /// Opens the tree below `root`. The root itself may be reached through links.
    pub fn open(root: &Path) -> Result<Self> {
        let failed = |source| SkillError::io(format_args!("failed to open {}", root.display()), source);
        let dir = Dir::open_ambient_dir(root, ambient_authority()).map_err(failed)?;
        Ok(Self { dir, root: std::fs::canonicalize(root).map_err(failed)? })
    }

    /// The root, canonical, as it was when opened.
    pub fn root(&self) -> &Path {
        &self.root
    }
}
