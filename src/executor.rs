//! The executor trait: a loaded script, compiled once and run many times.

#[doc(inline)]
pub use metier_core::executor::{RuntimeId, Script, SkillExecutor, SkillInput, SkillOutput};
