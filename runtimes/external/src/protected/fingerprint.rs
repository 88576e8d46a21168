//! Which files were at the paths of a sandbox when it was set up: whether it is still the one that a run would have, and what somebody
//! replaced since.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use metier_core::host::{FileId, RunMessages, RunReporting, SkillContext, file_id};
use metier_sandbox::ProtectedPaths;

use crate::protected::creation_guard::list;

/// The protected paths of a sandbox and those that it may write, and which file is at each. A mount protects the file that was at the
/// path when the sandbox was set up, not one that replaces it, and a sandbox opens what was there.
#[derive(Clone, Default, PartialEq)]
pub(crate) struct Fingerprint {
    read_only: BTreeMap<OsString, InodeStamp>,
    hidden: BTreeMap<OsString, InodeStamp>,
    writable: BTreeMap<OsString, InodeStamp>,
    is_incomplete: bool,
}

/// Device and inode number, which a later file may have again, and the creation time if it is known.
type InodeStamp = Option<(FileId, Option<SystemTime>)>;

impl Fingerprint {
    pub(crate) fn new(protected: &ProtectedPaths, writable: &[PathBuf]) -> Self {
        let stamp = |path: &OsString| (path.clone(), inode_stamp(Path::new(path)));
        let all = |paths: &[OsString]| paths.iter().map(stamp).collect();
        Self {
            writable: writable.iter().map(|path| (path.clone().into(), inode_stamp(path))).collect(),
            read_only: all(&protected.read_only),
            hidden: all(&protected.hidden),
            is_incomplete: protected.incomplete_reason.is_some(),
        }
    }

    /// Reports protected files that somebody replaced since: from then on the script could read the new ones, or change them where it may
    /// write.
    pub(crate) fn report_replaced(&self, ctx: &SkillContext, script: &str, project: &Path) {
        let is_writable =
            |path: &OsString| self.writable.keys().any(|folder| Path::new(path).starts_with(folder));
        let changeable = self.read_only.iter().filter(|(path, _)| is_writable(path));
        let replaced: Vec<String> = self
            .hidden
            .iter()
            .chain(changeable)
            .filter(|(path, before)| {
                let now = inode_stamp(Path::new(path));
                before.is_some() && now.is_some() && now != **before
            })
            .map(|(path, _)| {
                let path = Path::new(path);
                path.strip_prefix(project).unwrap_or(path).to_string_lossy().escape_debug().to_string()
            })
            .collect();
        // Where they were not protected before, nothing is lost.
        if !replaced.is_empty() && ctx.report_lost_protection() {
            ctx.warn(format!(
                "replaced while {script} ran: {}; what is there now was not protected from it; if you do not trust the script, look at it, \
                 and renew the secrets in it",
                list(&replaced)
            ));
        }
    }
}

fn inode_stamp(path: &Path) -> InodeStamp {
    let found = path.symlink_metadata().ok()?;
    Some((file_id(&found), found.created().ok()))
}
