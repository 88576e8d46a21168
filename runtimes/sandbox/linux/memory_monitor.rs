//! What all processes of a tree hold together, looked at now and then: no limit of the kernel's counts it.
//!
//! What they share is counted once, but only when it matters: a first sum takes it several times and costs a tenth.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::ErrorKind;
use std::os::linux::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::runtimes::sandbox::linux::child_processes;
use crate::runtimes::sandbox::linux::layers::mounts::{DEV_SHM, has_private_shm};

/// A process's.
type RawPid = i32;

/// Looks at a tree from the process that all of it descends from.
pub(super) struct MemoryMonitor {
    limit: u64,
    peak: u64,
    /// Whether `/proc` lists the tree and nobody else.
    private_proc: bool,
    /// Whether what is shared by name is the tree's own, once that was looked up.
    private_shm: Option<bool>,
    /// How many areas of memory each process had when it was last asked.
    mapping_counts: BTreeMap<RawPid, u64>,
    /// Who was asked last of those that had been before.
    last_counted: RawPid,
    /// Since when there has always been somebody who may not be looked into.
    unreadable_since: Option<Instant>,
    /// The least that the whole machine was seen to share.
    min_system_shmem: u64,
    next_check: Instant,
}

/// The processes of a tree, by their numbers.
type Processes = BTreeMap<RawPid, Process>;

/// A process, as it was when a look began.
struct Process {
    /// Where it can be looked into: a process whose first thread has ended says nothing of what its other threads hold.
    proc_dir: String,
    /// Bytes that are in no file on a disk; what it shares with others counts in full.
    resident: u64,
}

impl Process {
    fn read(pid: RawPid) -> Self {
        let at = format!("/proc/{pid}");
        let status = read_proc_file(&at, "status");
        if has_memory(&status) {
            return Self::from_status(at, &status);
        }
        let threads = fs::read_dir(format!("{at}/task")).into_iter().flatten();
        let threads = threads.filter_map(|thread| Some(thread.ok()?.path().to_str()?.to_owned()));
        let others = threads.map(|thread| (read_proc_file(&thread, "status"), thread));
        let living = others.into_iter().find(|(status, _)| has_memory(status));
        living.map_or_else(
            || Self::from_status(at, &status),
            |(status, thread)| Self::from_status(thread, &status),
        )
    }

    fn from_status(at: String, status: &str) -> Self {
        let resident = sum_kb_lines(status, &["RssAnon:", "RssShmem:"]) + kernel_bytes(status);
        Self { proc_dir: at, resident }
    }

    /// Whether it is behind a filter of system calls and has memory: of one that is ending, which by now has none, nobody but
    /// root sees more.
    fn is_filtered(&self) -> bool {
        let status = read_proc_file(&self.proc_dir, "status");
        has_memory(&status) && status.lines().any(|line| line == "Seccomp:\t2")
    }
}

fn has_memory(status: &str) -> bool {
    status.lines().any(|line| line.starts_with("VmSize:"))
}

/// What the kernel says of a process in a file of this name.
fn read_proc_file(at: &str, name: &str) -> String {
    read_lossy(format!("{at}/{name}")).unwrap_or_default()
}

