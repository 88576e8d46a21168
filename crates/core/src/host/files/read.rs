//! Reads whole files, or their first or last lines. Reads never more than [`Limits::MAX_READ_SIZE`] bytes, and never blocks.

use std::fs::{File, Metadata};
use std::io::{self, Cursor, Read, Seek, SeekFrom};

use crate::error::{ErrorKind, Result, SkillError};
use crate::host::files::name_encoding;
use crate::host::files::operation::{FileOperation, not_regular_file};
use crate::host::files::symlinks::FinalSymlink;
use crate::host::files::view::FilesView;
use crate::host::io_error::into_io_error;
use crate::host::memory::HostMemoryReservation;
use crate::policy::Limits;

/// Bytes read at a time when only a part of a file is needed.
const BLOCK_BYTES: u64 = 64 << 10;

/// A regular file, open for reading, or its unsaved content.
pub(super) struct OpenedFile {
    pub(super) file: FileContent,
    pub(super) size: u64,
}

/// What is read: a file of the disk, or what an editor has not saved, with its memory.
pub(super) enum FileContent {
    Disk(File),
    Unsaved(Cursor<Vec<u8>>, HostMemoryReservation),
}

impl Read for FileContent {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Disk(file) => file.read(buffer),
            Self::Unsaved(content, _) => content.read(buffer),
        }
    }
}

impl Seek for FileContent {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        match self {
            Self::Disk(file) => file.seek(to),
            Self::Unsaved(content, _) => content.seek(to),
        }
    }
}

impl FilesView<'_> {
    /// The bytes of a file. Files beyond [`Limits::MAX_READ_SIZE`] and anything but regular files are `io` errors.
    pub fn read(&self, path: &str) -> Result<Vec<u8>> {
        self.contents(FileOperation::read(path), &mut self.empty_reservation())
    }

    /// The bytes of a file, converted by `encode`, which may need a third more.
    pub(crate) fn read_encoded(&self, path: &str, encode: impl Fn(&[u8]) -> String) -> Result<String> {
        let (operation, mut reservation) = (FileOperation::read(path), self.empty_reservation());
        let bytes = self.contents(operation, &mut reservation)?;
        reservation.add(bytes.len() as u64 / 3 * 4 + 4).map_err(|error| operation.with_context(error))?;
        Ok(encode(&bytes))
    }

    /// The text of a file; `io` when it is not UTF-8.
    pub fn text(&self, path: &str) -> Result<String> {
        self.contents_as_text(FileOperation::read(path), &mut self.empty_reservation())
    }

    /// The first lines of a text file, joined by `\n`.
    pub fn head(&self, path: &str, lines: u64) -> Result<String> {
        let operation = FileOperation::read(path);
        let (mut file, mut reservation) = (self.open(operation)?.file, self.empty_reservation());
        let grow =
            |bytes| self.check_cancelled().and_then(|()| reservation.grow(bytes)).map_err(into_io_error);
        let bytes = first_lines(&mut file, lines, grow).map_err(|error| operation.io_error(error))?;
        join_lines(bytes, operation)
    }

    /// The last lines of a text file, joined by `\n`. Reads only the part of the file that contains them.
    pub fn tail(&self, path: &str, lines: u64) -> Result<String> {
        let operation = FileOperation::read(path);
        let (mut opened, mut reservation) = (self.open(operation)?, self.empty_reservation());
        let grow =
            |bytes| self.check_cancelled().and_then(|()| reservation.grow(bytes)).map_err(into_io_error);
        let bytes = last_lines(&mut opened, lines, grow).map_err(|error| operation.io_error(error))?;
        join_lines(bytes, operation)
    }

    pub(super) fn contents_as_text(
        &self,
        operation: FileOperation<'_>,
        reservation: &mut HostMemoryReservation,
    ) -> Result<String> {
        utf8_text(self.contents(operation, reservation)?, operation)
    }

    fn contents(
        &self,
        operation: FileOperation<'_>,
        reservation: &mut HostMemoryReservation,
    ) -> Result<Vec<u8>> {
        whole_content(self.open(operation)?, operation, reservation)
    }

    /// The bytes of a file, or `None` if there is no such file; without an editor that is an error.
    pub(super) fn contents_if_any(
        &self,
        operation: FileOperation<'_>,
        reservation: &mut HostMemoryReservation,
    ) -> Result<Option<Vec<u8>>> {
        let opened = self.open_if_any(operation)?.ok();
        opened.map(|opened| whole_content(opened, operation, reservation)).transpose()
    }

    pub(super) fn open(&self, operation: FileOperation<'_>) -> Result<OpenedFile> {
        self.open_if_any(operation)?.map_err(|error| operation.io_error(error))
    }

    /// Opens a file. The inner error, which only comes where there is an editor, says that there is no such file.
    fn open_if_any(&self, operation: FileOperation<'_>) -> Result<io::Result<OpenedFile>> {
        let (found, path) = self.with_resolved_path(operation, FinalSymlink::Follow, |path| {
            let file = match self.files.open_file(&name_encoding::decode(path)) {
                Err(error) if self.editor.is_some() && error.kind() == io::ErrorKind::NotFound => {
                    return Ok((Err(error), path.to_owned()));
                }
                file => file?,
            };
            let metadata = file.metadata()?;
            match metadata.is_file() {
                true => Ok((Ok((file, metadata)), path.to_owned())),
                false if metadata.is_dir() => Err(io::ErrorKind::IsADirectory.into()),
                false => Err(not_regular_file()),
            }
        })?;
        if let Ok((_, metadata)) = &found {
            self.check_opened_file(operation, &path, metadata)?;
        }
        let opened = |(file, metadata): (File, Metadata)| OpenedFile {
            file: FileContent::Disk(file),
            size: metadata.len(),
        };
        Ok(match self.unsaved_content(operation, &path)? {
            Some((content, memory)) => Ok(OpenedFile {
                size: content.len() as u64,
                file: FileContent::Unsaved(Cursor::new(content), memory),
            }),
            None => found.map(opened),
        })
    }
}

