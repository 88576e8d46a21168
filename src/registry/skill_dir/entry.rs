//! Opens an entry of a folder: only regular files are read.

use std::fs::File;
use std::io;

use cap_fs_ext::OpenOptionsSyncExt;
use cap_std::fs::{Dir, OpenOptions};

use metier_core::host::files::not_regular_file;

/// Opens a regular file in that folder. A link is followed inside the folder only.
pub(super) fn open_regular_file(folder: &Dir, name: &str) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).nonblock(true);
    let file = folder.open_with(name, &options)?.into_std();
    if file.metadata()?.is_file() { Ok(file) } else { Err(not_regular_file()) }
}
