//! The home of a run at the path of the user's home folder, with what the script sees of that at its place.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io;
use std::path::{Component, Path, PathBuf};

use cap_std::ambient_authority;
use cap_std::fs::{Dir, MetadataExt};

use crate::system_paths::real_path;
use metier_core::client_variables::PLUGIN_DATA;
use metier_core::host::{begins_with, file_id};
use metier_sandbox::{LaunchRequest, PRIVATE_TMP, PinnedPath, PrivateFolder};

/// The variables with the home folder.
const VARIABLES: [&str; 2] = ["HOME", PLUGIN_DATA];

/// Folders of the system. Accounts of services have their homes there, and what else is in them is not the user's.
const SYSTEM_FOLDERS: [&str; 14] = [
    "/bin",
    "/boot",
    "/dev",
    "/etc",
    "/lib",
    "/lib32",
    "/lib64",
    "/nonexistent",
    "/proc",
    "/run",
    "/sbin",
    "/sys",
    "/usr",
    "/var",
];

/// What lies in a folder of the system and belongs to users.
const USER_FOLDERS: [&str; 2] = ["/var/home", "/var/tmp"];

/// The most links on the way to a file, as Linux follows them.
const MAX_LINKS: usize = 40;

/// Makes the home of a run, `folder`, the script's home folder at the path of the user's, where the sandbox has mounts. `reached` are paths
/// by which the script, its skill and its project are named. Returns what the sandbox creates for that in `folder`; `None` where the script
/// keeps the folder at its own path.
pub(super) fn add_to_request(
    request: &mut LaunchRequest,
    folder: &Path,
    reached: &[&Path],
) -> Option<HomeMounts> {
    let home = user_home()?;
    let file_id = Some(file_id(&folder.symlink_metadata().ok()?));
    let content = PinnedPath { path: folder.into(), file_id };
    let rules = &request.sandbox.files;
    let pinned = rules.own.iter().chain(&rules.write).map(|pinned| Path::new(&pinned.path));
    let mut shown: BTreeSet<PathBuf> = BTreeSet::new();
    for path in pinned.filter(|path| *path != folder) {
        // The home is the project, or lies in it.
        if begins_with(&home, path) {
            return None;
        }
        if begins_with(path, &home) {
            shown.insert(path.to_owned());
        }
    }
    let variables = request.environment.iter();
    let path_dirs =
        variables.filter(|(name, _)| name == "PATH").flat_map(|(_, dirs)| std::env::split_paths(dirs));
    let mut found = LinkSearch { home: &home, links: Vec::new() };
    let mut targets: Vec<OsString> = Vec::new();
    for path in &rules.read {
        let path = Path::new(path);
        if begins_with(&home, path) {
            return None;
        }
        if !begins_with(path, &home) {
            continue;
        }
        let Some(real) = found.follow(path) else { continue };
        if real != path && begins_with(&real, &home) {
            targets.push(real.clone().into());
        }
        shown.insert(real);
    }
    let program = PathBuf::from(&request.program);
    for path in path_dirs.chain([program]).chain(reached.iter().map(|path| path.to_path_buf())) {
        if begins_with(&path, &home) {
            found.follow(&path);
        }
    }
    let links = found.links;
    shown.retain(|path| begins_with(path, &home));
    let is_inner = |path: &&PathBuf| path.ancestors().skip(1).any(|above| shown.contains(above));
    let outermost: Vec<&Path> = shown
        .iter()
        .filter(|path| !is_inner(path))
        .filter_map(|path| path.strip_prefix(&home).ok())
        .collect();
    // Where a link would be, something is mounted whole.
    let is_shown = |link: &Path| outermost.iter().any(|shown| link.starts_with(shown));
    let links: Vec<(PathBuf, PathBuf)> = links.into_iter().filter(|(link, _)| !is_shown(link)).collect();
    let mounts = HomeMounts::new(folder, &home, &outermost, links)?;
    let links = mounts.links.iter().map(|(link, target)| (link.into(), target.into())).collect();
    let variables = VARIABLES.map(str::to_owned).to_vec();
    request.sandbox.files.read.extend(targets);
    request.sandbox.files.private_folders.push(PrivateFolder {
        path: home.into(),
        content,
        variables,
        links,
    });
    Some(mounts)
}

/// The home folder of the user, if a folder of the script's own can take its place.
fn user_home() -> Option<PathBuf> {
    let home = std::env::home_dir()?;
    let is_below = |folders: &[&str]| folders.iter().any(|folder| begins_with(&home, Path::new(folder)));
    let is_of_system = is_below(&SYSTEM_FOLDERS) && !is_below(&USER_FOLDERS);
    let is_usable = home.parent().is_some()
        && !is_of_system
        && !begins_with(Path::new(PRIVATE_TMP), &home)
        && !USER_FOLDERS.iter().any(|folder| begins_with(Path::new(folder), &home))
        && home.is_dir()
        && real_path(&home)? == home;
    is_usable.then_some(home)
}

