//! What the errors of a path say about the access of a script to it.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use metier_core::host::HostPaths;

/// Whether a folder that could not be read is gone, or belongs to another user who denies access to the script too. A script could
/// change the mode of a folder that belongs to the user.
pub(super) fn is_inaccessible(folder: &Path, paths: &HostPaths, error: &io::Error) -> bool {
    use io::ErrorKind::{NotADirectory, NotFound, PermissionDenied};
    let is_own = || {
        let about = paths.symlink_metadata(folder);
        about.is_ok_and(|about| about.uid() == rustix::process::getuid().as_raw())
    };
    match error.kind() {
        NotFound | NotADirectory => true,
        PermissionDenied => !is_own(),
        _ => false,
    }
}

/// Whether a symlink leads to nothing or to itself.
pub(super) fn is_dangling(error: &io::Error) -> bool {
    use io::ErrorKind::{NotADirectory, NotFound};
    matches!(error.kind(), NotFound | NotADirectory)
        || matches!(error.raw_os_error(), Some(nix::libc::ELOOP | nix::libc::ENAMETOOLONG))
}
