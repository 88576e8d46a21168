//! Where no folder is kept, no values are either.

use serde_json::Value;

use super::record::SkillState;
use metier_core::error::{ErrorKind, Result, SkillError};

pub(super) fn get(_state: &SkillState, _key: &str) -> Result<Option<Value>> {
    Err(unavailable())
}

pub(super) fn set(
    _state: &SkillState,
    _key: &str,
    _value: &Value,
    _check: &dyn Fn() -> Result<()>,
) -> Result<()> {
    Err(unavailable())
}

pub(super) fn keys(_state: &SkillState, _prefix: &str) -> Result<Vec<String>> {
    Err(unavailable())
}

pub(super) fn delete(_state: &SkillState, _key: &str, _check: &dyn Fn() -> Result<()>) -> Result<bool> {
    Err(unavailable())
}

fn unavailable() -> SkillError {
    SkillError::new(ErrorKind::Unavailable, "no values of skills are kept on this system")
}
