//! The bytes one run may occupy: the plug-in's memory and tables, and what it keeps in Extism memory, all in one sum.

use crate::error::{ErrorKind, Result, SkillError};
use crate::policy::CancelToken;

/// Bytes that are copied or made before it is asked again whether the run goes on.
pub(super) const BYTES_PER_CHECK: usize = 1 << 20;

pub(super) struct PluginBudget {
    used: u64,
    limit: u64,
    cancel: CancelToken,
}

impl PluginBudget {
    /// A budget of which a part is spent before the run begins; `memory` when it is too much already.
    pub(super) fn new(limit: u64, used: u64, cancel: &CancelToken) -> Result<Self> {
        let mut budget = Self { used: 0, limit, cancel: cancel.clone() };
        budget.spend(used)?;
        Ok(budget)
    }

    /// Takes bytes; `memory` when there are not so many left.
    pub(super) fn spend(&mut self, bytes: u64) -> Result<()> {
        let used = self.used.checked_add(bytes).filter(|used| *used <= self.limit);
        self.used = used.ok_or_else(|| out_of_memory(self.limit))?;
        Ok(())
    }

    /// Whether the run goes on. Asked by whatever takes long, every [`STEP`] of its way.
    pub(super) fn check_cancel(&self) -> Result<()> {
        self.cancel.check()
    }

    /// Gives back bytes that were taken.
    pub(super) fn refund(&mut self, bytes: u64) {
        self.used = self.used.saturating_sub(bytes);
    }
}

fn out_of_memory(limit: u64) -> SkillError {
    SkillError::new(ErrorKind::Memory, format!("the plug-in needed more than its {limit} bytes of memory"))
        .with_help("give it more with --memory, or make it keep less")
}
