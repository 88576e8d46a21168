//! The origin of a skill: its root, its folder, its file.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::root::{Root, Scope};
use crate::registry::embedded::EmbeddedRoot;
use crate::registry::root_folders::label_without_number;
use crate::registry::skill_folder::SkillFolder;

/// The root of a skill, shared by all skills in it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct RootOrigin {
    pub(super) scope: Scope,
    pub(super) label: String,
    /// The position in the list of roots.
    pub(super) rank: usize,
    pub(super) path: PathBuf,
}

impl RootOrigin {
    pub(super) fn from_root(root: &Root, rank: usize) -> Self {
        Self { scope: root.scope, label: root.label.clone(), rank, path: root.path.clone() }
    }

    pub(super) fn from_embedded(root: &EmbeddedRoot, rank: usize) -> Self {
        Self { scope: root.scope, label: root.label.clone(), rank, path: PathBuf::new() }
    }
}

/// The location of a `SKILL.md`.
#[derive(Clone, Debug)]
pub(super) struct SkillAddress {
    pub(super) origin: Arc<RootOrigin>,
    pub(super) folder: SkillFolder,
    pub(super) file_name: &'static str,
}

impl SkillAddress {
    /// The file, `builtin:NAME`, or `embedded/ROOT:NAME`.
    pub(super) fn path(&self) -> PathBuf {
        match &self.folder {
            SkillFolder::Disk(folder) => folder.join(self.file_name),
            SkillFolder::Script(script) => script.clone(),
            SkillFolder::Embedded(skill) if self.origin.scope == Scope::Builtin => {
                format!("builtin:{}", skill.name()).into()
            }
            SkillFolder::Embedded(skill) => {
                format!("{}/{}:{}", self.origin.scope, self.origin.label, skill.name()).into()
            }
        }
    }

    /// The file, if it is on disk.
    pub(super) fn disk_path(&self) -> Option<PathBuf> {
        self.folder.disk_path().map(|_| self.path())
    }

    /// The folder's name.
    pub(super) fn folder_name(&self) -> String {
        self.path_in_root().rsplit('/').next().unwrap_or_default().to_owned()
    }

    /// The folder relative to the root, `/`-separated; characters that are not Unicode are replaced.
    pub(super) fn path_in_root(&self) -> String {
        match &self.folder {
            SkillFolder::Disk(folder) => {
                slash_separated(folder.strip_prefix(&self.origin.path).unwrap_or(folder))
            }
            SkillFolder::Script(script) => {
                script.file_stem().unwrap_or_default().to_string_lossy().into_owned()
            }
            SkillFolder::Embedded(skill) => skill.name().to_owned(),
        }
    }

    /// Whether `qualifier` names this location: the scope, the label of the root, or both. A label may be followed by the
    /// folder, which distinguishes skills of the same name and version in one root. `accepts_plain_label` accepts the label
    /// without its number too.
    pub(super) fn matches_qualifier(&self, qualifier: &str, accepts_plain_label: bool) -> bool {
        let RootOrigin { scope, label, .. } = &*self.origin;
        let plain_label = accepts_plain_label.then(|| label_without_number(label));
        let has_label = |text: &str, label: &str| match text.strip_prefix(label) {
            Some("") => true,
            Some(rest) => rest.strip_prefix('/').is_some_and(|folder| folder == self.path_in_root()),
            None => false,
        };
        let is_label =
            |text: &str| has_label(text, label) || plain_label.is_some_and(|label| has_label(text, label));
        let in_scope = qualifier.strip_prefix(scope.name()).and_then(|rest| rest.strip_prefix('/'));
        qualifier == scope.name() || is_label(qualifier) || in_scope.is_some_and(is_label)
    }
}

/// A relative path with `/` between its names.
pub(super) fn slash_separated(path: &Path) -> String {
    let parts: Vec<_> = path.iter().map(|part| part.to_string_lossy()).collect();
    parts.join("/")
}
