//! The names at the top of a project at one moment. A single listing says of nearly all protected paths that they do not exist.

use std::collections::{BTreeSet, HashSet};
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path};

use metier_core::host::HostPaths;
use metier_core::policy::{Permissions, RunPermissions, is_quarantined_name};

use crate::protected::path_trace::PathTrace;
use crate::protected::quarantine::entry_names;

/// The entries of a project's folder.
pub(crate) struct TopNames {
    names: Vec<OsString>,
    /// The same in small letters, as a file system may see them that ignores the case; `None` if it is not known by which other names
    /// they can be found: one is not ASCII, or the folder could not be read.
    folded: Option<HashSet<Vec<u8>>>,
}

impl TopNames {
    pub(crate) fn read(project: &Path, host_paths: &HostPaths) -> Self {
        let listed = entry_names(&host_paths.at(project));
        let is_known = listed.is_ok();
        let names = listed.unwrap_or_default();
        let is_known = is_known && names.iter().all(|name| name.as_bytes().is_ascii());
        let folded =
            is_known.then(|| names.iter().map(|name| name.as_bytes().to_ascii_lowercase()).collect());
        Self { names, folded }
    }

    /// Whether something may be there that a path in the project leads through first.
    pub(crate) fn may_have_first_part(&self, path: &str) -> bool {
        match (&self.folded, first_part(path)) {
            (Some(folded), Some(part)) => folded.contains(&part.as_bytes().to_ascii_lowercase()),
            _ => true,
        }
    }

    /// Follows a path from the project's folder. Nothing is looked at if its first part is not in there.
    pub(crate) fn follow(&self, project: &Path, path: &str, host_paths: &HostPaths) -> PathTrace {
        match first_part(path).filter(|_| !self.may_have_first_part(path)) {
            Some(part) => PathTrace::missing(project, part),
            None => PathTrace::follow(project, Path::new(path), host_paths),
        }
    }

    /// Those that need a permission that names them.
    pub(crate) fn protected_by(&self, permissions: &Permissions) -> BTreeSet<String> {
        let protection = permissions.protection();
        let names = self.names.iter().filter_map(|name| name.to_str());
        names
            .filter(|name| protection.protects_read_of_last(name) || protection.protects_change_of_last(name))
            .filter(|name| !is_quarantined_name(name))
            .map(str::to_owned)
            .collect()
    }
}

/// The name that a relative path begins with, if it is one in the folder itself.
fn first_part(path: &str) -> Option<&str> {
    match Path::new(path).components().find(|part| *part != Component::CurDir)? {
        Component::Normal(name) => name.to_str().filter(|name| name.is_ascii()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    const PATHS: [&str; 8] = [
        ".git",
        "./.config/gh/hosts.yml",
        ".config/gh",
        ".metier/skills",
        "link/x",
        "dangling/x",
        "a/../.git",
        "../.git",
    ];

    #[test]
    fn a_path_is_followed_as_without_the_listing() {
        let folder = tempfile::tempdir().unwrap();
        let project = fs::canonicalize(folder.path()).unwrap();
        let paths = HostPaths::default();
        let check = |state: &str| {
            let names = TopNames::read(&project, &paths);
            for path in PATHS {
                let (listed, looked) = (
                    names.follow(&project, path, &paths),
                    PathTrace::follow(&project, Path::new(path), &paths),
                );
                assert!(listed == looked, "{state}: {path}");
                assert!(names.may_have_first_part(path) || !looked.target_exists(), "{state}: {path}");
            }
        };
        check("nothing");
        fs::create_dir_all(project.join(".config/gh")).unwrap();
        symlink(".config", project.join("link")).unwrap();
        symlink("nowhere", project.join("dangling")).unwrap();
        check("folders and links");
        fs::write(project.join("\u{fc}bersicht.md"), "").unwrap();
        check("a name that is not ASCII");
        fs::set_permissions(&project, fs::Permissions::from_mode(0o311)).unwrap();
        check("it cannot be read");
        fs::set_permissions(&project, fs::Permissions::from_mode(0o755)).unwrap();
    }

    #[test]
    fn what_a_file_system_may_take_for_the_name_is_looked_at() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join(".GIT")).unwrap();
        let names = TopNames::read(folder.path(), &HostPaths::default());
        assert!(names.may_have_first_part(".git") && !names.may_have_first_part(".config/gh"));
        fs::write(folder.path().join(".\u{212a}ube"), "the sign of the unit Kelvin").unwrap();
        let names = TopNames::read(folder.path(), &HostPaths::default());
        assert!(names.may_have_first_part(".kube"));
        assert!(TopNames::read(&folder.path().join("none"), &HostPaths::default()).may_have_first_part("a"));
    }
}
