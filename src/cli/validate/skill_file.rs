//! A SKILL.md from the disk: inside its folder, a regular file, and never more of it than is needed.

use std::io::{self, Read};

use cap_fs_ext::OpenOptionsSyncExt;
use cap_std::fs::{Dir, OpenOptions};

/// More than this of a SKILL.md is not read.
pub const MAX_BYTES: usize = 1024 * 1024;

/// The bytes of a SKILL.md.
pub struct SkillFile {
    /// The file, or the first of its bytes without the character they cut in two.
    pub bytes: Vec<u8>,
    /// Whether there is more.
    pub is_truncated: bool,
}

/// Reads the file; links that leave the folder, FIFOs and devices are refused, and nothing blocks.
pub fn read(folder: &Dir, name: &str) -> io::Result<SkillFile> {
    read_up_to(folder, name, MAX_BYTES)
}

/// The same for another file of a skill, of which so many bytes are read.
pub fn read_up_to(folder: &Dir, name: &str, most: usize) -> io::Result<SkillFile> {
    let refuse = || io::Error::other("it is not a regular file");
    // Asked before it is opened, as opening a device can already do something.
    if !folder.metadata(name)?.is_file() {
        return Err(refuse());
    }
    let file = folder.open_with(name, OpenOptions::new().read(true).nonblock(true))?;
    if !file.metadata()?.is_file() {
        return Err(refuse());
    }
    let mut bytes = Vec::new();
    file.take(most as u64 + 1).read_to_end(&mut bytes)?;
    Ok(truncate_at_character(bytes, most))
}

fn truncate_at_character(mut bytes: Vec<u8>, most: usize) -> SkillFile {
    let is_cut = bytes.len() > most;
    bytes.truncate(most);
    if is_cut
        && let Err(error) = std::str::from_utf8(&bytes)
        && error.error_len().is_none()
    {
        bytes.truncate(error.valid_up_to());
    }
    SkillFile { bytes, is_truncated: is_cut }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cut_never_splits_a_character() {
        let text = format!("x{}", "é".repeat(MAX_BYTES / 2));
        let SkillFile { bytes, is_truncated: is_cut } = truncate_at_character(text.into_bytes(), MAX_BYTES);
        assert!(is_cut && bytes.len() == MAX_BYTES - 1);
        assert!(std::str::from_utf8(&bytes).is_ok());
        assert!(!truncate_at_character(vec![0xff], MAX_BYTES).is_truncated);
    }
}
