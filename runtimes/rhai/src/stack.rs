//! The separate stack on which scripts are parsed, run and dropped, large enough for the deepest value that fits into the
//! script's memory.
//!
//! Rhai copies and drops values by recursion that nothing can interrupt: a list in a list in a list, or a closure that
//! contains a closure, would crash the process at the end of its stack. Each level takes memory, so a stack in proportion to
//! the memory limit is always large enough. The stack that a level takes differs between builds, so it is measured once, in
//! the running program. A stack is only reserved, and takes memory as it is used.

use std::hint::black_box;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::thread::available_parallelism;

use corosensei::stack::DefaultStack;
use rhai::{Dynamic, FnPtr, Map};

use metier_core::alloc_counter;
use metier_core::error::{ErrorKind, Hint, LimitKind, Result, SkillError};

/// The maximum stack of a script's nested calls in bytes. Rhai counts only the calls, not their size.
pub(super) const MAX_CALL_BYTES: usize = 8 << 20;

/// The stack for the innermost call: a host function, or the parser's deepest nesting.
const LAST_CALL_BYTES: usize = 8 << 20;

/// The stack of work that has no memory limit: parsing, and dropping the tree.
const PARSER_STACK_BYTES: usize = 64 << 20;

/// A run that never had more memory or deeper calls than this leaves a stack that is worth keeping: little of it was used.
pub(super) const SHALLOW_BYTES: usize = 256 << 10;

/// The maximum size of a stack; a script whose memory limit needs a larger one gets less memory.
const MAX_STACK_BYTES: usize = 4 << 30;

/// Idle stacks, at most as many as there are processors.
static IDLE: Mutex<Vec<Stack>> = Mutex::new(Vec::new());

static PROCESSORS: LazyLock<usize> = LazyLock::new(|| available_parallelism().map_or(1, usize::from));

/// A reserved stack.
pub(super) struct Stack {
    stack: DefaultStack,
    bytes: usize,
}

impl Stack {
    /// A stack for a script that may allocate this many bytes, and the bytes that it may allocate with this stack.
    pub(super) fn for_memory(memory: u64) -> Result<(Self, u64)> {
        let per_byte = *STACK_PER_BYTE;
        let max = (MAX_STACK_BYTES - MAX_CALL_BYTES - LAST_CALL_BYTES) as u64 / per_byte;
        let memory = memory.min(max);
        let values = usize::try_from(memory * per_byte).unwrap_or(MAX_STACK_BYTES);
        Ok((Self::checkout(values + MAX_CALL_BYTES + LAST_CALL_BYTES)?, memory))
    }

    /// A stack for parsing a script and dropping its tree.
    pub(super) fn for_parser() -> Result<Self> {
        Self::checkout(PARSER_STACK_BYTES)
    }

    fn checkout(bytes: usize) -> Result<Self> {
        let mut idle = idle();
        let fitting = idle.iter().position(|stack| stack.bytes >= bytes).map(|at| idle.swap_remove(at));
        drop(idle);
        if let Some(stack) = fitting {
            return Ok(stack);
        }
        let stack = DefaultStack::new(bytes).map_err(|error| {
            SkillError::new(
                ErrorKind::Memory,
                format!(
                    "failed to reserve {} MiB of address space for the script's stack: {error}",
                    bytes >> 20
                ),
            )
            .with_help("run it with a smaller memory limit, which its stack is in proportion to")
            .with_hint(Hint::Limit(LimitKind::Memory))
        })?;
        Ok(Self { stack, bytes })
    }

    /// Runs a closure on this stack, on this thread.
    pub(super) fn run<T>(&mut self, work: impl FnOnce() -> T) -> T {
        corosensei::on_stack(&mut self.stack, work)
    }

    /// Keeps the stack for a later run; one that was used deeply would keep its memory and is to be dropped instead.
    pub(super) fn checkin(self) {
        let mut idle = idle();
        // The largest fits every run; if there are too many, the one that has been idle longest is removed.
        let outworn = (idle.len() >= *PROCESSORS).then(|| idle.remove(0));
        idle.push(self);
        drop(idle);
        drop(outworn);
    }
}

