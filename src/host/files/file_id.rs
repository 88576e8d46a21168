//! What lies at a path, whatever that leads to later: its device and its number there.

use std::io;
use std::path::Path;

use cap_fs_ext::MetadataExt;

use super::Files;

impl Files {
    /// The identity of what lies at this path, with no link on the way; the empty one is the root.
    pub(crate) fn file_id(&self, path: &Path) -> io::Result<(u64, u64)> {
        let about = match path.file_name() {
            None => self.dir.dir_metadata()?,
            Some(name) => {
                let folder = path.parent().unwrap_or(Path::new(""));
                (self.backend.open_dir)(&self.dir, folder)?.symlink_metadata(name)?
            }
        };
        Ok((about.dev(), about.ino()))
    }
}
