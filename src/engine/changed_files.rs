//! What differs in a skill that has changed since it was trusted.

use crate::registry::{FileDifference, FileList, FileListChange};
use crate::trust::{CalleeFiles, SkillFiles, TrustStore, TrustedSkill};
use metier_core::policy::SkillDigest;

/// What differs where the files are the same: the packages that were prepared for them.
const PACKAGES: &str = "(prepared packages)";

fn has_same_callees(known: &TrustedSkill, now: &SkillFiles) -> bool {
    let is_same = |callee: &CalleeFiles| {
        let trusted = known.callees.iter().find(|trusted| trusted.skill == callee.qualified_name);
        trusted.is_some_and(|trusted| trusted.files == callee.files.digest())
    };
    known.callees.len() == now.callees.len() && now.callees.iter().all(is_same)
}

/// The files that differ from those that were trusted, as far as their list is still there.
pub(super) fn changed_files(
    store: &TrustStore,
    known: &TrustedSkill,
    now: &SkillFiles,
) -> Vec<FileDifference> {
    let mut found = Vec::new();
    let mut add = |name: Option<&str>, digest: SkillDigest, list: &FileList| {
        if digest == list.digest() {
            return;
        }
        let differences =
            store.saved_list(digest).map(|saved| list.differences_from(&saved)).unwrap_or_default();
        found.extend(differences.into_iter().map(|file| match name {
            Some(name) => FileDifference { path: format!("{name}: {}", file.path), ..file },
            None => file,
        }));
    };
    add(None, known.files, &now.files);
    for callee in &now.callees {
        if let Some(trusted) = known.callees.iter().find(|trusted| trusted.skill == callee.qualified_name) {
            add(Some(&callee.qualified_name), trusted.files, &callee.files);
        }
    }
    if found.is_empty() && known.files == now.files.digest() && has_same_callees(known, now) {
        found.push(FileDifference { path: PACKAGES.to_owned(), change: FileListChange::Changed });
    }
    found
}
