//! Mounts: makes everything read-only except the writable paths, and covers protected paths inside those.
//!
//! Writable paths are cloned before the rest becomes read-only, and mounted over themselves afterwards. Each remains the folder
//! it was when the run began, whatever happens to its path.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{CWD, FileType, Mode, OFlags, Stat, fstat, openat};
use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

use crate::linux::layers::landlock::{open_final_symlink, open_no_symlinks, open_pinned};
use crate::linux::layers::mount_clone::{
    attach, attach_read_only, change_all_mounts, clone_mount, new_tmpfs,
};
use crate::linux::layers::mount_table::have_mount_alias;
use crate::linux::layers::private_folders::PrivateMounts;
use crate::linux::layers::{mount_root, private_folders};
use crate::linux::sys;
use crate::linux::sys::MountChange;
use crate::{FileId, FileRules, OverlayMount, PinnedPath, ProtectedPaths};

/// What to mount over a path.
enum MountStep {
    /// The clone of what is there, still writable.
    Writable(OwnedFd),
    /// What is there at that moment, so that it cannot be renamed.
    Pin,
    /// The same, read-only.
    ReadOnly,
    /// Something that cannot be opened.
    Hide,
    /// The same; if that fails, the run fails.
    HideOrFail,
}

/// Does what is the same for every request: mount events do not propagate to other namespaces, and `/proc` shows only the
/// processes of this namespace. Returns whether that `/proc` could be mounted: if parts of the machine's are hidden, as in
/// containers, the kernel refuses it.
///
/// A medium unmounted while there is no request is unmounted here too: otherwise it would be in use.
pub(crate) fn prepare() -> io::Result<bool> {
    change_all_mounts(MountChange::ReceiveOnly)?;
    // It is read once, and needed when there is a request.
    private_folders::user_name();
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    Ok(mount(c"proc", c"/proc", c"proc", flags, None).is_ok())
}

/// What came of the mounts.
pub(crate) struct AppliedMounts {
    /// Every protected path is protected.
    pub(crate) protected_paths: bool,
    /// The `/dev/shm` of the sandbox, if it has one.
    pub(crate) shm: Option<OwnedFd>,
}

/// Lets no mount events in any more. Returns whether a protected path is visible through another mount, which is checked before the sandbox
/// mounts more than `/proc`.
pub(crate) fn isolate(files: &FileRules) -> io::Result<bool> {
    change_all_mounts(MountChange::Private)?;
    Ok(have_mount_alias(files))
}

/// Attaches a script's overlay, if it has one, so that everything that is opened later is opened in it.
pub(crate) fn attach_overlay(at: Option<&OverlayMount>, overlay: Option<&OwnedFd>) -> io::Result<()> {
    match (at, overlay) {
        (None, None) => Ok(()),
        (Some(at), Some(overlay)) => attach(overlay, &open_pinned(&at.target)?),
        _ => Err(io::ErrorKind::InvalidInput.into()),
    }
}

/// Applies all other mounts for a program.
///
/// After an error the mounts are in no state to run anything in.
pub(crate) fn apply(
    files: &FileRules,
    have_alias: bool,
    shm_limit: Option<u64>,
    program: &OsStr,
) -> io::Result<AppliedMounts> {
    let mut steps = steps(files, shm_limit)?;
    let is_writable = |path: &Path| matches!(steps.get(path), Some(MountStep::Writable(_)));
    let private = PrivateMounts::prepare(files, is_writable)?;
    // Nothing is mounted over the root, and nothing need be if all of it is writable.
    let is_all_writable = files.write.iter().any(|pinned| pinned.path == ROOT);
    let mut empty = BTreeSet::new();
    if !is_all_writable {
        if mount_root::is_needed() {
            empty = mount_root::enter(files, program, is_writable)?;
        }
        make_everything_read_only()?;
    }
    empty.extend(private.attach()?);
    let mut is_protected = files.protected_paths.incomplete_reason.is_none() && !have_alias;
    let hard_linked: BTreeSet<FileId> = files.protected_paths.hard_linked_files.iter().copied().collect();
    // Outer paths come before inner ones.
    for (path, step) in &steps {
        match step {
            MountStep::Writable(copy) if empty.contains(path.as_path()) => {
                attach(copy, &open_no_symlinks(path.as_os_str())?)?;
            }
            MountStep::Writable(copy) => attach_copy(copy, path)?,
            MountStep::Pin => is_protected &= pin(path).is_ok(),
            MountStep::ReadOnly => is_protected &= make_read_only(path, &hard_linked).is_ok(),
            MountStep::Hide => is_protected &= hide(path, &hard_linked).is_ok(),
            // This process's own directories exist as long as it runs; another user's may disappear at any time.
            MountStep::HideOrFail => match hide(path, &hard_linked) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                hidden => hidden?,
            },
        }
    }
    let shm = match steps.remove(Path::new(DEV_SHM)) {
        Some(MountStep::Writable(shm)) => Some(shm),
        _ => None,
    };
    Ok(AppliedMounts { protected_paths: is_protected, shm })
}