fn idle() -> MutexGuard<'static, Vec<Stack>> {
    IDLE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The number of nesting levels that are measured.
const MEASURED_LEVELS: usize = 256;

/// The memory that a level is assumed to take if allocations are not counted: Rhai's own limits count places in lists.
const ASSUMED_LEVEL_BYTES: usize = 16;

/// Bytes of stack for each byte of memory, by the kind of nesting that takes most, and as many more for what is looked through otherwise.
static STACK_PER_BYTE: LazyLock<u64> = LazyLock::new(|| {
    let measured = DefaultStack::new(PARSER_STACK_BYTES).map(|mut stack| {
        corosensei::on_stack(&mut stack, || {
            let per_byte = |nest: &NestFn| {
                let (used, memory) = measure_level(*nest);
                let memory = if alloc_counter::is_counting() { memory } else { ASSUMED_LEVEL_BYTES };
                (2 * used).div_ceil(memory.max(1))
            };
            NESTINGS.iter().map(per_byte).max().unwrap_or_default()
        })
    });
    // If not even this can be reserved, nothing will run.
    measured.map_or(64, |bytes| bytes as u64).max(1)
});

type NestFn = fn(Dynamic) -> Dynamic;

/// The kinds of values that can contain others.
const NESTINGS: [NestFn; 5] = [
    |value| Dynamic::from_array(vec![value]),
    |value| Dynamic::from_map(Map::from([("a".into(), value)])),
    |value| Dynamic::from_array(vec![value.into_shared()]),
    |value| closure_with(value.into_shared()),
    closure_with,
];

/// A function that contains a value, like a closure.
fn closure_with(value: Dynamic) -> Dynamic {
    let mut function = FnPtr::new("f").unwrap_or_else(|_| unreachable!("f is a name"));
    function.set_curry([value]);
    Dynamic::from(function)
}

/// The stack and the memory in bytes that a level of this nesting takes when the value is copied or dropped.
fn measure_level(nest: NestFn) -> (usize, usize) {
    let lowest = Arc::new(AtomicUsize::new(usize::MAX));
    let before = alloc_counter::net_bytes();
    let mut value = Dynamic::from(Probe(lowest.clone()));
    for _ in 0..MEASURED_LEVELS {
        value = nest(value);
    }
    let memory = usize::try_from(alloc_counter::net_bytes() - before).unwrap_or_default() / MEASURED_LEVELS;
    let here = stack_address();
    drop(black_box(value.clone()));
    drop(value);
    let used = here.saturating_sub(lowest.load(Ordering::Relaxed));
    (used.div_ceil(MEASURED_LEVELS), memory)
}

/// Records the stack depth where it is copied and dropped.
struct Probe(Arc<AtomicUsize>);

impl Probe {
    fn record_address(&self) {
        self.0.fetch_min(stack_address(), Ordering::Relaxed);
    }
}

impl Clone for Probe {
    fn clone(&self) -> Self {
        self.record_address();
        Self(self.0.clone())
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        self.record_address();
    }
}

/// An address in the stack frame of the caller.
#[inline]
pub(super) fn stack_address() -> usize {
    let here = 0_u8;
    std::ptr::from_ref(black_box(&here)).addr()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_of_every_nesting_takes_stack_and_memory() {
        for (number, nest) in NESTINGS.into_iter().enumerate() {
            let (used, memory) = measure_level(nest);
            println!("{number}: {used} bytes of stack, {memory} of memory");
            assert!(used > 16 && memory >= 48, "{number}: {used} bytes of stack, {memory} of memory");
        }
        println!("{} bytes of stack for a byte of memory", *STACK_PER_BYTE);
    }

    #[test]
    fn what_cannot_be_reserved_is_an_error() {
        assert_eq!(Stack::checkout(1 << 60).err().map(|error| error.kind()), Some(ErrorKind::Memory));
    }

    #[test]
    fn no_run_gets_more_memory_than_the_largest_stack_serves() {
        let (stack, memory) = Stack::for_memory(u64::MAX).unwrap();
        assert!(memory < u64::MAX && stack.bytes <= MAX_STACK_BYTES);
    }
}
