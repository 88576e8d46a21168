//! Clones of mounts.

use std::io;
use std::os::fd::OwnedFd;

use rustix::mount::{MoveMountFlags, OpenTreeFlags, move_mount, open_tree};

/// A clone of the mounts at an open file or folder, attached nowhere.
pub(super) fn clone_mount(found: &OwnedFd) -> io::Result<OwnedFd> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_EMPTY_PATH
        | OpenTreeFlags::AT_RECURSIVE;
    Ok(open_tree(found, c"", flags)?)
}

/// Attaches a clone over an open file or folder.
pub(super) fn attach(mount: &OwnedFd, target: &OwnedFd) -> io::Result<()> {
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    Ok(move_mount(mount, c"", target, c"", flags)?)
}
