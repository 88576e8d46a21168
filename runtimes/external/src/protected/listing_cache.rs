//! The listings of folders that scans for protected paths made, remembered as long as a folder does not change: in this process, and for
//! other ones of the user on disk.
//!
//! A folder changes when an entry appears in it, disappears or gets another name, and its ctime is then the time of the kernel's
//! clock, which no script sets. The same inode with the same ctime therefore has the same entries, on a file system that keeps this
//! time by itself. Contents, links and hard links are never remembered: they are looked at in each scan.

use std::collections::{HashMap, HashSet};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use rustix::fs::{Mode, OFlags, open};

use crate::protected::folder_stamp::FolderStamp;
use crate::protected::listing::Listing;
use crate::protected::listing_file;
use metier_core::host::HostPaths;
use metier_core::policy::PathProtection;

/// Maximum number of projects that are remembered in one process, and of folders in one of them.
const MAX_PROJECTS: usize = 8;
const MAX_FOLDERS: usize = 1 << 16;

/// How many folders a scan must have read to write what it learned to disk: fewer are read again in some milliseconds.
const MIN_SAVED: usize = 256;

/// How many folders must be remembered for two threads to look at them before a scan: for fewer, starting one takes longer. A run in a
/// project of 4,000 folders takes 3.9 ms more than in an empty one, by one thread 7.2 (medians, idle, tmpfs).
const MIN_CHECKED_BY_TWO: usize = 1000;

/// The remembered folders of all projects; what was used last comes last.
static CACHED_PROJECTS: Mutex<Vec<CachedProject>> = Mutex::new(Vec::new());

struct CachedProject {
    path: PathBuf,
    /// It decides which entries are listed.
    protection: PathProtection,
    folders: Arc<Folders>,
}

/// The listings of a project's folders, by their path relative to the project.
type Folders = HashMap<Arc<str>, Arc<Listing>>;

/// What one scan of a project knows of its folders, and learns.
#[derive(Default)]
pub(super) struct Listings {
    known: Arc<Folders>,
    /// Where many are known, the paths of those that have not changed.
    unchanged: Option<HashSet<Arc<str>>>,
    learned: Vec<(Arc<str>, Arc<Listing>)>,
    found_count: usize,
}

impl Listings {
    pub(super) fn of_project(project: &Path, protection: &PathProtection, paths: &HostPaths) -> Self {
        let known = find_in_memory(project, protection).or_else(|| {
            let saved = listing_file::load(project, protection)?;
            let saved = saved.into_iter().map(|(path, listing)| (path.into(), listing));
            Some(remember(project, protection, saved.collect()))
        });
        let known = known.unwrap_or_default();
        let is_large = known.len() >= MIN_CHECKED_BY_TWO;
        let unchanged = if is_large { find_unchanged(&known, project, paths) } else { None };
        Self { known, unchanged, ..Self::default() }
    }

    /// The entries of the folder at this path, if it has not changed since they were listed.
    pub(super) fn find(
        &mut self,
        folder: &Path,
        paths: &HostPaths,
        relative_path: &str,
    ) -> Option<Arc<Listing>> {
        let listing = self.known.get(relative_path)?;
        let is_same = match &self.unchanged {
            Some(unchanged) => unchanged.contains(relative_path),
            None => {
                FolderStamp::at(&paths.at(folder)).is_ok_and(|found| is_unchanged(listing, &found, paths))
            }
        };
        self.found_count += usize::from(is_same);
        is_same.then(|| listing.clone())
    }

    pub(super) fn learn(&mut self, relative_path: &str, listing: &Arc<Listing>) {
        if listing.stamp.is_some() && self.found_count + self.learned.len() < MAX_FOLDERS {
            self.learned.push((relative_path.into(), listing.clone()));
        }
    }

    /// Remembers what was learned for later scans of the project.
    pub(super) fn keep(self, project: &Path, protection: &PathProtection) {
        if self.learned.is_empty() {
            return;
        }
        let Self { known, learned, found_count, .. } = self;
        let (kept, is_worth_saving) = (found_count + learned.len(), learned.len() >= MIN_SAVED);
        // Where most of what was known is gone, the rest is listed anew in the next scan.
        let mut folders = if known.len() > 2 * kept { Folders::new() } else { (*known).clone() };
        folders.extend(learned);
        let folders = remember(project, protection, folders);
        if is_worth_saving {
            listing_file::save(
                project,
                protection,
                folders.iter().map(|(path, listing)| (&**path, &**listing)),
            );
        }
    }
}

