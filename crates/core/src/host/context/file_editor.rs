//! The provider of files, as the file operations of a run ask it: on threads of their own, and within limits.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::{FileProvider, SkillContext};
use crate::error::{ErrorKind, Result, SkillError};
use crate::host::RunContext;
use crate::host::catch_panic::catch_panic;
use crate::host::files::{ChangeDecision, FileChange, FileEditor};
use crate::host::provider_thread::run_on_provider_thread;

/// What panics and missing answers are reported as.
const WHO: &str = "the provider of files";

#[doc(hidden)]
impl FileEditor for SkillContext {
    fn unsaved(&self, path: &str) -> Result<Option<Vec<u8>>> {
        let path = path.to_owned();
        self.ask_editor(Duration::MAX, ErrorKind::Unavailable, move |files, ctx| files.unsaved(ctx, &path))
    }

    fn unsaved_paths(&self) -> Result<Vec<String>> {
        self.ask_editor(Duration::MAX, ErrorKind::Unavailable, |files, ctx| files.unsaved_paths(ctx))
    }

    fn decide(&self, change: &Arc<FileChange>) -> Result<ChangeDecision> {
        let refused = |why: String| Err(SkillError::new(ErrorKind::Denied, why));
        let invoked = std::iter::successors(Some(self), |ctx| ctx.caller()).last().unwrap_or(self);
        let decisions = &invoked.inner.change_decisions;
        if decisions.has_undecided.load(Ordering::Acquire) {
            return refused("nobody decided about an earlier change in time".into());
        }
        let Some(files) = &self.providers().files else { return Ok(ChangeDecision::Proceed) };
        let limit = catch_panic(WHO, ErrorKind::Denied, || Ok(files.time_limit()))?;
        let (change, started) = (change.clone(), Instant::now());
        let pause = decisions.may_pause(limit).then(|| self.cancel().pause_deadlines());
        let answer =
            self.ask_editor(limit, ErrorKind::Denied, move |files, ctx| files.before_change(ctx, &change));
        if pause.is_some() {
            decisions.add_paused(started.elapsed());
        }
        drop(pause);
        // A run that was stopped while it asked got no answer.
        self.cancel().check()?;
        if answer.is_err() && started.elapsed() >= limit {
            decisions.has_undecided.store(true, Ordering::Release);
            return refused(format!("nobody decided about the change within {limit:?}"));
        }
        answer
    }

    fn changed(&self, change: &Arc<FileChange>) {
        let change = change.clone();
        let told = self.ask_editor(Duration::MAX, ErrorKind::Unavailable, move |files, ctx| {
            files.changed(ctx, &change);
            Ok(())
        });
        if let Err(error) = told {
            tracing::warn!(skill = self.skill(), %error, "an editor could not be notified of a change");
        }
    }
}

impl SkillContext {
    /// The answer of the provider of files; a panic is an error of this kind.
    fn ask_editor<T: Send + 'static>(
        &self,
        limit: Duration,
        panic: ErrorKind,
        call: impl FnOnce(&dyn FileProvider, &SkillContext) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let Some(files) = self.providers().files.clone() else {
            return Err(SkillError::new(ErrorKind::Unavailable, "there is no editor"));
        };
        let (own, permit) = (self.clone(), self.thread_budget().try_call_provider());
        run_on_provider_thread(self.cancel(), permit, limit, move || {
            catch_panic(WHO, panic, || call(files.as_ref(), &own))
        })
    }
}
