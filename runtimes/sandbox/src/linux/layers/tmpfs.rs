//! File systems in memory that belong to one sandbox.

use std::ffi::CStr;
use std::io;
use std::os::fd::OwnedFd;

use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsconfig_set_string, fsmount, fsopen,
};

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
