//! Writes files atomically: a reader sees the old content or the new, never a part.

use std::cell::RefCell;
use std::io::{self, BufWriter, Read, Write};

use cap_fs_ext::{FollowSymlinks, MetadataExt, OpenOptionsFollowExt, OpenOptionsSyncExt};
use cap_std::fs::{Dir, File, Metadata, OpenOptions};
use memchr::memmem::Finder;

use crate::error::{ErrorKind, Result, SkillError};
use crate::host::files::editor::{FileChange, FileChangeKind};
use crate::host::files::lookup::ParentDir;
use crate::host::files::name_encoding;
use crate::host::files::operation::{FileOperation, not_regular_file};
use crate::host::files::symlinks::FinalSymlink;
use crate::host::files::unsaved::check_shown;
use crate::host::files::view::FilesView;
use crate::host::io_error::into_io_error;
use crate::host::memory::CANCEL_CHECK_BYTES;
use crate::host::temp_dirs::{lock_temp_file, record_temp_file_dir, temp_file_name};

/// Bytes written at a time when a file is assembled from many parts.
const BUFFER: usize = 64 << 10;

impl FilesView<'_> {
    /// Writes a whole file; missing folders are created. An existing file keeps its mode; a file that is read-only or not regular
    /// is refused; `output` if the content exceeds the file size limit.
    pub fn write(&self, path: &str, content: &[u8]) -> Result<()> {
        let operation = FileOperation::write("write", path);
        self.check_file_size(content.len() as u64).map_err(|error| operation.with_context(error))?;
        if self.editor.is_none() {
            return self.replace(operation, None, |file| self.write_chunks(file, content));
        }
        let mut reservation = self.empty_reservation();
        reservation.add(content.len() as u64).map_err(|error| operation.with_context(error))?;
        self.replace_shown(operation, content.to_vec(), None, false)
    }

    /// Creates a file with these bytes of a source; missing folders are created. What is at its path stays, and the call fails.
    pub fn create_file(&self, path: &str, source: impl Read, bytes: u64) -> Result<()> {
        let operation = FileOperation::write("create", path);
        let source = RefCell::new(source.take(bytes));
        self.with_resolved_path(operation, FinalSymlink::NoFollow, |path| {
            let parent = self.files.create_parent_dir(path)?;
            let mut options = OpenOptions::new();
            options.write(true).follow(FollowSymlinks::No);
            let mut file = parent.create_file(&mut options)?;
            let copied = io::copy(&mut *source.borrow_mut(), &mut file);
            if copied.is_err() {
                parent.remove_new_file()?;
            }
            copied.map(drop)
        })
    }

    /// Appends to a file; a missing file is created with its folders.
    pub fn append(&self, path: &str, content: &[u8]) -> Result<()> {
        let operation = FileOperation::write("append to", path);
        if self.editor.is_some() {
            return self.append_shown(operation, content);
        }
        self.with_resolved_path(operation, FinalSymlink::Follow, |path| {
            let check_size = |size: u64| {
                self.check_file_size(size.saturating_add(content.len() as u64)).map_err(into_io_error)
            };
            let (mut file, size) = open_for_append(&self.files.create_parent_dir(path)?, check_size)?;
            check_size(size)?;
            self.write_chunks(&mut file, content)
        })
    }

    /// Replaces the only occurrence of `old` in a text file by `new`. None or several are `invalid-argument`.
    pub fn edit(&self, path: &str, old: &str, new: &str) -> Result<()> {
        self.edit_checked(path, old, new, |count| count == 1).map(drop)
    }

    /// Replaces every `old` in a text file by `new` and returns the number of replacements. None is `invalid-argument`.
    pub fn edit_all(&self, path: &str, old: &str, new: &str) -> Result<usize> {
        self.edit_checked(path, old, new, |count| count > 0)
    }

    /// Creates a folder with its parents; an existing folder is not an error.
    pub fn create_dir(&self, path: &str) -> Result<()> {
        let operation = FileOperation::write("create the folder", path);
        let create = |shown: Option<&FileChange>| {
            self.with_resolved_path(operation, FinalSymlink::Follow, |path| {
                check_shown(shown, path)?;
                self.files.create_dir_all(&name_encoding::decode(path)).map(drop)
            })
        };
        if self.editor.is_none()
            || self.metadata(operation, FinalSymlink::Follow).is_ok_and(|found| found.is_dir())
        {
            return create(None);
        }
        let check = |path: &str| match self.files.metadata_nofollow(&name_encoding::decode(path)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Ok(_) => Err(io::ErrorKind::NotADirectory.into()),
            Err(error) => Err(error),
        };
        self.change_shown(operation, FinalSymlink::Follow, FileChangeKind::CreateDir, check, |shown| {
            create(Some(shown))
        })
    }

    /// Shows the whole new content of a file to the editor, and replaces the file unless the editor did so itself. If the content
    /// was made from the previous one, or from a file that was missing, that must not have changed.
    fn replace_shown(
        &self,
        operation: FileOperation<'_>,
        content: Vec<u8>,
        previous: Option<Vec<u8>>,
        was_made_from_previous: bool,
    ) -> Result<()> {
        let check = |path: &str| match self.files.parent_dir(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            parent => check_writable(&parent?).map(drop),
        };
        let kind = FileChangeKind::Write { content, previous };
        self.change_shown(operation, FinalSymlink::Follow, kind, check, |shown| {
            let FileChangeKind::Write { content, previous } = &shown.kind else { return Ok(()) };
            let mut reservation = self.empty_reservation();
            if was_made_from_previous && self.contents_if_any(operation, &mut reservation)? != *previous {
                let why = "it was changed by somebody else after the change was shown";
                return Err(operation.refusal(why, "make the change again"));
            }
            self.replace(operation, Some(shown), |file| self.write_chunks(file, content))
        })
    }

    fn append_shown(&self, operation: FileOperation<'_>, added: &[u8]) -> Result<()> {
        let mut reservation = self.empty_reservation();
        let previous = self.contents_if_any(operation, &mut reservation)?;
        let old = previous.as_deref().unwrap_or_default();
        let size = (old.len() + added.len()) as u64;
        self.check_file_size(size)
            .and_then(|()| reservation.add(size))
            .map_err(|error| operation.with_context(error))?;
        let content = [old, added].concat();
        self.replace_shown(operation, content, previous, true)
    }

    fn edit_checked(&self, path: &str, old: &str, new: &str, fits: impl Fn(usize) -> bool) -> Result<usize> {
        let operation = FileOperation::write("edit", path);
        let refused =
            |fault: String| Err(SkillError::new(ErrorKind::InvalidArgument, format!("{operation}: {fault}")));
        if old.is_empty() {
            return refused("the text to replace is empty".into());
        }
        let mut reservation = self.empty_reservation();
        let text = self.contents_as_text(operation, &mut reservation)?;
        let mut occurrences = Occurrences::new(old, &text, self);
        let mut count = 0;
        while occurrences.next()?.is_some() {
            count += 1;
        }
        match count {
            count if fits(count) => {
                let bytes = |text: &str| text.len() as u64;
                let [gone, added] = [old, new].map(|text| bytes(text).saturating_mul(count as u64));
                let size = (bytes(&text) - gone).saturating_add(added);
                self.check_file_size(size).map_err(|error| operation.with_context(error))?;
                if self.editor.is_none() {
                    // The new text is not built in memory: it may be many times as large as its parts.
                    self.replace(operation, None, |file| self.write_replaced(file, &text, old, new))?;
                    return Ok(count);
                }
                reservation.add(size).map_err(|error| operation.with_context(error))?;
                let mut content = Vec::new();
                self.write_replaced(&mut content, &text, old, new)
                    .map_err(|error| operation.io_error(error))?;
                self.replace_shown(operation, content, Some(text.into_bytes()), true)?;
                Ok(count)
            }
            0 => refused("the text to replace does not occur in it".into()),
            count => refused(format!(
                "the text to replace occurs {count} times; give more of the text around it, or {{all: true}}"
            )),
        }
    }

    /// Writes the text with every `old` in it replaced.
    fn write_replaced(&self, file: &mut impl Write, text: &str, old: &str, new: &str) -> io::Result<()> {
        let mut file = BufWriter::with_capacity(BUFFER, file);
        let (mut occurrences, mut start) = (Occurrences::new(old, text, self), 0);
        while let Some(found) = occurrences.next().map_err(into_io_error)? {
            self.write_chunks(&mut file, &text.as_bytes()[start..found])?;
            self.write_chunks(&mut file, new.as_bytes())?;
            start = found + old.len();
        }
        self.write_chunks(&mut file, &text.as_bytes()[start..])?;
        file.flush()
    }

    /// Writes all of it, unless the run is stopped meanwhile.
    fn write_chunks(&self, file: &mut impl Write, content: &[u8]) -> io::Result<()> {
        content.chunks(CANCEL_CHECK_BYTES).try_for_each(|part| {
            self.check_cancelled().map_err(into_io_error)?;
            file.write_all(part)
        })
    }

    /// Replaces a file by a new one, whose content `fill` writes; only the one that was shown, if one was.
    fn replace(
        &self,
        operation: FileOperation<'_>,
        shown: Option<&FileChange>,
        fill: impl Fn(&mut File) -> io::Result<()>,
    ) -> Result<()> {
        self.with_resolved_path(operation, FinalSymlink::Follow, |path| {
            check_shown(shown, path)?;
            let parent = self.files.create_parent_dir(path)?;
            let replaced = check_writable(&parent)?;
            let draft = AtomicFile::new(parent.dir_for_new_files()?)?;
            if let Some(replaced) = replaced {
                // Set before the content is written, since the mode may hide the content from other users.
                draft.file.set_permissions(replaced.permissions())?;
            }
            draft.commit(&parent, &fill)
        })
    }
}

