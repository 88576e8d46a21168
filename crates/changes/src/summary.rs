//! The summary of a change set on a few lines of a terminal, like that of `git diff --stat`.

use std::fmt::Write as _;

use super::model::{Change, ChangeKind, ChangeSet, EntryType, FileState, escape};

/// A line for each change, at most `max_lines`, each of at most `columns` characters, and one that counts them all. Deletions and what
/// was refused come first, and are never left out.
pub fn summary(set: &ChangeSet, columns: usize, max_lines: usize) -> String {
    const MIN_PATH_COLUMNS: usize = 16;
    let (rows, omitted) = rows(set, max_lines);
    let mut text = String::new();
    for (word, path, detail) in rows {
        let taken = word.chars().count().max(8) + detail.chars().count() + 6;
        let path = shorten_path(&path, columns.saturating_sub(taken).max(MIN_PATH_COLUMNS));
        text.push_str(format!(" {word:<8}  {path}  {detail}").trim_end());
        text.push('\n');
    }
    if omitted > 0 {
        let _ = writeln!(text, " … and {omitted} more");
    }
    let _ = writeln!(text, " {}", counts(set));
    text
}

/// The same for a person who is asked about all of them: the kind of each change, and its path with what it is; and how many there are.
pub fn summary_facts(set: &ChangeSet) -> Vec<(&'static str, String)> {
    let (rows, _) = rows(set, usize::MAX);
    let text = |path: &str, detail: &str| match detail {
        "" => escape(path),
        detail => format!("{} ({detail})", escape(path)),
    };
    let each = rows.into_iter().map(|(word, path, detail)| (word, text(&path, &detail)));
    each.chain([("in all", counts(set))]).collect()
}