/// A file of the kernel's. Names of processes and files in it need be no text.
pub(super) fn read_lossy(path: impl AsRef<Path>) -> std::io::Result<String> {
    fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

/// How long the tree is left alone at least, how many times as long as a look took, and at most: a tree can make a look long.
const MIN_INTERVAL: Duration = Duration::from_millis(50);
const REST_FACTOR: u32 = 20;
const MAX_INTERVAL: Duration = Duration::from_secs(4);

/// How long processes may keep from being looked into, as one does that is just about to become the program: a program that
/// may be run and not read holds what it likes.
const MAX_UNREADABLE: Duration = Duration::from_millis(500);

impl MemoryMonitor {
    pub(super) fn new(most: u64, own_proc: bool) -> Self {
        let next = Instant::now() + MIN_INTERVAL;
        Self {
            limit: most,
            peak: 0,
            private_proc: own_proc,
            private_shm: None,
            mapping_counts: BTreeMap::new(),
            last_counted: 0,
            unreadable_since: None,
            min_system_shmem: u64::MAX,
            next_check: next,
        }
    }

    /// When to look next.
    pub(super) fn next_check(&self) -> Instant {
        self.next_check
    }

    /// The most that was seen.
    pub(super) fn peak(&self) -> u64 {
        self.peak
    }

    /// Looks, where it is time, and says whether the tree holds more than it may. A tree can make a look long, so that it ends
    /// when there is something else to do.
    pub(super) fn exceeds_limit(&mut self, has_begun: bool, is_stopped: impl Fn() -> bool) -> bool {
        let began = Instant::now();
        if began < self.next_check {
            return false;
        }
        let is_over = self.measure(has_begun, &is_stopped).unwrap_or(false);
        self.next_check = Instant::now() + (began.elapsed() * REST_FACTOR).clamp(MIN_INTERVAL, MAX_INTERVAL);
        is_over
    }

    /// Nothing where it was stopped.
    fn measure(&mut self, has_begun: bool, is_stopped: &dyn Fn() -> bool) -> Option<bool> {
        let processes = if self.private_proc { namespace_processes() } else { descendants() };
        let processes: Processes = processes.into_iter().map(|pid| (pid, Process::read(pid))).collect();
        let own_memory = *self.private_shm.get_or_insert_with(has_private_shm);
        let files = MemoryFiles::scan(&processes, own_memory, is_stopped)?;
        let kernel =
            files.bytes() + files.buffer_bytes() + self.count_mappings(&processes) * BYTES_PER_MAPPING;
        let first: u64 = kernel + processes.values().map(|process| process.resident).sum::<u64>();
        let grown = self.system_shmem_growth();
        let held = if grown > self.limit && files.has_uncounted_mapping(&processes, is_stopped)? {
            kernel + grown
        } else if first > self.limit {
            let mut held = kernel;
            for process in processes.values() {
                if held > self.limit {
                    break;
                }
                held += if is_stopped() { return None } else { pss_bytes(process, &files) };
            }
            held
        } else {
            first
        };
        self.peak = self.peak.max(held);
        let closed_since = self.unreadable_since.take().filter(|_| files.has_unreadable);
        // On its way to become the program the leader itself may not be looked into, however long that takes.
        let are_closed = has_begun && files.has_unreadable;
        self.unreadable_since = closed_since.or_else(|| are_closed.then(Instant::now));
        Some(
            held > self.limit || self.unreadable_since.is_some_and(|since| since.elapsed() >= MAX_UNREADABLE),
        )
    }
}

impl MemoryMonitor {
    /// By how much what the whole machine shares in memory has grown since there was the least of it.
    fn system_shmem_growth(&mut self) -> u64 {
        let now = sum_kb_lines(&read_proc_file("/proc", "meminfo"), &["Shmem:"]);
        self.min_system_shmem = self.min_system_shmem.min(now);
        now - self.min_system_shmem
    }
}

/// What the kernel keeps for each area of memory that a process has: the record, and its place among the others. A process may
/// have 65,530 of them, of a page each.
const BYTES_PER_MAPPING: u64 = 224;

impl MemoryMonitor {
    /// How many areas of memory the tree has. Some processes are asked at each look, one after the other; of those that have
    /// not been, it is taken that they have as many as the others.
    fn count_mappings(&mut self, processes: &Processes) -> u64 {
        const ASKED: usize = 16;
        const LONG: Duration = Duration::from_millis(5);
        self.mapping_counts.retain(|pid, _| processes.contains_key(pid));
        let began = Instant::now();
        // Whoever was never asked comes first, then whoever has the next number.
        let unknown = processes.iter().filter(|(pid, _)| !self.mapping_counts.contains_key(*pid));
        let again = processes.range(self.last_counted + 1..).chain(processes.range(..=self.last_counted));
        let asked: Vec<_> = unknown.chain(again).take(ASKED).collect();
        for (pid, process) in asked {
            self.last_counted = if self.mapping_counts.insert(*pid, mapping_count(process)).is_some() {
                *pid
            } else {
                self.last_counted
            };
            if began.elapsed() > LONG {
                break;
            }
        }
        let (known, count) = (self.mapping_counts.values().sum::<u64>(), self.mapping_counts.len() as u64);
        known + known.checked_div(count).unwrap_or(0) * (processes.len() as u64 - count)
    }
}

/// How many areas of memory a process has.
fn mapping_count(process: &Process) -> u64 {
    let maps = fs::read(format!("{}/maps", process.proc_dir)).unwrap_or_default();
    maps.split(|byte| *byte == b'\n').count() as u64
}

/// All processes but this one, which is the first.
fn namespace_processes() -> BTreeSet<RawPid> {
    let names = fs::read_dir("/proc").into_iter().flatten();
    let numbers = names.filter_map(|name| name.ok()?.file_name().to_str()?.parse().ok());
    numbers.filter(|pid| *pid != 1).collect()
}

/// Children of this process, their children, and so on. Who is handed to this process meanwhile is seen the next time.
fn descendants() -> BTreeSet<RawPid> {
    let mut found = BTreeSet::new();
    let mut waiting = child_processes::list();
    while let Some(pid) = waiting.pop() {
        let pid = pid.as_raw_pid();
        if found.insert(pid) {
            let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten();
            let threads = threads.filter_map(|thread| Some(thread.ok()?.path().join("children")));
            waiting.extend(threads.flat_map(child_processes::read_list));
        }
    }
    found
}

/// What the kernel holds for a process, as its status says: the tables of its memory, large pages, and a stack for each thread.
fn kernel_bytes(status: &str) -> u64 {
    const THREAD: u64 = 24 << 10;
    let threads = status.lines().find_map(|line| line.strip_prefix("Threads:")?.trim().parse::<u64>().ok());
    sum_kb_lines(status, &["VmPTE:", "HugetlbPages:"]) + threads.unwrap_or(0) * THREAD
}

/// Bytes of a process as above, where what is shared counts in parts, and without what is counted as a file already. Where the
/// kernel will not say, all of it.
fn pss_bytes(process: &Process, counted: &MemoryFiles) -> u64 {
    /// Areas of memory beyond which it takes too long to ask about each of them.
    const MANY: u64 = 4096;
    let Ok(sums) = read_lossy(format!("{}/smaps_rollup", process.proc_dir)) else {
        return process.resident;
    };
    let status = read_proc_file(&process.proc_dir, "status");
    let shared = match sum_kb_lines(&status, &["RssShmem:"]) {
        0 => 0,
        all if mapping_count(process) > MANY => all,
        _ => shared_pss_bytes(process, counted),
    };
    sum_kb_lines(&sums, &["Pss_Anon:"]) + kernel_bytes(&status) + shared
}

/// Bytes that a process has mapped of memory that is shared.
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

/// Whether a line is the first about an area of memory.
fn is_mapping_header(line: &str) -> bool {
    line.split_ascii_whitespace().next().is_some_and(|first| !first.ends_with(':'))
}

/// Files in memory.
#[derive(Default)]
struct MemoryFiles {
    /// Those that the tree has open, mapped or not, by their inodes, and how many bytes each holds.
    open_files: BTreeMap<u64, u64>,
    /// Bytes of those that have a name, open or not, where these are the tree's own.
    named_bytes: Option<u64>,
    /// Pipes and sockets that the tree has open, by their names in `/proc`.
    pipes: BTreeSet<String>,
    sockets: BTreeSet<String>,
    /// Whether there is a process that may not be looked into.
    has_unreadable: bool,
}

impl MemoryFiles {
    /// Nothing where it was stopped.
    fn scan(processes: &Processes, are_own: bool, is_stopped: &dyn Fn() -> bool) -> Option<Self> {
        let mut files = Self { named_bytes: are_own.then(shm_bytes), ..Self::default() };
        for process in processes.values() {
            if is_stopped() {
                return None;
            }
            // Threads of a process have the same files open, or the filter does not let them be.
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

    /// Bytes that pipes and sockets can hold which nobody has read. Of few of them nothing is made: every program has some.
    fn buffer_bytes(&self) -> u64 {
        const FEW: usize = 32;
        const PIPE: usize = 64 << 10;
        const SOCKET: usize = 208 << 10;
        let beyond = |open: &BTreeSet<String>| open.len().saturating_sub(FEW);
        (beyond(&self.pipes) * PIPE + beyond(&self.sockets) * SOCKET) as u64
    }

    /// Whether a file is counted.
    fn is_counted(&self, inode: u64, name: &str) -> bool {
        self.open_files.contains_key(&inode) || self.named_bytes.is_some() && name.starts_with("/dev/shm/")
    }

    /// Whether an area, told by its line, is of memory that is shared and not counted as a file.
    fn is_uncounted_mapping(&self, line: &str) -> bool {
        // 7f0000000000-7f0000021000 rw-s 00000000 00:01 1034                   /memfd:name (deleted)
        let mut words = line.split_ascii_whitespace().skip(4);
        let file = words.next().and_then(|inode| inode.parse().ok()).unwrap_or(0);
        let is_shared = |name: &str| is_in_memory(name) || name == "/dev/zero";
        words.next().is_some_and(|name| is_shared(name) && !self.is_counted(file, name))
    }

    /// Whether somebody has a part of such memory, of which there may be any amount besides: pages that a process filled and gave
    /// back, or whose addresses it gave up, are there until nobody has any part, and no process is told to have them. Nothing
    /// where it was stopped.
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

/// Bytes of all files whose memory is shared by name, and of the files themselves.
fn shm_bytes() -> u64 {
    rustix::fs::statvfs(DEV_SHM).map_or(0, |about| {
        (about.f_blocks - about.f_bfree) * about.f_frsize + (about.f_files - about.f_ffree) * BYTES_PER_FILE
    })
}

/// What the kernel keeps for each file in memory.
const BYTES_PER_FILE: u64 = 1 << 10;

/// Whether a file of this name lies in memory, where nobody can see it.
fn is_in_memory(name: &str) -> bool {
    name.starts_with("/memfd:") || name.starts_with("/dev/shm/") || name.starts_with("/SYSV")
}

/// The sum of the lines that begin so.
fn sum_kb_lines(text: &str, names: &[&str]) -> u64 {
    let value = |line: &str| {
        let (_, value) = names.iter().find_map(|name| Some((name, line.strip_prefix(name)?)))?;
        value.trim().strip_suffix(" kB")?.parse::<u64>().ok()
    };
    text.lines().filter_map(value).sum::<u64>() * 1024
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_of_the_lines_that_are_named() {
        let text = "Name:\tx\nRssAnon:\t     100 kB\nRssFile:\t      7 kB\nRssShmem:\t      20 kB\n";
        assert_eq!(sum_kb_lines(text, &["RssAnon:", "RssShmem:"]), 120 << 10);
        assert_eq!(sum_kb_lines("Pss_Anon: x\nPss_Anon: 3 kB\nPss: 5 kB", &["Pss_Anon:"]), 3 << 10);
    }

    #[test]
    fn a_process_holds_something_of_its_own() {
        let process = Process::read(std::process::id().cast_signed());
        assert!(process.resident > 1 << 16 && pss_bytes(&process, &MemoryFiles::default()) > 1 << 16);
    }
}
