//! Samples the memory of a whole process tree from `/proc`; no limit of the kernel counts a tree.
//!
//! Shared memory is counted once, but only when it matters: a first sum counts it several times and costs a tenth.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::ErrorKind;
use std::os::fd::OwnedFd;
use std::os::linux::fs::MetadataExt;
use std::time::{Duration, Instant};

use rustix::process::Pid;

use crate::linux::child_processes::descendants;
use crate::linux::procfs::{read_lossy, read_proc_file, sum_kb_lines};

/// A process id.
type RawPid = i32;

/// Measures a tree from the process that is the ancestor of all of it.
pub(super) struct MemoryMonitor {
    limit: u64,
    peak: u64,
    /// Whether `/proc` lists only the processes of the tree.
    private_proc: bool,
    /// The `/dev/shm` that is private to the tree, if it has one.
    shm: Option<OwnedFd>,
    /// How many memory mappings each process had when it was last counted.
    mapping_counts: BTreeMap<RawPid, u64>,
    /// The last process that was counted again.
    last_counted: RawPid,
    /// Since when at least one process has been unreadable in `/proc`.
    unreadable_since: Option<Instant>,
    /// The lowest shared memory of the whole machine that was measured.
    min_system_shmem: u64,
    next_check: Instant,
}

/// The processes of a tree, by process id.
type Processes = BTreeMap<RawPid, Process>;

/// A process, as it was when a measurement began.
struct Process {
    pid: RawPid,
    /// Its readable directory in `/proc`: a process whose first thread has ended does not show what its other threads hold.
    proc_dir: String,
    /// Resident bytes that are not in a file on disk; memory shared with others counts in full.
    resident: u64,
}

impl Process {
    fn read(pid: RawPid) -> Self {
        let proc_dir = format!("/proc/{pid}");
        let status = read_proc_file(&proc_dir, "status");
        if has_memory(&status) {
            return Self::from_status(pid, proc_dir, &status);
        }
        let threads = fs::read_dir(format!("{proc_dir}/task")).into_iter().flatten();
        let threads = threads.filter_map(|thread| Some(thread.ok()?.path().to_str()?.to_owned()));
        let others = threads.map(|thread| (read_proc_file(&thread, "status"), thread));
        let living = others.into_iter().find(|(status, _)| has_memory(status));
        living.map_or_else(
            || Self::from_status(pid, proc_dir, &status),
            |(status, thread)| Self::from_status(pid, thread, &status),
        )
    }

    fn from_status(pid: RawPid, proc_dir: String, status: &str) -> Self {
        let resident = sum_kb_lines(status, &["RssAnon:", "RssShmem:"]) + kernel_bytes(status);
        Self { pid, proc_dir, resident }
    }

    /// Whether it runs under a seccomp filter and has memory: a process that is ending has none any more, and only root can read
    /// more about it.
    fn is_filtered(&self) -> bool {
        let status = read_proc_file(&self.proc_dir, "status");
        has_memory(&status) && status.lines().any(|line| line == "Seccomp:\t2")
    }
}

fn has_memory(status: &str) -> bool {
    status.lines().any(|line| line.starts_with("VmSize:"))
}

/// The minimum pause between measurements, the pause as a multiple of the last one's duration, and the maximum pause: a tree can
/// make a measurement long.
const MIN_INTERVAL: Duration = Duration::from_millis(50);
const REST_FACTOR: u32 = 20;
const MAX_INTERVAL: Duration = Duration::from_secs(4);

/// How long processes may stay unreadable, as a process is for a moment before it executes the program: a program that is
/// executable but not readable holds an unknown amount.
const MAX_UNREADABLE: Duration = Duration::from_millis(500);

impl MemoryMonitor {
    pub(super) fn new(limit: u64, private_proc: bool, shm: Option<OwnedFd>) -> Self {
        Self {
            limit,
            peak: 0,
            private_proc,
            shm,
            mapping_counts: BTreeMap::new(),
            last_counted: 0,
            unreadable_since: None,
            min_system_shmem: u64::MAX,
            next_check: Instant::now() + MIN_INTERVAL,
        }
    }

    /// When to measure next.
    pub(super) fn next_check(&self) -> Instant {
        self.next_check
    }

    /// The highest value that was measured.
    pub(super) fn peak(&self) -> u64 {
        self.peak
    }

