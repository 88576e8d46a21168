//! What lies at a path now, taken through handles.

use std::ffi::{CStr, OsStr};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat, fstat, openat, readlinkat, statat};
use rustix::io::Errno;
use sha2::{Digest, Sha256};

use super::model::{EntryType, FileIdentity, FileState, encode, hex};

/// The bits of a mode that a change set knows: no program gets the rights of its owner.
pub(crate) const MODE_BITS: u32 = 0o777;

/// A file whose times lie that many nanoseconds back changes again only with a change of its times, also where the file system counts
/// whole seconds.
const SETTLED: i64 = 2_000_000_000;

/// What a stat says that is no file, folder or link.
pub(crate) fn special_noun(stat: &Stat) -> Option<&'static str> {
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile | FileType::Directory | FileType::Symlink => None,
        FileType::Fifo => Some("a pipe"),
        FileType::Socket => Some("a socket"),
        _ => Some("a device"),
    }
}

/// The stat of a name in a folder; `None` if nothing is there.
pub(crate) fn stat(dir: impl AsFd, name: &OsStr) -> io::Result<Option<Stat>> {
    match statat(dir, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => Ok(Some(stat)),
        Err(Errno::NOENT) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// The state of a name in a folder, with the digest of a file; `None` if nothing is there. An error for pipes, sockets and devices.
pub(crate) fn state_at(dir: BorrowedFd<'_>, name: &OsStr) -> io::Result<Option<FileState>> {
    match stat(dir, name)? {
        Some(found) => state_of(dir, name, &found),
        None => Ok(None),
    }
}

/// The same for a name whose stat is known.
pub(crate) fn state_of(dir: BorrowedFd<'_>, name: &OsStr, stat: &Stat) -> io::Result<Option<FileState>> {
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => {
            let Some(mut file) = open_file(dir, name)? else { return Ok(None) };
            let opened = fstat(&file)?;
            if FileType::from_raw_mode(opened.st_mode) != FileType::RegularFile {
                return Err(io::Error::other("it was replaced while it was read"));
            }
            let digest = digest(&mut file)?;
            let about = fstat(&file)?;
            Ok(Some(FileState { digest: Some(digest), ..without_content(EntryType::File, &about) }))
        }
        FileType::Directory => Ok(Some(without_content(EntryType::Folder, stat))),
        FileType::Symlink => {
            let target = match readlinkat(dir, name, Vec::new()) {
                Err(Errno::NOENT) => return Ok(None),
                target => target?,
            };
            let target = encode(Path::new(OsStr::from_bytes(target.as_bytes())));
            let state = without_content(EntryType::Symlink, stat);
            Ok(Some(FileState { target: Some(target), ..state }))
        }
        _ => Err(io::Error::other(format!("{} is there", special_noun(stat).unwrap_or("a device")))),
    }
}

/// Whether the stat is that of the same file, which nobody has changed since it was read at `read_at` (in nanoseconds since 1970).
pub(crate) fn is_unchanged(state: &FileState, stat: &Stat, read_at: i64) -> bool {
    let now = identity(stat);
    now == state.identity
        && state.identity.ctime.saturating_add(SETTLED) < read_at
        && size(stat) == state.size
        && mode(stat) == state.mode
}

/// Opens a regular file to read it; `None` if nothing is there.
pub(crate) fn open_file(dir: impl AsFd, name: impl rustix::path::Arg) -> io::Result<Option<File>> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    match openat(dir, name, flags, Mode::empty()) {
        Ok(file) => Ok(Some(file.into())),
        Err(Errno::NOENT) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn without_content(entry_type: EntryType, stat: &Stat) -> FileState {
    FileState {
        entry_type,
        size: if entry_type == EntryType::File { size(stat) } else { 0 },
        mode: if entry_type == EntryType::Symlink { 0 } else { mode(stat) },
        digest: None,
        target: None,
        identity: identity(stat),
    }
}

pub(crate) fn size(stat: &Stat) -> u64 {
    u64::try_from(stat.st_size).unwrap_or_default()
}

#[allow(clippy::unnecessary_cast, clippy::useless_conversion, reason = "another type elsewhere")]
fn mode(stat: &Stat) -> u32 {
    u32::from(stat.st_mode) & MODE_BITS
}

#[allow(
    clippy::unnecessary_cast,
    clippy::cast_sign_loss,
    clippy::cast_possible_wrap,
    clippy::useless_conversion,
    reason = "other types elsewhere"
)]
pub(crate) fn identity(stat: &Stat) -> FileIdentity {
    let time =
        |seconds: i64, nanoseconds: i64| seconds.saturating_mul(1_000_000_000).saturating_add(nanoseconds);
    FileIdentity {
        dev: stat.st_dev as u64,
        ino: stat.st_ino as u64,
        mtime: time(stat.st_mtime as i64, stat.st_mtime_nsec as i64),
        ctime: time(stat.st_ctime as i64, stat.st_ctime_nsec as i64),
    }
}

/// The SHA-256 of what is left of a file, in hexadecimal digits.
pub(crate) fn digest(file: &mut File) -> io::Result<String> {
    const BUFFER_BYTES: usize = 64 << 10;
    let (mut hash, mut buffer) = (Sha256::new(), vec![0; BUFFER_BYTES]);
    loop {
        match file.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => hash.update(buffer.get(..count).unwrap_or_default()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    let digest: [u8; 32] = hash.finalize().into();
    Ok(hex(&digest))
}

/// The name as the system takes it.
pub(crate) fn os_name(name: &CStr) -> &OsStr {
    OsStr::from_bytes(name.to_bytes())
}
