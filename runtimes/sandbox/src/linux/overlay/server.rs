//! The server of one overlay: a process that mounts it in a mount namespace of its own and clones it for each launch. It ends when the host
//! drops the other end of its socket.
//!
//! No process of a sandbox can be the one that mounts: an overlay belongs to the user namespace in which it was mounted, and it must be
//! the same for all launches, and for the host. Besides the overlay, the server can reach nothing.

use std::ffi::{CStr, OsStr, OsString};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, StatVfsMountFlags, chmodat, fstat, fstatvfs, openat, readlink};
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsconfig_set_flag, fsconfig_set_string,
    fsmount, fsopen,
};
use rustix::process::{fchdir, getcwd, setsid};
use rustix::thread::{CapabilitySet, set_no_new_privs};
use serde::{Deserialize, Serialize};

use crate::linux::fd_passing::{receive_message, send_message};
use crate::linux::ipc::{self, OverlayFds};
use crate::linux::layers::landlock::open_no_symlinks;
use crate::linux::layers::mount_clone::{attach, change_all_mounts, clone_mount};
use crate::linux::layers::mount_table::read_mounts;
use crate::linux::layers::{capabilities, mount_root, namespaces};
use crate::linux::sys::{self, MountChange};
use crate::{FileId, bytes};

/// What the kernel uses of the process that mounts whenever it changes the folder for changes: it gives a copied file its owner, goes
/// through folders that the program could not, and finds the original of a copy. What a program may do is checked with its own rights
/// before.
const MOUNT_CAPABILITIES: CapabilitySet = CapabilitySet::SYS_ADMIN
    .union(CapabilitySet::CHOWN)
    .union(CapabilitySet::DAC_OVERRIDE)
    .union(CapabilitySet::DAC_READ_SEARCH)
    .union(CapabilitySet::FOWNER);

/// All features that would change the format of the folder for changes are off, whatever the kernel's defaults are.
const OPTIONS: [(&CStr, &CStr); 3] =
    [(c"redirect_dir", c"nofollow"), (c"metacopy", c"off"), (c"index", c"off")];

/// Mounts the overlay, which this process was forked for, and serves it to its end. Returns the exit code.
pub(crate) fn serve(fds: OverlayFds) -> i32 {
    let OverlayFds { socket, lower, upper, work } = fds;
    sys::close_inherited(&mut [&socket, &lower, &upper, &work].map(AsRawFd::as_raw_fd));
    setsid().ok();
    let mounted = mount(&lower, &upper, &work, MOUNT_CAPABILITIES);
    drop((lower, upper, work));
    let mount = match mounted {
        Ok(mount) => mount,
        Err(failure) => return i32::from(reply(&socket, Err(failure)).is_err()),
    };
    let root = openat(&mount, ".", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty());
    let is_sent = reply(&socket, root.map_err(|error| mount_failure("open", &error.into()))).is_ok();
    // The host does not wait for this.
    if !is_sent || confine(&mount).is_err() {
        return 1;
    }
    // One clone is always ready.
    while reply(&socket, clone_mount(&mount).map_err(|error| mount_failure("clone", &error))).is_ok() {
        match receive_message(&socket, &mut [0]) {
            Ok((1.., _)) => {}
            _ => return 0,
        }
    }
    0
}

fn reply(socket: &OwnedFd, result: Result<OwnedFd, Failure>) -> io::Result<()> {
    let (reply, fds): (Reply, Vec<OwnedFd>) = match result {
        Ok(fd) => (Ok(()), vec![fd]),
        Err(failure) => (Err(failure), Vec::new()),
    };
    send_message(socket, &ipc::encode(&reply)?, &fds)
}

fn mount_failure(step: &str, error: &io::Error) -> Failure {
    Failure::Mount(step.into(), sys::errno(error))
}

