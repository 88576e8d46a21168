//! The order in which changes are applied or undone: what is new first, what is gone last, from the deepest folder up.

use super::model::{Change, ChangeSet, EntryType, FileState};
use super::reader::path_order;

/// Bits of a folder in which its owner can put something.
const OWNER_ALL: u32 = 0o700;

/// What is to become of one path.
#[derive(Clone, Copy)]
pub(crate) struct Transition<'a> {
    /// The change, by its number in the set.
    pub(crate) change: usize,
    pub(crate) path: &'a str,
    /// What the project has there.
    pub(crate) from: Option<&'a FileState>,
    /// What it is to have there.
    pub(crate) to: Option<&'a FileState>,
    /// Where a renamed file is removed once it is at its new path.
    pub(crate) source: Option<&'a str>,
}

/// One thing to be done at a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Action<'a> {
    /// Puts what is staged there; nothing is there.
    Place(&'a FileState),
    /// Removes a file or a link.
    Remove(&'a FileState),
    /// Puts what is staged in the place of a file or a link.
    Replace { from: &'a FileState, to: &'a FileState },
    /// Removes an empty folder, which has these permissions by then.
    RemoveFolder { from: &'a FileState, mode: u32 },
    /// Changes the permissions of a folder.
    SetMode { from: u32, to: u32 },
}

/// What is done as a whole: if a later action fails, the earlier ones are taken back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Step<'a> {
    pub(crate) change: usize,
    pub(crate) actions: Vec<(&'a str, Action<'a>)>,
    /// Whether it only prepares or completes another step of the change.
    pub(crate) is_auxiliary: bool,
}

impl<'a> Transition<'a> {
    /// From what was there before to what is there after.
    pub(crate) fn apply(change: usize, of: &'a Change) -> Self {
        let from = if of.from.is_some() { None } else { of.before.as_ref() };
        Self { change, path: &of.path, from, to: of.after.as_ref(), source: of.from.as_deref() }
    }

    /// The way back.
    pub(crate) fn undo(change: usize, of: &'a Change) -> Self {
        match &of.from {
            Some(from) => {
                Self { change, path: from, from: None, to: of.before.as_ref(), source: Some(&of.path) }
            }
            None => {
                Self { change, path: &of.path, from: of.after.as_ref(), to: of.before.as_ref(), source: None }
            }
        }
    }

    /// What a renamed file is like at its old path.
    fn source_state(&self, set: &'a ChangeSet) -> Option<&'a FileState> {
        let change = set.changes.get(self.change)?;
        let is_undo = change.from.as_deref() == Some(self.path);
        if is_undo { change.after.as_ref() } else { change.before.as_ref() }
    }
}

/// The steps of these transitions, in the order in which they are taken.
pub(crate) fn plan<'a>(set: &'a ChangeSet, transitions: &[Transition<'a>]) -> Vec<Step<'a>> {
    let mut sorted = transitions.to_vec();
    sorted.sort_by(|one, other| path_order(one.path, other.path));
    let (mut opened, mut created, mut removed, mut closed) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for transition in &sorted {
        let Transition { change, path, from, to, source } = *transition;
        let step = |actions: Vec<Action<'a>>| Step {
            change,
            actions: actions.into_iter().map(|action| (path, action)).collect(),
            is_auxiliary: false,
        };
        let auxiliary = |from, to| Step { is_auxiliary: true, ..step(vec![Action::SetMode { from, to }]) };
        match (from, to) {
            (None, None) => {}
            (None, Some(to)) => {
                let mut placing = step(vec![Action::Place(to)]);
                if let (Some(source), Some(state)) = (source, transition.source_state(set)) {
                    placing.actions.push((source, Action::Remove(state)));
                }
                created.push(placing);
            }
            (Some(from), Some(to)) if is_folder(from) && is_folder(to) => {
                let step = step(vec![Action::SetMode { from: from.mode, to: to.mode }]);
                if to.mode & OWNER_ALL == OWNER_ALL { &mut opened } else { &mut closed }.push(step);
            }
            (Some(from), Some(to)) if is_folder(to) => {
                created.push(step(vec![Action::Remove(from), Action::Place(to)]));
            }
            (Some(from), Some(to)) if !is_folder(from) => {
                created.push(step(vec![Action::Replace { from, to }]));
            }
            (Some(from), to) if is_folder(from) => {
                let mode = from.mode | OWNER_ALL;
                if mode != from.mode {
                    opened.push(auxiliary(from.mode, mode));
                }
                let mut actions = vec![Action::RemoveFolder { from, mode }];
                actions.extend(to.map(Action::Place));
                removed.push(step(actions));
            }
            (Some(from), _) => removed.push(step(vec![Action::Remove(from)])),
        }
        if let Some(to) = to
            && is_folder(to)
            && !from.is_some_and(is_folder)
            && to.mode & OWNER_ALL != OWNER_ALL
        {
            closed.push(auxiliary(to.mode | OWNER_ALL, to.mode));
        }
    }
    removed.reverse();
    closed.reverse();
    [opened, created, removed, closed].concat()
}

/// The permissions with which a new folder is staged: it gets its own once it is filled.
pub(crate) fn staged_folder_mode(state: &FileState) -> u32 {
    state.mode | OWNER_ALL
}

/// The changes that are meant by these paths: each of them, all below it, and the folders that are made above it. `None` are all.
/// Fails with the first path at which there is no change.
pub(crate) fn select<'a>(set: &ChangeSet, paths: Option<&'a [String]>) -> Result<Vec<usize>, &'a str> {
    let Some(paths) = paths else { return Ok((0..set.changes.len()).collect()) };
    let mut is_meant = vec![false; set.changes.len()];
    let is_below = |path: &str, above: &str| {
        path.strip_prefix(above).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    for wanted in paths {
        let mut is_found = false;
        for (change, meant) in set.changes.iter().zip(&mut is_meant) {
            let is_match = is_below(&change.path, wanted)
                || change.from.as_deref().is_some_and(|from| is_below(from, wanted));
            *meant |= is_match;
            is_found |= is_match;
        }
        if !is_found {
            return Err(wanted);
        }
    }
    let mut above = std::collections::HashSet::new();
    for (change, _) in set.changes.iter().zip(&is_meant).filter(|(_, meant)| **meant) {
        let ends = change.path.match_indices('/').map(|(end, _)| end);
        above.extend(ends.filter_map(|end| change.path.get(..end)));
    }
    for (change, meant) in set.changes.iter().zip(&mut is_meant) {
        let makes_folder =
            change.after.as_ref().is_some_and(is_folder) && !change.before.as_ref().is_some_and(is_folder);
        *meant |= makes_folder && above.contains(change.path.as_str());
    }
    Ok(is_meant.iter().enumerate().filter(|(_, meant)| **meant).map(|(index, _)| index).collect())
}

fn is_folder(state: &FileState) -> bool {
    state.entry_type == EntryType::Folder
}