/// Kind, path and detail of the changes, of which at most so many that are no deletions, and how many are left out.
fn rows(set: &ChangeSet, max_lines: usize) -> (Vec<(&'static str, String, String)>, usize) {
    let is_deletion = |change: &&Change| change.kind == ChangeKind::Deleted;
    let deleted = set.changes.iter().filter(is_deletion);
    let mut others: Vec<&Change> = set.changes.iter().filter(|change| !is_deletion(change)).collect();
    // What was there before must not be hidden by many new files.
    others.sort_by_key(|change| change.kind == ChangeKind::Created);
    let shown = others.iter().take(max_lines).copied();
    let refused =
        set.refused.iter().map(|refusal| ("refused", refusal.path.clone(), escape(&refusal.reason)));
    let changed = deleted.chain(shown).map(|change| {
        let path = match &change.from {
            Some(from) => format!("{from} => {}", change.path),
            None => change.path.clone(),
        };
        (change.kind.name(), path, detail(change))
    });
    (refused.chain(changed).collect(), others.len().saturating_sub(max_lines))
}

/// `3 created, 1 deleted`
fn counts(set: &ChangeSet) -> String {
    const KINDS: [ChangeKind; 6] = [
        ChangeKind::Created,
        ChangeKind::Changed,
        ChangeKind::Deleted,
        ChangeKind::Renamed,
        ChangeKind::Mode,
        ChangeKind::Link,
    ];
    let count = |kind| set.changes.iter().filter(|change| change.kind == kind).count();
    let counted = KINDS.iter().map(|kind| (kind.name(), count(*kind)));
    let refused = [("refused", set.refused.len())];
    let late = [("in conflict", set.changes.iter().filter(|change| change.conflict.is_some()).count())];
    let parts: Vec<String> = counted
        .chain(refused)
        .chain(late)
        .filter(|(_, count)| *count > 0)
        .map(|(name, count)| format!("{count} {name}"))
        .collect();
    if parts.is_empty() { "no changes".to_owned() } else { parts.join(", ") }
}

/// What of the states a person wants to know at once.
fn detail(change: &Change) -> String {
    let text = match (&change.before, &change.after) {
        (Some(before), None) => state_text(before),
        (Some(before), Some(after)) if before.entry_type != after.entry_type => {
            format!("{} -> {}", before.entry_type.noun(), state_text(after))
        }
        (Some(before), Some(after)) if change.kind == ChangeKind::Mode => {
            format!("{:03o} -> {:03o}", before.mode, after.mode)
        }
        (Some(before), Some(after)) if before.size != after.size => {
            format!("{} -> {} bytes", before.size, after.size)
        }
        (_, Some(after)) => state_text(after),
        (None, None) => String::new(),
    };
    match &change.conflict {
        Some(_) => format!("{text} (conflict)"),
        None => text,
    }
}

fn state_text(state: &FileState) -> String {
    match state.entry_type {
        EntryType::File => format!("{} bytes", state.size),
        EntryType::Folder => "folder".to_owned(),
        EntryType::Symlink => {
            const TARGET_COLUMNS: usize = 40;
            let target = state.target.as_deref().unwrap_or_default();
            format!("link to {}", shorten_path(target, TARGET_COLUMNS))
        }
    }
}

/// The end of a path says more than its beginning.
fn shorten_path(path: &str, columns: usize) -> String {
    let shown = escape(path);
    let length = shown.chars().count();
    if length <= columns {
        return shown;
    }
    let end: String = shown.chars().skip(length - columns.saturating_sub(1)).collect();
    format!("…{end}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{FileIdentity, Refusal};
    use metier_core::policy::Timestamp;

    fn file(size: u64) -> FileState {
        let identity = FileIdentity::default();
        let entry_type = EntryType::File;
        FileState { entry_type, size, mode: 0o644, digest: None, target: None, identity }
    }

    fn change(kind: ChangeKind, path: &str, before: Option<FileState>, after: Option<FileState>) -> Change {
        Change { path: path.to_owned(), kind, from: None, before, after, conflict: None }
    }

    fn set(changes: Vec<Change>) -> ChangeSet {
        ChangeSet {
            id: "0".repeat(32),
            started: Timestamp::from_seconds(0),
            ended: Timestamp::from_seconds(1),
            project: "/p".to_owned(),
            project_identity: FileIdentity::default(),
            skill: "s".to_owned(),
            changes,
            refused: Vec::new(),
        }
    }

    #[test]
    fn a_summary_has_a_line_for_each_change_and_one_that_counts_them() {
        let mut renamed = change(ChangeKind::Renamed, "b", Some(file(4)), Some(file(4)));
        renamed.from = Some("a".to_owned());
        let mut set = set(vec![
            change(ChangeKind::Created, "new", None, Some(file(3))),
            change(ChangeKind::Changed, "old", Some(file(1)), Some(file(2))),
            renamed,
            change(ChangeKind::Deleted, "gone", Some(file(9)), None),
        ]);
        set.refused.push(Refusal { path: "pipe".to_owned(), reason: "it is a pipe".to_owned() });
        assert_eq!(
            summary(&set, 80, 10),
            " refused   pipe  it is a pipe\n deleted   gone  9 bytes\n changed   old  1 -> 2 bytes\n renamed   a => b  4 bytes\n \
             created   new  3 bytes\n 1 created, 1 changed, 1 deleted, 1 renamed, 1 refused\n"
        );
        assert_eq!(summary(&self::set(Vec::new()), 80, 10), " no changes\n");
    }

    #[test]
    fn deletions_are_never_left_out() {
        let mut changes: Vec<_> =
            (0..50).map(|n| change(ChangeKind::Created, &format!("new{n}"), None, Some(file(1)))).collect();
        changes
            .extend((0..50).map(|n| change(ChangeKind::Deleted, &format!("gone{n}"), Some(file(1)), None)));
        let text = summary(&set(changes), 80, 5);
        assert_eq!(text.matches("gone").count(), 50);
        assert_eq!(text.matches("new").count(), 5);
        assert!(text.contains(" … and 45 more\n"), "{text}");
    }

    #[test]
    fn names_are_escaped_and_cut() {
        let long = "d/".repeat(200) + "name";
        let set = set(vec![
            change(ChangeKind::Created, "a\n\u{1b}[31mred\u{202e}", None, Some(file(1))),
            change(ChangeKind::Created, &long, None, Some(file(1))),
        ]);
        let text = summary(&set, 60, 10);
        assert!(text.contains("a\\u{a}\\u{1b}[31mred\\u{202e}"), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 60), "{text}");
        assert!(text.contains("/d/name  1 bytes"), "{text}");
    }
}
