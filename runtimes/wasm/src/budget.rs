//! The memory budget of one run: the plug-in's memory and tables, and its Extism memory, in one sum.

use metier_core::error::{ErrorKind, Hint, LimitKind, Result, SkillError};
use metier_core::excerpt::byte_size;
use metier_core::policy::CancelToken;

/// The number of bytes that are copied or created before the token is checked again.
pub(super) const BYTES_PER_CHECK: usize = 1 << 20;

pub(super) struct PluginBudget {
    used: u64,
    limit: u64,
    cancel: CancelToken,
}

impl PluginBudget {
    /// A budget of which a part is already used when the run begins; fails with `memory` if that part exceeds the limit.
    pub(super) fn new(limit: u64, used: u64, cancel: &CancelToken) -> Result<Self> {
        let mut budget = Self { used: 0, limit, cancel: cancel.clone() };
        budget.spend(used)?;
        Ok(budget)
    }

    /// Takes bytes from the budget; fails with `memory` if fewer are left.
    pub(super) fn spend(&mut self, bytes: u64) -> Result<()> {
        let used = self.used.checked_add(bytes).filter(|used| *used <= self.limit);
        self.used = used.ok_or_else(|| out_of_memory(self.limit))?;
        Ok(())
    }

    /// Fails if the run was stopped. Every long operation checks this after each [`BYTES_PER_CHECK`] bytes.
    pub(super) fn check_cancel(&self) -> Result<()> {
        self.cancel.check()
    }

    /// Returns bytes that were taken.
    pub(super) fn refund(&mut self, bytes: u64) {
        self.used = self.used.saturating_sub(bytes);
    }
}

fn out_of_memory(limit: u64) -> SkillError {
    SkillError::new(
        ErrorKind::Memory,
        format!("the plug-in needed more than its {} of memory", byte_size(limit)),
    )
    .with_help("give it more memory, or make it keep less")
    .with_hint(Hint::Limit(LimitKind::Memory))
}
