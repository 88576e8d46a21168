//! Files of the store that only their user can read, each replaced as a whole.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;

use rustix::fs::{AtFlags, Mode, OFlags, openat, renameat, unlinkat};
use rustix::io::Errno;

use super::snapshot::open_file;

/// Maximum bytes of a file with the data of a change set.
const MAX_BYTES: u64 = 512 << 20;

/// Puts a new file in the place of another one: whoever reads it finds the old content or the new, also after a kill.
pub(crate) fn replace(dir: &OwnedFd, name: &str, content: &[u8]) -> io::Result<()> {
    let new = format!("{name}.new");
    // A writer that was killed may have left it.
    remove(dir, &new)?;
    let write = || {
        create(dir, &new)?.write_all(content)?;
        Ok(renameat(dir, &new, dir, name)?)
    };
    let written = write();
    if written.is_err() {
        remove(dir, &new).ok();
    }
    written
}

/// A new file that only its user can read.
pub(crate) fn create(dir: &OwnedFd, name: &str) -> io::Result<File> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(openat(dir, name, flags, Mode::RUSR | Mode::WUSR)?.into())
}

/// The content of a file; `None` if there is none.
pub(crate) fn read(dir: &OwnedFd, name: &str) -> io::Result<Option<Vec<u8>>> {
    let Some(file) = open_file(dir, name)? else { return Ok(None) };
    let mut content = Vec::new();
    file.take(MAX_BYTES + 1).read_to_end(&mut content)?;
    if content.len() as u64 > MAX_BYTES {
        return Err(io::Error::other("the file is too large"));
    }
    Ok(Some(content))
}

/// Removes a file, if it is there.
pub(crate) fn remove(dir: &OwnedFd, name: &str) -> io::Result<()> {
    match unlinkat(dir, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
