//! The resource limits of a run, and those that only some runtimes enforce.

use std::sync::LazyLock;
use std::time::Duration;

use serde::{Serialize, Serializer};

use crate::policy::output_policy::OutputPolicy;

/// The limits of one run. Every runtime enforces the deadline and the output cap; each field says which runtimes enforce it.
///
/// ```
/// # use metier_core as metier;
/// use std::time::Duration;
///
/// use metier::policy::Limits;
///
/// let limits = Limits::default().timeout(Duration::from_secs(2)).memory(16 << 20);
/// assert_eq!(limits.memory, Some(16 << 20));
/// assert_eq!(limits.output, 8 << 20);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Limits {
    /// Wall clock time from the first instruction to the last byte of output. 30 s by default.
    pub timeout: Duration,
    /// Bytes of memory. Exact in Lua, in WebAssembly, and in Rhai where
    /// [`CountingAllocator`](crate::alloc_counter::CountingAllocator) is installed, approximate elsewhere (64 MiB by default).
    /// For external scripts, the limit of each process, and in a sandbox, where they are measured twenty times a second, of all
    /// processes together (2 GiB and 4 GiB by default).
    pub memory: Option<u64>,
    /// Operations: expressions and statements that Rhai evaluates, 10 million by default; instructions of WebAssembly, and Lua's
    /// interrupt checks (loop iterations, calls, returns, steps of patterns), if a limit is set.
    pub operations: Option<u64>,
    /// Processor time of each process, in whole seconds, rounded up; by default what all processors can provide until two seconds
    /// after the deadline. In-process languages have only the deadline.
    pub cpu: Option<Duration>,
    /// Maximum bytes of a file that a process writes, or the host for any script. 256 MiB by default.
    pub file_size: Option<u64>,
    /// Maximum open file descriptors of a process. 512 by default.
    pub open_files: Option<u64>,
    /// Maximum bytes of the value as JSON, of the log, and of each output stream of a process. 8 MiB by default.
    pub output: u64,
    /// What happens when an output stream of a process reaches its cap.
    pub on_output: OutputPolicy,
    /// Maximum bytes of what a skill with the permission `state` keeps in a project. 256 MiB by default.
    pub state_size: u64,
}

/// Maximum threads of a script that run at a time.
static PROCESSORS: LazyLock<u32> = LazyLock::new(|| {
    std::thread::available_parallelism().map_or(1, |count| u32::try_from(count.get()).unwrap_or(u32::MAX))
});

impl Limits {
    /// Default memory limit in bytes of an in-process language.
    pub const DEFAULT_MEMORY_IN_PROCESS: u64 = 64 << 20;
    /// Default memory limit in bytes of a process.
    pub const DEFAULT_MEMORY_PROCESS: u64 = 2 << 30;
    /// Default memory limit in bytes of all processes of a run together.
    pub const DEFAULT_MEMORY_TREE: u64 = 4 << 30;
    /// Default limit of operations of a Rhai script.
    pub const OPERATIONS: u64 = 10_000_000;
    /// Maximum bytes that `read_file` and similar functions read.
    pub const MAX_READ_SIZE: u64 = 16 << 20;
    /// Default maximum bytes of a file that a process or the host writes for a script. A faulty program can fill a disk; no
    /// script we know writes more to one file.
    pub const DEFAULT_FILE_SIZE: u64 = 256 << 20;
    /// Default maximum of open file descriptors of a process. As many may be in transit through sockets for all programs of the
    /// user together, so this is half of what most of those programs may have open.
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

    /// Sets the limit of operations, in languages that count them; for others, an outcome lists it as not applied.
    pub fn operations(mut self, count: u64) -> Self {
        self.operations = Some(count);
        self
    }

    /// Sets the processor time of each process.
    pub fn cpu(mut self, time: Duration) -> Self {
        self.cpu = Some(time);
        self
    }

    /// Sets the maximum bytes of a file that a process, or the host for any script, writes.
    pub fn file_size(mut self, bytes: u64) -> Self {
        self.file_size = Some(bytes);
        self
    }

    /// Sets the maximum of open file descriptors of a process.
    pub fn open_files(mut self, count: u64) -> Self {
        self.open_files = Some(count);
        self
    }

