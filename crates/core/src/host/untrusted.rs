//! Untrusted directories, whose content anybody may have written: the project and the skill. The target of a symbolic link in one
//! of them is not trusted either.

use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};

use crate::host::canonical_folder::canonical_folder;

/// The canonical untrusted directories of a run.
#[derive(Clone, PartialEq, Eq)]
pub struct UntrustedDirs {
    folders: Vec<PathBuf>,
    /// The same, including those that contain the user's home directory.
    with_home_dirs: Vec<PathBuf>,
}

impl UntrustedDirs {
    /// A folder that contains the user's home directory is not untrusted: its content is the user's own.
    pub fn new<'a>(folders: impl IntoIterator<Item = &'a Path>) -> Self {
        Self::from_canonical(folders.into_iter().filter_map(|folder| canonical_folder(folder).ok()))
    }

    /// The same for canonical paths.
    pub fn from_canonical(folders: impl IntoIterator<Item = PathBuf>) -> Self {
        let all: Vec<PathBuf> = folders.into_iter().collect();
        let is_untrusted = |folder: &&PathBuf| home_dir().is_none_or(|home| !home.starts_with(folder));
        Self { folders: all.iter().filter(is_untrusted).cloned().collect(), with_home_dirs: all }
    }

    /// The folders, canonical.
    pub fn folders(&self) -> &[PathBuf] {
        &self.folders
    }

    /// Whether an untrusted directory can determine what is at this path: the path leads through one, or through more symbolic
    /// links than the system follows.
    pub fn may_control(&self, path: &Path) -> bool {
        self.may_control_by(path, &SymlinkReader::default())
    }

    /// The same for one of many paths.
    pub fn may_control_by(&self, path: &Path, links: &SymlinkReader) -> bool {
        leads_through(&self.folders, path, |path| links.read(path))
    }

    /// Whether a script can change what is at this path before the next run: the path leads through one of the directories, even
    /// if it is the user's home.
    pub fn may_change(&self, path: &Path) -> bool {
        self.may_change_by(path, &SymlinkReader::default())
    }

    /// The same for one of many paths.
    pub fn may_change_by(&self, path: &Path, links: &SymlinkReader) -> bool {
        leads_through(&self.with_home_dirs, path, |path| links.read(path))
    }
}

/// Reads the symbolic links on the way to many paths, each once. A link may change later, so there is one for each look-up.
#[derive(Default)]
pub struct SymlinkReader(Mutex<HashMap<PathBuf, Option<PathBuf>>>);

impl SymlinkReader {
    /// Where the link at this path leads; `None` if there is none.
    pub fn read(&self, path: &Path) -> Option<PathBuf> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = known.get(path) {
            return known.clone();
        }
        let target = std::fs::read_link(path).ok();
        known.insert(path.to_owned(), target.clone());
        target
    }
}

fn leads_through(folders: &[PathBuf], path: &Path, read_link: impl Fn(&Path) -> Option<PathBuf>) -> bool {
    let (mut place, mut rest) = (PathBuf::new(), path_parts(path));
    let mut left = MAX_SYMLINKS;
    while let Some(part) = rest.pop() {
        if part == ".." {
            place.pop();
            continue;
        }
        let next = place.join(part);
        if folders.iter().any(|folder| next.starts_with(folder)) {
            return true;
        }
        match read_link(&next) {
            Some(_) if left == 0 => return true,
            Some(target) => {
                left -= 1;
                // An absolute target begins at the root again.
                rest.extend(path_parts(&target));
            }
            None => place = next,
        }
    }
    false
}

/// The limit of the system itself.
pub const MAX_SYMLINKS: usize = 40;

/// The components of a path, last one first, including the root and `..`.
fn path_parts(path: &Path) -> Vec<OsString> {
    path.components()
        .rev()
        .filter(|part| *part != Component::CurDir)
        .map(|part| part.as_os_str().to_owned())
        .collect()
}

/// The canonical home directories of the user: the one in `HOME`, and the one in the user database.
pub fn home_dirs() -> HashSet<PathBuf> {
    let set = std::env::var_os("HOME").and_then(|home| std::fs::canonicalize(home).ok());
    set.into_iter().chain(home_dir().cloned()).collect()
}

