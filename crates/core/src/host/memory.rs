//! The memory budget of host functions: memory is reserved before anything is read or built, and released afterwards. And the
//! address space that runs may need, reserved where the system limits it.
//!
//! In-process languages count the memory that scripts hold. Memory for what host functions read, build and return is counted
//! here, against a budget as large as that limit. Concurrent calls share it, and a called skill also uses the budget of its
//! caller.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::alloc_counter;
use crate::error::{ErrorKind, Hint, LimitKind, Result, SkillError};
use crate::policy::{CancelToken, Limits, MemoryBudget};

/// Allocations from this size in bytes are tried on the system before they are relied on; smaller ones are not checked.
pub(super) const LARGE_ALLOCATION: u64 = 256 << 10;
/// Bytes that the system must have available besides those that are reserved.
const SYSTEM_HEADROOM: u64 = 1 << 20;
/// Bytes that are reserved at a time where something grows step by step.
const GROWTH_STEP: u64 = 64 << 10;
/// Bytes processed between two checks of the cancel token.
pub(crate) const CANCEL_CHECK_BYTES: usize = 1 << 20;

/// The bytes that host functions of a run may hold at a time. Clones share the budget.
#[derive(Clone, Debug)]
pub struct HostMemory {
    budget: MemoryBudget,
    caller: Option<Arc<HostMemory>>,
}

impl HostMemory {
    /// A budget of this many bytes.
    pub(crate) fn new(bytes: u64) -> Self {
        Self { budget: MemoryBudget::new(bytes), caller: None }
    }

    /// A budget of this many bytes; each reservation also counts against the caller's budget.
    pub(crate) fn with_caller(bytes: u64, caller: &Self) -> Self {
        Self { budget: MemoryBudget::new(bytes), caller: Some(Arc::new(caller.clone())) }
    }

    /// An empty reservation. Bytes that are added to it are released when it is dropped.
    pub fn empty_reservation(&self) -> HostMemoryReservation {
        HostMemoryReservation { memory: Some(self.clone()), reserved: 0, used: 0 }
    }

    /// Reserves this many bytes, which the system must have available as well.
    fn reserve(&self, bytes: u64) -> Result<()> {
        if alloc_counter::is_reserve_released() {
            check_memory_reserve()?;
        }
        if !self.budget.try_reserve(bytes) {
            return Err(over_budget_error(bytes, self.budget.capacity()));
        }
        let taken = match &self.caller {
            Some(caller) => caller.reserve(bytes),
            None if bytes >= LARGE_ALLOCATION => check_system_memory(bytes.saturating_add(SYSTEM_HEADROOM)),
            None => Ok(()),
        };
        if taken.is_err() {
            self.budget.release(bytes);
        }
        taken
    }

    fn release(&self, bytes: u64) {
        self.budget.release(bytes);
        if let Some(caller) = &self.caller {
            caller.release(bytes);
        }
    }
}

/// The bytes that one operation holds; released when dropped.
#[derive(Debug)]
pub struct HostMemoryReservation {
    memory: Option<HostMemory>,
    reserved: u64,
    used: u64,
}

impl HostMemoryReservation {
    /// For code that works for the user and not for a script: nothing is counted.
    pub(crate) fn uncounted() -> Self {
        Self { memory: None, reserved: 0, used: 0 }
    }

    /// Reserves exactly this many bytes more; `memory` if they are not available.
    pub fn add(&mut self, bytes: u64) -> Result<()> {
        let used = self.used.saturating_add(bytes);
        self.reserve(used.saturating_sub(self.reserved))?;
        self.used = used;
        Ok(())
    }

    /// Reserves memory for one of many small items.
    pub(crate) fn grow(&mut self, bytes: u64) -> Result<()> {
        let used = self.used.saturating_add(bytes);
        let missing = used.saturating_sub(self.reserved);
        if missing > 0 {
            let step = if self.reserved < LARGE_ALLOCATION { GROWTH_STEP } else { LARGE_ALLOCATION };
            let ahead = missing.max(step);
            self.reserve(ahead)
                .or_else(|error| if ahead == missing { Err(error) } else { self.reserve(missing) })?;
        }
        self.used = used;
        Ok(())
    }

    /// Releases this many of its bytes for what is reserved next.
    pub(crate) fn shrink(&mut self, bytes: u64) {
        self.used = self.used.saturating_sub(bytes);
    }

    /// Takes over the bytes of the other reservation.
    pub(crate) fn join(&mut self, mut other: Self) {
        self.used += std::mem::take(&mut other.used);
        self.reserved += std::mem::take(&mut other.reserved);
    }

    fn reserve(&mut self, bytes: u64) -> Result<()> {
        if let (Some(memory), 1..) = (&self.memory, bytes) {
            memory.reserve(bytes)?;
            self.reserved += bytes;
        }
        Ok(())
    }
}

impl Drop for HostMemoryReservation {
    fn drop(&mut self) {
        if let (Some(memory), 1..) = (&self.memory, self.reserved) {
            memory.release(self.reserved);
        }
    }
}

/// The limits of every operation for a script.
#[derive(Clone, Copy)]
pub(crate) struct OperationLimits<'a> {
    pub(crate) memory: &'a HostMemory,
    /// Maximum bytes of a file after it was written.
    pub(crate) file_size: u64,
    pub(crate) cancel: &'a CancelToken,
}

/// Bytes of address space that a run may need; its script has memory of its own in this process or in another.
pub fn address_space(limits: &Limits, is_in_process: bool) -> u64 {
    let script = limits.memory.unwrap_or(Limits::DEFAULT_MEMORY_IN_PROCESS);
    if is_in_process { script.saturating_mul(2) } else { process_host_memory(limits) }
}