/// The paths of all folders that have not changed. `None` if the project cannot be opened.
fn find_unchanged(known: &Folders, project: &Path, paths: &HostPaths) -> Option<HashSet<Arc<str>>> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root: OwnedFd = open(&*paths.at(project), flags, Mode::empty()).ok()?;
    let folders: Vec<(&Arc<str>, &Arc<Listing>)> = known.iter().collect();
    let (first, second) = folders.split_at(folders.len() / 2);
    let find = |folders: &[(&Arc<str>, &Arc<Listing>)]| -> Vec<Arc<str>> {
        let is_same = |(path, listing): &&(&Arc<str>, &Arc<Listing>)| {
            FolderStamp::below(&root, path).is_ok_and(|found| is_unchanged(listing, &found, paths))
        };
        folders.iter().filter(is_same).map(|(path, _)| Arc::clone(path)).collect()
    };
    thread::scope(|scope| {
        let other = thread::Builder::new().spawn_scoped(scope, || find(second));
        let mut unchanged: HashSet<Arc<str>> = find(first).into_iter().collect();
        unchanged.extend(match other {
            Ok(thread) => thread.join().ok()?,
            Err(_) => find(second),
        });
        Some(unchanged)
    })
}

/// Whether the folder of a listing, which looks like this now, is as it was listed.
fn is_unchanged(listing: &Listing, found: &FolderStamp, paths: &HostPaths) -> bool {
    match &listing.stamp {
        Some(stamp) if paths.has_overlay() => stamp.is_same_in_overlay(found),
        stamp => stamp.as_ref() == Some(found),
    }
}

fn find_in_memory(project: &Path, protection: &PathProtection) -> Option<Arc<Folders>> {
    let mut projects = cached_projects();
    let at = projects.iter().position(|known| known.path == project && known.protection == *protection)?;
    let used = projects.remove(at);
    let folders = used.folders.clone();
    projects.push(used);
    Some(folders)
}

fn remember(project: &Path, protection: &PathProtection, folders: Folders) -> Arc<Folders> {
    let folders = Arc::new(folders);
    let mut projects = cached_projects();
    projects.retain(|known| known.path != project || known.protection != *protection);
    if projects.len() >= MAX_PROJECTS {
        projects.remove(0);
    }
    projects.push(CachedProject {
        path: project.to_owned(),
        protection: protection.clone(),
        folders: Arc::clone(&folders),
    });
    folders
}

