//! Mounts: everything can be read only, but for what may be written; and in there, but for what is guarded.
//!
//! What may be written is copied before the rest is shut and put back over itself afterwards. It stays what it was when the
//! run began, whatever becomes of its path.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{CStr, OsStr};
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, Stat, fstat};
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MountFlags, MoveMountFlags, OpenTreeFlags, fsconfig_create,
    fsconfig_set_string, fsmount, fsopen, mount, move_mount, open_tree,
};

use super::super::sandbox::{Exactly, FileRules, Guarded};
use super::files::{open_exactly, open_itself, open_link_too};
use super::memory::said;
use super::system::{Mounts, change_mounts};
use super::twice::are_shown_twice;

/// What goes over a path.
enum Step {
    /// The copy of what is there, as it could be changed before.
    Open(OwnedFd),
    /// What is there by then, so that it stays there.
    Pin,
    /// The same, to be read only.
    Keep,
    /// Nothing that could be opened.
    Hide,
    /// The same, or nothing runs.
    Cover,
}

/// Does what no order changes: nothing of what happens to these mounts is seen elsewhere, and `/proc` shows this namespace's
/// processes only, which is the answer. Where some of the machine's is hidden, as in containers, the kernel hides all of it.
///
/// What is taken out while there is no order goes here as well: it would else be in use.
pub(super) fn begin() -> io::Result<bool> {
    change_mounts(&CWD, c"/", Mounts::Following)?;
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    Ok(mount(c"proc", c"/proc", c"proc", flags, None).is_ok())
}

/// Puts up all mounts, and says whether everything guarded is.
///
/// After an error the mounts are in no state to run anything in.
pub(super) fn put_up(files: &FileRules, shared: Option<u64>) -> io::Result<bool> {
    change_mounts(&CWD, c"/", Mounts::Private)?;
    // Before there are mounts of ours but `/proc`. What can only be read needs no more than one place where it cannot be changed.
    let is_shown_twice = are_shown_twice(&files.guarded.hidden);
    let steps = steps(files, shared)?;
    // Nothing is put over the root, and nothing need be where all of it may be written.
    if !files.write.iter().any(|place| place.path == ROOT) {
        change_mounts(&CWD, c"/", Mounts::ReadOnly)?;
    }
    let mut guarded = files.guarded.more.is_none() && !is_shown_twice;
    let linked: BTreeSet<(u64, u64)> = files.guarded.linked.iter().copied().collect();
    // Outer paths come before inner ones.
    for (path, step) in &steps {
        match step {
            Step::Open(copy) => put_back(copy, path)?,
            Step::Pin => guarded &= pin(path).is_ok(),
            Step::Keep => guarded &= keep(path, &linked).is_ok(),
            Step::Hide => guarded &= hide(path, &linked).is_ok(),
            // This process's own are there as long as it runs; another user's may go at any time.
            Step::Cover => match hide(path, &linked) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                hidden => hidden?,
            },
        }
    }
    Ok(guarded)
}

/// Everything there is.
const ROOT: &str = "/";

/// What to do at which path; `shared` is how much memory may be shared by name.
fn steps(files: &FileRules, shared: Option<u64>) -> io::Result<BTreeMap<PathBuf, Step>> {
    let Guarded { kept, hidden, own, .. } = &files.guarded;
    let all_kept: BTreeSet<&Path> = kept.iter().map(Path::new).collect();
    let is_below_kept = |path: &Path| path.ancestors().any(|above| all_kept.contains(above));
    let open: BTreeMap<PathBuf, &Exactly> =
        files.write.iter().map(|place| (place.path.clone().into(), place)).collect();
    // What lies in another needs no copy of its own, unless something guarded lies between them.
    let mut needed: Vec<PathBuf> = Vec::new();
    for path in open.keys() {
        let is_own = is_below_kept(path) || path.as_os_str() == SHARED_MEMORY;
        if is_own || !needed.iter().any(|outer| path.starts_with(outer)) {
            needed.push(path.clone());
        }
    }
    let mut steps = BTreeMap::new();
    for path in own.iter().chain(kept).chain(hidden).flat_map(|path| between(Path::new(path), &needed)) {
        if !is_below_kept(&path) && !steps.contains_key(&path) {
            steps.insert(path, Step::Pin);
        }
    }
    for path in needed.into_iter().filter(|path| path.as_os_str() != ROOT) {
        if let Some(copy) = copy(open[&path], shared)? {
            steps.insert(path, Step::Open(copy));
        }
    }
    steps.extend(kept.iter().map(|path| (path.into(), Step::Keep)));
    steps.extend(hidden.iter().map(|path| (path.into(), Step::Hide)));
    steps.extend(own.iter().map(|path| (path.into(), Step::Cover)));
    Ok(steps)
}

/// The folders from a folder that may be written down to something guarded in it. Mounted on themselves they cannot be renamed,
/// and what they hold cannot be replaced by way of that.
fn between(guarded: &Path, open: &[PathBuf]) -> Vec<PathBuf> {
    let root = open.iter().filter(|root| guarded.starts_with(root)).max_by_key(|root| root.as_os_str().len());
    let Some(root) = root else { return Vec::new() };
    guarded.ancestors().skip(1).take_while(|above| above != root).map(Path::to_owned).collect()
}