    /// Sets the output cap, in bytes.
    pub fn output(mut self, bytes: u64) -> Self {
        self.output = bytes;
        self
    }

    /// Sets what happens when an output stream of a process reaches its cap.
    pub fn on_output(mut self, policy: OutputPolicy) -> Self {
        self.on_output = policy;
        self
    }

    /// Sets the maximum bytes of what a skill keeps.
    pub fn state_size(mut self, bytes: u64) -> Self {
        self.state_size = bytes;
        self
    }
}

/// The limits that apply to a process: defaults for those that are not set, none for those that cannot be enforced.
pub fn process_limits(limits: &Limits) -> Limits {
    // The deadline limits wall clock time; this limits what a process uses after it, should everything else fail.
    let until = limits.timeout.saturating_add(Duration::from_secs(2));
    Limits {
        memory: limits.memory.or(Some(Limits::DEFAULT_MEMORY_PROCESS)),
        operations: None,
        cpu: limits.cpu.or(Some(until.saturating_mul(*PROCESSORS))).map(whole_seconds),
        file_size: limits.file_size.or(Some(Limits::DEFAULT_FILE_SIZE)),
        open_files: limits.open_files.or(Some(Limits::DEFAULT_OPEN_FILES)),
        ..*limits
    }
}

/// The limits of an in-process language: memory and file size by default.
pub fn in_process_limits(limits: &Limits) -> Limits {
    let memory = limits.memory.or(Some(Limits::DEFAULT_MEMORY_IN_PROCESS));
    let file_size = limits.file_size.or(Some(Limits::DEFAULT_FILE_SIZE));
    Limits { memory, file_size, ..*limits }
}

/// The system counts processor time in whole seconds, with a minimum of one.
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
            state_size: 256 << 20,
        }
    }
}

/// A limit that only some runtimes enforce. Every runtime enforces the deadline and the output cap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RuntimeLimit {
    /// [`Limits::memory`].
    Memory,
    /// [`Limits::operations`].
    Operations,
    /// [`Limits::cpu`].
    Cpu,
    /// [`Limits::file_size`].
    FileSize,
    /// [`Limits::open_files`].
    OpenFiles,
}

impl Serialize for RuntimeLimit {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl RuntimeLimit {
    /// All of them, in the order of outcomes.
    pub const ALL: [Self; 5] = [Self::Memory, Self::Operations, Self::Cpu, Self::FileSize, Self::OpenFiles];

    /// The name in outcomes.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Operations => "operations",
            Self::Cpu => "cpu",
            Self::FileSize => "file_size",
            Self::OpenFiles => "open_files",
        }
    }
}

/// Whether a limit is set.
pub fn is_limit_set(limit: RuntimeLimit, limits: &Limits) -> bool {
    match limit {
        RuntimeLimit::Memory => limits.memory.is_some(),
        RuntimeLimit::Operations => limits.operations.is_some(),
        RuntimeLimit::Cpu => limits.cpu.is_some(),
        RuntimeLimit::FileSize => limits.file_size.is_some(),
        RuntimeLimit::OpenFiles => limits.open_files.is_some(),
    }
}

/// Removes a limit.
pub fn remove_limit(limit: RuntimeLimit, limits: &mut Limits) {
    match limit {
        RuntimeLimit::Memory => limits.memory = None,
        RuntimeLimit::Operations => limits.operations = None,
        RuntimeLimit::Cpu => limits.cpu = None,
        RuntimeLimit::FileSize => limits.file_size = None,
        RuntimeLimit::OpenFiles => limits.open_files = None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_named_holds_and_what_is_not_has_a_default() {
        let named =
            process_limits(&Limits::default().cpu(Duration::from_millis(1200)).file_size(5).memory(7));
        assert_eq!(
            (named.cpu, named.file_size, named.memory),
            (Some(Duration::from_secs(2)), Some(5), Some(7))
        );
        assert_eq!(process_limits(&named), named, "once is enough");
        let process = process_limits(&Limits::default().operations(9));
        assert_eq!((process.operations, process.open_files), (None, Some(Limits::DEFAULT_OPEN_FILES)));
        assert!(process.cpu >= Some(Duration::from_secs(32)));
        assert_eq!(
            process_limits(&Limits::default().timeout(Duration::MAX)).cpu,
            Some(Duration::from_secs(u64::MAX))
        );
    }
}
