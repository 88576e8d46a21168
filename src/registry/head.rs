//! The head of a `SKILL.md`, read in small steps: never the body, never anything but a regular file, never blocking.

use std::io::{self, Read};
use std::path::Path;

use cap_fs_ext::OpenOptionsSyncExt;
use cap_std::fs::{Dir, OpenOptions};

use crate::skill::{Head, head_len};

/// Bytes of the first step; each further one doubles what was read.
const STEP: u64 = 4 << 10;

/// The frontmatter of a file in that folder, or as much of the file as tells that it has none. A link is followed inside
/// the folder only.
pub(super) fn read(folder: &Dir, file: &Path) -> io::Result<Vec<u8>> {
    let mut options = OpenOptions::new();
    options.read(true).nonblock(true);
    let mut file = folder.open_with(file, &options)?.into_std();
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    let mut head = Vec::with_capacity(4 << 10);
    let mut step = STEP;
    loop {
        let read = file.by_ref().take(step).read_to_end(&mut head)? as u64;
        match head_len(&head) {
            Head::Complete(length) => head.truncate(length),
            Head::NeedMore if read == step => {
                step = head.len() as u64;
                continue;
            }
            Head::NeedMore => {}
            Head::NoFrontmatter | Head::TooLarge => cut_at_letter(&mut head),
        }
        return Ok(head);
    }
}

/// A step may end within a letter, which is no fault of the file.
fn cut_at_letter(head: &mut Vec<u8>) {
    if let Err(error) = std::str::from_utf8(head)
        && error.error_len().is_none()
    {
        head.truncate(error.valid_up_to());
    }
}
