//! The help of an error: the grant that it names, or how to find out which one it takes.

use metier_core::error::Hint;
use metier_core::executor::WatchedAccess;
use metier_core::host::{RunContext, SkillContext};
use metier_core::policy::{Access, Permission, RunPermissions};

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

/// `a watched run of NAME shows …`, in which programs with such a command put it; `None` for what cannot be watched, and if this run was.
pub(crate) fn watch_advice(ctx: &SkillContext, what: &str) -> Option<String> {
    let is_watched = ctx.extensions().get::<WatchedAccess>().is_some();
    let can_be_watched = ctx.depth() == 0 && ctx.worker().is_none();
    (can_be_watched && !is_watched).then(|| format!("a watched run of {} {what}", ctx.skill()))
}