/// The occurrences of a text in another, in order. Checks the cancel token of the run regularly.
struct Occurrences<'a> {
    finder: Finder<'a>,
    text: &'a [u8],
    at: usize,
    view: FilesView<'a>,
}

impl<'a> Occurrences<'a> {
    fn new(sought: &'a str, text: &'a str, view: &FilesView<'a>) -> Self {
        Self { finder: Finder::new(sought.as_bytes()), text: text.as_bytes(), at: 0, view: *view }
    }

    fn next(&mut self) -> Result<Option<usize>> {
        let length = self.finder.needle().len();
        // At least the length of the searched text, so that the whole text is not searched twice.
        let window = CANCEL_CHECK_BYTES.max(length);
        loop {
            self.view.check_cancelled()?;
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

/// The metadata of the existing file, if it may be changed. A symbolic link is refused: [`FilesView::with_resolved_path`]
/// resolves it.
fn check_writable(parent: &ParentDir) -> io::Result<Option<Metadata>> {
    match parent.symlink_metadata() {
        Ok(found) if found.is_dir() => Err(io::ErrorKind::IsADirectory.into()),
        Ok(found) if !found.is_file() => Err(not_regular_file()),
        Ok(found) if found.permissions().readonly() => {
            Err(io::Error::new(io::ErrorKind::PermissionDenied, "it is read-only"))
        }
        Ok(found) => Ok(Some(found)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// The file to append to, and its size in bytes. A file that would have to be copied first must have a size that `check_size` accepts.
fn open_for_append(
    parent: &ParentDir,
    check_size: impl Fn(u64) -> io::Result<()>,
) -> io::Result<(File, u64)> {
    /// How often another program may create the file, or remove it, in the meantime.
    const MAX_TRIES: usize = 8;
    let mut opened = try_open_for_append(parent, &check_size);
    for _ in 1..MAX_TRIES {
        if !opened.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::AlreadyExists) {
            break;
        }
        opened = try_open_for_append(parent, &check_size);
    }
    opened
}

/// The same, once; `AlreadyExists` if another program has created the file since it was looked for.
fn try_open_for_append(
    parent: &ParentDir,
    check_size: impl Fn(u64) -> io::Result<()>,
) -> io::Result<(File, u64)> {
    let existing = check_writable(parent)?;
    let mut options = OpenOptions::new();
    options.append(true).nonblock(true).follow(FollowSymlinks::No);
    let file = if let Some(existing) = &existing {
        // Where the run has an overlay, to open it would make it a file of its own, with one name.
        size_to_append(existing)?;
        copy_to_change(parent, check_size)?;
        parent.open_file(&options)?
    } else {
        parent.create_file(&mut options)?
    };
    let size = size_to_append(&file.metadata()?)?;
    Ok((file, size))
}

/// The size of an open file that may be changed in place.
fn size_to_append(opened: &Metadata) -> io::Result<u64> {
    match opened {
        opened if !opened.is_file() => Err(not_regular_file()),
        // The other hard links may be outside and would change as well; writing a whole file does not change them.
        opened if opened.nlink() > 1 => {
            Err(io::Error::other("it has several hard links; write the whole file instead"))
        }
        opened => Ok(opened.len()),
    }
}

/// Copies a file that is to be changed in place, where the original has to stay as it is.
fn copy_to_change(parent: &ParentDir, check_size: impl Fn(u64) -> io::Result<()>) -> io::Result<()> {
    let _change = parent.lock_change();
    let Some((source, folder)) = parent.file_to_copy()? else { return Ok(()) };
    let source = File::from_std(source);
    let about = source.metadata()?;
    let size = size_to_append(&about)?;
    check_size(size)?;
    let mut copy = AtomicFile::new(folder)?;
    copy.file.set_permissions(about.permissions())?;
    io::copy(&mut source.take(size), &mut copy.file)?;
    copy.put_at_name(parent)
}

/// A temporary file beside the one it will replace; removed when dropped.
struct AtomicFile<'a> {
    folder: &'a Dir,
    name: String,
    file: File,
    is_committed: bool,
}

impl<'a> AtomicFile<'a> {
    fn new(folder: &'a Dir) -> io::Result<Self> {
        // If the process is killed, the file is left behind; the record tells the next process where to look for it.
        record_temp_file_dir(folder);
        let name = temp_file_name();
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).follow(FollowSymlinks::No);
        let file = folder.open_with(&name, &options)?;
        lock_temp_file(&file);
        Ok(Self { folder, name, file, is_committed: false })
    }

    fn commit(mut self, parent: &ParentDir, fill: impl Fn(&mut File) -> io::Result<()>) -> io::Result<()> {
        fill(&mut self.file)?;
        let _change = parent.lock_change();
        self.put_at_name(parent)
    }

    fn put_at_name(mut self, parent: &ParentDir) -> io::Result<()> {
        parent.rename_to_name(self.folder, &self.name)?;
        self.is_committed = true;
        Ok(())
    }
}

impl Drop for AtomicFile<'_> {
    fn drop(&mut self) {
        if !self.is_committed {
            // No caller can receive this error; the failure that led here is reported already.
            self.folder.remove_file(&self.name).unwrap_or_default();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use super::*;
    use crate::host::Files;

    #[test]
    fn lines_that_are_appended_to_a_new_file_at_the_same_time_are_all_there() {
        let folder = tempfile::tempdir().unwrap();
        let files = Files::open(folder.path()).unwrap();
        for round in 0..200 {
            let (path, start) = (format!("log{round}"), Barrier::new(4));
            std::thread::scope(|scope| {
                for _ in 0..4 {
                    scope.spawn(|| {
                        start.wait();
                        FilesView::unrestricted(&files).append(&path, b"x").unwrap();
                    });
                }
            });
            assert_eq!(std::fs::read(folder.path().join(&path)).unwrap(), b"xxxx");
        }
    }
}
