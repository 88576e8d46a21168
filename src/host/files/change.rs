//! Changing files: whole at once, so that a reader sees the old content or the new, never a part.

use std::io::{self, Write};

use cap_fs_ext::{FollowSymlinks, MetadataExt, OpenOptionsFollowExt, OpenOptionsSyncExt};
use cap_std::fs::{Dir, File, Metadata, OpenOptions};

use super::attempt::Attempt;
use super::links::Last;
use super::place::Place;
use super::read::irregular;
use super::{View, names};
use crate::error::{ErrorKind, Result, SkillError};
use crate::host::temp_places::{draft_name, hold_draft, note_draft};

impl View<'_> {
    /// Writes a file whole, with its folders where they are missing. An existing file keeps its mode; one that is
    /// read-only, or is no regular file, is refused.
    pub fn write(&self, path: &str, content: &[u8]) -> Result<()> {
        self.replace(Attempt::change("write", path), content)
    }

    /// Adds to the end of a file, which is made with its folders where it is missing.
    pub fn append(&self, path: &str, content: &[u8]) -> Result<()> {
        self.reach(Attempt::change("append to", path), Last::Followed, |path| {
            open_end(&self.files.place_made(path)?)?.write_all(content)
        })
    }

    /// Replaces the one place where `old` stands in a text file by `new`. None or several are `invalid-argument`.
    pub fn edit(&self, path: &str, old: &str, new: &str) -> Result<()> {
        self.edit_where(path, old, new, |count| count == 1).map(drop)
    }

    /// Replaces every `old` in a text file by `new` and says how many there were. None is `invalid-argument`.
    pub fn edit_all(&self, path: &str, old: &str, new: &str) -> Result<usize> {
        self.edit_where(path, old, new, |count| count > 0)
    }

    /// Makes a folder with its parents; one that is there already is fine.
    pub fn make_folder(&self, path: &str) -> Result<()> {
        let attempt = Attempt::change("make folder", path);
        self.reach(attempt, Last::Followed, |path| self.files.folder_made(&names::os(path)).map(drop))
    }

    fn edit_where(&self, path: &str, old: &str, new: &str, fits: impl Fn(usize) -> bool) -> Result<usize> {
        let attempt = Attempt::change("edit", path);
        let refused =
            |fault: String| Err(SkillError::new(ErrorKind::InvalidArgument, format!("{attempt}: {fault}")));
        if old.is_empty() {
            return refused("the text to replace is empty".into());
        }
        let text = self.contents_as_text(attempt)?;
        match text.matches(old).count() {
            count if fits(count) => {
                self.replace(attempt, text.replace(old, new).as_bytes())?;
                Ok(count)
            }
            0 => refused("the text to replace does not occur in it".into()),
            count => refused(format!(
                "the text to replace occurs {count} times; give more of what surrounds it, or {{all: true}}"
            )),
        }
    }

    fn replace(&self, attempt: Attempt<'_>, content: &[u8]) -> Result<()> {
        self.reach(attempt, Last::Followed, |path| {
            let place = self.files.place_made(path)?;
            let replaced = changeable(&place)?;
            let draft = Draft::new(&place.folder)?;
            if let Some(replaced) = replaced {
                // Before the content, which the mode may hide from others.
                draft.file.set_permissions(replaced.permissions())?;
            }
            draft.become_file(&place, content)
        })
    }
}

/// What is at the place, if it may be changed. A link is refused: [`View::reach`] finds out where it leads.
fn changeable(place: &Place) -> io::Result<Option<Metadata>> {
    match place.folder.symlink_metadata(&place.name) {
        Ok(found) if found.is_dir() => Err(io::ErrorKind::IsADirectory.into()),
        Ok(found) if !found.is_file() => Err(irregular()),
        Ok(found) if found.permissions().readonly() => {
            Err(io::Error::new(io::ErrorKind::PermissionDenied, "it is read-only"))
        }
        Ok(found) => Ok(Some(found)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn open_end(place: &Place) -> io::Result<File> {
    let existing = changeable(place)?;
    let mut options = OpenOptions::new();
    options.append(true).create_new(existing.is_none()).nonblock(true).follow(FollowSymlinks::No);
    let file = place.folder.open_with(&place.name, &options)?;
    match file.metadata()? {
        opened if !opened.is_file() => Err(irregular()),
        // The others may lie outside, and would change as well; a file written whole leaves them alone.
        opened if opened.nlink() > 1 => {
            Err(io::Error::other("it has other names (hard links); write it whole"))
        }
        _ => Ok(file),
    }
}

/// A file in the making, beside the one it will replace; gone when dropped.
struct Draft<'a> {
    folder: &'a Dir,
    name: String,
    file: File,
    is_done: bool,
}

impl<'a> Draft<'a> {
    fn new(folder: &'a Dir) -> io::Result<Self> {
        // A process that is killed leaves it; who comes next knows by this where to look.
        note_draft(folder);
        let name = draft_name();
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).follow(FollowSymlinks::No);
        let file = folder.open_with(&name, &options)?;
        hold_draft(&file);
        Ok(Self { folder, name, file, is_done: false })
    }

    fn become_file(mut self, place: &Place, content: &[u8]) -> io::Result<()> {
        self.file.write_all(content)?;
        self.folder.rename(&self.name, self.folder, &place.name)?;
        self.is_done = true;
        Ok(())
    }
}

impl Drop for Draft<'_> {
    fn drop(&mut self) {
        if !self.is_done {
            // There is nobody left to tell; the failure that led here is being reported.
            self.folder.remove_file(&self.name).unwrap_or_default();
        }
    }
}
