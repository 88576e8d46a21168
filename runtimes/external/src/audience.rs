//! Who reads the hints of a run: the person who started it, or a model or a script, which are told less.

use metier_core::host::{RunContext, SkillContext};

/// Whether the person who started the script reads its hints: no model, and no script that called this one. Only such hints say what
/// lies where the script cannot look.
pub(crate) fn is_for_person(ctx: &SkillContext) -> bool {
    ctx.depth() == 0 && !ctx.facts().is_for_model
}