/// Finds the links in the home by which paths lead to what they name.
struct LinkSearch<'a> {
    home: &'a Path,
    /// By their paths below the home, and what they contain.
    links: Vec<(PathBuf, PathBuf)>,
}

impl LinkSearch<'_> {
    /// Where a path leads; `None` if nothing is there.
    fn follow(&mut self, path: &Path) -> Option<PathBuf> {
        let real = real_path(path)?;
        if real == path {
            return Some(real);
        }
        let mut place = PathBuf::from("/");
        let mut links = 0;
        let mut rest: Vec<PathBuf> = names(path).rev().collect();
        while let Some(name) = rest.pop() {
            if name.as_os_str() == ".." {
                place.pop();
                continue;
            }
            let next = place.join(&name);
            let Ok(target) = next.read_link() else {
                place = next;
                continue;
            };
            links += 1;
            if links > MAX_LINKS {
                return None;
            }
            if target.is_absolute() {
                place = PathBuf::from("/");
            }
            rest.extend(names(&target).rev());
            if let Ok(below) = next.strip_prefix(self.home)
                && !self.links.iter().any(|(link, _)| link == below)
            {
                self.links.push((below.to_owned(), target));
            }
        }
        Some(real)
    }
}

fn names(path: &Path) -> impl DoubleEndedIterator<Item = PathBuf> + '_ {
    path.components().filter_map(|part| match part {
        Component::Normal(name) => Some(PathBuf::from(name)),
        Component::ParentDir => Some(PathBuf::from("..")),
        _ => None,
    })
}

/// What the sandbox creates in the home of a run so that something can be mounted there. Dropped after the run, it is gone, and what the
/// script left stays.
pub(crate) struct HomeMounts {
    home: Dir,
    /// Paths at which something is mounted.
    mounts: Vec<PathBuf>,
    links: Vec<(PathBuf, PathBuf)>,
    /// Folders above them that were not there before, outer ones first.
    folders: BTreeSet<PathBuf>,
}

impl HomeMounts {
    /// `None` if something else is at one of these places already: a skill may keep anything in its home.
    fn new(folder: &Path, home: &Path, mounts: &[&Path], links: Vec<(PathBuf, PathBuf)>) -> Option<Self> {
        let opened = Dir::open_ambient_dir(folder, ambient_authority()).ok()?;
        let mut made = Self { home: opened, mounts: Vec::new(), links: Vec::new(), folders: BTreeSet::new() };
        for mount in mounts {
            made.add_folders_above(mount)?;
            let is_folder = home.join(mount).symlink_metadata().ok()?.is_dir();
            // A link that leads to what is granted gives way to it.
            let is_link_to_it =
                || made.home.read_link_contents(mount).is_ok_and(|target| target == home.join(mount));
            match made.home.symlink_metadata(mount) {
                Ok(found) if found.is_symlink() && is_link_to_it() => {}
                Ok(found) if found.is_dir() == is_folder && found.is_file() != is_folder => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                _ => return None,
            }
            made.mounts.push(mount.to_path_buf());
        }
        for (link, target) in links {
            made.add_folders_above(&link)?;
            // One that the skill keeps there may be left from before.
            let is_other = made.home.symlink_metadata(&link).is_ok()
                && !made.home.read_link_contents(&link).is_ok_and(|found| found == target);
            if is_other {
                return None;
            }
            made.links.push((link, target));
        }
        Some(made)
    }

    fn add_folders_above(&mut self, path: &Path) -> Option<()> {
        for folder in path.ancestors().skip(1).filter(|folder| folder.as_os_str() != "") {
            if self.folders.contains(folder) {
                break;
            }
            match self.home.symlink_metadata(folder) {
                Ok(found) if found.is_dir() => break,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    self.folders.insert(folder.to_owned());
                }
                _ => return None,
            }
        }
        Some(())
    }
}

impl Drop for HomeMounts {
    fn drop(&mut self) {
        for mount in &self.mounts {
            match self.home.symlink_metadata(mount) {
                Ok(found) if found.is_dir() && is_mount_point(found.mode(), 0) => {
                    self.home.remove_dir(mount).ok()
                }
                Ok(found) if is_mount_point(found.mode(), found.len()) => self.home.remove_file(mount).ok(),
                _ => None,
            };
        }
        for (link, target) in &self.links {
            if self.home.read_link_contents(link).is_ok_and(|found| found == *target) {
                self.home.remove_file(link).ok();
            }
        }
        for folder in self.folders.iter().rev() {
            self.home.remove_dir(folder).ok();
        }
    }
}

/// Whether this is an empty file, or a folder, as the sandbox makes them to mount something there: nobody may do anything with it.
pub(crate) fn is_mount_point(mode: u32, bytes: u64) -> bool {
    const FILE_TYPE: u32 = 0o170_000;
    const FILE: u32 = 0o100_000;
    const FOLDER: u32 = 0o040_000;
    const RIGHTS: u32 = 0o777;
    (mode & RIGHTS) == 0 && bytes == 0 && [FILE, FOLDER].contains(&(mode & FILE_TYPE))
}
