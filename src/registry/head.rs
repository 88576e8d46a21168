//! The head of a `SKILL.md`, read in small steps: never the body, never anything but a regular file, never blocking.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use cap_fs_ext::OpenOptionsSyncExt;
use cap_std::ambient_authority;
use cap_std::fs::{Dir, OpenOptions};

use crate::skill::{Head, head_len};

/// Bytes of the first step; each further one doubles what was read.
const STEP: usize = 4 << 10;

/// The frontmatter of a file, or as much of the file as tells that it has none.
pub(super) fn read(mut file: File) -> io::Result<Vec<u8>> {
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    let (mut head, mut filled) = (vec![0; STEP], 0);
    loop {
        let read = match file.read(&mut head[filled..]) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            read => read?,
        };
        filled += read;
        match head_len(&head[..filled]) {
            Head::Complete(length) => head.truncate(length),
            Head::NeedMore if read > 0 => {
                if filled == head.len() {
                    head.resize(2 * filled, 0);
                }
                continue;
            }
            Head::NeedMore => head.truncate(filled),
            Head::NoFrontmatter | Head::TooLarge => {
                head.truncate(filled);
                cut_at_letter(&mut head);
            }
        }
        return Ok(head);
    }
}

/// Opens a file that is a link; it is followed inside the folder only.
pub(super) fn linked(folder: &Path, file: &str) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).nonblock(true);
    let folder = Dir::open_ambient_dir(folder, ambient_authority())?;
    Ok(folder.open_with(file, &options)?.into_std())
}

/// A step may end within a letter, which is no fault of the file.
fn cut_at_letter(head: &mut Vec<u8>) {
    if let Err(error) = std::str::from_utf8(head)
        && error.error_len().is_none()
    {
        head.truncate(error.valid_up_to());
    }
}
