//! A `/tmp` of the run's own, in which only what the script may see of the machine's `/tmp` is at its place.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Component, Path};
use std::sync::OnceLock;

use rustix::fs::{FileType, Mode, OFlags, fstat, mkdirat, mknodat, openat};
use rustix::io::Errno;
use rustix::process::geteuid;

use crate::begins_with;
use crate::linux::layers::landlock::{open_no_symlinks, open_pinned};
use crate::linux::layers::mount_clone::{attach, attach_read_only, clone_mount};
use crate::linux::procfs::read_lossy;
use crate::linux::sys::MountChange;
use crate::{FileRules, PRIVATE_TMP};

/// Mounts that are not attached yet.
pub(super) struct PrivateTmp<'a> {
    folder: OwnedFd,
    /// What is shown, outer paths first; nothing at a path that is writable, where the caller mounts what is writable.
    shown: Vec<(&'a Path, Option<OwnedFd>)>,
}

impl<'a> PrivateTmp<'a> {
    /// Clones what is shown, and creates what it is mounted on, as long as the file systems can be written to. `is_writable` tells of a
    /// path whether the caller mounts it.
    pub(super) fn prepare(
        files: &'a FileRules,
        is_writable: impl Fn(&Path) -> bool,
    ) -> io::Result<Option<Self>> {
        let Some(pinned) = &files.private_tmp else { return Ok(None) };
        let folder = clone_mount(&open_pinned(pinned)?)?;
        let pinned = files.own.iter().chain(&files.write).map(|pinned| &pinned.path);
        let listed: BTreeSet<&Path> = files.read.iter().chain(pinned).map(Path::new).collect();
        let mut shown: Vec<(&Path, Option<OwnedFd>)> = Vec::new();
        // Outer paths come before inner ones, which are in them.
        for path in listed.into_iter().filter(|path| begins_with(path, Path::new(PRIVATE_TMP))) {
            if shown.iter().any(|(outer, _)| path.starts_with(outer)) {
                continue;
            }
            let Ok(found) = open_no_symlinks(path.as_os_str()) else { continue };
            let is_folder = FileType::from_raw_mode(fstat(&found)?.st_mode).is_dir();
            let copy = if is_writable(path) { None } else { Some(clone_mount(&found)?) };
            create_mount_point(
                &folder,
                path.strip_prefix(PRIVATE_TMP).map_err(io::Error::other)?,
                is_folder,
            )?;
            shown.push((path, copy));
        }
        keep_java_out(&folder);
        Ok(Some(Self { folder, shown }))
    }

    /// Returns the empty places for what is writable.
    pub(super) fn attach(self) -> io::Result<BTreeSet<&'a Path>> {
        attach(&self.folder, &open_no_symlinks(PRIVATE_TMP.as_ref())?)?;
        let mut empty = BTreeSet::new();
        for (path, copy) in self.shown {
            match copy {
                Some(copy) => {
                    attach_read_only(&copy, &open_no_symlinks(path.as_os_str())?, MountChange::ReadOnly)?;
                }
                None => drop(empty.insert(path)),
            }
        }
        Ok(empty)
    }
}

/// Java puts its counters below `/tmp`, whatever `TMPDIR` says, and complains on standard output if it cannot lock them. Where a file has
/// the name of their folder it has none, and is silent.
fn keep_java_out(folder: &OwnedFd) {
    if let Some(name) = user_name() {
        // Without it Java complains, and works.
        mknodat(folder, format!("hsperfdata_{name}"), FileType::RegularFile, Mode::RUSR, 0).ok();
    }
}

/// The name of the user, read once: before the request, where there is time.
pub(super) fn user_name() -> Option<&'static str> {
    static NAME: OnceLock<Option<String>> = OnceLock::new();
    let name = NAME.get_or_init(|| {
        let user = format!(":{}:", geteuid().as_raw());
        let accounts = read_lossy("/etc/passwd").ok()?;
        // root:x:0:0:root:/root:/bin/bash
        let of_user = |line: &&str| {
            line.split_once(':')
                .is_some_and(|(_, rest)| rest.trim_start_matches(|c| c != ':').starts_with(&user))
        };
        accounts.lines().find(of_user).and_then(|line| line.split(':').next()).map(str::to_owned)
    });
    name.as_deref()
}

/// Creates a folder, or an empty file, at this path below a new folder that nobody else knows.
pub(super) fn create_mount_point(folder: &OwnedFd, below: &Path, is_folder: bool) -> io::Result<()> {
    if below.components().any(|part| !matches!(part, Component::Normal(_))) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    if is_folder {
        return create_dir(folder, below);
    }
    if let Some(above) = below.parent() {
        create_dir(folder, above)?;
    }
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(folder, below, flags, Mode::RUSR | Mode::WUSR)?;
    Ok(())
}

/// Creates a folder and those above it; the empty path is the folder itself.
pub(super) fn create_dir(folder: &OwnedFd, path: &Path) -> io::Result<()> {
    let Some(above) = path.parent() else { return Ok(()) };
    match mkdirat(folder, path, Mode::RWXU) {
        Err(Errno::NOENT) => {
            create_dir(folder, above)?;
            Ok(mkdirat(folder, path, Mode::RWXU)?)
        }
        Err(Errno::EXIST) => Ok(()),
        created => Ok(created?),
    }
}