fn cached_projects() -> MutexGuard<'static, Vec<CachedProject>> {
    CACHED_PROJECTS.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::fs::{self, File};
    use std::io;
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use rustix::fs::FileType;

    use super::*;
    use crate::protected::folder_stamp::MIN_AGE;

    fn read(folder: &Path) -> Arc<Listing> {
        let lists =
            |name: &OsStr, _: FileType| Ok::<_, io::Error>((name.as_bytes().starts_with(b"."), false));
        Arc::new(Listing::read(folder, lists).unwrap())
    }

    /// A project with a folder `a` that was listed, and the time that a folder needs to be remembered.
    fn project() -> tempfile::TempDir {
        let project = tempfile::tempdir().unwrap();
        fs::create_dir_all(project.path().join("a/b")).unwrap();
        for name in ["a/.env", "a/plain", "a/b/.env"] {
            fs::write(project.path().join(name), name).unwrap();
        }
        project
    }

    /// Whether the folder `a` is as it was listed, in the eyes of a scan of few folders and of one of many.
    fn finds_listing(project: &Path, seen: &Path, paths: &HostPaths) -> bool {
        let find = |is_large: bool| {
            let mut listings = Listings::of_project(project, &PathProtection::default(), paths);
            if is_large {
                listings.unchanged = find_unchanged(&listings.known, seen, paths);
                assert!(listings.unchanged.is_some());
            }
            listings.find(&seen.join("a"), paths, "a").is_some()
        };
        let is_known = find(false);
        assert_eq!(find(true), is_known);
        is_known
    }

    fn is_known(project: &Path) -> bool {
        finds_listing(project, project, &HostPaths::default())
    }

    fn learn(project: &Path) {
        std::thread::sleep(MIN_AGE);
        let mut scan = Listings::of_project(project, &PathProtection::default(), &HostPaths::default());
        scan.learn("a", &read(&project.join("a")));
        scan.keep(project, &PathProtection::default());
        assert!(is_known(project));
    }

    #[test]
    fn each_change_of_a_folder_is_seen() {
        let stage = project();
        let project = stage.path();
        let at = |name: &str| project.join(name);
        let changes: [(&str, &dyn Fn()); 8] = [
            ("a file is created", &|| fs::write(at("a/.npmrc"), "").unwrap()),
            ("a file is removed", &|| fs::remove_file(at("a/.npmrc")).unwrap()),
            ("a file gets another name", &|| fs::rename(at("a/plain"), at("a/.netrc")).unwrap()),
            ("a file is replaced", &|| fs::rename(at("a/.netrc"), at("a/.env")).unwrap()),
            ("a file comes from elsewhere", &|| fs::rename(at("a/b/.env"), at("a/moved")).unwrap()),
            ("a hard link is made", &|| fs::hard_link(at("a/.env"), at("a/second")).unwrap()),
            ("a link is made", &|| symlink("/etc", at("a/link")).unwrap()),
            ("the mode is changed", &|| {
                fs::set_permissions(at("a"), fs::Permissions::from_mode(0o700)).unwrap();
            }),
        ];
        for (what, change) in changes {
            learn(project);
            change();
            assert!(!is_known(project), "{what}");
        }
        // Times that a program sets do not hide a change.
        learn(project);
        let before = fs::metadata(at("a")).unwrap().modified().unwrap();
        fs::write(at("a/hidden"), "").unwrap();
        File::open(at("a")).unwrap().set_modified(before).unwrap();
        assert!(!is_known(project));
    }

    #[test]
    fn another_folder_at_the_same_path_is_another_one() {
        let stage = project();
        let project = stage.path();
        learn(project);
        fs::rename(project.join("a"), project.join("away")).unwrap();
        assert!(!is_known(project));
        symlink("away", project.join("a")).unwrap();
        assert!(!is_known(project));
        // It has another name above it, and is the same.
        fs::remove_file(project.join("a")).unwrap();
        fs::rename(project.join("away"), project.join("a")).unwrap();
        learn(project);
        let other = PathProtection::new(["skills"]);
        assert!(
            Listings::of_project(project, &other, &HostPaths::default())
                .find(&project.join("a"), &HostPaths::default(), "a")
                .is_none()
        );
    }

    /// A run that sees the folder of the project itself at another path, as an overlay shows it where nothing has changed.
    fn unchanged_overlay(project: &Path) -> (PathBuf, HostPaths) {
        let seen = project.with_file_name("seen");
        let root = File::open(project).unwrap();
        (seen.clone(), HostPaths::with_overlay(&seen, root.into()).unwrap())
    }

    #[test]
    fn unchanged_folders_of_an_overlay_share_the_listing_of_the_project() {
        let stage = project();
        let project = stage.path();
        let (seen, paths) = unchanged_overlay(project);
        let is_known = || finds_listing(project, &seen, &paths);
        assert!(!is_known());
        learn(project);
        assert!(is_known());
        fs::write(project.join("a/.npmrc"), "").unwrap();
        assert!(!is_known(), "it is another one now");
        fs::rename(project.join("a"), project.join("away")).unwrap();
        fs::create_dir(project.join("a")).unwrap();
        assert!(!is_known(), "another folder is there");
    }

    #[test]
    fn an_unchanged_folder_of_an_overlay_is_learned_for_the_project() {
        let stage = project();
        let project = stage.path();
        std::thread::sleep(MIN_AGE);
        let (seen, paths) = unchanged_overlay(project);
        let lists = |_: &OsStr, _: FileType| Ok::<_, io::Error>((true, false));
        let read = || Listing::read(&paths.at(&seen.join("a")), lists).unwrap();
        let stamp_of = |lower: &str| {
            let mut listing = read();
            listing.take_stamp_of_lower(&project.join(lower));
            listing.stamp
        };
        assert_eq!(stamp_of("a"), Some(FolderStamp::at(&project.join("a")).unwrap()));
        assert_eq!((stamp_of("a/b"), stamp_of("none")), (None, None));
        let mut listing = read();
        fs::write(project.join("a/.npmrc"), "").unwrap();
        listing.take_stamp_of_lower(&project.join("a"));
        assert_eq!(listing.stamp, None, "it has changed since");
    }

    #[test]
    fn what_has_just_changed_is_not_remembered() {
        let stage = project();
        let mut scan = Listings::default();
        let folder = stage.path().join("a");
        fs::write(folder.join("new"), "").unwrap();
        scan.learn("a", &read(&folder));
        assert!(scan.learned.is_empty());
    }
}
