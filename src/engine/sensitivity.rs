//! Who may call a skill that is sensitive.

use crate::registry::Skill;
use metier_core::error::{ErrorKind, Result, SkillError};
use metier_core::executor::ForModel;
use metier_core::host::SkillContext;
use metier_skill::contract::Sensitivity;

/// Refuses a run that a model chose, or that such a run called, of a skill that is for people only: `denied`, unless a person has
/// approved something for this run. Called when everybody was asked.
pub(super) fn require_person(skill: &Skill, context: &SkillContext) -> Result<()> {
    let sensitivity = skill.contract().map(|contract| contract.sensitivity).unwrap_or_default();
    let is_elevated = sensitivity == Sensitivity::Elevated;
    let is_for_model = context.extension::<ForModel>().is_some();
    if !is_elevated || !is_for_model || !context.permissions().approved().is_empty() {
        return Ok(());
    }
    let sentence = format!(
        "the skill {} has the sensitivity elevated, so a model does not run it by itself",
        skill.name()
    );
    Err(SkillError::new(ErrorKind::Denied, sentence)
        .with_help("a person may run it, or approve what it requests"))
}
