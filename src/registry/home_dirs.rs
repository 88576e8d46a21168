//! Folders that are not projects by themselves: home folders, folders that contain them, and the root of the file system.

use std::path::{Path, PathBuf};

use metier_core::host::untrusted;

/// Folders whose subfolders are home folders.
const HOME_PARENTS: [&str; 3] = ["/home", "/Users", "/var/home"];

/// Whether a folder contains everything of a user, or more: a home folder, a folder above one that the system knows, the root
/// of the file system. A home that only `HOME` names may be inside a project.
pub fn contains_home_dir(folder: &Path) -> bool {
    let Ok(folder) = std::fs::canonicalize(folder) else { return false };
    let is_one_of_homes = HOME_PARENTS.iter().any(|homes| folder.parent() == Some(Path::new(homes)));
    let known = || untrusted::home_dirs_of_all_users().into_iter().chain(HOME_PARENTS.map(PathBuf::from));
    folder.parent().is_none()
        || is_one_of_homes
        || untrusted::home_dirs().contains(&folder)
        || known().any(|home| home.starts_with(&folder))
}

/// Whether the root of a file system is mounted at this folder; a bind mount of a subfolder of another file system does not
/// count.
#[cfg(target_os = "linux")]
pub(super) fn is_mounted_whole(folder: &Path) -> bool {
    let Ok(folder) = std::fs::canonicalize(folder) else { return false };
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    // 36 35 98:0 /from /at rw,noatime …
    let parts = mounts.lines().map(|line| line.split(' ').skip(3));
    let mut own = parts.filter_map(|mut parts| Some((parts.next()?, parts.next()?)));
    own.rfind(|(_, at)| Path::new(&unescape_mount_path(at)) == folder).is_some_and(|(from, _)| from == "/")
}

#[cfg(not(target_os = "linux"))]
pub(super) fn is_mounted_whole(_: &Path) -> bool {
    false
}

/// Spaces and similar characters are written as three octal digits.
#[cfg(target_os = "linux")]
fn unescape_mount_path(text: &str) -> String {
    let written = [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")];
    written.iter().fold(text.to_owned(), |text, (digits, letter)| text.replace(digits, letter))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_root_and_what_holds_homes_are_no_projects() {
        for folder in ["/", "/home", "/../"] {
            assert!(contains_home_dir(Path::new(folder)) || !Path::new(folder).exists(), "{folder}");
        }
        for home in untrusted::home_dirs() {
            assert!(contains_home_dir(&home) && contains_home_dir(&home.join(".")), "{}", home.display());
        }
        for home in untrusted::home_dirs_of_all_users().into_iter().filter(|home| home.is_dir()) {
            assert!(home.parent().is_none_or(contains_home_dir), "{}", home.display());
        }
        let project = tempfile::tempdir().unwrap();
        assert!(!contains_home_dir(project.path()) && !contains_home_dir(&project.path().join("gone")));
    }
}
