//! How much a run may use.

use std::sync::LazyLock;
use std::time::Duration;

use crate::policy::output_policy::OutputPolicy;

/// The limits of one run. Every runtime holds the deadline and the output cap; what holds the others is said per field.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Limits {
    /// Wall clock time from the first instruction to the last byte of output. 30 s by default.
    pub timeout: Duration,
    /// Bytes of memory. Exact in Lua, in WebAssembly, and in Rhai where [`CountingAllocator`](crate::alloc_counter::CountingAllocator) is
    /// installed, about elsewhere (64 MiB by default). Outside each process may have it, and in a sandbox, where they are looked at
    /// twenty times a second, all together may hold it (2 GiB and 4 GiB by default).
    pub memory: Option<u64>,
    /// Operations: expressions and statements that Rhai evaluates, 10 million by default; instructions of WebAssembly, and what
    /// Lua asks its interrupt at (rounds of loops, calls, returns, steps of patterns), where a limit is set.
    pub operations: Option<u64>,
    /// Processor time of each process, in whole seconds, begun ones counted; by default what all processors can give until two
    /// seconds after the deadline. In-process languages have the deadline alone.
    pub cpu: Option<Duration>,
    /// Bytes that a file may have which a process writes, or the host for any script. 256 MiB by default.
    pub file_size: Option<u64>,
    /// Descriptors that a process may have open. 512 by default.
    pub open_files: Option<u64>,
    /// Bytes of the value as JSON, of the log, and of each output stream of a process. 8 MiB by default.
    pub output: u64,
    /// What happens when an output stream of a process meets its cap.
    pub on_output: OutputPolicy,
}

/// How many threads of a script can run at a time.
static PROCESSORS: LazyLock<u32> = LazyLock::new(|| {
    std::thread::available_parallelism().map_or(1, |count| u32::try_from(count.get()).unwrap_or(u32::MAX))
});

impl Limits {
    /// Bytes of memory an in-process language gets when the caller names no limit.
    pub const DEFAULT_MEMORY_IN_PROCESS: u64 = 64 << 20;
    /// Bytes of memory a process gets when the caller names no limit.
    pub const DEFAULT_MEMORY_PROCESS: u64 = 2 << 30;
    /// Bytes of memory that all processes of a run may hold together when the caller names no limit.
    pub const DEFAULT_MEMORY_TREE: u64 = 4 << 30;
    /// Operations a Rhai script may execute when the caller names no limit.
    pub const OPERATIONS: u64 = 10_000_000;
    /// The largest file `read_file` and its kin take in, in bytes.
    pub const MAX_READ_SIZE: u64 = 16 << 20;
    /// Bytes a file may have that a process or the host writes for a script, when the caller names no limit. A program can go wrong by filling a disk;
    /// no script we know writes more to one file.
    pub const DEFAULT_FILE_SIZE: u64 = 256 << 20;
    /// Descriptors a process may have open when the caller names no limit. As many may be on their way through sockets for all
    /// programs of the user together, so that this is half of what most of these may have.
    pub const DEFAULT_OPEN_FILES: u64 = 512;

    /// Sets the deadline.
    pub fn timeout(mut self, deadline: Duration) -> Self {
        self.timeout = deadline;
        self
    }

    /// Sets the memory limit, in bytes.
    pub fn memory(mut self, bytes: u64) -> Self {
        self.memory = Some(bytes);
        self
    }

    /// Sets the limit of operations, in languages that count them; an outcome names it as not applied in others.
    pub fn operations(mut self, count: u64) -> Self {
        self.operations = Some(count);
        self
    }

    /// Sets the processor time of each process.
    pub fn cpu(mut self, time: Duration) -> Self {
        self.cpu = Some(time);
        self
    }

    /// Sets how many bytes a file may have that a process, or the host for any script, writes.
    pub fn file_size(mut self, bytes: u64) -> Self {
        self.file_size = Some(bytes);
        self
    }

    /// Sets how many descriptors a process may have open.
    pub fn open_files(mut self, count: u64) -> Self {
        self.open_files = Some(count);
        self
    }

    /// Sets the output cap, in bytes.
    pub fn output(mut self, bytes: u64) -> Self {
        self.output = bytes;
        self
    }

    /// Sets what happens when an output stream of a process meets its cap.
    pub fn on_output(mut self, policy: OutputPolicy) -> Self {
        self.on_output = policy;
        self
    }

    /// The limits a process is held to: defaults where none are named, nothing where none can be held.
    pub(crate) fn for_process(self) -> Self {
        // Time that passes is held by the deadline; this holds what a process burns after it, should all else fail.
        let until = self.timeout.saturating_add(Duration::from_secs(2));
        Self {
            memory: self.memory.or(Some(Self::DEFAULT_MEMORY_PROCESS)),
            operations: None,
            cpu: self.cpu.or(Some(until.saturating_mul(*PROCESSORS))).map(whole_seconds),
            file_size: self.file_size.or(Some(Self::DEFAULT_FILE_SIZE)),
            open_files: self.open_files.or(Some(Self::DEFAULT_OPEN_FILES)),
            ..self
        }
    }

    /// The limits an in-process language is held to: memory and the size of files by default, nothing that only processes have.
    pub(crate) fn for_in_process(self) -> Self {
        let memory = self.memory.or(Some(Self::DEFAULT_MEMORY_IN_PROCESS));
        let file_size = self.file_size.or(Some(Self::DEFAULT_FILE_SIZE));
        Self { memory, cpu: None, file_size, open_files: None, ..self }
    }
}

/// The system counts processor time in seconds, and one at least.
fn whole_seconds(time: Duration) -> Duration {
    Duration::from_secs(time.as_secs().saturating_add(u64::from(time.subsec_nanos() > 0)).max(1))
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            timeout: Duration::from_secs(30),
            memory: None,
            operations: None,
            cpu: None,
            file_size: None,
            open_files: None,
            output: 8 << 20,
            on_output: OutputPolicy::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_named_holds_and_what_is_not_has_a_default() {
        let named = Limits::default().cpu(Duration::from_millis(1200)).file_size(5).memory(7).for_process();
        assert_eq!(
            (named.cpu, named.file_size, named.memory),
            (Some(Duration::from_secs(2)), Some(5), Some(7))
        );
        assert_eq!(named.clone().for_process(), named, "once is enough");
        let process = Limits::default().operations(9).for_process();
        assert_eq!((process.operations, process.open_files), (None, Some(Limits::DEFAULT_OPEN_FILES)));
        assert!(process.cpu >= Some(Duration::from_secs(32)));
        assert_eq!(Limits::default().cpu(Duration::from_secs(1)).for_in_process().cpu, None);
        assert_eq!(
            Limits::default().timeout(Duration::MAX).for_process().cpu,
            Some(Duration::from_secs(u64::MAX))
        );
    }
}
