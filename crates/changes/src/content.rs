//! The contents of a change set in its store: taken over from the upper folder, staged, and copied between file systems.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{
    AtFlags, FileType, Mode, Timespec, Timestamps, fchmod, flistxattr, fremovexattr, fstat, futimens,
    mkdirat, renameat, symlinkat, unlinkat,
};
use rustix::io::Errno;

use super::beneath::open_parent;
use super::model::{EntryType, FileState, decode};
use super::operation::{StagedFile, discard, set_folder_mode};
use super::plan::staged_folder_mode;
use super::private_file;
use super::snapshot::{MODE_BITS, digest, identity, open_file, size, stat};
use metier_core::host::files::name_encoding;

/// The name of what a change puts into the project.
pub(crate) fn new_name(change: usize) -> String {
    change.to_string()
}

/// The name of what was there before.
pub(crate) fn old_name(change: usize) -> String {
    format!("{change}.old")
}

/// Takes a file over from the upper folder: moved where it can be, else copied.
pub(crate) fn take(
    upper: BorrowedFd<'_>,
    path: &str,
    state: &FileState,
    content: &OwnedFd,
    name: &str,
) -> io::Result<()> {
    let path = decode(path).map_err(io::Error::other)?;
    let file_name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    let dir = open_parent(upper, &path)?;
    let changed = || io::Error::other("it was changed since it was read");
    let mut file = open_file(&dir, file_name)?.ok_or_else(changed)?;
    let about = fstat(&file)?;
    let found = identity(&about);
    if !found.is_same_file(&state.identity)
        || found.mtime != state.identity.mtime
        || size(&about) != state.size
        || !FileType::from_raw_mode(about.st_mode).is_file()
    {
        return Err(changed());
    }
    // Another name of it could be one at which somebody still writes.
    let can_move = about.st_nlink == 1 && remove_xattrs(&file);
    if can_move {
        set_mode(&file, about.st_mode, state.mode)?;
        match renameat(&dir, file_name, content, name) {
            Err(Errno::XDEV) => {}
            moved => return Ok(moved?),
        }
    }
    copy(&mut file, content, name, state.mode)
}

/// Prepares what is to be put at a path. `content` has the files, under the same name; if it is the staging folder itself, they are
/// there already.
pub(crate) fn prepare_staged(
    state: &FileState,
    name: &str,
    content: &OwnedFd,
    staging: Option<&OwnedFd>,
) -> io::Result<StagedFile> {
    let place = staging.unwrap_or(content);
    match state.entry_type {
        EntryType::File => {
            let mut file = open_content(content, name, state)?;
            match staging {
                // What the user's own file has beyond these bits stays as it is.
                None if mode(fstat(&file)?.st_mode) == state.mode => {}
                None => set_mode(&file, fstat(&file)?.st_mode, state.mode)?,
                Some(staging) => copy(&mut file, staging, name, state.mode)?,
            }
        }
        EntryType::Folder => {
            discard(place.as_fd(), name.as_ref())?;
            mkdirat(place, name, Mode::RWXU)?;
            set_folder_mode(place, name.as_ref(), staged_folder_mode(state))?;
        }
        EntryType::Symlink => {
            discard(place.as_fd(), name.as_ref())?;
            let target = name_encoding::decode(state.target.as_deref().unwrap_or_default());
            symlinkat(&*target, place, name)?;
        }
    }
    let staged = stat(place, name.as_ref())?.ok_or(io::ErrorKind::NotFound)?;
    Ok(StagedFile::new(&staged))
}

/// Opens a stored file, which must have the size that the change set says.
pub(crate) fn open_content(content: &OwnedFd, name: &str, state: &FileState) -> io::Result<File> {
    let missing = || io::Error::new(io::ErrorKind::NotFound, "its content is not stored any more");
    let mut file = open_file(content, name)?.ok_or_else(missing)?;
    let about = fstat(&file)?;
    if !FileType::from_raw_mode(about.st_mode).is_file() || size(&about) != state.size {
        return Err(io::Error::other("its stored content is damaged"));
    }
    if let Some(expected) = &state.digest {
        if digest(&mut file)? != *expected {
            return Err(io::Error::other("its stored content is not what was shown"));
        }
        file.rewind()?;
    }
    Ok(file)
}

