//! Folders of the run's own in the place of the machine's, such as `/tmp` and the user's home, in which only what the script may see of
//! the machine's is at its place.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Component, Path, PathBuf};
use std::sync::OnceLock;

use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, fstat, mkdirat, mknodat, openat, statat, symlinkat, unlinkat,
};
use rustix::io::Errno;
use rustix::process::geteuid;

use crate::begins_with;
use crate::linux::layers::landlock::{open_no_symlinks, open_pinned};
use crate::linux::layers::mount_clone::{attach, attach_read_only, clone_mount};
use crate::linux::procfs::read_lossy;
use crate::linux::sys::MountChange;
use crate::{FileRules, LaunchRequest, PRIVATE_TMP, PinnedPath, PrivateFolder};

impl LaunchRequest {
    /// Makes the variables of private folders name them by the paths at which they are mounted.
    pub(crate) fn name_private_folders(&mut self) {
        for folder in &self.sandbox.files.private_folders {
            let names_it = |(name, value): &&mut (OsString, OsString)| {
                *value == folder.content.path
                    && folder.variables.iter().any(|variable| name == variable.as_str())
            };
            for (_, value) in self.environment.iter_mut().filter(names_it) {
                value.clone_from(&folder.path);
            }
        }
    }
}

impl FileRules {
    /// What the script may change, without private folders that it sees at other paths.
    pub(crate) fn write_with_mounts(&self) -> impl Iterator<Item = &PinnedPath> {
        let is_elsewhere = |pinned: &&PinnedPath| {
            let mut renamed = self.private_folders.iter().filter(|folder| !folder.variables.is_empty());
            renamed.any(|folder| folder.content.path == pinned.path)
        };
        self.write.iter().filter(move |pinned| !is_elsewhere(pinned))
    }

    /// Whether the script may create sockets in a private folder.
    pub(crate) fn may_have_sockets(&self, folder: &PrivateFolder) -> bool {
        let content = Path::new(&folder.content.path);
        self.socket_dirs.iter().any(|dir| content.starts_with(&dir.path))
    }
}

/// Mounts that are not attached yet, outer folders first.
pub(super) struct PrivateMounts<'a>(Vec<PrivateMount<'a>>);

/// One private folder.
struct PrivateMount<'a> {
    path: &'a Path,
    folder: OwnedFd,
    /// The folders between it and what is shown, outer ones first.
    between: BTreeSet<PathBuf>,
    /// What is shown, outer paths first.
    shown: Vec<(&'a Path, Shown)>,
}

/// What is mounted at a path in a private folder.
enum Shown {
    ReadOnly(OwnedFd),
    /// What the caller mounts.
    Writable,
    /// Another private folder.
    Private,
}

impl<'a> PrivateMounts<'a> {
    /// Clones what is shown, and creates what it is mounted on, as long as the file systems can be written to. `is_writable` tells of a
    /// path whether the caller mounts it.
    pub(super) fn prepare(files: &'a FileRules, is_writable: impl Fn(&Path) -> bool) -> io::Result<Self> {
        let mut folders: Vec<&PrivateFolder> = files.private_folders.iter().collect();
        if folders.is_empty() {
            return Ok(Self(Vec::new()));
        }
        folders.sort_by_key(|folder| Path::new(&folder.path));
        let private: BTreeSet<&Path> = folders.iter().map(|folder| Path::new(&folder.path)).collect();
        let pinned = files.own.iter().chain(files.write_with_mounts()).map(|pinned| &pinned.path);
        let mut listed: BTreeSet<&Path> = files.read.iter().chain(pinned).map(Path::new).collect();
        listed.extend(&private);
        let mounts = folders.into_iter().map(|folder| {
            let path = Path::new(&folder.path);
            let is_inner = |inner: &&Path| *inner != path && begins_with(inner, path);
            let inner: Vec<&Path> = private.iter().copied().filter(is_inner).collect();
            let is_in = |listed: &Path| {
                is_inner(&listed) && !inner.iter().any(|inner| *inner != listed && listed.starts_with(inner))
            };
            let listed = listed.iter().copied().filter(|path| is_in(path));
            PrivateMount::prepare(folder, listed, |path| match path {
                path if inner.contains(&path) => Some(Shown::Private),
                path => is_writable(path).then_some(Shown::Writable),
            })
        });
        Ok(Self(mounts.collect::<io::Result<_>>()?))
    }

    /// Returns the empty places for what is writable.
    pub(super) fn attach(self) -> io::Result<BTreeSet<&'a Path>> {
        let mut empty = BTreeSet::new();
        for private in self.0 {
            attach(&private.folder, &open_no_symlinks(private.path.as_os_str())?)?;
            for folder in &private.between {
                // Mounted on itself it cannot be renamed, with what is mounted in it, or be replaced.
                let folder = open_no_symlinks(folder.as_os_str())?;
                attach(&clone_mount(&folder)?, &folder)?;
            }
            for (path, shown) in private.shown {
                match shown {
                    Shown::ReadOnly(copy) => {
                        let target = open_no_symlinks(path.as_os_str())?;
                        attach_read_only(&copy, &target, MountChange::ReadOnly)?;
                    }
                    Shown::Writable => drop(empty.insert(path)),
                    Shown::Private => {}
                }
            }
        }
        Ok(empty)
    }
}

