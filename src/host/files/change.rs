//! Changing files: whole at once, so that a reader sees the old content or the new, never a part.

use std::io::{self, BufWriter, Write};

use cap_fs_ext::{FollowSymlinks, MetadataExt, OpenOptionsFollowExt, OpenOptionsSyncExt};
use cap_std::fs::{Dir, File, Metadata, OpenOptions};
use memchr::memmem::Finder;

use super::attempt::Attempt;
use super::links::Last;
use super::place::Place;
use super::read::irregular;
use super::{View, names};
use crate::error::{ErrorKind, Result, SkillError};
use crate::host::memory::{PATIENCE, through_io};
use crate::host::temp_places::{draft_name, hold_draft, note_draft};

/// Bytes that are written at a time where a file is put together of many parts.
const BUFFER: usize = 64 << 10;

impl View<'_> {
    /// Writes a file whole, with its folders where they are missing. An existing file keeps its mode; one that is
    /// read-only, or is no regular file, is refused; `output` where the file would be larger than one may be.
    pub fn write(&self, path: &str, content: &[u8]) -> Result<()> {
        let attempt = Attempt::change("write", path);
        self.may_have(content.len() as u64).map_err(|error| attempt.own(error))?;
        self.replace(attempt, |file| self.put(file, content))
    }

    /// Adds to the end of a file, which is made with its folders where it is missing.
    pub fn append(&self, path: &str, content: &[u8]) -> Result<()> {
        self.reach(Attempt::change("append to", path), Last::Followed, |path| {
            let (mut file, size) = open_end(&self.files.place_made(path)?)?;
            self.may_have(size.saturating_add(content.len() as u64)).map_err(through_io)?;
            self.put(&mut file, content)
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
        let mut held = self.hold();
        let text = self.contents_as_text(attempt, &mut held)?;
        let mut places = Occurrences::of(old, &text, self);
        let mut count = 0;
        while places.next()?.is_some() {
            count += 1;
        }
        match count {
            count if fits(count) => {
                let bytes = |text: &str| text.len() as u64;
                let [gone, added] = [old, new].map(|text| bytes(text).saturating_mul(count as u64));
                self.may_have((bytes(&text) - gone).saturating_add(added))
                    .map_err(|error| attempt.own(error))?;
                // Never put together: it may be many times as large as what it is made of.
                self.replace(attempt, |file| self.put_replaced(file, &text, old, new))?;
                Ok(count)
            }
            0 => refused("the text to replace does not occur in it".into()),
            count => refused(format!(
                "the text to replace occurs {count} times; give more of what surrounds it, or {{all: true}}"
            )),
        }
    }

    /// Writes the text with every `old` in it replaced.
    fn put_replaced(&self, file: &mut File, text: &str, old: &str, new: &str) -> io::Result<()> {
        let mut file = BufWriter::with_capacity(BUFFER, file);
        let (mut places, mut start) = (Occurrences::of(old, text, self), 0);
        while let Some(place) = places.next().map_err(through_io)? {
            self.put(&mut file, &text.as_bytes()[start..place])?;
            self.put(&mut file, new.as_bytes())?;
            start = place + old.len();
        }
        self.put(&mut file, &text.as_bytes()[start..])?;
        file.flush()
    }

    /// Writes all of it, unless the run is stopped meanwhile.
    fn put(&self, file: &mut impl Write, content: &[u8]) -> io::Result<()> {
        content.chunks(PATIENCE).try_for_each(|part| {
            self.check().map_err(through_io)?;
            file.write_all(part)
        })
    }

    /// Puts a new file in the place of the old one, with what `fill` writes to it.
    fn replace(&self, attempt: Attempt<'_>, fill: impl Fn(&mut File) -> io::Result<()>) -> Result<()> {
        self.reach(attempt, Last::Followed, |path| {
            let place = self.files.place_made(path)?;
            let replaced = changeable(&place)?;
            let draft = Draft::new(&place.folder)?;
            if let Some(replaced) = replaced {
                // Before the content, which the mode may hide from others.
                draft.file.set_permissions(replaced.permissions())?;
            }
            draft.become_file(&place, &fill)
        })
    }
}

/// Where a text stands in another, one place after the other. Looks at the token of the run all the while.
struct Occurrences<'a> {
    finder: Finder<'a>,
    text: &'a [u8],
    at: usize,
    view: View<'a>,
}

impl<'a> Occurrences<'a> {
    fn of(sought: &'a str, text: &'a str, view: &View<'a>) -> Self {
        Self { finder: Finder::new(sought.as_bytes()), text: text.as_bytes(), at: 0, view: *view }
    }

    fn next(&mut self) -> Result<Option<usize>> {
        let length = self.finder.needle().len();
        // As long as what is sought, so that the whole text is not looked at twice.
        let window = PATIENCE.max(length);
        loop {
            self.view.check()?;
            let end = self.text.len().min(self.at + window + length - 1);
            if let Some(found) = self.finder.find(&self.text[self.at..end]) {
                let found = self.at + found;
                self.at = found + length;
                return Ok(Some(found));
            }
            if end == self.text.len() {
                return Ok(None);
            }
            self.at = end - (length - 1);
        }
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

/// The file to add to, and the bytes it has.
fn open_end(place: &Place) -> io::Result<(File, u64)> {
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
        opened => Ok((file, opened.len())),
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

    fn become_file(mut self, place: &Place, fill: impl Fn(&mut File) -> io::Result<()>) -> io::Result<()> {
        fill(&mut self.file)?;
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
