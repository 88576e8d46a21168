//! Removing: one file, link or empty folder, or a folder with everything below it.

use std::io;

use cap_fs_ext::DirExt;

use super::View;
use super::attempt::Attempt;
use super::links::Last;
use super::place::Place;
use super::walk::{Entry, EntryKind, Tidy, Walk};
use crate::error::{ErrorKind, Result, SkillError};
use crate::host::memory::Held;
use crate::policy::{CancelToken, Need};

impl View<'_> {
    /// Removes a file, an empty folder, or a link itself, never what it leads to. The root cannot be removed.
    pub fn remove(&self, path: &str) -> Result<()> {
        let attempt = Attempt::change("remove", path);
        not_the_root(attempt)?;
        self.keeps_the_way(attempt)?;
        self.reach(attempt, Last::Itself, |path| remove_one(&self.files.place(path)?))
    }

    /// Removes a folder with everything below it, or what [`View::remove`] removes. Links below are removed and not
    /// followed. When something below may not be changed, nothing is removed.
    pub fn remove_whole(&self, path: &str, cancel: &CancelToken) -> Result<()> {
        let attempt = Attempt::change("remove", path);
        not_the_root(attempt)?;
        let folder = self.reach(attempt, Last::Itself, |path| {
            let place = self.files.place(path)?;
            let is_dir = place.folder.symlink_metadata(&place.name)?.is_dir();
            Ok(is_dir.then(|| path.to_owned()))
        })?;
        if let Some(folder) = folder {
            self.empty(&folder, attempt, cancel)?;
        }
        self.remove(path)
    }

    /// Refuses a link by which something is reached that is protected by its name: without it, it would be gone.
    fn keeps_the_way(&self, attempt: Attempt<'_>) -> Result<()> {
        let Some(permissions) = self.permissions else { return Ok(()) };
        let Some(below) = permissions.protection().guarded_below(attempt.path) else { return Ok(()) };
        if self.metadata(attempt, Last::Itself)?.is_symlink() {
            permissions.require(&Need::write(below), attempt)
        } else {
            Ok(())
        }
    }

    fn empty(&self, folder: &str, attempt: Attempt<'_>, cancel: &CancelToken) -> Result<()> {
        let mut held = self.hold();
        for Entry { path, .. } in self.all_below(folder, attempt, cancel, &mut held)?.iter().rev() {
            cancel.check()?;
            let removed = self.files.place(path).and_then(|place| remove_one(&place));
            removed.map_err(|error| Attempt::change("remove", path).io(error))?;
        }
        Ok(())
    }

    /// Everything below a folder, each folder before what it holds, if all of it may be changed.
    fn all_below(
        &self,
        folder: &str,
        attempt: Attempt<'_>,
        cancel: &CancelToken,
        held: &mut Held,
    ) -> Result<Vec<Entry>> {
        let mut entries = Vec::new();
        let walk = Walk { cancel, tidy: Tidy::Nothing, depth: None };
        let skipped = self.walk(folder, &walk, |entry| {
            if let Some(permissions) = self.permissions {
                let need = Need::write(entry.path.as_str());
                if need.is_protected(permissions.protection()) {
                    permissions.require(&need, format_args!("{attempt}: failed to remove {}", entry.path))?;
                }
            }
            self.open_to_scripts(attempt, &entry.path)?;
            if entry.kind == EntryKind::Dir {
                self.permit(attempt, &entry.path)?;
            }
            held.grow(entry.weight())?;
            entries.push(entry);
            Ok(())
        })?;
        match skipped.into_iter().next() {
            Some(skipped) => Err(Attempt::change("remove", &skipped.path).io(skipped.error)),
            None => Ok(entries),
        }
    }
}

fn not_the_root(attempt: Attempt<'_>) -> Result<()> {
    if !attempt.path.is_empty() {
        return Ok(());
    }
    let sentence = format!("{attempt}: the root cannot be removed");
    Err(SkillError::new(ErrorKind::InvalidArgument, sentence))
}

fn remove_one(place: &Place) -> io::Result<()> {
    if place.folder.symlink_metadata(&place.name)?.is_dir() {
        return place.folder.remove_dir(&place.name);
    }
    place.folder.remove_file_or_symlink(&place.name)
}
