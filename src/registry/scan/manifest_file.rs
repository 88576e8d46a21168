//! The head of a SKILL.md, read without blocking and without following a link out of its folder.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use crate::host::Files;
use crate::registry::Problem;
use crate::skill::{Head, MAX_HEAD, Parsed, Place, head_len, parse};

/// A SKILL.md, parsed.
pub(super) struct Found {
    pub(super) file: String,
    pub(super) parsed: Parsed,
}

/// Bytes read at a time; most frontmatter fits into the first.
const STEP: usize = 4096;

/// Reads and parses the manifest file of that name in a folder.
pub(super) fn found_in(folder: &Path, file: &str) -> Result<Found, Problem> {
    let path = folder.join(file);
    let head = match open(&path) {
        Ok(opened) => head(opened).map_err(|error| Problem::new(&path, error.to_string()))?,
        // It is a link, or something stranger: the scoped reader decides.
        Err(_) => linked(folder, file).map_err(|error| Problem::new(&path, error.to_string()))?,
    };
    let directory = folder.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
    let parsed = parse(&head, Place { directory: &directory, file });
    Ok(Found { file: file.to_owned(), parsed })
}

fn head(mut file: File) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; STEP];
    let mut filled = 0;
    loop {
        let read = file.read(&mut bytes[filled..])?;
        filled += read;
        match head_len(&bytes[..filled]) {
            Head::Complete(length) => filled = length,
            Head::NeedMore if read > 0 && filled <= MAX_HEAD => {
                bytes.resize(filled + STEP, 0);
                continue;
            }
            _ => {}
        }
        bytes.truncate(filled);
        return Ok(bytes);
    }
}

fn linked(folder: &Path, file: &str) -> crate::error::Result<Vec<u8>> {
    let bytes = Files::open(folder)?.unguarded().read(file)?;
    Ok(match head_len(&bytes) {
        Head::Complete(length) => bytes[..length].to_vec(),
        _ => bytes,
    })
}

/// Opens a regular file; links, FIFOs and devices fail at once.
#[cfg(unix)]
fn open(path: &Path) -> io::Result<File> {
    use rustix::fs::{Mode, OFlags};
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::open(path, flags, Mode::empty())?);
    if file.metadata()?.is_file() { Ok(file) } else { Err(io::ErrorKind::InvalidInput.into()) }
}

#[cfg(not(unix))]
fn open(path: &Path) -> io::Result<File> {
    if path.symlink_metadata()?.is_file() {
        File::open(path)
    } else {
        Err(io::ErrorKind::InvalidInput.into())
    }
}
