//! Locks the directories that running scripts can see. Every host holds such a lock, and no host creates files of its own in a
//! locked directory.
//!
//! Files that existed before are found and hidden by the host that starts the script: it takes the lock first and searches then.
//! A host that creates files there creates them first and checks for the lock then.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::libc;

use crate::host::metier_dirs::is_shared_temp_dir;

/// A lock on folders that a script can see, held until this is dropped. It is a read lock, so no process can keep others from
/// locking the same folder, and it is independent of the locks that programs take with `flock`.
pub struct VisibilityLock(#[allow(dead_code, reason = "held")] Vec<File>);

#[allow(dead_code, reason = "asked for where there is a sandbox")]
impl VisibilityLock {
    /// Locks those of these folders that can be locked now.
    pub fn acquire(folders: &[&Path]) -> Self {
        let held = folders
            .iter()
            .filter_map(|folder| open_dir(folder).ok())
            .filter(|folder| fcntl(folder, FcntlArg::F_OFD_SETLK(&whole_file_lock(libc::F_RDLCK))).is_ok());
        Self(held.collect())
    }
}

/// Whether a running script can see this canonical path. The root of the file system and shared temporary directories are left
/// out, since any other user could lock them. A folder of the user's own that cannot be opened any more counts as visible, since
/// it may have been locked before.
pub fn is_visible_to_scripts(path: &Path) -> bool {
    let mut folders =
        path.ancestors().filter(|folder| folder.parent().is_some() && !is_shared_temp_dir(folder));
    folders.any(|folder| match open_dir(folder) {
        Ok(folder) => {
            let mut found = whole_file_lock(libc::F_WRLCK);
            let is_known = fcntl(&folder, FcntlArg::F_OFD_GETLK(&mut found)).is_ok();
            is_known && i32::from(found.l_type) != libc::F_UNLCK
        }
        Err(error) => error.kind() == ErrorKind::PermissionDenied && is_closed_by_its_mode(folder),
    })
}

/// Whether the folder is the user's own and its mode alone keeps it shut, as a script could have set it. In a sandbox inside
/// another one, Landlock keeps most folders shut.
fn is_closed_by_its_mode(folder: &Path) -> bool {
    let is_own = |about: &std::fs::Metadata| about.uid() == rustix::process::geteuid().as_raw();
    folder.symlink_metadata().is_ok_and(|about| is_own(&about) && about.mode() & 0o400 == 0)
}

fn open_dir(folder: &Path) -> io::Result<File> {
    let flags = OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW;
    File::options().read(true).custom_flags(flags.bits()).open(folder)
}

/// A lock of this kind on the whole file.
fn whole_file_lock(kind: i32) -> libc::flock {
    #[allow(clippy::cast_possible_truncation, reason = "kinds are small numbers")]
    let (kind, from) = (kind as libc::c_short, libc::SEEK_SET as libc::c_short);
    libc::flock { l_type: kind, l_whence: from, l_start: 0, l_len: 0, l_pid: 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_in_sight_as_long_as_somebody_holds_it_or_one_above() {
        let stage = tempfile::tempdir().unwrap();
        let (project, inner) = (stage.path().join("project"), stage.path().join("project/a/b"));
        std::fs::create_dir_all(&inner).unwrap();
        assert!(!is_visible_to_scripts(&inner));
        let one = VisibilityLock::acquire(&[&project, Path::new("/nowhere/at/all")]);
        let other = VisibilityLock::acquire(&[&project]);
        drop(one);
        assert!(
            is_visible_to_scripts(&inner)
                && is_visible_to_scripts(&inner.join("not/there/yet"))
                && is_visible_to_scripts(&project)
        );
        assert!(!is_visible_to_scripts(stage.path()) && !is_visible_to_scripts(&stage.path().join("beside")));
        drop(other);
        assert!(!is_visible_to_scripts(&inner));
        let everybodys = VisibilityLock::acquire(&[Path::new("/"), Path::new("/tmp")]);
        assert!(!is_visible_to_scripts(stage.path()), "or others could keep us from having any");
        drop(everybodys);
    }

    #[test]
    fn a_folder_of_our_own_that_cannot_be_opened_may_be_locked() {
        use std::os::unix::fs::PermissionsExt;
        let stage = tempfile::tempdir().unwrap();
        let project = stage.path().join("project");
        std::fs::create_dir(&project).unwrap();
        std::fs::set_permissions(&project, std::fs::Permissions::from_mode(0o311)).unwrap();
        // Root can open a folder that nobody may read.
        assert_eq!(is_visible_to_scripts(&project.join("temp")), !rustix::process::geteuid().is_root());
        let sight = VisibilityLock::acquire(&[&project]);
        assert!(is_visible_to_scripts(&project.join("temp")));
        drop(sight);
    }
}
