//! Asks the editor for unsaved contents, and shows it changes before they are made. Without an editor nothing is asked.

use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;

use super::editor::{ChangeDecision, FileChange, FileChangeKind, UnsavedPaths};
use super::operation::FileOperation;
use super::path::relative_path;
use super::symlinks::FinalSymlink;
use super::view::FilesView;
use crate::error::{ErrorKind, Result, SkillError};
use crate::host::io_error::into_io_error;
use crate::host::memory::HostMemoryReservation;

/// Maximum paths with unsaved contents.
const MAX_UNSAVED: usize = 10_000;
/// Approximate bytes of such a path, besides its text.
const PATH_OVERHEAD_BYTES: u64 = 64;

impl FilesView<'_> {
    /// The unsaved content of the file at this path, with its memory. Everything that reading the file checks must have been
    /// checked, and the path must contain no symbolic links.
    pub(super) fn unsaved_content(
        &self,
        operation: FileOperation<'_>,
        path: &str,
    ) -> Result<Option<(Vec<u8>, HostMemoryReservation)>> {
        let Some(editor) = self.editor else { return Ok(None) };
        let content = editor.unsaved(path).map_err(|error| operation.with_context(error))?;
        let Some(content) = content else { return Ok(None) };
        let mut reservation = self.empty_reservation();
        reservation.add(content.len() as u64).map_err(|error| operation.with_context(error))?;
        Ok(Some((content, reservation)))
    }

    /// The paths that have unsaved contents. Those outside the project are left out.
    pub(super) fn unsaved_paths(&self, operation: FileOperation<'_>) -> Result<UnsavedPaths> {
        let Some(editor) = self.editor else { return Ok(UnsavedPaths::default()) };
        let listed = editor.unsaved_paths().map_err(|error| operation.with_context(error))?;
        if listed.len() > MAX_UNSAVED {
            let sentence = format!(
                "{operation}: the editor lists {} unsaved files; the maximum is {MAX_UNSAVED}",
                listed.len()
            );
            return Err(SkillError::new(ErrorKind::Unavailable, sentence).with_help("save some of them"));
        }
        let mut reservation = self.empty_reservation();
        let bytes = listed.iter().map(|path| path.len() as u64 + PATH_OVERHEAD_BYTES).sum();
        reservation.add(bytes).map_err(|error| operation.with_context(error))?;
        let inside = |path: String| relative_path(&path, Some(&self.files.root)).ok();
        let paths: BTreeSet<String> =
            listed.into_iter().filter_map(inside).filter(|path| !path.is_empty()).collect();
        Ok(UnsavedPaths::new(paths, reservation))
    }

    /// Whether a folder that could not be opened has files that exist only in the editor.
    pub(super) fn is_unsaved_folder(
        &self,
        operation: FileOperation<'_>,
        path: &str,
        error: &io::Error,
    ) -> io::Result<bool> {
        let is_missing = self.editor.is_some() && error.kind() == io::ErrorKind::NotFound;
        Ok(is_missing && self.unsaved_paths(operation).map_err(into_io_error)?.has_below(path))
    }

    /// What the editor has at a path: whether the disk has it as well, and the size of the unsaved content; no size means a folder
    /// that exists only in the editor. `None` if the disk alone has it, or nobody.
    pub(super) fn unsaved_entry(&self, operation: FileOperation<'_>) -> Result<Option<(bool, Option<u64>)>> {
        if self.editor.is_none() {
            return Ok(None);
        }
        let (metadata, path) = self.with_resolved_path(operation, FinalSymlink::Follow, |path| {
            let metadata = match self.files.metadata_nofollow(&super::name_encoding::decode(path)) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => None,
                Ok(found) if found.is_symlink() => return Err(io::Error::other("it is a symbolic link")),
                found => Some(found?),
            };
            Ok((metadata, path.to_owned()))
        })?;
        match &metadata {
            Some(found) if !found.is_file() => return Ok(None),
            Some(found) => self.check_opened_file(operation, &path, found)?,
            None => {}
        }
        let content = self.unsaved_content(operation, &path)?;
        Ok(match content {
            Some((content, _)) => Some((metadata.is_some(), Some(content.len() as u64))),
            None if metadata.is_none() && self.unsaved_paths(operation)?.has_below(&path) => {
                Some((false, None))
            }
            None => None,
        })
    }

    /// Shows a change to the editor, and makes it with `make` unless the editor did so itself. `check` is what must hold for the
    /// path without symbolic links before it is shown; it must refuse symbolic links like the change itself.
    pub(super) fn change_shown(
        &self,
        operation: FileOperation<'_>,
        last: FinalSymlink,
        kind: FileChangeKind,
        check: impl Fn(&str) -> io::Result<()>,
        make: impl FnOnce(&FileChange) -> Result<()>,
    ) -> Result<()> {
        let Some(editor) = self.editor else { return Ok(()) };
        let path = self.with_resolved_path(operation, last, |path| check(path).map(|()| path.to_owned()))?;
        let change = Arc::new(FileChange { path, kind });
        match editor.decide(&change).map_err(|error| operation.with_context(error))? {
            ChangeDecision::Applied => Ok(()),
            ChangeDecision::Proceed => {
                make(&change)?;
                editor.changed(&change);
                Ok(())
            }
        }
    }
}

/// Refuses a path that is not the one that was shown: a symbolic link was put there meanwhile.
pub(super) fn check_shown(shown: Option<&FileChange>, path: &str) -> io::Result<()> {
    match shown {
        Some(shown) if shown.path != path => {
            Err(io::Error::other("it leads to another file than the one that was shown"))
        }
        _ => Ok(()),
    }
}
