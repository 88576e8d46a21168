//! The diff of a stored change: between what the project has, or had, and what the change puts there.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use super::beneath::open_parent;
use super::content::{new_name, old_name, open_content};
use super::diff::{MAX_BYTES, TextDiff};
use super::model::{ChangeSet, EntryType, FileState, decode};
use super::snapshot::{open_file, state_at};

/// The diff of one change; `None` if there is none to show: of folders and links, of what is no text or too large, and where the content
/// is not stored any more or the project has another one.
pub(crate) fn stored_diff(
    set: &ChangeSet,
    index: usize,
    content: &OwnedFd,
    project: BorrowedFd<'_>,
    max_lines: usize,
) -> io::Result<Option<TextDiff>> {
    let Some(change) = set.changes.get(index) else { return Ok(None) };
    let is_shown = |state: &FileState| state.entry_type == EntryType::File && state.size <= MAX_BYTES as u64;
    if ![&change.before, &change.after].into_iter().flatten().all(is_shown) {
        return Ok(None);
    }
    let text = |state: &Option<FileState>, stored: &str, path: &str| match state {
        None => Ok(Some(Vec::new())),
        Some(state) => match open_content(content, stored, state) {
            Ok(file) => read(file).map(Some),
            Err(_) => read_in_project(project, path, state),
        },
    };
    let from = change.from.as_deref().unwrap_or(&change.path);
    let old = text(&change.before, &old_name(index), from)?;
    let new = text(&change.after, &new_name(index), &change.path)?;
    Ok(old.zip(new).and_then(|(old, new)| TextDiff::new(&old, &new, max_lines)))
}

/// The content of a file of the project, if it still is that one.
fn read_in_project(project: BorrowedFd<'_>, path: &str, state: &FileState) -> io::Result<Option<Vec<u8>>> {
    let path = decode(path).map_err(io::Error::other)?;
    let (Ok(dir), Some(name)) = (open_parent(project, &path), path.file_name()) else { return Ok(None) };
    let is_same = state_at(dir.as_fd(), name)?.is_some_and(|found| found.digest == state.digest);
    match open_file(&dir, name)? {
        Some(file) if is_same => read(file).map(Some),
        _ => Ok(None),
    }
}

fn read(file: File) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    file.take(MAX_BYTES as u64 + 1).read_to_end(&mut content)?;
    Ok(content)
}
