//! Renames: a file that is gone, and one with the same content that is new.

use std::collections::HashMap;
use std::path::Path;

use super::model::{Change, ChangeKind, EntryType, FileState};

/// How many files with one content are looked through for one of the same name: a script can make as many as it likes.
const MAX_CANDIDATES: usize = 32;

/// Makes one change of each file that is gone and a new file with its content. Empty files are not compared, and a file that the project
/// has changed meanwhile is none.
pub(crate) fn pair_renames(changes: Vec<Change>) -> Vec<Change> {
    let mut gone: HashMap<(String, u64), Vec<usize>> = HashMap::new();
    for (index, change) in changes.iter().enumerate() {
        if change.kind == ChangeKind::Deleted
            && change.conflict.is_none()
            && let Some(key) = change.before.as_ref().and_then(content_key)
        {
            gone.entry(key).or_default().push(index);
        }
    }
    let mut slots: Vec<Option<Change>> = changes.into_iter().map(Some).collect();
    for index in 0..slots.len() {
        let Some(change) = slots.get(index).and_then(Option::as_ref) else { continue };
        if change.kind != ChangeKind::Created {
            continue;
        }
        let Some(key) = change.after.as_ref().and_then(content_key) else { continue };
        let Some(candidates) = gone.get_mut(&key).filter(|candidates| !candidates.is_empty()) else {
            continue;
        };
        let name = Path::new(&change.path).file_name();
        let path_of = |index: &usize| slots.get(*index)?.as_ref().map(|change| change.path.as_str());
        let is_same_name =
            |index: &usize| path_of(index).is_some_and(|path| Path::new(path).file_name() == name);
        let chosen = candidates.iter().take(MAX_CANDIDATES).position(is_same_name).unwrap_or(0);
        let source = candidates.swap_remove(chosen);
        let Some(deleted) = slots.get_mut(source).and_then(Option::take) else { continue };
        if let Some(Some(change)) = slots.get_mut(index) {
            change.kind = ChangeKind::Renamed;
            change.from = Some(deleted.path);
            change.before = deleted.before;
        }
    }
    slots.into_iter().flatten().collect()
}

fn content_key(state: &FileState) -> Option<(String, u64)> {
    let is_comparable = state.entry_type == EntryType::File && state.size > 0;
    Some((state.digest.clone().filter(|_| is_comparable)?, state.size))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::FileIdentity;

    fn change(kind: ChangeKind, path: &str, content: &str) -> Change {
        let state = FileState {
            entry_type: EntryType::File,
            size: content.len() as u64,
            mode: 0o644,
            digest: Some(content.to_owned()),
            target: None,
            identity: FileIdentity::default(),
        };
        let (before, after) =
            if kind == ChangeKind::Deleted { (Some(state), None) } else { (None, Some(state)) };
        Change { path: path.to_owned(), kind, from: None, before, after, conflict: None }
    }

    #[test]
    fn a_new_file_with_the_content_of_a_deleted_one_is_a_rename_of_it() {
        use ChangeKind::{Created, Deleted};
        let changes = vec![
            change(Deleted, "a/one", "same"),
            change(Deleted, "a/two", "same"),
            change(Created, "b/two", "same"),
            change(Created, "c", "other"),
            change(Created, "empty", ""),
            change(Deleted, "gone", ""),
        ];
        let found: Vec<_> = pair_renames(changes)
            .into_iter()
            .map(|change| {
                format!("{} {} {}", change.kind.name(), change.from.unwrap_or_default(), change.path)
            })
            .collect();
        assert_eq!(
            found,
            ["deleted  a/one", "renamed a/two b/two", "created  c", "created  empty", "deleted  gone"]
        );
    }

    #[test]
    fn a_deleted_file_is_the_source_of_one_rename_only() {
        use ChangeKind::{Created, Deleted};
        let changes = vec![change(Created, "b", "x"), change(Created, "c", "x"), change(Deleted, "a", "x")];
        let kinds: Vec<_> = pair_renames(changes).iter().map(|change| change.kind).collect();
        assert_eq!(kinds, [ChangeKind::Renamed, Created]);
    }
}