/// The bytes of an opened file.
fn whole_content(
    OpenedFile { file, size }: OpenedFile,
    operation: FileOperation<'_>,
    reservation: &mut HostMemoryReservation,
) -> Result<Vec<u8>> {
    let mut grow = |bytes| reservation.add(bytes).map_err(into_io_error);
    let bytes = match (file, size) {
        (FileContent::Unsaved(content, memory), _) => {
            reservation.join(memory);
            Ok(content.into_inner())
        }
        // The files of the kernel report a size of zero.
        (mut file, 0) => read_to_limit(&mut file, &mut grow),
        (mut file, 1..=Limits::MAX_READ_SIZE) => grow(size).and_then(|()| read_up_to(&mut file, size)),
        _ => Ok(Vec::new()),
    };
    let bytes = bytes.map_err(|error| operation.io_error(error))?;
    let size = size.max(bytes.len() as u64);
    if size > Limits::MAX_READ_SIZE {
        let fault = format!("it has {size} bytes, more than the {} that can be read", Limits::MAX_READ_SIZE);
        return Err(operation.refusal(fault, "read a part of it with head, tail or grep"));
    }
    Ok(bytes)
}

/// The bytes of a file in one piece. Data appended meanwhile is not included, and data cut off meanwhile is missing.
fn read_up_to(file: &mut FileContent, size: u64) -> io::Result<Vec<u8>> {
    let size = usize::try_from(size).unwrap_or_default();
    let mut bytes = Vec::with_capacity(size);
    while bytes.len() < size {
        match read_more(file, &mut bytes, size) {
            Ok(0) => break,
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    bytes.truncate(size);
    Ok(bytes)
}

/// Reads into the free capacity, which is not zeroed first.
#[cfg(unix)]
fn read_more(file: &mut FileContent, bytes: &mut Vec<u8>, size: usize) -> io::Result<usize> {
    match file {
        FileContent::Disk(file) => Ok(rustix::io::read(file, rustix::buffer::spare_capacity(bytes))?),
        FileContent::Unsaved(content, _) => content.take((size - bytes.len()) as u64).read_to_end(bytes),
    }
}

#[cfg(not(unix))]
fn read_more(file: &mut FileContent, bytes: &mut Vec<u8>, size: usize) -> io::Result<usize> {
    file.take((size - bytes.len()) as u64).read_to_end(bytes)
}

/// The bytes of a file that does not report its size, up to a block more than the read limit.
fn read_to_limit(
    file: &mut FileContent,
    grow: &mut impl FnMut(u64) -> io::Result<()>,
) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    while bytes.len() as u64 <= Limits::MAX_READ_SIZE && read_block(file, &mut bytes, grow)? > 0 {}
    Ok(bytes)
}

/// Reads one more block, if there is memory for it.
fn read_block(
    file: &mut FileContent,
    bytes: &mut Vec<u8>,
    grow: &mut impl FnMut(u64) -> io::Result<()>,
) -> io::Result<usize> {
    // A full vector doubles its capacity, and for a moment both copies exist.
    grow(2 * BLOCK_BYTES)?;
    bytes
        .try_reserve(usize::try_from(BLOCK_BYTES).unwrap_or_default() + 32)
        .map_err(|_| io::Error::new(io::ErrorKind::OutOfMemory, "the system has not enough memory for it"))?;
    file.take(BLOCK_BYTES).read_to_end(bytes)
}

fn first_lines(
    file: &mut FileContent,
    lines: u64,
    mut grow: impl FnMut(u64) -> io::Result<()>,
) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut left = lines;
    while left > 0 {
        let searched = bytes.len();
        if read_block(file, &mut bytes, &mut grow)? == 0 {
            break;
        }
        let enough = usize::try_from(left - 1).ok().and_then(|more| newlines(&bytes[searched..]).nth(more));
        if let Some(end) = enough {
            bytes.truncate(searched + end + 1);
            return Ok(bytes);
        }
        left -= newlines(&bytes[searched..]).count() as u64;
        check_size(bytes.len() as u64)?;
    }
    Ok(bytes)
}

