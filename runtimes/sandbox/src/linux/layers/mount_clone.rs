//! New mounts (clones, and file systems in memory that belong to one sandbox), and changes to mounts: before Linux 5.12 only one
//! mount at a time, and only where it is attached.

use std::ffi::{CStr, OsStr};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{CWD, readlink};
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MountFlags, MountPropagationFlags, MoveMountFlags,
    OpenTreeFlags, fsconfig_create, fsconfig_set_string, fsmount, fsopen, mount_change, mount_remount,
    move_mount, open_tree,
};

use crate::linux::layers::mount_table::{Mount, read_mounts};
use crate::linux::sys::{self, MountChange, mount_setattr};

/// A clone of the mounts at an open file or folder, attached nowhere.
pub(crate) fn clone_mount(found: &OwnedFd) -> io::Result<OwnedFd> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_EMPTY_PATH
        | OpenTreeFlags::AT_RECURSIVE;
    Ok(open_tree(found, c"", flags)?)
}

/// Attaches a clone over an open file or folder.
pub(crate) fn attach(mount: &OwnedFd, target: &OwnedFd) -> io::Result<()> {
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    Ok(move_mount(mount, c"", target, c"", flags)?)
}

/// The same, read-only.
pub(super) fn attach_read_only(mount: &OwnedFd, target: &OwnedFd, change: MountChange) -> io::Result<()> {
    match mount_setattr(mount, c"", change) {
        Err(error) if is_unsupported(&error) => {
            attach(mount, target)?;
            let own = format!("/proc/thread-self/fd/{}", mount.as_raw_fd());
            let path = readlink(&own, Vec::new())?;
            let path = Path::new(OsStr::from_bytes(path.as_bytes()));
            remount_read_only(change, |mount| mount.target != path && mount.target.starts_with(path))?;
            // By its handle: a file may be mounted over a link, which its path follows.
            let mounts = read_mounts()?;
            let flags = mounts.iter().rev().find(|mount| mount.target == path).map(Mount::flags);
            remount(own, flags.unwrap_or(MountFlags::empty()), change)
        }
        changed => {
            changed?;
            attach(mount, target)
        }
    }
}

/// Changes all mounts of this namespace.
pub(crate) fn change_all_mounts(change: MountChange) -> io::Result<()> {
    match mount_setattr(&CWD, c"/", change) {
        Err(error) if is_unsupported(&error) => match change {
            MountChange::Private => {
                Ok(mount_change("/", MountPropagationFlags::REC | MountPropagationFlags::PRIVATE)?)
            }
            MountChange::ReceiveOnly => {
                Ok(mount_change("/", MountPropagationFlags::REC | MountPropagationFlags::DOWNSTREAM)?)
            }
            MountChange::ReadOnly | MountChange::ReadOnlyNoDevices => remount_read_only(change, |_| true),
        },
        changed => changed,
    }
}

/// Makes these mounts read-only, one after the other. Of several at the same place only the last can be reached.
fn remount_read_only(change: MountChange, is_meant: impl Fn(&Mount) -> bool) -> io::Result<()> {
    for mount in read_mounts()?.iter().filter(|mount| is_meant(mount)) {
        remount(&mount.target, mount.flags(), change)?;
    }
    Ok(())
}

/// Keeps what the mount refuses already, which a namespace of an ordinary user must.
fn remount(path: impl rustix::path::Arg, flags: MountFlags, change: MountChange) -> io::Result<()> {
    let more = match change {
        MountChange::ReadOnlyNoDevices => MountFlags::RDONLY | MountFlags::NODEV,
        _ => MountFlags::RDONLY,
    };
    Ok(mount_remount(path, MountFlags::BIND | flags | more, c"")?)
}

/// Whether the kernel does not know the call that changes many mounts at once.
fn is_unsupported(error: &io::Error) -> bool {
    sys::errno(error) == libc::ENOSYS
}

/// Maximum number of files in such a tmpfs; each takes about a kilobyte.
const MAX_INODES: &str = "65536";

/// A new tmpfs, with this mode for its root and this size limit.
pub(super) fn new_tmpfs(mode: &CStr, size_limit: Option<u64>) -> io::Result<OwnedFd> {
    let tmpfs = fsopen(c"tmpfs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_set_string(&tmpfs, c"source", c"metier-sandbox")?;
    fsconfig_set_string(&tmpfs, c"mode", mode)?;
    if let Some(limit) = size_limit {
        fsconfig_set_string(&tmpfs, c"size", limit.to_string())?;
        // Each inode is a file, or the equivalent in extended attributes.
        fsconfig_set_string(&tmpfs, c"nr_inodes", MAX_INODES)?;
    }
    fsconfig_create(&tmpfs)?;
    let flags = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV;
    Ok(fsmount(&tmpfs, FsMountFlags::FSMOUNT_CLOEXEC, flags)?)
}
