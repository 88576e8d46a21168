//! The context of a run that has none: its own, with the default limits and their deadline.

use std::time::Instant;

use crate::error::Result;
use crate::host::SkillContext;
use crate::policy::Watchdog;

/// Runs with this context, or with one of its own.
pub fn run_with<T>(
    context: Option<&SkillContext>,
    skill: &str,
    watchdog: &Watchdog,
    run: impl FnOnce(&SkillContext) -> Result<T>,
) -> Result<T> {
    if let Some(context) = context {
        return run(context);
    }
    let context = SkillContext::builder(skill).build();
    let _armed = watchdog.arm(Instant::now() + context.limits().timeout, context.cancel());
    run(&context)
}
