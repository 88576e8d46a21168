//! The identity of the file at a path, independent of its name: its device and inode number.

use std::io;
use std::path::Path;

use cap_fs_ext::MetadataExt;

use super::Files;

impl Files {
    /// The identity of the file at this path, which must not contain symbolic links; the empty path is the root.
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
