//! Whether the files that define a skill are still those that were read.

use super::origin::SkillAddress;
use crate::registry::fingerprint::Fingerprint;
use crate::registry::inspect::{FolderCandidate, inspect_folder, inspect_script};
use crate::registry::skill_folder::SkillFolder;
use metier_core::host::Files;

/// Compares the stats of the files, in the opened folder if there is one, and what they contain where the stats do not prove it.
pub(super) fn is_current(fingerprint: &Fingerprint, address: &SkillAddress, opened: Option<&Files>) -> bool {
    if !fingerprint.has_same_stats(address, opened) {
        return false;
    }
    if fingerprint.is_settled() {
        return true;
    }
    let found = match &address.folder {
        SkillFolder::Disk(folder) => inspect_folder(&FolderCandidate::new(folder)).skill_file,
        SkillFolder::Script(script) => Some(inspect_script(script)),
        SkillFolder::Embedded(_) => return true,
    };
    let found = found.and_then(|file| file.fingerprint);
    fingerprint.confirm(&found.unwrap_or_else(|| Fingerprint::without_definition(address)))
}
