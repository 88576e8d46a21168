//! The run that occupies a state.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mlua::Lua;

use super::from_lua::ConversionBudget;
use metier_core::error::{ErrorKind, Result, SkillError};
use metier_core::host::SkillContext;
use metier_core::policy::CancelToken;

/// The run that occupies the state, and the error with which it ended.
pub(super) struct RunSlot {
    run: Mutex<ActiveRun>,
    /// Whether a run seeded the random generator, which the next run must not be able to find out.
    is_seeded: AtomicBool,
    pub(super) file: Arc<str>,
}

#[derive(Default)]
struct ActiveRun {
    context: Option<SkillContext>,
    error: Option<SkillError>,
    /// The memory limit of the state in bytes.
    max_bytes: usize,
}

impl RunSlot {
    pub(super) fn new(file: Arc<str>) -> Self {
        Self { run: Mutex::default(), is_seeded: AtomicBool::new(false), file }
    }

    /// The state belongs to this run until the guard is dropped.
    pub(super) fn occupy(&self, context: &SkillContext) -> impl Drop + use<'_> {
        *self.lock() = ActiveRun { context: Some(context.clone()), error: None, max_bytes: usize::MAX };
        SlotGuard(self)
    }

    /// Sets the memory limit of the state in bytes.
    pub(super) fn set_memory_limit(&self, max_bytes: usize) {
        self.lock().max_bytes = max_bytes;
    }

    /// The budget for converting the run's values: the bytes that the run may output, and the memory that the script has
    /// left.
    pub(super) fn conversion_budget<'c>(&self, lua: &Lua, context: &'c SkillContext) -> ConversionBudget<'c> {
        let left = self.lock().max_bytes.saturating_sub(lua.used_memory());
        ConversionBudget::new(context.limits().output, left as u64, context.cancel())
    }

    /// The token that stops the run.
    pub(super) fn cancel_token(&self) -> Result<CancelToken> {
        self.context().map(|context| context.cancel().clone())
    }

    /// Records that the run seeded the random generator.
    pub(super) fn set_seeded(&self) {
        self.is_seeded.store(true, Ordering::Relaxed);
    }

    /// Whether a run seeded the random generator since the last call.
    pub(super) fn take_seeded(&self) -> bool {
        self.is_seeded.swap(false, Ordering::Relaxed)
    }

    pub(super) fn store_error(&self, error: SkillError) {
        self.lock().error = Some(error);
    }

    pub(super) fn take_error(&self) -> Option<SkillError> {
        self.lock().error.take()
    }

    pub(super) fn context(&self) -> Result<SkillContext> {
        self.lock()
            .context
            .clone()
            .ok_or_else(|| SkillError::new(ErrorKind::Unavailable, "no run is under way"))
    }

    fn lock(&self) -> MutexGuard<'_, ActiveRun> {
        self.run.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct SlotGuard<'a>(&'a RunSlot);

impl Drop for SlotGuard<'_> {
    fn drop(&mut self) {
        *self.0.lock() = ActiveRun::default();
    }
}
