//! Which folder it is, and when an entry of it changed last: the same stamp means the same entries.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use rustix::fs::{AtFlags, CWD, StatxAttributes, StatxFlags, fstatfs, statx};

use metier_core::host::FileId;

/// How long a folder must not have changed to be remembered: longer than the coarsest clock of these file systems, one second. Those of
/// tests are finer.
pub(super) const MIN_AGE: Duration =
    if cfg!(test) { Duration::from_millis(100) } else { Duration::from_secs(3) };

/// The bit by which Linux 6.8 and later number a mount so that no later one has the same.
const UNIQUE_MOUNT_ID: StatxFlags = StatxFlags::from_bits_retain(0x4000);

/// A folder, and seconds and nanoseconds of its ctime.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FolderStamp {
    pub(super) file: FileId,
    /// Another file system at the same path may have a folder with the same numbers.
    pub(super) mount: MountId,
    pub(super) seconds: i64,
    pub(super) nanos: u32,
}

/// The mount through which a folder was looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct MountId {
    pub(super) number: u64,
    /// Whether no other mount will have this number until the machine restarts.
    pub(super) is_unique: bool,
}

impl FolderStamp {
    /// That of what is at this path, which may be a link.
    pub(super) fn at(path: &Path) -> io::Result<Self> {
        Self::look(CWD, path, AtFlags::SYMLINK_NOFOLLOW)
    }

    /// That of what is at this path below an open folder, which is itself at the empty path.
    pub(super) fn below(folder: &OwnedFd, path: &str) -> io::Result<Self> {
        let flags = if path.is_empty() { AtFlags::EMPTY_PATH } else { AtFlags::SYMLINK_NOFOLLOW };
        Self::look(folder, Path::new(path), flags)
    }

    pub(super) fn of_open(folder: &File) -> io::Result<Self> {
        Self::look(folder, Path::new(""), AtFlags::EMPTY_PATH)
    }

    fn look(folder: impl AsFd, path: &Path, flags: AtFlags) -> io::Result<Self> {
        let wanted = StatxFlags::INO | StatxFlags::CTIME | StatxFlags::MNT_ID | UNIQUE_MOUNT_ID;
        let found = statx(folder, path, flags, wanted)?;
        let has = |field: StatxFlags| found.stx_mask & field.bits() != 0;
        if !has(StatxFlags::INO) || !has(StatxFlags::CTIME) {
            return Err(io::ErrorKind::Unsupported.into());
        }
        Ok(Self {
            file: FileId {
                dev: rustix::fs::makedev(found.stx_dev_major, found.stx_dev_minor),
                ino: found.stx_ino,
            },
            mount: MountId { number: found.stx_mnt_id, is_unique: has(UNIQUE_MOUNT_ID) },
            seconds: found.stx_ctime.tv_sec,
            nanos: found.stx_ctime.tv_nsec,
        })
    }

    /// Whether a later change has another ctime than this one.
    pub(super) fn is_settled(&self) -> bool {
        let seconds = u64::try_from(self.seconds).ok();
        let changed = seconds.and_then(|seconds| UNIX_EPOCH.checked_add(Duration::new(seconds, self.nanos)));
        changed.is_some_and(|changed| changed.elapsed().is_ok_and(|age| age >= MIN_AGE))
    }

    /// Whether an overlay shows this folder as it is below. One that has changed there has the ctime of its copy, and device and mount are
    /// always others: those of the overlay, which has one file system below.
    pub(super) fn is_same_in_overlay(&self, seen: &Self) -> bool {
        (self.file.ino, self.seconds, self.nanos) == (seen.file.ino, seen.seconds, seen.nanos)
    }
}

/// Whether the file system is one of this machine's own kernel that sets the ctime of a folder at each change.
pub(super) fn is_local(folder: &File) -> bool {
    // ext2 to ext4, XFS, Btrfs, tmpfs, F2FS: the numbers of linux/magic.h.
    let known = [0xEF53, 0x5846_5342, 0x9123_683E, 0x0102_1994, 0xF2F5_2010];
    fstatfs(folder).is_ok_and(|about| known.contains(&about.f_type)) && has_own_flags(folder)
}

/// Whether the file system has flags for files, as all of these have (tmpfs since Linux 6.0): 9p reports the type of the file system on
/// its server, and has none.
fn has_own_flags(folder: &File) -> bool {
    let found = statx(folder, c"", AtFlags::EMPTY_PATH, StatxFlags::TYPE);
    found.is_ok_and(|found| found.stx_attributes_mask.contains(StatxAttributes::IMMUTABLE))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::MetadataExt;

    use super::*;

    #[test]
    fn it_has_what_the_file_system_says_of_the_folder() {
        let folder = tempfile::tempdir().unwrap();
        let stamp = FolderStamp::at(folder.path()).unwrap();
        let about = fs::metadata(folder.path()).unwrap();
        assert_eq!((stamp.file.dev, stamp.file.ino), (about.dev(), about.ino()));
        assert_eq!((stamp.seconds, i64::from(stamp.nanos)), (about.ctime(), about.ctime_nsec()));
        assert_eq!(FolderStamp::of_open(&File::open(folder.path()).unwrap()).unwrap(), stamp);
        assert!(FolderStamp::at(&folder.path().join("none")).is_err());
        let proc = FolderStamp::at(Path::new("/proc")).unwrap();
        assert_ne!(proc.mount, stamp.mount, "another mount");
        // A link to a folder is not the folder.
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(folder.path(), &link).unwrap();
        assert_ne!(FolderStamp::at(&link).unwrap().file, stamp.file);
    }

    #[test]
    fn a_change_that_is_young_or_in_the_future_is_not_settled() {
        let folder = tempfile::tempdir().unwrap();
        let stamp = FolderStamp::at(folder.path()).unwrap();
        let at = |seconds| FolderStamp { seconds, ..stamp }.is_settled();
        assert!(at(stamp.seconds - 60));
        // A clock ahead of ours says nothing about what comes.
        assert!(!at(i64::MAX) && !at(-1) && !at(stamp.seconds + 60));
    }
}
