//! Luau through mlua, interpreter only.

use crate::error::Result;
use crate::executor::{Script, SkillExecutor};

/// Compiles a Lua script.
pub(super) fn load(_script: &Script) -> Result<Box<dyn SkillExecutor>> {
    Err(crate::error::SkillError::new(crate::error::ErrorKind::Unavailable, ""))
}