/// Bytes that host functions may hold at a time for the processes of a run. Processes may use far more memory than any result
/// needs, and the host that serves them does not have to be as large.
pub fn process_host_memory(limits: &Limits) -> u64 {
    const SHARE: u64 = 32;
    let memory = limits.memory.unwrap_or(Limits::DEFAULT_MEMORY_PROCESS);
    memory.min(Limits::DEFAULT_MEMORY_IN_PROCESS).max(memory / SHARE)
}

/// Checks that the system has this many bytes by allocating them. Where memory is limited (`ulimit -v`), an allocation that is
/// not checked first could end the whole program.
pub(crate) fn check_system_memory(bytes: u64) -> Result<()> {
    if usize::try_from(bytes).is_ok_and(alloc_counter::can_allocate) {
        return Ok(());
    }
    let sentence = format!("the system cannot provide the {bytes} bytes of memory that it needs");
    Err(SkillError::new(ErrorKind::Memory, sentence)
        .with_help("ask for less at a time, or give the host more memory (ulimit -v)"))
}

/// Checks that the reserve for the case that the system has no more memory exists, or exists again.
pub fn check_memory_reserve() -> Result<()> {
    if alloc_counter::ensure_reserve() {
        return Ok(());
    }
    Err(SkillError::new(ErrorKind::Memory, "the system has not enough memory for this run")
        .with_help("make it do less, or give the host more memory (ulimit -v)"))
}

fn over_budget_error(bytes: u64, most: u64) -> SkillError {
    let sentence = format!(
        "it needs another {bytes} bytes of memory; the host may use at most {most} bytes at a time for this run"
    );
    let help = "ask for less at a time (a narrower search, fewer lines of context, a file in parts), or give the run more memory";
    SkillError::new(ErrorKind::Memory, sentence).with_help(help).with_hint(Hint::Limit(LimitKind::Memory))
}

/// Bytes of address space that a run may need, reserved until this is dropped.
#[derive(Debug)]
pub struct AddressSpaceReservation(u64);

/// The sum of the reservations of all current runs.
static RESERVED_ADDRESS_SPACE: AtomicU64 = AtomicU64::new(0);

/// What a run takes besides what its limits count: threads, copies, spare capacity of buffers and allocators.
const RUN_OVERHEAD: u64 = 64 << 20;

impl AddressSpaceReservation {
    /// Reserves this many bytes, as set by a run's limits, and the overhead. Where address space is limited (`ulimit -v`), a run
    /// begins only if there is enough for all that it and the current runs may take: a language that is denied memory in the
    /// middle of its work can only end the whole program.
    pub fn for_run(bytes: u64) -> Result<Self> {
        if !is_address_space_limited() {
            return Ok(Self(0));
        }
        let bytes = bytes.saturating_add(RUN_OVERHEAD);
        let before = RESERVED_ADDRESS_SPACE.fetch_add(bytes, Ordering::Relaxed);
        let promised = Self(bytes);
        if usize::try_from(before.saturating_add(bytes)).is_ok_and(alloc_counter::can_allocate) {
            return Ok(promised);
        }
        let sentence = format!(
            "this run and the host may need {} MiB of address space together, and the system cannot provide that much",
            bytes >> 20
        );
        Err(SkillError::new(ErrorKind::Memory, sentence)
            .with_help("run it with a smaller memory limit, or give the host more (ulimit -v)")
            .with_hint(Hint::Limit(LimitKind::Memory)))
    }
}

impl Drop for AddressSpaceReservation {
    fn drop(&mut self) {
        if self.0 > 0 {
            RESERVED_ADDRESS_SPACE.fetch_sub(self.0, Ordering::Relaxed);
        }
    }
}

#[cfg(unix)]
fn is_address_space_limited() -> bool {
    use rustix::process::{Resource, getrlimit};

    getrlimit(Resource::As).current.is_some()
}

#[cfg(not(unix))]
fn is_address_space_limited() -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_held_is_given_back_and_a_caller_is_asked_too() {
        let caller = HostMemory::new(100);
        let nested = HostMemory::with_caller(1000, &caller);
        let mut held = nested.empty_reservation();
        held.add(60).unwrap();
        let refused = caller.empty_reservation().add(41).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Memory);
        assert!(refused.message().contains("41 bytes") && refused.message().contains("100"), "{refused}");
        assert!(held.add(41).is_err(), "the caller's limit holds for whom it calls");
        held.add(40).unwrap();
        drop(held);
        assert_eq!((caller.budget.reserved(), nested.budget.reserved()), (0, 0));
    }

    #[test]
    fn what_grows_takes_ahead_but_never_fails_for_it() {
        let memory = HostMemory::new(GROWTH_STEP + 10);
        let mut held = memory.empty_reservation();
        held.grow(1).unwrap();
        assert_eq!(memory.budget.reserved(), GROWTH_STEP);
        held.grow(GROWTH_STEP - 1).unwrap();
        held.grow(10).unwrap();
        assert_eq!(memory.budget.reserved(), GROWTH_STEP + 10);
        assert!(held.grow(1).is_err());
        assert!(HostMemoryReservation::uncounted().grow(u64::MAX).is_ok());
    }

    #[test]
    fn more_than_any_system_has_is_an_error() {
        let refused = HostMemory::new(u64::MAX).empty_reservation().add(1 << 60).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Memory);
    }

    #[test]
    fn processes_have_a_share_of_their_memory_in_the_host() {
        let of = |memory| process_host_memory(&Limits::default().memory(memory));
        assert_eq!(process_host_memory(&Limits::default()), 64 << 20);
        assert_eq!((of(1 << 20), of(1 << 30), of(4 << 30)), (1 << 20, 64 << 20, 128 << 20));
    }
}
