//! Removes a file, a symbolic link, an empty folder, or a folder with everything below it.

use std::io;

use super::editor::{FileChange, FileChangeKind};
use super::entry::{Entry, EntryKind};
use super::view::FilesView;
use super::walk::{WalkFilter, WalkOptions};
use super::{Files, name_encoding};
use crate::error::{ErrorKind, Result, SkillError};
use crate::host::files::operation::FileOperation;
use crate::host::files::symlinks::FinalSymlink;
use crate::host::files::unsaved::check_shown;
use crate::host::io_error::into_io_error;
use crate::host::memory::HostMemoryReservation;
use crate::policy::{Access, CancelToken, RunPermissions};

impl FilesView<'_> {
    /// Removes a file, an empty folder, or a symbolic link itself, never its target. The root cannot be removed.
    pub fn remove(&self, path: &str) -> Result<()> {
        let operation = FileOperation::write("remove", path);
        check_not_root(operation)?;
        self.check_link_removal(operation)?;
        self.remove_shown(operation, None, |shown| self.remove_at(operation, shown))
    }

    /// Removes a folder with everything below it, or what [`FilesView::remove`] removes. Symbolic links below are removed and not
    /// followed. If the run may not change something below, nothing is removed.
    pub fn remove_all(&self, path: &str, cancel: &CancelToken) -> Result<()> {
        let operation = FileOperation::write("remove", path);
        check_not_root(operation)?;
        let folder = self.with_resolved_path(operation, FinalSymlink::NoFollow, |path| {
            let is_dir = match self.files.metadata_nofollow(&name_encoding::decode(path)) {
                Err(error) if self.editor.is_some() && error.kind() == io::ErrorKind::NotFound => false,
                found => found?.is_dir(),
            };
            Ok(is_dir.then(|| path.to_owned()))
        })?;
        let Some(folder) = folder else { return self.remove(path) };
        self.check_link_removal(operation)?;
        let mut reservation = self.empty_reservation();
        let entries = self.removable_entries(&folder, operation, cancel, &mut reservation)?;
        self.remove_shown(operation, Some(&folder), |shown| {
            if shown.is_some() {
                // A link may have been put there since, and nothing of what is removed may be anything else than was shown.
                self.with_resolved_path(operation, FinalSymlink::NoFollow, |path| check_shown(shown, path))?;
            }
            remove_entries(self.files, &entries, cancel)?;
            self.remove_at(operation, shown)
        })
    }

    /// Shows the removal to the editor, if there is one, and makes it unless the editor did so itself. `folder` is what is removed
    /// with everything below it.
    fn remove_shown(
        &self,
        operation: FileOperation<'_>,
        folder: Option<&str>,
        make: impl FnOnce(Option<&FileChange>) -> Result<()>,
    ) -> Result<()> {
        if self.editor.is_none() {
            return make(None);
        }
        let kind = FileChangeKind::Remove { recursive: folder.is_some() };
        let check = |path: &str| match self.files.metadata_nofollow(&name_encoding::decode(path)) {
            _ if folder.is_some_and(|folder| folder != path) => {
                Err(io::Error::other("it leads to another folder than before"))
            }
            // The editor may have a file that it never saved.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                match self.unsaved_content(operation, path).map_err(into_io_error)? {
                    Some(_) => Ok(()),
                    None => Err(error),
                }
            }
            found => found.map(drop),
        };
        self.change_shown(operation, FinalSymlink::NoFollow, kind, check, |shown| make(Some(shown)))
    }

    fn remove_at(&self, operation: FileOperation<'_>, shown: Option<&FileChange>) -> Result<()> {
        self.with_resolved_path(operation, FinalSymlink::NoFollow, |path| {
            check_shown(shown, path)?;
            self.files.parent_dir(path)?.remove()
        })
    }

    /// Refuses to remove a symbolic link that makes its target protected by name: without the link, the protection would be lost.
    fn check_link_removal(&self, operation: FileOperation<'_>) -> Result<()> {
        let Some(permissions) = self.permissions else { return Ok(()) };
        let Some(below) = permissions.protection().skill_folder_below(operation.path) else { return Ok(()) };
        if self.metadata(operation, FinalSymlink::NoFollow)?.is_symlink() {
            permissions.require(&Access::write(below), operation)
        } else {
            Ok(())
        }
    }

    /// Everything below a folder, each folder before its content, if the run may change all of it.
    fn removable_entries(
        &self,
        folder: &str,
        operation: FileOperation<'_>,
        cancel: &CancelToken,
        reservation: &mut HostMemoryReservation,
    ) -> Result<Vec<Entry>> {
        let mut entries = Vec::new();
        let walk = WalkOptions { cancel, filter: WalkFilter::SkipNothing, depth: None };
        let skipped = self.walk(folder, &walk, |entry| {
            if let Some(permissions) = self.permissions {
                let need = Access::write(entry.path.as_str());
                if need.is_protected(permissions.protection()) {
                    permissions
                        .require(&need, format_args!("{operation}: failed to remove {}", entry.path))?;
                }
            }
            self.check_not_reserved(operation, &entry.path)?;
            if entry.kind == EntryKind::Dir {
                self.check_protected(operation, &entry.path)?;
            }
            reservation.grow(entry.memory_size())?;
            entries.push(entry);
            Ok(())
        })?;
        match skipped.into_iter().next() {
            Some(skipped) => Err(FileOperation::write("remove", &skipped.path).io_error(skipped.error)),
            None => Ok(entries),
        }
    }
}

fn check_not_root(operation: FileOperation<'_>) -> Result<()> {
    if !operation.path.is_empty() {
        return Ok(());
    }
    let sentence = format!("{operation}: the root cannot be removed");
    Err(SkillError::new(ErrorKind::InvalidArgument, sentence))
}

/// Removes entries, each before the folder that contains it.
fn remove_entries(files: &Files, entries: &[Entry], cancel: &CancelToken) -> Result<()> {
    for Entry { path, .. } in entries.iter().rev() {
        cancel.check()?;
        let removed = files.parent_dir(path).and_then(|parent| parent.remove());
        removed.map_err(|error| FileOperation::write("remove", path).io_error(error))?;
    }
    Ok(())
}
