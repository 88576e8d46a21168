//! The advice to watch a run, where nothing but that says what its sandbox refused.

use metier_core::executor::WatchedAccess;
use metier_core::host::SkillContext;

/// `a watched run of NAME shows …`, in which programs with such a command put it; `None` for what cannot be watched, and if this run was.
pub(crate) fn watch_advice(ctx: &SkillContext, what: &str) -> Option<String> {
    let is_watched = ctx.extensions().get::<WatchedAccess>().is_some();
    let can_be_watched = ctx.depth() == 0 && ctx.worker().is_none();
    (can_be_watched && !is_watched).then(|| format!("a watched run of {} {what}", ctx.skill()))
}
