//! Whether the files that define a skill are still those that were read.

use super::origin::SkillAddress;
use crate::host::Files;
use crate::registry::fingerprint::Fingerprint;
use crate::registry::inspect::{FolderCandidate, inspect_folder};

/// Compares the stats of the files, in the opened folder if there is one, and what they contain where the stats do not prove it.
pub(super) fn is_current(fingerprint: &Fingerprint, address: &SkillAddress, opened: Option<&Files>) -> bool {
    if !fingerprint.has_same_stats(address, opened) {
        return false;
    }
    if fingerprint.is_settled() {
        return true;
    }
    let Some(folder) = address.folder.disk_path() else { return true };
    let found = inspect_folder(&FolderCandidate::new(folder)).skill_file.and_then(|file| file.fingerprint);
    fingerprint.confirm(&found.unwrap_or_else(|| Fingerprint::without_definition(address)))
}
