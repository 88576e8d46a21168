//! The budgets of a run, each made where it is first needed and shared with the runs that it calls.

use super::SkillContext;
use crate::host::memory::{HostMemory, OperationLimits};
use crate::policy::{Limits, MemoryBudget, ThreadBudget};

impl SkillContext {
    /// The limits of each host operation for this run: memory, file size, and the cancel token.
    pub(in crate::host) fn operation_limits(&self) -> OperationLimits<'_> {
        let file_size = self.inner.limits.file_size.unwrap_or(Limits::DEFAULT_FILE_SIZE);
        OperationLimits { memory: self.host_memory(), file_size, cancel: &self.cancel }
    }
}

/// For the other packages of metier; may change in any release.
#[doc(hidden)]
impl SkillContext {
    /// The thread budget of the run besides its own thread, shared with the runs that called it and those that it calls.
    pub fn thread_budget(&self) -> &ThreadBudget {
        self.inner.thread_budget.get_or_init(ThreadBudget::default)
    }

    /// The memory budget for step values that plans keep, shared by this run and all runs that it calls.
    pub fn plan_memory(&self) -> &MemoryBudget {
        match &self.inner.caller {
            Some(caller) => caller.plan_memory(),
            None => self.inner.plan_memory.get_or_init(|| {
                MemoryBudget::new(self.limits().memory.unwrap_or(Limits::DEFAULT_MEMORY_IN_PROCESS))
            }),
        }
    }

    /// The memory that host functions may hold for this run and for all runs that it calls.
    pub fn host_memory(&self) -> &HostMemory {
        self.inner.host_memory.get_or_init(|| match &self.inner.caller {
            Some(caller) => HostMemory::with_caller(self.inner.host_memory_bytes, caller.host_memory()),
            None => HostMemory::new(self.inner.host_memory_bytes),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_callee_reserves_of_the_memory_of_its_caller_whoever_is_first() {
        for caller_is_first in [true, false] {
            let outer = SkillContext::builder("outer").host_memory(1000).build();
            if caller_is_first {
                outer.host_memory().empty_reservation().add(1000).unwrap();
            }
            let inner = SkillContext::builder("inner").host_memory(1000).called_by(outer.clone()).build();
            let mut held = inner.host_memory().empty_reservation();
            held.add(800).unwrap();
            assert!(outer.host_memory().empty_reservation().add(300).is_err());
            drop(held);
            outer.host_memory().empty_reservation().add(300).unwrap();
        }
    }
}
