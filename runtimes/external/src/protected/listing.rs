//! What a scan for protected paths has to look at in each folder, remembered as long as the folder does not change.
//!
//! A folder changes when an entry appears in it, disappears or gets another name, and its ctime is then the time of the kernel's
//! clock, which no script sets. The same inode with the same ctime therefore has the same entries, on a file system that keeps this
//! time by itself. Contents, links and hard links are never remembered: they are looked at in each scan.

use std::collections::HashMap;
use std::ffi::{CStr, OsStr, OsString};
use std::fs::{File, Metadata};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, UNIX_EPOCH};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, fstatfs, open, statat};

use metier_core::host::{FileId, HostPaths, file_id, git};
use metier_core::policy::PathProtection;

/// Maximum number of projects that are remembered, and of folders in one of them.
const MAX_PROJECTS: usize = 8;
const MAX_FOLDERS: usize = 1 << 16;

/// How long a folder must not have changed to be remembered: longer than the coarsest clock of these file systems, one second. Those of
/// tests are finer.
const MIN_AGE: Duration = if cfg!(test) { Duration::from_millis(100) } else { Duration::from_secs(3) };

/// The remembered folders of all projects; what was used last comes last.
static CACHED_PROJECTS: Mutex<Vec<CachedProject>> = Mutex::new(Vec::new());

struct CachedProject {
    path: PathBuf,
    /// It decides which entries are listed.
    protection: PathProtection,
    folders: Arc<Folders>,
}

/// The listings of a project's folders, by their path relative to the project.
type Folders = HashMap<String, Arc<Listing>>;

/// The entries of a folder that a scan has to look at.
pub(super) struct Listing {
    /// Which folder it was, and when it had changed last; `None` if it is not to be remembered.
    stamp: Option<Stamp>,
    /// The same as it was read.
    read_stamp: Stamp,
    pub(super) entries: Vec<ListedEntry>,
    /// The number of all entries.
    pub(super) count: usize,
    /// Whether git takes the folder for a repository.
    pub(super) is_repository: bool,
}

pub(super) struct ListedEntry {
    pub(super) name: OsString,
    pub(super) kind: FileType,
    /// Whether it is protected by its own name.
    pub(super) is_protected: bool,
}

/// A folder, and seconds and nanoseconds of its ctime.
type Stamp = (FileId, i64, i64);

fn stamp(found: &Metadata) -> Stamp {
    (file_id(found), found.ctime(), found.ctime_nsec())
}

/// Whether the file system is one of this machine's own kernel that sets the ctime of a folder at each change.
fn is_local(folder: &File) -> bool {
    // ext2 to ext4, XFS, Btrfs, tmpfs, F2FS: the numbers of linux/magic.h.
    let known = [0xEF53, 0x5846_5342, 0x9123_683E, 0x0102_1994, 0xF2F5_2010];
    fstatfs(folder).is_ok_and(|about| known.contains(&about.f_type))
}

impl Listing {
    /// Reads a folder; `lists` says of each entry, by its name and kind, whether it is listed, and whether it is protected by its
    /// name. An error of `lists` ends the reading.
    pub(super) fn read<E: From<io::Error>>(
        folder: &Path,
        mut lists: impl FnMut(&OsStr, FileType) -> Result<(bool, bool), E>,
    ) -> Result<Self, E> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let opened = File::from(open(folder, flags, Mode::empty()).map_err(io::Error::from)?);
        let before = stamp(&opened.metadata()?);
        let mut listing =
            Self { stamp: None, read_stamp: before, entries: Vec::new(), count: 0, is_repository: false };
        let mut parts = [false; git::REPOSITORY_ENTRIES.len()];
        for entry in Dir::read_from(&opened).map_err(io::Error::from)? {
            let entry = entry.map_err(io::Error::from)?;
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if name == "." || name == ".." {
                continue;
            }
            listing.count += 1;
            let kind = match entry.file_type() {
                FileType::Unknown => match kind_at(&opened, entry.file_name()) {
                    Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                    kind => kind?,
                },
                kind => kind,
            };
            if let Some(part) = git::REPOSITORY_ENTRIES.iter().position(|part| name == *part) {
                parts[part] = true;
            }
            let (is_listed, is_protected) = lists(name, kind)?;
            if is_listed {
                listing.entries.push(ListedEntry { name: name.to_owned(), kind, is_protected });
            }
        }
        listing.is_repository = git::is_repository(|name| {
            git::REPOSITORY_ENTRIES.iter().zip(parts).any(|(part, is_there)| is_there && *part == name)
        });
        let is_lasting = opened.metadata().is_ok_and(|found| stamp(&found) == before)
            && is_settled(before)
            && is_local(&opened);
        listing.stamp = is_lasting.then_some(before);
        Ok(listing)
    }
}

impl Listing {
    /// Makes this listing of a folder in an overlay one that is to be remembered of the folder below it, if they are the same.
    pub(super) fn take_stamp_of_lower(&mut self, folder: &Path) {
        self.stamp = None;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let Ok(opened) = open(folder, flags, Mode::empty()).map(File::from) else { return };
        let stamp = opened.metadata().map(|found| stamp(&found));
        let is_lasting = |stamp: &Stamp| {
            is_same_in_overlay(*stamp, self.read_stamp) && is_settled(*stamp) && is_local(&opened)
        };
        self.stamp = stamp.ok().filter(is_lasting);
    }
}

