//! Which of several folders of an engine each root of skills belongs to, so that the skills of one folder find none of another.

use super::root::{Root, Scope};

/// The roots on disk in the order of their ranks; none where there is only one folder.
#[derive(Debug, Default)]
pub(crate) struct RootFolders(Vec<RootFolder>);

#[derive(Debug)]
struct RootFolder {
    scope: Scope,
    label: String,
    folder: Option<usize>,
}

impl RootFolders {
    /// The roots, and for each the index of its folder.
    pub(super) fn new<'r>(roots: impl Iterator<Item = &'r Root>, folders: Vec<Option<usize>>) -> Self {
        let with_folder = roots.zip(folders).map(|(root, folder)| RootFolder {
            scope: root.scope,
            label: root.label.clone(),
            folder,
        });
        Self(with_folder.collect())
    }

    /// The folder of the root with that rank; `None` for roots of the user, in the program, and in no folder.
    pub(super) fn of_rank(&self, rank: usize) -> Option<usize> {
        self.0.get(rank)?.folder
    }

    /// The folder of the root in a full qualified name. A label may contain another one and a slash, so the longest counts.
    pub(super) fn of_qualified_name(&self, name: &str) -> Option<usize> {
        let is_root = |root: &&RootFolder| {
            let label = name.strip_prefix(root.scope.name()).and_then(|rest| rest.strip_prefix('/'));
            label
                .and_then(|label| label.strip_prefix(root.label.as_str()))
                .is_some_and(|rest| rest.starts_with([':', '/']))
        };
        self.0.iter().filter(is_root).max_by_key(|root| root.label.len())?.folder
    }
}

/// The label that a root has where its folder is the only one: without the number that a label gets when it exists already.
pub(super) fn label_without_number(label: &str) -> &str {
    match label.rsplit_once('-') {
        Some((plain, number)) if !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()) => {
            plain
        }
        _ => label,
    }
}