/// Makes all mounts read-only. The kernel refuses that while somebody writes to one of them. The child writes to none, but when it follows
/// a link, the kernel notes the time on the mount, and for that moment refuses too.
pub(crate) fn make_everything_read_only() -> io::Result<()> {
    const TIME_LIMIT: Duration = Duration::from_millis(100);
    let began = Instant::now();
    loop {
        match change_all_mounts(MountChange::ReadOnly) {
            Err(error) if sys::errno(&error) == libc::EBUSY && began.elapsed() < TIME_LIMIT => {
                rustix::thread::sched_yield();
            }
            done => return done,
        }
    }
}

/// The root directory.
const ROOT: &str = "/";

/// The step for each path; `shm_limit` is the size limit of `/dev/shm`.
fn steps(files: &FileRules, shm_limit: Option<u64>) -> io::Result<BTreeMap<PathBuf, MountStep>> {
    let ProtectedPaths { read_only, hidden, own, .. } = &files.protected_paths;
    let read_only_paths: BTreeSet<&Path> = read_only.iter().map(Path::new).collect();
    let writable: BTreeMap<PathBuf, &PinnedPath> =
        files.write_with_mounts().map(|pinned| (pinned.path.clone().into(), pinned)).collect();
    // The folder of a skill is writable in a read-only one, with something read-only in it.
    let is_below_read_only = |path: &Path| {
        let is_listed = |above: &&Path| read_only_paths.contains(above) || writable.contains_key(*above);
        path.ancestors().skip(1).find(is_listed).is_some_and(|above| read_only_paths.contains(above))
    };
    // A path inside a writable one needs no clone of its own, unless a protected path lies between them.
    let mut needed: Vec<PathBuf> = Vec::new();
    for path in writable.keys() {
        let is_own = is_below_read_only(path) || path.as_os_str() == DEV_SHM;
        if is_own || !needed.iter().any(|outer| path.starts_with(outer)) {
            needed.push(path.clone());
        }
    }
    let mut steps = BTreeMap::new();
    for path in
        own.iter().chain(read_only).chain(hidden).flat_map(|path| dirs_between(Path::new(path), &needed))
    {
        if !is_below_read_only(&path) && !steps.contains_key(&path) {
            steps.insert(path, MountStep::Pin);
        }
    }
    for path in needed.into_iter().filter(|path| path.as_os_str() != ROOT) {
        if let Some(copy) = copy_mount(writable[&path], shm_limit)? {
            steps.insert(path, MountStep::Writable(copy));
        }
    }
    steps.extend(read_only.iter().map(|path| (path.into(), MountStep::ReadOnly)));
    steps.extend(hidden.iter().map(|path| (path.into(), MountStep::Hide)));
    steps.extend(own.iter().map(|path| (path.into(), MountStep::HideOrFail)));
    Ok(steps)
}

/// The folders between a writable folder and a protected path in it. Mounted on themselves they cannot be renamed, so that the
/// protected path cannot be replaced by renaming one of them.
fn dirs_between(protected: &Path, writable: &[PathBuf]) -> Vec<PathBuf> {
    let root =
        writable.iter().filter(|root| protected.starts_with(root)).max_by_key(|root| root.as_os_str().len());
    let Some(root) = root else { return Vec::new() };
    protected.ancestors().skip(1).take_while(|above| above != root).map(Path::to_owned).collect()
}

