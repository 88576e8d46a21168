//! The address space that runs may need, reserved where the system limits it.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::alloc_counter;
use crate::error::{ErrorKind, Hint, LimitKind, Result, SkillError};

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
