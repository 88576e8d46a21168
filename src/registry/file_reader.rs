//! Reads a file of a skill from its open folder.

use std::io::Read;

use metier_core::error::{ErrorKind, Result, SkillError};
use metier_core::host::Files;
use metier_core::host::files::{FilesView, path_below};
use metier_core::host::outward_link::open_linked_skill_file;
use metier_core::policy::Limits;

/// The bytes of a file, of at most `cap` bytes. Links are followed inside the folder; what leads out is `denied`, but for a `SKILL.md`
/// that is a link to another one.
pub(super) fn read_file(files: &Files, path: &str, cap: u64) -> Result<Vec<u8>> {
    let path = path_below(path, None, "the skill")?;
    read_contained_file(files, &path, cap).or_else(|error| {
        let Some(linked) = open_linked_skill_file(files.root(), &path) else { return Err(error) };
        let mut bytes = Vec::new();
        let read = linked.take(cap.saturating_add(1)).read_to_end(&mut bytes);
        read.map_err(|source| SkillError::io(format_args!("failed to read {path}"), source))?;
        check_size(&path, bytes.len() as u64, cap)?;
        Ok(bytes)
    })
}

fn read_contained_file(files: &Files, path: &str, cap: u64) -> Result<Vec<u8>> {
    let view = FilesView::unrestricted(files).with_label("the skill");
    // Files larger than the maximum are never read, and most are smaller. Errors are reported below.
    if cap >= Limits::MAX_READ_SIZE
        && let Ok(bytes) = view.read(path)
    {
        return Ok(bytes);
    }
    check_size(path, view.stat(path)?.size, cap)?;
    let bytes = view.read(path)?;
    check_size(path, bytes.len() as u64, cap)?;
    Ok(bytes)
}

/// Fails with `io` if the file is larger.
pub(super) fn check_size(path: &str, size: u64, cap: u64) -> Result<()> {
    if size <= cap {
        return Ok(());
    }
    let message = format!("failed to read {path}: it has {size} bytes, more than the {cap} that are read");
    Err(SkillError::new(ErrorKind::Io, message))
}