/// Mounts it over the lower folder, which nobody else sees, with these capabilities of those that this process has.
pub(super) fn mount(
    lower: &OwnedFd,
    upper: &OwnedFd,
    work: &OwnedFd,
    retained: CapabilitySet,
) -> Result<OwnedFd, Failure> {
    let (upper_path, work_path) = (path_of(upper)?, path_of(work)?);
    // The working directory goes along into the new namespace, whatever has become of its path. Descriptors do not.
    fchdir(lower).map_err(|error| mount_failure("lowerdir", &error.into()))?;
    let entered = namespaces::enter_own_mounts().and_then(|()| change_all_mounts(MountChange::ReceiveOnly));
    entered.map_err(|error| Failure::Namespaces(sys::errno(&error)))?;
    let lower = open_same(lower, OsStr::new("."), |path| {
        openat(CWD, path, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
    })?;
    let upper = open_same(upper, &upper_path, open_no_symlinks)?;
    let work = open_same(work, &work_path, open_no_symlinks)?;
    check_mounts_below()?;
    capabilities::drop_all_except(retained).map_err(|error| mount_failure("capabilities", &error.into()))?;
    let mount = new_overlay(&lower, &upper, &work)?;
    // The kernel clones only what is attached.
    attach(&mount, &lower).map_err(|error| mount_failure("attach", &error))?;
    // The kernel gives its folders no mode, with which an ordinary user could not remove them as any other.
    for folder in ["work", "work/incompat", "work/incompat/volatile"] {
        chmodat(&work, folder, Mode::RWXU, AtFlags::empty()).ok();
    }
    Ok(mount)
}

fn path_of(folder: &OwnedFd) -> Result<OsString, Failure> {
    let link = readlink(fd_path(folder), Vec::new()).map_err(|error| mount_failure("proc", &error.into()))?;
    Ok(OsStr::from_bytes(link.as_bytes()).to_owned())
}

/// A path of an open folder that says nothing of where it is: programs can read it in their list of mounts.
fn fd_path(folder: &OwnedFd) -> String {
    format!("/proc/self/fd/{}", folder.as_raw_fd())
}

/// Opens a folder of the host in this namespace.
fn open_same(
    folder: &OwnedFd,
    path: &OsStr,
    open: impl FnOnce(&OsStr) -> rustix::io::Result<OwnedFd>,
) -> Result<OwnedFd, Failure> {
    let id = |folder: &OwnedFd| fstat(folder).ok().map(|about| FileId::from_stat(&about));
    open(path)
        .ok()
        .filter(|opened| id(opened) == id(folder))
        .ok_or_else(|| Failure::Replaced(path.to_owned()))
}

/// An overlay would show the folders on which something is mounted as they are beneath.
fn check_mounts_below() -> Result<(), Failure> {
    let folder = getcwd(Vec::new()).map_err(|error| mount_failure("lowerdir", &error.into()))?;
    let folder = PathBuf::from(OsStr::from_bytes(folder.as_bytes()));
    let mounts = read_mounts().map_err(|error| mount_failure("mountinfo", &error))?;
    let is_below = |target: &Path| target != folder && target.starts_with(&folder);
    match mounts.into_iter().find(|mount| is_below(&mount.target)) {
        Some(mount) => Err(Failure::MountBelow(folder.into(), mount.target.into())),
        None => Ok(()),
    }
}

fn new_overlay(lower: &OwnedFd, upper: &OwnedFd, work: &OwnedFd) -> Result<OwnedFd, Failure> {
    let at = |step: &'static str| move |error: Errno| mount_failure(step, &error.into());
    let overlay = match fsopen(c"overlay", FsOpenFlags::FSOPEN_CLOEXEC) {
        Err(Errno::NODEV) => return Err(Failure::NoOverlayfs),
        opened => opened.map_err(at("fsopen"))?,
    };
    fsconfig_set_string(&overlay, c"source", c"metier-sandbox").map_err(at("source"))?;
    fsconfig_set_flag(&overlay, c"userxattr").map_err(at("userxattr"))?;
    // Otherwise the end of an overlay writes the whole file system of the folder for changes to the disk.
    fsconfig_set_flag(&overlay, c"volatile").map_err(at("volatile"))?;
    for (option, value) in OPTIONS {
        fsconfig_set_string(&overlay, option, value).map_err(at("options"))?;
    }
    // Files and folders have the same device, as in a project. On one file system they do, and the kernel's log would say that this is of no use.
    let device = |folder: &OwnedFd| fstat(folder).map(|about| about.st_dev).map_err(at("xino"));
    let xino = if device(lower)? == device(upper)? { c"off" } else { c"on" };
    fsconfig_set_string(&overlay, c"xino", xino).map_err(at("xino"))?;
    for (option, folder) in [("lowerdir", lower), ("upperdir", upper), ("workdir", work)] {
        fsconfig_set_string(&overlay, option, fd_path(folder)).map_err(at(option))?;
    }
    fsconfig_create(&overlay).map_err(at("mount"))?;
    let mut flags = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV;
    // What the lower folder's own mount refuses, this one refuses.
    let lower_flags = fstatvfs(lower).map_err(at("lowerdir"))?.f_flag;
    for (refusal, attribute) in [
        (StatVfsMountFlags::RDONLY, MountAttrFlags::MOUNT_ATTR_RDONLY),
        (StatVfsMountFlags::NOEXEC, MountAttrFlags::MOUNT_ATTR_NOEXEC),
    ] {
        flags.set(attribute, lower_flags.contains(refusal));
    }
    fsmount(&overlay, FsMountFlags::FSMOUNT_CLOEXEC, flags).map_err(at("fsmount"))
}

/// Leaves this process nothing but the overlay and the right to clone it.
fn confine(mount: &OwnedFd) -> io::Result<()> {
    // Where the root is that of the kernel's start (initramfs), there is no way out of it.
    mount_root::pivot(mount).ok();
    set_no_new_privs(true)?;
    Ok(capabilities::drop_all_except(CapabilitySet::SYS_ADMIN)?)
}

/// A descriptor comes with it, or it says why there is none.
pub(super) type Reply = Result<(), Failure>;

/// Why there is no overlay, with error numbers of the system.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Failure {
    /// This process can have no mounts of its own.
    Namespaces(i32),
    /// Another folder is at this path than the one that the host has opened.
    Replaced(#[serde(with = "bytes")] OsString),
    /// The lower folder, and what is mounted in it.
    MountBelow(#[serde(with = "bytes")] OsString, #[serde(with = "bytes")] OsString),
    /// The kernel has no overlayfs.
    NoOverlayfs,
    /// What overlayfs refuses: an option, or another step.
    Mount(String, i32),
}

/// Longer than any reply, which has two paths at most.
pub(super) const MAX_REPLY_BYTES: usize = 16 << 10;