/// Copies what an operation has put aside from the staging folder into the store.
pub(crate) fn save(staging: &OwnedFd, name: &str, content: &OwnedFd) -> io::Result<()> {
    let Some(found) = stat(staging, name.as_ref())? else { return Ok(()) };
    discard(content.as_fd(), name.as_ref())?;
    if FileType::from_raw_mode(found.st_mode).is_symlink() {
        let target = rustix::fs::readlinkat(staging, name, Vec::new())?;
        return Ok(symlinkat(target, content, name)?);
    }
    let Some(mut file) = open_file(staging, name)? else { return Ok(()) };
    copy(&mut file, content, name, mode(found.st_mode))
}

/// Copies a file to a name of another folder, with its last change and these permissions.
fn copy(file: &mut File, dir: &OwnedFd, name: &str, mode: u32) -> io::Result<()> {
    let about = fstat(&*file)?;
    let mut copied = match private_file::create(dir, name) {
        // An earlier attempt left it.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            discard(dir.as_fd(), name.as_ref())?;
            private_file::create(dir, name)?
        }
        copied => copied?,
    };
    let mut write = || {
        copy_bytes(file, &mut copied, size(&about))?;
        set_mode(&copied, 0o600, mode)?;
        #[allow(clippy::useless_conversion, clippy::cast_possible_wrap, reason = "other types elsewhere")]
        let time = |seconds, nanoseconds| Timespec { tv_sec: seconds, tv_nsec: nanoseconds };
        #[allow(clippy::useless_conversion, clippy::cast_possible_wrap, reason = "other types elsewhere")]
        let times = Timestamps {
            last_access: time(about.st_atime, about.st_atime_nsec as _),
            last_modification: time(about.st_mtime, about.st_mtime_nsec as _),
        };
        Ok(futimens(&copied, &times)?)
    };
    let written = write();
    if written.is_err() {
        unlinkat(dir, name, AtFlags::empty()).ok();
    }
    written
}

/// Reads and writes: the kernel copies only within a file system, and there files are moved.
fn copy_bytes(file: &mut File, copy: &mut File, size: u64) -> io::Result<()> {
    const BUFFER_BYTES: u64 = 256 << 10;
    let mut buffer = vec![0; usize::try_from(size.clamp(1, BUFFER_BYTES)).unwrap_or_default()];
    let mut left = size;
    loop {
        let count = match file.read(&mut buffer) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            count => count?,
        };
        let changed = || io::Error::other("it was changed while it was copied");
        left = left.checked_sub(count as u64).ok_or_else(changed)?;
        match buffer.get(..count) {
            Some(read) if count > 0 => copy.write_all(read)?,
            _ => return if left == 0 { Ok(()) } else { Err(changed()) },
        }
    }
}

/// Gives a file its permissions, without those that let a program run with the rights of its owner.
#[allow(clippy::useless_conversion, reason = "another type elsewhere")]
fn set_mode(file: impl AsFd, now: rustix::fs::RawMode, wanted: u32) -> io::Result<()> {
    const ALL_BITS: u32 = 0o7777;
    if u32::from(now) & ALL_BITS != wanted & MODE_BITS {
        fchmod(file, Mode::from_raw_mode((wanted & MODE_BITS) as _))?;
    }
    Ok(())
}

#[allow(clippy::useless_conversion, reason = "another type elsewhere")]
fn mode(mode: rustix::fs::RawMode) -> u32 {
    u32::from(mode) & MODE_BITS
}

/// Removes the attributes with which a script could grant itself something, and those of the overlay; returns whether all are gone.
fn remove_xattrs(file: &File) -> bool {
    /// Beginnings of names. Others, such as labels of the system, are not a script's to set.
    const REMOVED: [&[u8]; 3] = [b"user.", b"security.capability", b"system.posix_acl"];
    let mut names = Vec::with_capacity(4 << 10);
    match flistxattr(file, rustix::buffer::spare_capacity(&mut names)) {
        Ok(_) => {}
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => return true,
        Err(_) => return false,
    }
    names.split(|byte| *byte == 0).filter(|name| !name.is_empty()).all(|name| {
        let is_removed = REMOVED.iter().any(|start| name.starts_with(start));
        !is_removed || fremovexattr(file, os_str(name)).is_ok()
    })
}

fn os_str(name: &[u8]) -> &OsStr {
    std::os::unix::ffi::OsStrExt::from_bytes(name)
}
