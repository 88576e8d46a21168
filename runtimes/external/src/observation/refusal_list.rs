//! The refusals of a run, as few as say all: one for each permission, and none that a wider one covers.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::observation::refusal::Refusal;
use metier_core::host::{RefusedAccess, RefusedTarget, refused_with_permission, refused_with_reason};
use metier_core::policy::is_within;
use metier_sandbox::AccessKind;

/// How many refusals are reported.
const MAX_REFUSALS: usize = 100;

/// How many files of one folder are named before the folder is.
const MAX_SIBLINGS: usize = 3;

/// All refusals of a run.
#[derive(Default)]
pub(super) struct RefusalList(Vec<Refusal>);

impl Extend<Refusal> for RefusalList {
    fn extend<T: IntoIterator<Item = Refusal>>(&mut self, refusals: T) {
        self.0.extend(refusals);
    }
}

impl RefusalList {
    /// Those with a permission first.
    pub(super) fn into_refused_accesses(mut self) -> impl Iterator<Item = RefusedAccess> {
        self.remove_walked_folders();
        let mut granted: BTreeMap<String, (PathBuf, u64)> = BTreeMap::new();
        let mut reasons: BTreeMap<(PathBuf, &'static str), u64> = BTreeMap::new();
        for Refusal { path, grant, count, .. } in self.0 {
            match grant {
                Ok(permission) => {
                    let entry = granted.entry(permission).or_insert_with(|| (path.clone(), 0));
                    entry.0 = common_folder(&entry.0, &path);
                    entry.1 += count;
                }
                Err(reason) => *reasons.entry((path, reason)).or_default() += count,
            }
        }
        let granted = merge_covered(granted)
            .into_iter()
            .map(|(permission, (path, count))| refused_with_permission(permission, target(&path), count));
        let reasons = merge_siblings(reasons)
            .into_iter()
            .map(|((path, reason), count)| refused_with_reason(reason.to_owned(), target(&path), count));
        granted.chain(reasons).take(MAX_REFUSALS)
    }

    /// Removes folders that were only looked at on the way to something in them.
    fn remove_walked_folders(&mut self) {
        let mut paths: Vec<PathBuf> = self.0.iter().map(|refusal| refusal.path.clone()).collect();
        paths.sort_unstable();
        self.0.retain(|refusal| {
            // What follows a folder in this order is in it, or nothing is.
            let next = paths.partition_point(|path| path <= &refusal.path);
            let has_inner = paths.get(next).is_some_and(|path| path.starts_with(&refusal.path));
            refusal.kind != AccessKind::LookUp || !has_inner
        });
    }
}

/// The project itself is `.`.
fn target(path: &Path) -> RefusedTarget {
    let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    RefusedTarget::Path(path.to_string_lossy().into_owned())
}

/// The folder that holds both, or the path if they are the same.
fn common_folder(one: &Path, other: &Path) -> PathBuf {
    one.ancestors().find(|above| other.starts_with(above)).map(Path::to_owned).unwrap_or_default()
}

/// Adds the counts of permissions that another one covers to that one.
fn merge_covered(all: BTreeMap<String, (PathBuf, u64)>) -> BTreeMap<String, (PathBuf, u64)> {
    let names: Vec<String> = all.keys().cloned().collect();
    let mut merged: BTreeMap<String, (PathBuf, u64)> = BTreeMap::new();
    for (permission, (path, count)) in all {
        let widest = names.iter().filter(|other| covers(other, &permission)).min_by_key(|other| other.len());
        let widest = widest.cloned().unwrap_or(permission);
        let entry = merged.entry(widest).or_insert_with(|| (path.clone(), 0));
        entry.0 = common_folder(&entry.0, &path);
        entry.1 += count;
    }
    merged
}

/// Whether the one permission covers the other, which are both of the kinds that are proposed here.
fn covers(wide: &str, narrow: &str) -> bool {
    let split = |permission: &'_ str| -> (String, String) {
        let (kind, scope) = permission.split_once(':').unwrap_or((permission, ""));
        (kind.to_owned(), scope.to_owned())
    };
    let ((wide_kind, wide_scope), (kind, scope)) = (split(wide), split(narrow));
    // A grant for the project does not open its repository.
    let is_named = kind == "write" && is_within(&scope, ".git") && !is_within(&wide_scope, ".git");
    let is_kind = wide_kind == kind || (wide_kind == "home-write" && kind == "home");
    is_kind && is_within(&scope, &wide_scope) && !is_named
}

/// Names a folder in the place of many files of it.
fn merge_siblings(all: BTreeMap<(PathBuf, &'static str), u64>) -> BTreeMap<(PathBuf, &'static str), u64> {
    let folder = |path: &Path| path.parent().unwrap_or(path).to_owned();
    let mut counts: BTreeMap<(PathBuf, &'static str), usize> = BTreeMap::new();
    for (path, reason) in all.keys() {
        *counts.entry((folder(path), reason)).or_default() += 1;
    }
    let mut merged = BTreeMap::new();
    for ((path, reason), count) in all {
        let around = (folder(&path), reason);
        let has_many = counts.get(&around).is_some_and(|count| *count > MAX_SIBLINGS);
        *merged.entry(if has_many { around } else { (path, reason) }).or_default() += count;
    }
    merged
}
