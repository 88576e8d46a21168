//! A root of the script's own, where no Landlock restricts which files it opens: what it may neither read nor write is not there.
//!
//! The new root is a tmpfs with the folders and links on the way to what is shown, each of which is mounted at its own path. The
//! other mounts of the sandbox are then made in it, by the same paths as in the machine's.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ffi::OsStr;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};
use std::{fs, io};

use rustix::fs::{CWD, FileType, Mode, OFlags, fstat, openat, readlink, symlinkat};
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, UnmountFlags, fsconfig_create, fsconfig_set_string, fsmount,
    fsopen, unmount,
};
use rustix::process::{chdir, fchdir, pivot_root};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use super::landlock::{kernel_abi, open_no_symlinks, open_pinned};
use super::mount_clone::{attach, clone_mount, new_tmpfs};
use super::private_folders::{create_dir, create_mount_point};
use crate::linux::sys;
use crate::{FileRules, begins_with};

/// Whether files are restricted by such a root: mounts take longer than Landlock.
pub(crate) fn is_needed() -> bool {
    kernel_abi() == 0
}

/// The mount namespace in which the supervisor has `/proc` and everything else, while its child is in another one.
pub(crate) struct OwnMounts(fs::File);

impl OwnMounts {
    /// Moves this process into a copy, in which it forks the child and makes the root.
    pub(crate) fn leave() -> io::Result<Self> {
        let own = fs::File::open("/proc/thread-self/ns/mnt")?;
        sys::unshare_mounts()?;
        Ok(Self(own))
    }

    /// Goes back.
    pub(crate) fn enter(&self) -> io::Result<()> {
        Ok(move_into_link_name_space(self.0.as_fd(), Some(LinkNameSpaceType::Mount))?)
    }
}

/// Where the kernel has its files, most of which a script may not open.
const PROC: &str = "/proc";

/// Where what `/proc` has of each process is mounted, behind links.
const PROCESSES: &str = "/proc/.processes";

/// The links to it, and where they lead.
const PROCESS_LINKS: [(&str, &str); 2] =
    [("/proc/self", ".processes/self"), ("/proc/thread-self", ".processes/thread-self")];

/// Folders whose links every script has: `/bin`, `/etc/localtime`, `/dev/stdin`.
const LINK_FOLDERS: [&str; 3] = ["/", "/etc", "/dev"];

/// Makes the new root and enters it, with all that has this process's root. Returns the places, outermost ones only, at which the caller
/// mounts what is writable, which `is_mounted` names. The program is found by the links on the way to it.
pub(super) fn enter<'a>(
    files: &'a FileRules,
    program: &OsStr,
    is_mounted: impl Fn(&Path) -> bool,
) -> io::Result<BTreeSet<&'a Path>> {
    let root = new_tmpfs(c"755", None)?;
    // Over the old root, in which every path still leads where it did: this process does not look from outside.
    attach(&root, &open_no_symlinks("/".as_ref())?)?;
    let mut skeleton = Skeleton { links: BTreeMap::new() };
    for folder in LINK_FOLDERS {
        skeleton.add_links_of(Path::new(folder));
    }
    skeleton.resolve(Path::new(program));
    let mut shown: BTreeMap<PathBuf, OwnedFd> = BTreeMap::new();
    for path in &files.read {
        let opened = openat(CWD, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty());
        if let (Some(place), Ok(opened)) = (skeleton.resolve(Path::new(path)), opened) {
            shown.insert(place, opened);
        }
    }
    for pinned in files.own.iter().chain(files.write_with_mounts()) {
        if let Ok(opened) = open_pinned(pinned) {
            shown.insert(PathBuf::from(&pinned.path), opened);
        }
    }
    let private = || files.private_folders.iter().map(|folder| Path::new(&folder.path));
    let is_elsewhere = |path: &Path| private().any(|folder| begins_with(path, folder));
    let outermost = outermost(shown, is_elsewhere)?;
    for (path, opened) in &outermost {
        let is_folder = FileType::from_raw_mode(fstat(opened)?.st_mode).is_dir();
        create_mount_point(&root, below_root(path), is_folder)?;
    }
    let folders = LINK_FOLDERS.into_iter().map(Path::new).chain(private());
    for folder in folders.filter(|folder| folder.as_os_str() != "/") {
        create_dir(&root, below_root(folder))?;
    }
    let processes = if outermost.contains_key(Path::new(PROC)) { None } else { new_proc().ok() };
    if processes.is_some() {
        create_dir(&root, below_root(Path::new(PROCESSES)))?;
        skeleton.links.extend(PROCESS_LINKS.map(|(link, target)| (link.into(), target.into())));
    }
    let is_shown = |path: &Path| path.ancestors().any(|above| outermost.contains_key(above));
    for (link, target) in skeleton.links.iter().filter(|(link, _)| !is_shown(link)) {
        if let Some(above) = link.parent() {
            create_dir(&root, below_root(above))?;
        }
        symlinkat(target, &root, below_root(link))?;
    }
    // From here on a path below the new root may lead to a file of the machine.
    for (path, opened) in outermost.iter().filter(|(path, _)| !is_mounted(path)) {
        attach(&clone_mount(opened)?, &mount_point(&root, path)?)?;
    }
    processes.map(|processes| attach(&processes, &mount_point(&root, Path::new(PROCESSES))?)).transpose()?;
    pivot(&root)?;
    let writable = files.write.iter().map(|pinned| Path::new(&pinned.path));
    Ok(writable.filter(|path| outermost.contains_key(*path) && is_mounted(path)).collect())
}