    /// Measures if it is time, and returns whether the tree exceeds its limit. A tree can make a measurement long, so it stops
    /// when there is something else to do.
    pub(super) fn exceeds_limit(&mut self, has_begun: bool, is_stopped: impl Fn() -> bool) -> bool {
        let began = Instant::now();
        if began < self.next_check {
            return false;
        }
        let is_over = self.confirm_excess(has_begun, &is_stopped).unwrap_or(false);
        self.next_check = Instant::now() + (began.elapsed() * REST_FACTOR).clamp(MIN_INTERVAL, MAX_INTERVAL);
        is_over
    }

    /// Whether the tree exceeds its limit in two measurements: when a process ends during one, its share of what it had in common
    /// with others counts for it and then for them. `None` if it was stopped.
    fn confirm_excess(&mut self, has_begun: bool, is_stopped: &dyn Fn() -> bool) -> Option<bool> {
        let mut bytes = self.measure(has_begun, is_stopped)?;
        if bytes > self.limit {
            bytes = bytes.min(self.measure(has_begun, is_stopped)?);
        }
        self.peak = self.peak.max(bytes);
        let is_unreadable = self.unreadable_since.is_some_and(|since| since.elapsed() >= MAX_UNREADABLE);
        Some(bytes > self.limit || is_unreadable)
    }

    /// The bytes that the tree holds. `None` if it was stopped.
    fn measure(&mut self, has_begun: bool, is_stopped: &dyn Fn() -> bool) -> Option<u64> {
        let processes = if self.private_proc {
            namespace_processes()
        } else {
            descendants().into_iter().map(Pid::as_raw_pid).collect()
        };
        let processes: Processes = processes.into_iter().map(|pid| (pid, Process::read(pid))).collect();
        let named_bytes = self.shm.as_ref().map(shm_bytes);
        let files = MemoryFiles::scan(&processes, named_bytes, is_stopped)?;
        let kernel =
            files.bytes() + files.buffer_bytes() + self.count_mappings(&processes) * BYTES_PER_MAPPING;
        let first: u64 = kernel + processes.values().map(|process| process.resident).sum::<u64>();
        let shmem_growth = self.system_shmem_growth();
        let bytes = if shmem_growth > self.limit && files.has_uncounted_mapping(&processes, is_stopped)? {
            kernel + shmem_growth
        } else if first > self.limit {
            let mut bytes = kernel;
            for process in processes.values() {
                if bytes > self.limit {
                    break;
                }
                bytes += if is_stopped() { return None } else { pss_bytes(process, &files) };
            }
            bytes
        } else {
            first
        };
        let unreadable_since = self.unreadable_since.take().filter(|_| files.has_unreadable);
        // While the child is about to execute the program it is unreadable itself, however long that takes.
        let is_unreadable = has_begun && files.has_unreadable;
        self.unreadable_since = unreadable_since.or_else(|| is_unreadable.then(Instant::now));
        Some(bytes)
    }
}

impl MemoryMonitor {
    /// By how much the shared memory of the whole machine has grown above the lowest value measured.
    fn system_shmem_growth(&mut self) -> u64 {
        let now = sum_kb_lines(&read_proc_file("/proc", "meminfo"), &["Shmem:"]);
        self.min_system_shmem = self.min_system_shmem.min(now);
        now - self.min_system_shmem
    }
}

/// Bytes that the kernel keeps for each memory mapping: the record, and its place among the others. A process may have 65,530
/// of them, of a page each.
const BYTES_PER_MAPPING: u64 = 224;

impl MemoryMonitor {
    /// How many memory mappings the tree has. Each measurement counts some processes in turn; those that were never counted are
    /// assumed to have as many as the others.
    fn count_mappings(&mut self, processes: &Processes) -> u64 {
        const MAX_PROCESSES: usize = 16;
        const MAX_DURATION: Duration = Duration::from_millis(5);
        self.mapping_counts.retain(|pid, _| processes.contains_key(pid));
        let began = Instant::now();
        // Processes that were never counted come first, then those with the next process ids.
        let uncounted = processes.iter().filter(|(pid, _)| !self.mapping_counts.contains_key(*pid));
        let again = processes.range(self.last_counted + 1..).chain(processes.range(..=self.last_counted));
        let counted: Vec<_> = uncounted.chain(again).take(MAX_PROCESSES).collect();
        for (pid, process) in counted {
            self.last_counted = if self.mapping_counts.insert(*pid, mapping_count(process)).is_some() {
                *pid
            } else {
                self.last_counted
            };
            if began.elapsed() > MAX_DURATION {
                break;
            }
        }
        let (known, count) = (self.mapping_counts.values().sum::<u64>(), self.mapping_counts.len() as u64);
        known + known.checked_div(count).unwrap_or(0) * (processes.len() as u64 - count)
    }
}

