//! Where a skill came from: its root, its folder, its file.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::folder::Folder;
use super::root::{Root, Scope};

/// A root as its skills remember it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Origin {
    pub(super) scope: Scope,
    pub(super) label: String,
    /// The place in the list of roots.
    pub(super) rank: usize,
    pub(super) place: PathBuf,
}

impl Origin {
    pub(super) fn of(root: &Root, rank: usize) -> Self {
        Self { scope: root.scope, label: root.label.clone(), rank, place: root.place.clone() }
    }

    pub(super) fn shipped(rank: usize) -> Self {
        Self { scope: Scope::Shipped, label: env!("CARGO_PKG_NAME").to_owned(), rank, place: PathBuf::new() }
    }
}

/// A `SKILL.md` somewhere.
#[derive(Clone, Debug)]
pub(super) struct Address {
    pub(super) origin: Arc<Origin>,
    pub(super) folder: Folder,
    pub(super) file: &'static str,
}

impl Address {
    /// The file, or `shipped:NAME`.
    pub(super) fn path(&self) -> PathBuf {
        match &self.folder {
            Folder::Disk(folder) => folder.join(self.file),
            Folder::Shipped(shipped) => format!("shipped:{}", shipped.name).into(),
        }
    }

    /// The folder's name.
    pub(super) fn directory(&self) -> String {
        self.below_root().rsplit('/').next().unwrap_or_default().to_owned()
    }

    /// The folder relative to the root, `/`-separated; what is not Unicode is replaced.
    pub(super) fn below_root(&self) -> String {
        match &self.folder {
            Folder::Disk(folder) => slashed(folder.strip_prefix(&self.origin.place).unwrap_or(folder)),
            Folder::Shipped(shipped) => shipped.name.to_owned(),
        }
    }

    /// Whether `qualifier` names where this lies: the scope, the label of the root, or both. A label may go on with the
    /// folder, which tells skills of one name and version in one root apart.
    pub(super) fn is_called(&self, qualifier: &str) -> bool {
        let Origin { scope, label, .. } = &*self.origin;
        let is_label = |text: &str| match text.strip_prefix(label.as_str()) {
            Some("") => true,
            Some(rest) => rest.strip_prefix('/').is_some_and(|folder| folder == self.below_root()),
            None => false,
        };
        let in_scope = qualifier.strip_prefix(scope.name()).and_then(|rest| rest.strip_prefix('/'));
        qualifier == scope.name() || is_label(qualifier) || in_scope.is_some_and(is_label)
    }
}

/// A relative path with `/` between its names.
pub(super) fn slashed(path: &Path) -> String {
    let parts: Vec<_> = path.iter().map(|part| part.to_string_lossy()).collect();
    parts.join("/")
}