/// A copy of the mount at a file or a folder; nothing where there is neither. Devices can be written to anyway.
fn copy(place: &Exactly, shared: Option<u64>) -> io::Result<Option<OwnedFd>> {
    let Ok(found) = open_exactly(place) else { return Ok(None) };
    let is_mountable = matches!(kind(&fstat(&found)?), FileType::Directory | FileType::RegularFile);
    if place.path == SHARED_MEMORY {
        return Ok(Some(own_memory(c"1777", shared)?));
    }
    if is_mountable { Ok(Some(cloned(&found)?)) } else { Ok(None) }
}

fn put_back(copy: &OwnedFd, path: &Path) -> io::Result<()> {
    let there = open_itself(path.as_os_str())?;
    let is_same = {
        let (one, other) = (fstat(copy)?, fstat(&there)?);
        (one.st_dev, one.st_ino) == (other.st_dev, other.st_ino)
    };
    if !is_same && path.as_os_str() != SHARED_MEMORY {
        return Err(Errno::STALE.into());
    }
    attach(copy, &there)
}

fn pin(path: &Path) -> io::Result<()> {
    let there = open_itself(path.as_os_str())?;
    attach(&cloned(&there)?, &there)
}

fn keep(path: &Path, linked: &BTreeSet<(u64, u64)>) -> io::Result<()> {
    let there = open_link_too(path.as_os_str())?;
    let copy = cloned(&there)?;
    change_mounts(&copy, c"", Mounts::ReadOnly)?;
    attach(&copy, &there)?;
    all_names_are_known(&fstat(&there)?, linked)
}

/// Puts a device that cannot be opened over a file, and an empty folder that cannot be entered over a folder.
fn hide(path: &Path, linked: &BTreeSet<(u64, u64)>) -> io::Result<()> {
    let there = open_link_too(path.as_os_str())?;
    let about = fstat(&there)?;
    let nothing = if kind(&about) == FileType::Directory {
        own_memory(c"000", None)?
    } else {
        cloned(&open_itself(OsStr::new("/dev/null"))?)?
    };
    change_mounts(&nothing, c"", Mounts::Dead)?;
    attach(&nothing, &there)?;
    all_names_are_known(&about, linked)
}

/// A file with a name that nobody knows cannot be guarded by the others.
fn all_names_are_known(about: &Stat, linked: &BTreeSet<(u64, u64)>) -> io::Result<()> {
    let is_single = kind(about) != FileType::RegularFile || about.st_nlink <= 1;
    let is_known = is_single || linked.contains(&(about.st_dev, about.st_ino));
    if is_known { Ok(()) } else { Err(io::ErrorKind::AlreadyExists.into()) }
}

fn kind(about: &Stat) -> FileType {
    FileType::from_raw_mode(about.st_mode)
}

fn cloned(found: &OwnedFd) -> io::Result<OwnedFd> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_EMPTY_PATH
        | OpenTreeFlags::AT_RECURSIVE;
    Ok(open_tree(found, c"", flags)?)
}

fn attach(what: &OwnedFd, there: &OwnedFd) -> io::Result<()> {
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    Ok(move_mount(what, c"", there, c"", flags)?)
}

/// Where programs share memory by name. Theirs is nobody else's, and goes with them.
pub(super) const SHARED_MEMORY: &str = "/dev/shm";

/// The name that a cage's own memory has in the list of mounts.
const OWN: &str = "metier-cage";

/// Whether the memory that is shared by name is this cage's own.
pub(super) fn has_own_memory() -> bool {
    let mounts = said("/proc/thread-self/mountinfo").unwrap_or_default();
    // 36 35 0:50 / /dev/shm rw,nosuid,nodev - tmpfs metier-cage rw,size=131072k
    let is_there = |line: &&str| line.split(' ').nth(4) == Some(SHARED_MEMORY);
    let kind = mounts.lines().rfind(is_there).and_then(|line| line.split(" - ").nth(1));
    kind.is_some_and(|kind| kind.split(' ').nth(1) == Some(OWN))
}

/// Files that there may be in such memory; each takes about a kilobyte.
const FILES: &str = "65536";

/// A new file system in memory, with these rights for its root and so many bytes.
fn own_memory(mode: &CStr, most: Option<u64>) -> io::Result<OwnedFd> {
    let new = fsopen(c"tmpfs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_set_string(&new, c"source", OWN)?;
    fsconfig_set_string(&new, c"mode", mode)?;
    if let Some(most) = most {
        fsconfig_set_string(&new, c"size", most.to_string())?;
        // Each is a file, or as much of its attributes.
        fsconfig_set_string(&new, c"nr_inodes", FILES)?;
    }
    fsconfig_create(&new)?;
    let flags = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV;
    Ok(fsmount(&new, FsMountFlags::FSMOUNT_CLOEXEC, flags)?)
}