impl<'a> PrivateMount<'a> {
    fn prepare(
        private: &'a PrivateFolder,
        listed: impl Iterator<Item = &'a Path>,
        shown_otherwise: impl Fn(&Path) -> Option<Shown>,
    ) -> io::Result<Self> {
        let path = Path::new(&private.path);
        let folder = clone_mount(&open_pinned(&private.content)?)?;
        let (mut shown, mut between) = (Vec::<(&Path, Shown)>::new(), BTreeSet::new());
        // Outer paths come before inner ones, which are in them.
        for place in listed {
            if shown.iter().any(|(outer, _)| place.starts_with(outer)) {
                continue;
            }
            let Ok(found) = open_no_symlinks(place.as_os_str()) else { continue };
            let is_folder = FileType::from_raw_mode(fstat(&found)?.st_mode).is_dir();
            let other = shown_otherwise(place);
            let copy = other.map_or_else(|| Ok(Shown::ReadOnly(clone_mount(&found)?)), Ok::<_, io::Error>)?;
            create_mount_point(&folder, place.strip_prefix(path).map_err(io::Error::other)?, is_folder)?;
            between.extend(place.ancestors().skip(1).take_while(|above| *above != path).map(Path::to_owned));
            shown.push((place, copy));
        }
        for (link, target) in &private.links {
            create_link(&folder, Path::new(link), target)?;
        }
        if private.path == PRIVATE_TMP {
            keep_java_out(&folder);
        }
        Ok(Self { path, folder, between, shown })
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

/// A mode by which whoever removes mount points knows them, since a script hardly makes such a file.
const MOUNT_POINT_MODE: Mode = Mode::empty();

/// Creates an empty folder, or an empty file, at this path below a folder of the run, in the place of a symlink of the host. No symlink is
/// followed: what an earlier run of the skill left may lead anywhere.
pub(super) fn create_mount_point(folder: &OwnedFd, below: &Path, is_folder: bool) -> io::Result<()> {
    in_created_dir(folder, below, |above, name| {
        let create = || {
            if is_folder {
                mkdirat(above, name, MOUNT_POINT_MODE)
            } else {
                mknodat(above, name, FileType::RegularFile, MOUNT_POINT_MODE, 0)
            }
        };
        match create() {
            Err(Errno::EXIST) if is_symlink(above, name)? => {
                unlinkat(above, name, AtFlags::empty())?;
                Ok(create()?)
            }
            Err(Errno::EXIST) => Ok(()),
            created => Ok(created?),
        }
    })
}

/// Creates a symlink, with the folders above it.
fn create_link(folder: &OwnedFd, below: &Path, target: &OsStr) -> io::Result<()> {
    in_created_dir(folder, below, |above, name| match symlinkat(target, above, name) {
        Err(Errno::EXIST) => Ok(()),
        created => Ok(created?),
    })
}

fn is_symlink(above: BorrowedFd<'_>, name: &OsStr) -> io::Result<bool> {
    Ok(FileType::from_raw_mode(statat(above, name, AtFlags::SYMLINK_NOFOLLOW)?.st_mode).is_symlink())
}

/// Creates a folder and those above it; the empty path is the folder itself.
pub(super) fn create_dir(folder: &OwnedFd, path: &Path) -> io::Result<()> {
    in_created_dir(folder, path, |above, name| match mkdirat(above, name, Mode::RWXU) {
        Err(Errno::EXIST) => Ok(()),
        created => Ok(created?),
    })
}

/// Creates what is above the last name of a path, and does something there with that name.
fn in_created_dir(
    folder: &OwnedFd,
    path: &Path,
    finish: impl FnOnce(BorrowedFd<'_>, &OsStr) -> io::Result<()>,
) -> io::Result<()> {
    let mut above: Option<OwnedFd> = None;
    let mut names = path.components().peekable();
    while let Some(part) = names.next() {
        let Component::Normal(name) = part else { return Err(io::ErrorKind::InvalidInput.into()) };
        let here = above.as_ref().map_or_else(|| folder.as_fd(), AsFd::as_fd);
        if names.peek().is_none() {
            return finish(here, name);
        }
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let opened = match openat(here, name, flags, Mode::empty()) {
            Err(Errno::NOENT) => {
                mkdirat(here, name, Mode::RWXU)?;
                openat(here, name, flags, Mode::empty())?
            }
            opened => opened?,
        };
        above = Some(opened);
    }
    Ok(())
}