/// How many memory mappings a process has.
fn mapping_count(process: &Process) -> u64 {
    let maps = fs::read(format!("{}/maps", process.proc_dir)).unwrap_or_default();
    maps.split(|byte| *byte == b'\n').count() as u64
}

/// All processes of the namespace but this one, which is the first.
fn namespace_processes() -> BTreeSet<RawPid> {
    let names = fs::read_dir("/proc").into_iter().flatten();
    let numbers = names.filter_map(|name| name.ok()?.file_name().to_str()?.parse().ok());
    numbers.filter(|pid| *pid != 1).collect()
}

/// Kernel memory of a process, as its status says: page tables, huge pages, and a stack for each thread.
fn kernel_bytes(status: &str) -> u64 {
    const THREAD: u64 = 24 << 10;
    let threads = status.lines().find_map(|line| line.strip_prefix("Threads:")?.trim().parse::<u64>().ok());
    sum_kb_lines(status, &["VmPTE:", "HugetlbPages:"]) + threads.unwrap_or(0) * THREAD
}

/// Bytes of a process as above, but shared memory counts proportionally (PSS), and files that are counted already do not count.
/// If the kernel does not report it, all that the process has by then: none once it has ended.
fn pss_bytes(process: &Process, counted: &MemoryFiles) -> u64 {
    /// With more memory mappings than this, reading about each of them takes too long.
    const MANY: u64 = 4096;
    let Ok(sums) = read_lossy(format!("{}/smaps_rollup", process.proc_dir)) else {
        return Process::read(process.pid).resident;
    };
    let status = read_proc_file(&process.proc_dir, "status");
    let shared = match sum_kb_lines(&status, &["RssShmem:"]) {
        0 => 0,
        all if mapping_count(process) > MANY => all,
        _ => shared_pss_bytes(process, counted),
    };
    sum_kb_lines(&sums, &["Pss_Anon:"]) + kernel_bytes(&status) + shared
}

/// Bytes of shared memory that a process has mapped.
fn shared_pss_bytes(process: &Process, counted: &MemoryFiles) -> u64 {
    let mut counts = false;
    let mut bytes = 0;
    for line in read_proc_file(&process.proc_dir, "smaps").lines() {
        if is_mapping_header(line) {
            counts = counted.is_uncounted_mapping(line);
        } else if counts {
            bytes += sum_kb_lines(line, &["Pss:"]);
        }
    }
    bytes
}

/// Whether a line is the first about a memory mapping.
fn is_mapping_header(line: &str) -> bool {
    line.split_ascii_whitespace().next().is_some_and(|first| !first.ends_with(':'))
}

/// Files in memory (tmpfs and memfd).
#[derive(Default)]
struct MemoryFiles {
    /// Those that the tree has open, mapped or not, by inode, with the bytes that each holds.
    open_files: BTreeMap<u64, u64>,
    /// Bytes of the files in `/dev/shm`, open or not, if it is private to the tree.
    named_bytes: Option<u64>,
    /// Pipes and sockets that the tree has open, by their names in `/proc`.
    pipes: BTreeSet<String>,
    sockets: BTreeSet<String>,
    /// Whether at least one process is unreadable.
    has_unreadable: bool,
}

