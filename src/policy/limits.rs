//! How much a run may use.

use std::time::Duration;

/// The limits of one run. Every runtime holds the deadline and the output cap; what holds the others is said per field.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Limits {
    /// Wall clock time from the first instruction to the last byte of output. 30 s by default.
    pub deadline: Duration,
    /// Bytes of memory. Exact in Lua, in WebAssembly, and in Rhai where [`CountingAllocator`](crate::heap::CountingAllocator) is
    /// installed, about elsewhere (64 MiB by default). Outside each process may have it, and in a cage, where they are looked at
    /// twenty times a second, all together may hold it (2 GiB and 4 GiB by default).
    pub memory: Option<u64>,
    /// Operations: expressions and statements that Rhai evaluates, 10 million by default; instructions of WebAssembly where a
    /// limit is set; other languages count none.
    pub operations: Option<u64>,
    /// Bytes of the value as JSON, of the log, and of each output stream of a process. 8 MiB by default.
    pub output: u64,
}

impl Limits {
    /// Bytes of memory an in-process language gets when the caller names no limit.
    pub const MEMORY_IN_PROCESS: u64 = 64 << 20;
    /// Bytes of memory a process gets when the caller names no limit.
    pub const MEMORY_PROCESS: u64 = 2 << 30;
    /// Bytes of memory that all processes of a run may hold together when the caller names no limit.
    pub const MEMORY_TREE: u64 = 4 << 30;
    /// Operations a Rhai script may execute when the caller names no limit.
    pub const OPERATIONS: u64 = 10_000_000;
    /// The largest file `read_file` and its kin take in, in bytes.
    pub const FILE: u64 = 16 << 20;

    /// Sets the deadline.
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// Sets the memory limit, in bytes.
    pub fn memory(mut self, bytes: u64) -> Self {
        self.memory = Some(bytes);
        self
    }

    /// Sets the limit of operations, in languages that count them.
    pub fn operations(mut self, count: u64) -> Self {
        self.operations = Some(count);
        self
    }

    /// Sets the output cap, in bytes.
    pub fn output(mut self, bytes: u64) -> Self {
        self.output = bytes;
        self
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self { deadline: Duration::from_secs(30), memory: None, operations: None, output: 8 << 20 }
    }
}