fn last_lines(
    opened: &mut OpenedFile,
    lines: u64,
    mut grow: impl FnMut(u64) -> io::Result<()>,
) -> io::Result<Vec<u8>> {
    let (file, size) = (&mut opened.file, opened.size);
    let start = start_of_last_lines(file, size, lines, &mut grow)?;
    file.seek(SeekFrom::Start(start))?;
    // Data appended meanwhile does not count. The lines are joined in another string.
    grow(2 * (size - start))?;
    read_up_to(file, size - start)
}

fn start_of_last_lines(
    file: &mut FileContent,
    size: u64,
    lines: u64,
    grow: &mut impl FnMut(u64) -> io::Result<()>,
) -> io::Result<u64> {
    let mut left = lines;
    let (mut start, mut block) = (size, Vec::new());
    while left > 0 && start > 0 {
        grow(0)?;
        let end = start;
        start = end.saturating_sub(BLOCK_BYTES);
        file.seek(SeekFrom::Start(start))?;
        block.clear();
        file.take(end - start).read_to_end(&mut block)?;
        // The last newline of the file ends its last line and does not begin another one.
        let searched = if end == size { block.strip_suffix(b"\n").unwrap_or(&block) } else { &block };
        for at in newlines(searched).rev() {
            left -= 1;
            if left == 0 {
                return Ok(start + at as u64 + 1);
            }
        }
        check_size(size - start)?;
    }
    Ok(start)
}

fn newlines(bytes: &[u8]) -> impl DoubleEndedIterator<Item = usize> + '_ {
    bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at)
}

fn check_size(bytes: u64) -> io::Result<()> {
    if bytes <= Limits::MAX_READ_SIZE {
        return Ok(());
    }
    Err(io::Error::other(format!(
        "these lines have more than {} bytes; ask for fewer",
        Limits::MAX_READ_SIZE
    )))
}

fn join_lines(bytes: Vec<u8>, operation: FileOperation<'_>) -> Result<String> {
    let text = utf8_text(bytes, operation)?;
    let mut joined = String::with_capacity(text.len());
    for (at, line) in text.lines().enumerate() {
        joined.push_str(if at > 0 { "\n" } else { "" });
        joined.push_str(line);
    }
    Ok(joined)
}

fn utf8_text(bytes: Vec<u8>, operation: FileOperation<'_>) -> Result<String> {
    String::from_utf8(bytes).map_err(|error| {
        let help = r#"read its bytes with read_file(path, {encoding: "base64"})"#;
        let fault = format!("it is not UTF-8 text (byte {}); {help}", error.utf8_error().valid_up_to());
        SkillError::new(ErrorKind::Io, format!("{operation}: {fault}")).with_help(help)
    })
}