/// Whether an overlay shows this folder as it is below. One that has changed there has the ctime of its copy, and the device is always another
/// one: that of the overlay, which has one file system below.
fn is_same_in_overlay((lower, seconds, nanos): Stamp, (seen, seen_seconds, seen_nanos): Stamp) -> bool {
    (lower.ino, seconds, nanos) == (seen.ino, seen_seconds, seen_nanos)
}

fn kind_at(folder: &File, name: &CStr) -> io::Result<FileType> {
    let found = statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)?;
    Ok(FileType::from_raw_mode(found.st_mode))
}

/// Whether a later change has another ctime than this one.
fn is_settled((_, seconds, nanos): Stamp) -> bool {
    let since = u64::try_from(seconds).ok().zip(u32::try_from(nanos).ok());
    let changed = since.and_then(|(seconds, nanos)| UNIX_EPOCH.checked_add(Duration::new(seconds, nanos)));
    changed.is_some_and(|changed| changed.elapsed().is_ok_and(|age| age >= MIN_AGE))
}

/// What one scan of a project knows of its folders, and learns.
#[derive(Default)]
pub(super) struct Listings {
    known: Arc<Folders>,
    learned: Vec<(String, Arc<Listing>)>,
    found_count: usize,
}

impl Listings {
    pub(super) fn of_project(project: &Path, protection: &PathProtection) -> Self {
        let mut projects = cached_projects();
        let at = projects.iter().position(|known| known.path == project && known.protection == *protection);
        let known = at.map(|at| {
            let used = projects.remove(at);
            let folders = used.folders.clone();
            projects.push(used);
            folders
        });
        Self { known: known.unwrap_or_default(), learned: Vec::new(), found_count: 0 }
    }

    /// The entries of the folder at this path, if it has not changed since they were listed.
    pub(super) fn find(
        &mut self,
        folder: &Path,
        paths: &HostPaths,
        relative_path: &str,
    ) -> Option<Arc<Listing>> {
        let listing = self.known.get(relative_path)?;
        let is_known = |found: Stamp| match listing.stamp {
            Some(stamp) if paths.has_overlay() => is_same_in_overlay(stamp, found),
            stamp => Some(found) == stamp,
        };
        let is_same = paths.symlink_metadata(folder).is_ok_and(|found| is_known(stamp(&found)));
        self.found_count += usize::from(is_same);
        is_same.then(|| listing.clone())
    }

    pub(super) fn learn(&mut self, relative_path: &str, listing: &Arc<Listing>) {
        if listing.stamp.is_some() && self.found_count + self.learned.len() < MAX_FOLDERS {
            self.learned.push((relative_path.to_owned(), listing.clone()));
        }
    }

    /// Remembers what was learned for later scans of the project.
    pub(super) fn keep(self, project: &Path, protection: &PathProtection) {
        if self.learned.is_empty() {
            return;
        }
        let Self { known, learned, found_count } = self;
        let kept = found_count + learned.len();
        // Where most of what was known is gone, the rest is listed anew in the next scan.
        let mut folders = if known.len() > 2 * kept { Folders::new() } else { (*known).clone() };
        folders.extend(learned);
        let mut projects = cached_projects();
        projects.retain(|known| known.path != project || known.protection != *protection);
        if projects.len() >= MAX_PROJECTS {
            projects.remove(0);
        }
        projects.push(CachedProject {
            path: project.to_owned(),
            protection: protection.clone(),
            folders: Arc::new(folders),
        });
    }
}

fn cached_projects() -> MutexGuard<'static, Vec<CachedProject>> {
    CACHED_PROJECTS.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

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

    fn is_known(project: &Path) -> bool {
        let paths = HostPaths::default();
        let mut listings = Listings::of_project(project, &PathProtection::default());
        listings.find(&project.join("a"), &paths, "a").is_some()
    }

    fn learn(project: &Path) {
        std::thread::sleep(MIN_AGE);
        let mut scan = Listings::of_project(project, &PathProtection::default());
        scan.learn("a", &read(&project.join("a")));
        scan.keep(project, &PathProtection::default());
        assert!(is_known(project));
    }

    #[test]
    fn a_listing_has_what_was_asked_for_and_counts_the_rest() {
        let project = project();
        let listing = read(&project.path().join("a"));
        let names: Vec<_> = listing.entries.iter().map(|entry| entry.name.to_str().unwrap()).collect();
        assert_eq!((names, listing.count, listing.is_repository), (vec![".env"], 3, false));
        fs::create_dir(project.path().join("a/objects")).unwrap();
        fs::create_dir(project.path().join("a/refs")).unwrap();
        fs::write(project.path().join("a/HEAD"), "").unwrap();
        assert!(read(&project.path().join("a")).is_repository);
        symlink("a", project.path().join("link")).unwrap();
        let through_link =
            Listing::read(&project.path().join("link"), |_, _| Ok::<_, io::Error>((true, false)));
        assert_eq!(through_link.err().unwrap().kind(), io::ErrorKind::NotADirectory);
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
            Listings::of_project(project, &other)
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
        let is_known = || {
            let mut listings = Listings::of_project(project, &PathProtection::default());
            listings.find(&seen.join("a"), &paths, "a").is_some()
        };
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
        assert_eq!(stamp_of("a"), Some(stamp(&fs::metadata(project.join("a")).unwrap())));
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
        // A clock ahead of ours says nothing about what comes.
        let (file, ..) = stamp(&fs::metadata(&folder).unwrap());
        assert!(!is_settled((file, i64::MAX, 0)) && !is_settled((file, -1, 0)));
    }
}
