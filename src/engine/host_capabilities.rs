//! Checks that the host offers the services that a handler asks for.

use crate::error::{ErrorKind, Result, SkillError};
use crate::host::Providers;
use crate::registry::Skill;

/// Refuses a skill that declares a capability which no tool of the host stands for: `unavailable`, with all of them. Its handler is
/// not called.
pub(super) fn require_capabilities(skill: &Skill, providers: &Providers) -> Result<()> {
    let declared = skill.contract().map_or(&[][..], |contract| &contract.host_needs.capabilities);
    let is_offered = |name: &str| providers.tools.as_ref().is_some_and(|tools| tools.has(name));
    let missing: Vec<&str> = declared.iter().map(String::as_str).filter(|name| !is_offered(name)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let sentence = format!(
        "skill {} cannot run: this host does not offer the capability {}",
        skill.name(),
        missing.join(", ")
    );
    Err(SkillError::new(ErrorKind::Unavailable, sentence)
        .with_help("a program that embeds metier offers a capability as a tool of that name"))
}
