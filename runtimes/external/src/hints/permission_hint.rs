//! The help of an error, and the grant that it names.

use metier_core::error::Hint;
use metier_core::host::SkillContext;
use metier_core::policy::{Access, Permission};

/// The help of an error, and what mends it, if the host program can.
pub(crate) type Help = (String, Option<Hint>);

/// The grant that would allow it; `None` if it is allowed.
pub(crate) fn permission_hint(ctx: &SkillContext, need: &Access) -> Option<Help> {
    let refusal = ctx.permissions().require(need, "").err()?;
    Some((refusal.help()?.to_owned(), refusal.hint().cloned()))
}

/// The same, with this permission in the place of a wider one.
pub(crate) fn narrow_hint(ctx: &SkillContext, need: &Access, permission: &Permission) -> Option<Help> {
    let refusal = ctx.permissions().require_by(need, permission, "").err()?;
    Some((refusal.help()?.to_owned(), refusal.hint().cloned()))
}