/// A clone of the mount at a file or a folder; `None` if it is neither. Devices can be written to anyway.
fn copy_mount(pinned: &PinnedPath, shm_limit: Option<u64>) -> io::Result<Option<OwnedFd>> {
    let Ok(found) = open_pinned(pinned) else { return Ok(None) };
    let is_mountable = matches!(file_type(&fstat(&found)?), FileType::Directory | FileType::RegularFile);
    if pinned.path == DEV_SHM {
        return Ok(Some(new_tmpfs(c"1777", shm_limit)?));
    }
    if is_mountable { Ok(Some(clone_mount(&found)?)) } else { Ok(None) }
}

fn attach_copy(copy: &OwnedFd, path: &Path) -> io::Result<()> {
    let target = open_no_symlinks(path.as_os_str())?;
    let is_same = FileId::from_stat(&fstat(copy)?) == FileId::from_stat(&fstat(&target)?);
    if !is_same && path.as_os_str() != DEV_SHM {
        return Err(Errno::STALE.into());
    }
    attach(copy, &target)
}

fn pin(path: &Path) -> io::Result<()> {
    let target = open_no_symlinks(path.as_os_str())?;
    attach(&clone_mount(&target)?, &target)
}

fn make_read_only(path: &Path, hard_linked: &BTreeSet<FileId>) -> io::Result<()> {
    let target = open_final_symlink(path.as_os_str())?;
    let copy = clone_mount(&target)?;
    attach_read_only(&copy, &target, MountChange::ReadOnly)?;
    check_hard_links(&fstat(&target)?, hard_linked)
}

/// Mounts a device that cannot be opened over a file, or an empty folder that cannot be entered over a folder.
fn hide(path: &Path, hard_linked: &BTreeSet<FileId>) -> io::Result<()> {
    let target = open_final_symlink(path.as_os_str())?;
    let about = fstat(&target)?;
    let cover = if file_type(&about) == FileType::Directory {
        new_tmpfs(c"000", None)?
    } else {
        clone_mount(&open_no_symlinks(OsStr::new("/dev/null"))?)?
    };
    attach_read_only(&cover, &target, MountChange::ReadOnlyNoDevices)?;
    check_hard_links(&about, hard_linked)
}

/// Covers files of the system with these contents. A file that does not exist is left out.
pub(crate) fn cover_files(files: &[(&str, String)]) -> io::Result<()> {
    /// Where the new files are mounted until each has a mount of its own: only a mount that is in use can be cloned.
    const MOUNTED_AT: &str = "/etc";
    let mut targets = Vec::new();
    for (path, text) in files {
        match openat(CWD, *path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()) {
            Ok(target) => targets.push((target, *path, text)),
            Err(Errno::NOENT) => {}
            Err(error) => return Err(error.into()),
        }
    }
    let folder = openat(CWD, MOUNTED_AT, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
    let tmpfs = new_tmpfs(c"755", Some(MAX_COVER_BYTES))?;
    attach(&tmpfs, &folder)?;
    let copies: io::Result<Vec<OwnedFd>> = targets
        .iter()
        .map(|(_, path, text)| {
            let name = Path::new(path).file_name().unwrap_or_default();
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
            let file = openat(&tmpfs, name, flags, Mode::from_raw_mode(0o444))?;
            File::from(file).write_all(text.as_bytes())?;
            clone_mount(&openat(&tmpfs, name, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?)
        })
        .collect();
    unmount(MOUNTED_AT, UnmountFlags::DETACH)?;
    for (copy, (target, ..)) in copies?.iter().zip(&targets) {
        attach_read_only(copy, target, MountChange::ReadOnlyNoDevices)?;
    }
    Ok(())
}

/// The maximum size of all files that cover others.
const MAX_COVER_BYTES: u64 = 64 << 10;

/// A hard-linked file with an unknown name cannot be protected by its known names.
fn check_hard_links(about: &Stat, hard_linked: &BTreeSet<FileId>) -> io::Result<()> {
    let is_single = file_type(about) != FileType::RegularFile || about.st_nlink <= 1;
    let is_known = is_single || hard_linked.contains(&FileId::from_stat(about));
    if is_known { Ok(()) } else { Err(io::ErrorKind::AlreadyExists.into()) }
}

fn file_type(about: &Stat) -> FileType {
    FileType::from_raw_mode(about.st_mode)
}

/// Where programs share memory by name. A sandbox has its own, which ends with it.
pub(crate) const DEV_SHM: &str = "/dev/shm";