impl MemoryFiles {
    /// `None` if it was stopped.
    fn scan(processes: &Processes, named_bytes: Option<u64>, is_stopped: &dyn Fn() -> bool) -> Option<Self> {
        let mut files = Self { named_bytes, ..Self::default() };
        for process in processes.values() {
            if is_stopped() {
                return None;
            }
            // Threads of a process have the same files open; the filter does not allow them anything else.
            let open = fs::read_dir(format!("{}/fd", process.proc_dir));
            let is_refused = open.as_ref().is_err_and(|error| error.kind() == ErrorKind::PermissionDenied);
            files.has_unreadable |= is_refused && process.is_filtered();
            for link in open.into_iter().flatten().filter_map(|link| Some(link.ok()?.path())) {
                let Ok(name) = fs::read_link(&link) else { continue };
                let Some(name) = name.to_str() else { continue };
                if name.starts_with("pipe:[") {
                    files.pipes.insert(name.to_owned());
                } else if name.starts_with("socket:[") {
                    files.sockets.insert(name.to_owned());
                }
                if !is_in_memory(name) {
                    continue;
                }
                if let Ok(about) = fs::metadata(&link)
                    && !files.is_counted(about.st_ino(), name)
                {
                    files.open_files.insert(about.st_ino(), about.st_blocks() * 512);
                }
            }
        }
        Some(files)
    }

    fn bytes(&self) -> u64 {
        self.open_files.values().sum::<u64>() + self.named_bytes.unwrap_or(0)
    }

    /// Bytes of unread data that pipes and sockets can hold. A few of them do not count: every program has some.
    fn buffer_bytes(&self) -> u64 {
        const FEW: usize = 32;
        const PIPE: usize = 64 << 10;
        const SOCKET: usize = 208 << 10;
        let beyond = |open: &BTreeSet<String>| open.len().saturating_sub(FEW);
        (beyond(&self.pipes) * PIPE + beyond(&self.sockets) * SOCKET) as u64
    }

    /// Whether a file is counted already.
    fn is_counted(&self, inode: u64, name: &str) -> bool {
        self.open_files.contains_key(&inode) || self.named_bytes.is_some() && name.starts_with("/dev/shm/")
    }

    /// Whether a mapping, given its line, is of shared memory that is not counted as a file.
    fn is_uncounted_mapping(&self, line: &str) -> bool {
        // 7f0000000000-7f0000021000 rw-s 00000000 00:01 1034                   /memfd:name (deleted)
        let mut words = line.split_ascii_whitespace().skip(4);
        let file = words.next().and_then(|inode| inode.parse().ok()).unwrap_or(0);
        let is_shared = |name: &str| is_in_memory(name) || name == "/dev/zero";
        words.next().is_some_and(|name| is_shared(name) && !self.is_counted(file, name))
    }

    /// Whether a process maps a part of such memory, of which any amount may exist besides: pages that a process filled and then
    /// released or unmapped exist until no process maps any part, and are attributed to no process. `None` if it was
    /// stopped.
    fn has_uncounted_mapping(&self, processes: &Processes, is_stopped: &dyn Fn() -> bool) -> Option<bool> {
        for process in processes.values() {
            if is_stopped() {
                return None;
            }
            let maps = read_proc_file(&process.proc_dir, "maps");
            if maps.lines().any(|line| self.is_uncounted_mapping(line)) {
                return Some(true);
            }
        }
        Some(false)
    }
}

/// Bytes of all files in `/dev/shm`, including what the files themselves take.
fn shm_bytes(shm: &OwnedFd) -> u64 {
    rustix::fs::fstatvfs(shm).map_or(0, |about| {
        (about.f_blocks - about.f_bfree) * about.f_frsize + (about.f_files - about.f_ffree) * BYTES_PER_FILE
    })
}

/// Bytes that the kernel keeps for each file in memory.
const BYTES_PER_FILE: u64 = 1 << 10;

/// Whether a file of this name lies in memory, where no other process can see it.
fn is_in_memory(name: &str) -> bool {
    name.starts_with("/memfd:") || name.starts_with("/dev/shm/") || name.starts_with("/SYSV")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_holds_something_of_its_own() {
        let process = Process::read(std::process::id().cast_signed());
        assert!(process.resident > 1 << 16 && pss_bytes(&process, &MemoryFiles::default()) > 1 << 16);
    }

    #[test]
    fn a_process_that_has_ended_since_it_was_read_holds_nothing() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let pid = child.id().cast_signed();
        let status = || fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        while has_memory(&status()) {
            std::thread::yield_now();
        }
        let process = Process { pid, proc_dir: format!("/proc/{pid}"), resident: 1 << 30 };
        assert!(pss_bytes(&process, &MemoryFiles::default()) < 1 << 20);
        child.wait().unwrap();
        assert_eq!(pss_bytes(&process, &MemoryFiles::default()), 0);
    }
}
