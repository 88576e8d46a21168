//! Folders that are no project by themselves: the homes of users, what holds them, and the root of the file system.

use std::path::{Path, PathBuf};

use crate::host::strangers;

/// Folders whose folders are homes.
const OF_HOMES: [&str; 3] = ["/home", "/Users", "/var/home"];

/// Whether a folder holds all that a user has, or more: a home, a folder above one that the system knows, the root of the file
/// system. A home that only `HOME` names may lie in a project.
pub fn holds_a_home(folder: &Path) -> bool {
    let Ok(folder) = std::fs::canonicalize(folder) else { return false };
    let is_one_of_homes = OF_HOMES.iter().any(|homes| folder.parent() == Some(Path::new(homes)));
    let known = || strangers::homes_of_people().into_iter().chain(OF_HOMES.map(PathBuf::from));
    folder.parent().is_none()
        || is_one_of_homes
        || strangers::homes().contains(&folder)
        || known().any(|home| home.starts_with(&folder))
}

/// Whether a folder is the root of a file system that is mounted there; a folder of another one that is mounted there is not.
#[cfg(target_os = "linux")]
pub(super) fn is_mounted_whole(folder: &Path) -> bool {
    let Ok(folder) = std::fs::canonicalize(folder) else { return false };
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    // 36 35 98:0 /from /at rw,noatime …
    let parts = mounts.lines().map(|line| line.split(' ').skip(3));
    let mut own = parts.filter_map(|mut parts| Some((parts.next()?, parts.next()?)));
    own.rfind(|(_, at)| Path::new(&spelled(at)) == folder).is_some_and(|(from, _)| from == "/")
}

#[cfg(not(target_os = "linux"))]
pub(super) fn is_mounted_whole(_: &Path) -> bool {
    false
}

/// Spaces and their like are written as three digits.
#[cfg(target_os = "linux")]
fn spelled(text: &str) -> String {
    let written = [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")];
    written.iter().fold(text.to_owned(), |text, (digits, letter)| text.replace(digits, letter))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_root_and_what_holds_homes_are_no_projects() {
        for folder in ["/", "/home", "/../"] {
            assert!(holds_a_home(Path::new(folder)) || !Path::new(folder).exists(), "{folder}");
        }
        for home in strangers::homes() {
            assert!(holds_a_home(&home) && holds_a_home(&home.join(".")), "{}", home.display());
            assert!(home.parent().is_none_or(holds_a_home), "{}", home.display());
        }
        let project = tempfile::tempdir().unwrap();
        assert!(!holds_a_home(project.path()) && !holds_a_home(&project.path().join("gone")));
    }
}