/// Enters the new root and detaches the old one.
pub(crate) fn pivot(root: &OwnedFd) -> io::Result<()> {
    fchdir(root)?;
    pivot_root(".", ".")?;
    unmount(".", UnmountFlags::DETACH)?;
    Ok(chdir("/")?)
}

/// Leaves out what is inside of something else, and what is shown otherwise.
fn outermost(
    shown: BTreeMap<PathBuf, OwnedFd>,
    is_elsewhere: impl Fn(&Path) -> bool,
) -> io::Result<BTreeMap<PathBuf, OwnedFd>> {
    let mut outermost: BTreeMap<PathBuf, OwnedFd> = BTreeMap::new();
    // Outer paths come before inner ones.
    for (path, opened) in shown {
        if path.as_os_str() == "/" {
            // There would be nothing that is not shown.
            return Err(Errno::OPNOTSUPP.into());
        }
        if !is_elsewhere(&path) && !path.ancestors().any(|above| outermost.contains_key(above)) {
            outermost.insert(path, opened);
        }
    }
    Ok(outermost)
}

/// The links of the new root, by their paths.
struct Skeleton {
    links: BTreeMap<PathBuf, PathBuf>,
}

impl Skeleton {
    fn add_links_of(&mut self, folder: &Path) {
        for entry in fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok) {
            if let Ok(target) = fs::read_link(entry.path()) {
                self.links.insert(entry.path(), target);
            }
        }
    }

    /// Where a path leads, with the links on the way to it; `None` if nothing is there.
    fn resolve(&mut self, path: &Path) -> Option<PathBuf> {
        const MAX_LINKS: usize = 40;
        let (mut place, mut links) = (PathBuf::from("/"), 0);
        let mut waiting: VecDeque<PathBuf> = parts(path).collect();
        while let Some(part) = waiting.pop_front() {
            if part.as_os_str() == ".." {
                place.pop();
                continue;
            }
            let next = place.join(&part);
            if PROCESS_LINKS.iter().any(|(link, _)| next == Path::new(link)) {
                // They lead to the process that follows them, and this is not the script's.
                return None;
            }
            match readlink(&next, Vec::new()) {
                Ok(target) if links < MAX_LINKS => {
                    links += 1;
                    let target = PathBuf::from(OsStr::from_bytes(target.as_bytes()));
                    if target.is_absolute() {
                        place = PathBuf::from("/");
                    }
                    parts(&target).rev().for_each(|part| waiting.push_front(part));
                    self.links.insert(next, target);
                }
                // No link.
                Err(Errno::INVAL) => place = next,
                _ => return None,
            }
        }
        Some(place)
    }
}

fn parts(path: &Path) -> impl DoubleEndedIterator<Item = PathBuf> + '_ {
    path.components().filter_map(|part| match part {
        Component::Normal(name) => Some(PathBuf::from(name)),
        Component::ParentDir => Some(PathBuf::from("..")),
        _ => None,
    })
}

fn below_root(path: &Path) -> &Path {
    path.strip_prefix("/").unwrap_or(path)
}

fn mount_point(root: &OwnedFd, path: &Path) -> io::Result<OwnedFd> {
    Ok(openat(root, below_root(path), OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?)
}

/// A `/proc` that has nothing but the processes of this namespace that a script could trace: those of its own tree.
fn new_proc() -> io::Result<OwnedFd> {
    let proc = fsopen(c"proc", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_set_string(&proc, c"subset", c"pid")?;
    fsconfig_set_string(&proc, c"hidepid", c"ptraceable")?;
    fsconfig_create(&proc)?;
    let flags = MountAttrFlags::MOUNT_ATTR_RDONLY
        | MountAttrFlags::MOUNT_ATTR_NOSUID
        | MountAttrFlags::MOUNT_ATTR_NODEV
        | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    Ok(fsmount(&proc, FsMountFlags::FSMOUNT_CLOEXEC, flags)?)
}