/// The home directories in the user database of people (numbers in the range for people) and of root.
pub fn home_dirs_of_all_users() -> Vec<PathBuf> {
    const FIRST: u32 = 1000;
    let users = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let fields = users.lines().map(|line| line.split(':').collect::<Vec<_>>());
    let of_people = fields.filter(|fields| {
        let number = fields.get(2).and_then(|field| field.parse::<u32>().ok());
        number.is_some_and(|number| number == 0 || (FIRST..FIRST_NOBODY_UID).contains(&number))
    });
    let homes = of_people.filter_map(|fields| fields.get(5).map(|home| PathBuf::from(*home)));
    homes.filter_map(|home| std::fs::canonicalize(home).ok()).filter(|home| home != Path::new("/")).collect()
}

/// Numbers from here on belong to no user.
const FIRST_NOBODY_UID: u32 = 65534;

/// The user's home directory in the user database, whatever the environment says.
pub fn home_dir() -> Option<&'static PathBuf> {
    static HOME: OnceLock<Option<PathBuf>> = OnceLock::new();
    HOME.get_or_init(|| {
        let users = std::fs::read_to_string("/etc/passwd").ok()?;
        let home = home_dir_in_passwd(&users, user_id()?)?;
        std::fs::canonicalize(home).ok().filter(|home| home != Path::new("/"))
    })
    .as_ref()
}

#[cfg(unix)]
#[allow(clippy::unnecessary_wraps, reason = "there is none elsewhere")]
fn user_id() -> Option<u32> {
    Some(rustix::process::getuid().as_raw())
}

#[cfg(not(unix))]
fn user_id() -> Option<u32> {
    None
}

/// The home directory of a user number in a user database.
fn home_dir_in_passwd(users: &str, number: u32) -> Option<&str> {
    let fields = users.lines().map(|line| line.split(':').collect::<Vec<_>>());
    let mut own = fields.filter(|fields| fields.get(2).and_then(|field| field.parse().ok()) == Some(number));
    own.next()?.get(5).copied().filter(|home| home.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(unix)]
    #[test]
    fn a_path_through_a_folder_of_theirs_is_theirs_wherever_it_leads() {
        use std::os::unix::fs::symlink;
        let stage = tempfile::tempdir().unwrap();
        let at = |path: &str| stage.path().join(path);
        for folder in ["project/sub", "away/bin", "mine"] {
            std::fs::create_dir_all(at(folder)).unwrap();
        }
        std::fs::write(at("away/bin/x"), "").unwrap();
        symlink(at("away"), at("project/away")).unwrap();
        symlink("../away/bin/x", at("project/x")).unwrap();
        symlink(at("project/x"), at("mine/x")).unwrap();
        symlink("../project/away/bin", at("mine/bin")).unwrap();
        symlink(at("away/bin/x"), at("mine/own")).unwrap();
        symlink("loop", at("mine/loop")).unwrap();
        let untrusted = UntrustedDirs::new([at("project").as_path(), Path::new("/nowhere/at/all")]);
        for path in
            ["project/x", "project/away/bin/x", "mine/x", "mine/bin/x", "mine/../project/sub", "mine/loop"]
        {
            assert!(untrusted.may_control(&at(path)), "{path}");
        }
        for path in ["away/bin/x", "mine/own", "mine/nothing", "mine/../away/bin", "project-not", ""] {
            assert!(!untrusted.may_control(&at(path)), "{path}");
        }
    }

    #[test]
    fn a_project_that_holds_the_home_is_the_users_own() {
        assert!(UntrustedDirs::new([Path::new("/")]).folders().is_empty() || home_dir().is_none());
        assert!(UntrustedDirs::new(home_dir().map(PathBuf::as_path)).folders().is_empty());
    }

    #[test]
    fn a_home_is_that_of_the_number() {
        let users =
            "root:x:0:0::/root:/bin/sh\nbroken\na:x:10:1:A, B:/home/a:/bin/sh\nb:x:100:1::nowhere:/bin/sh\n";
        assert_eq!(
            [0, 10, 100, 1].map(|number| home_dir_in_passwd(users, number)),
            [Some("/root"), Some("/home/a"), None, None]
        );
    }
}
