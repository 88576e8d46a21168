//! Calls of what an embedder implements, and the error where it is not there.

use std::sync::Arc;
use std::time::Duration;

use crate::error::{ErrorKind, Result, SkillError};
use crate::host::catch_panic::catch_panic;
use crate::host::provider_thread::run_on_provider_thread;
use crate::host::{RunContext, SkillContext};

/// The result of a provider, called on a thread of its own; a panic is `unavailable`. When the run stops, its error is returned
/// whatever the provider does.
pub(super) fn call_provider<P, T>(
    ctx: &SkillContext,
    provider: &Arc<P>,
    what: &'static str,
    call: impl FnOnce(&P, &SkillContext) -> Result<T> + Send + 'static,
) -> Result<T>
where
    P: ?Sized + Send + Sync + 'static,
    T: Send + 'static,
{
    let (own, provider) = (ctx.clone(), provider.clone());
    let permit = ctx.thread_budget().try_call_provider();
    run_on_provider_thread(ctx.cancel(), permit, Duration::MAX, move || {
        catch_provider_panic(what, || call(&provider, &own))
    })
}

/// The result of a provider; a panic is `unavailable`.
pub(super) fn catch_provider_panic<T>(what: &str, call: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_panic(&format!("the provider of {what}"), ErrorKind::Unavailable, call)
}

/// The error where a run has no such provider.
pub(super) fn unavailable(what: &str) -> SkillError {
    SkillError::new(ErrorKind::Unavailable, format!("this host does not provide {what} to skills"))
}
