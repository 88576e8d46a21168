//! Where no script runs as a process, nothing is kept.

use std::path::Path;

use super::record::{StoredFile, StoredState, StoredValue};
use metier_core::error::{ErrorKind, Result, SkillError};

pub(super) fn list(_store: &Path) -> Result<Vec<StoredState>> {
    Ok(Vec::new())
}

pub(super) fn files(_store: &Path, _state: &StoredState) -> Result<Vec<StoredFile>> {
    Err(SkillError::new(ErrorKind::Unavailable, "no state is kept on this system"))
}

pub(super) fn values(_store: &Path, _state: &StoredState) -> Result<Vec<StoredValue>> {
    Err(SkillError::new(ErrorKind::Unavailable, "no state is kept on this system"))
}

pub(super) fn clear(_store: &Path, _is_meant: impl FnMut(&StoredState) -> bool) -> Result<usize> {
    Ok(0)
}
