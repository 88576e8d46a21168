//! Creates a skill that is one file in a root.

use std::io::{self, Write};
use std::path::Path;

use cap_std::ambient_authority;
use cap_std::fs::{Dir, OpenOptions};

/// Creates the file in `parent`, a path below `base`, which is created if it does not exist. Links that lead out of `base` are
/// refused, and so is a name that exists.
pub fn create(base: &Path, parent: &str, name: &str, text: &str) -> io::Result<()> {
    let base = Dir::open_ambient_dir(base, ambient_authority())?;
    base.create_dir_all(parent)?;
    let parent = base.open_dir(parent)?;
    let mut file = parent.open_with(name, OpenOptions::new().write(true).create_new(true))?;
    let written = file.write_all(text.as_bytes());
    if written.is_err() {
        // The first failure is the one to report.
        let _ = parent.remove_file(name);
    }
    written
}
