//! Reads a file of a skill: a regular file inside the skill's folder, up to a maximum size.

use std::fs::File;
use std::io::{self, Read};

use cap_fs_ext::OpenOptionsSyncExt;
use cap_std::fs::{Dir, OpenOptions};

/// More than this of a SKILL.md is not read.
pub const MAX_BYTES: usize = 1024 * 1024;

/// The bytes of a SKILL.md.
pub struct SkillFile {
    /// The content, truncated at a whole character.
    pub bytes: Vec<u8>,
    /// Whether the file is larger.
    pub is_truncated: bool,
}

/// Reads the file. Links that leave the folder, FIFOs and devices are refused, and reading never blocks.
pub fn read(folder: &Dir, name: &str) -> io::Result<SkillFile> {
    read_up_to(folder, name, MAX_BYTES)
}

/// The same for another file of a skill and another maximum size.
pub fn read_up_to(folder: &Dir, name: &str, max: usize) -> io::Result<SkillFile> {
    let refuse = || io::Error::other("it is not a regular file");
    // Checked before it is opened, because opening a device can have effects.
    if !folder.metadata(name)?.is_file() {
        return Err(refuse());
    }
    let file = folder.open_with(name, OpenOptions::new().read(true).nonblock(true))?;
    if !file.metadata()?.is_file() {
        return Err(refuse());
    }
    read_open(file.into_std(), max)
}

/// The same of a regular file that is open.
pub fn read_open(file: File, max: usize) -> io::Result<SkillFile> {
    let mut bytes = Vec::new();
    file.take(max as u64 + 1).read_to_end(&mut bytes)?;
    Ok(truncate_at_character(bytes, max))
}

fn truncate_at_character(mut bytes: Vec<u8>, max: usize) -> SkillFile {
    let is_cut = bytes.len() > max;
    bytes.truncate(max);
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
