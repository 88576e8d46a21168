//! What all processes of a tree hold together, looked at now and then: no limit of the kernel's counts it.
//!
//! What they share is counted once, but only when it matters: a first sum takes it several times and costs a tenth.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::ErrorKind;
use std::os::linux::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

use super::children;
use super::mounts::{SHARED_MEMORY, has_own_memory};

/// A process's.
type Number = i32;

/// Looks at a tree from the process that all of it descends from.
pub(super) struct Watch {
    most: u64,
    peak: u64,
    /// Whether `/proc` lists the tree and nobody else.
    own_proc: bool,
    /// Whether what is shared by name is the tree's own, once that was looked up.
    own_memory: Option<bool>,
    /// How many areas of memory each process had when it was last asked.
    areas: BTreeMap<Number, u64>,
    /// Who was asked last of those that had been before.
    asked_last: Number,
    /// Since when there has always been somebody who may not be looked into.
    closed_since: Option<Instant>,
    /// The least that the whole machine was seen to share.
    least_shared: u64,
    next: Instant,
}

/// The processes of a tree, by their numbers.
type Processes = BTreeMap<Number, Process>;

/// A process, as it was when a look began.
struct Process {
    /// Where it can be looked into: a process whose first thread has ended says nothing of what its other threads hold.
    at: String,
    /// Bytes that are in no file on a disk; what it shares with others counts in full.
    resident: u64,
}

impl Process {
    fn of(pid: Number) -> Self {
        let at = format!("/proc/{pid}");
        let status = text(&at, "status");
        if has_memory(&status) {
            return Self::at(at, &status);
        }
        let threads = fs::read_dir(format!("{at}/task")).into_iter().flatten();
        let threads = threads.filter_map(|thread| Some(thread.ok()?.path().to_str()?.to_owned()));
        let others = threads.map(|thread| (text(&thread, "status"), thread));
        let living = others.into_iter().find(|(status, _)| has_memory(status));
        living.map_or_else(|| Self::at(at, &status), |(status, thread)| Self::at(thread, &status))
    }

    fn at(at: String, status: &str) -> Self {
        let resident = kilobytes(status, &["RssAnon:", "RssShmem:"]) + kernel(status);
        Self { at, resident }
    }

    /// Whether it is behind a filter of system calls and has memory: of one that is ending, which by now has none, nobody but
    /// root sees more.
    fn is_filtered(&self) -> bool {
        let status = text(&self.at, "status");
        has_memory(&status) && status.lines().any(|line| line == "Seccomp:\t2")
    }
}

fn has_memory(status: &str) -> bool {
    status.lines().any(|line| line.starts_with("VmSize:"))
}

/// What the kernel says of a process in a file of this name.
fn text(at: &str, name: &str) -> String {
    said(format!("{at}/{name}")).unwrap_or_default()
}

/// A file of the kernel's. Names of processes and files in it need be no text.
pub(super) fn said(path: impl AsRef<Path>) -> std::io::Result<String> {
    fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

/// How long the tree is left alone at least, how many times as long as a look took, and at most: a tree can make a look long.
const BETWEEN: Duration = Duration::from_millis(50);
const RESTS: u32 = 20;
const AT_MOST: Duration = Duration::from_secs(4);

/// How long processes may keep from being looked into, as one does that is just about to become the program: a program that
/// may be run and not read holds what it likes.
const CLOSED: Duration = Duration::from_millis(500);

impl Watch {
    pub(super) fn new(most: u64, own_proc: bool) -> Self {
        let next = Instant::now() + BETWEEN;
        Self {
            most,
            peak: 0,
            own_proc,
            own_memory: None,
            areas: BTreeMap::new(),
            asked_last: 0,
            closed_since: None,
            least_shared: u64::MAX,
            next,
        }
    }

    /// When to look next.
    pub(super) fn next(&self) -> Instant {
        self.next
    }

    /// The most that was seen.
    pub(super) fn peak(&self) -> u64 {
        self.peak
    }

    /// Looks, where it is time, and says whether the tree holds more than it may. A tree can make a look long, so that it ends
    /// when there is something else to do.
    pub(super) fn is_over(&mut self, has_begun: bool, is_stopped: impl Fn() -> bool) -> bool {
        let began = Instant::now();
        if began < self.next {
            return false;
        }
        let is_over = self.look(has_begun, &is_stopped).unwrap_or(false);
        self.next = Instant::now() + (began.elapsed() * RESTS).clamp(BETWEEN, AT_MOST);
        is_over
    }

    /// Nothing where it was stopped.
    fn look(&mut self, has_begun: bool, is_stopped: &dyn Fn() -> bool) -> Option<bool> {
        let processes = if self.own_proc { everyone() } else { descendants() };
        let processes: Processes = processes.into_iter().map(|pid| (pid, Process::of(pid))).collect();
        let own_memory = *self.own_memory.get_or_insert_with(has_own_memory);
        let files = Files::of(&processes, own_memory, is_stopped)?;
        let kernel = files.bytes() + files.buffers() + self.areas_of(&processes) * AREA;
        let first: u64 = kernel + processes.values().map(|process| process.resident).sum::<u64>();
        let grown = self.grown();
        let held = if grown > self.most && files.are_hidden(&processes, is_stopped)? {
            kernel + grown
        } else if first > self.most {
            let mut held = kernel;
            for process in processes.values() {
                if held > self.most {
                    break;
                }
                held += if is_stopped() { return None } else { own(process, &files) };
            }
            held
        } else {
            first
        };
        self.peak = self.peak.max(held);
        let closed_since = self.closed_since.take().filter(|_| files.are_closed);
        // On its way to become the program the leader itself may not be looked into, however long that takes.
        let are_closed = has_begun && files.are_closed;
        self.closed_since = closed_since.or_else(|| are_closed.then(Instant::now));
        Some(held > self.most || self.closed_since.is_some_and(|since| since.elapsed() >= CLOSED))
    }
}

impl Watch {
    /// By how much what the whole machine shares in memory has grown since there was the least of it.
    fn grown(&mut self) -> u64 {
        let now = kilobytes(&text("/proc", "meminfo"), &["Shmem:"]);
        self.least_shared = self.least_shared.min(now);
        now - self.least_shared
    }
}

/// What the kernel keeps for each area of memory that a process has: the record, and its place among the others. A process may
/// have 65,530 of them, of a page each.
const AREA: u64 = 224;

impl Watch {
    /// How many areas of memory the tree has. Some processes are asked at each look, one after the other; of those that have
    /// not been, it is taken that they have as many as the others.
    fn areas_of(&mut self, processes: &Processes) -> u64 {
        const ASKED: usize = 16;
        const LONG: Duration = Duration::from_millis(5);
        self.areas.retain(|pid, _| processes.contains_key(pid));
        let began = Instant::now();
        // Whoever was never asked comes first, then whoever has the next number.
        let unknown = processes.iter().filter(|(pid, _)| !self.areas.contains_key(*pid));
        let again = processes.range(self.asked_last + 1..).chain(processes.range(..=self.asked_last));
        let asked: Vec<_> = unknown.chain(again).take(ASKED).collect();
        for (pid, process) in asked {
            self.asked_last =
                if self.areas.insert(*pid, areas(process)).is_some() { *pid } else { self.asked_last };
            if began.elapsed() > LONG {
                break;
            }
        }
        let (known, count) = (self.areas.values().sum::<u64>(), self.areas.len() as u64);
        known + known.checked_div(count).unwrap_or(0) * (processes.len() as u64 - count)
    }
}

/// How many areas of memory a process has.
fn areas(process: &Process) -> u64 {
    let maps = fs::read(format!("{}/maps", process.at)).unwrap_or_default();
    maps.split(|byte| *byte == b'\n').count() as u64
}

/// All processes but this one, which is the first.
fn everyone() -> BTreeSet<Number> {
    let names = fs::read_dir("/proc").into_iter().flatten();
    let numbers = names.filter_map(|name| name.ok()?.file_name().to_str()?.parse().ok());
    numbers.filter(|pid| *pid != 1).collect()
}

/// Children of this process, their children, and so on. Who is handed to this process meanwhile is seen the next time.
fn descendants() -> BTreeSet<Number> {
    let mut found = BTreeSet::new();
    let mut waiting = children::own();
    while let Some(pid) = waiting.pop() {
        let pid = pid.as_raw_pid();
        if found.insert(pid) {
            let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten();
            let threads = threads.filter_map(|thread| Some(thread.ok()?.path().join("children")));
            waiting.extend(threads.flat_map(children::of));
        }
    }
    found
}

/// What the kernel holds for a process, as its status says: the tables of its memory, large pages, and a stack for each thread.
fn kernel(status: &str) -> u64 {
    const THREAD: u64 = 24 << 10;
    let threads = status.lines().find_map(|line| line.strip_prefix("Threads:")?.trim().parse::<u64>().ok());
    kilobytes(status, &["VmPTE:", "HugetlbPages:"]) + threads.unwrap_or(0) * THREAD
}

/// Bytes of a process as above, where what is shared counts in parts, and without what is counted as a file already. Where the
/// kernel will not say, all of it.
fn own(process: &Process, counted: &Files) -> u64 {
    /// Areas of memory beyond which it takes too long to ask about each of them.
    const MANY: u64 = 4096;
    let Ok(sums) = said(format!("{}/smaps_rollup", process.at)) else {
        return process.resident;
    };
    let status = text(&process.at, "status");
    let shared = match kilobytes(&status, &["RssShmem:"]) {
        0 => 0,
        all if areas(process) > MANY => all,
        _ => shared(process, counted),
    };
    kilobytes(&sums, &["Pss_Anon:"]) + kernel(&status) + shared
}

/// Bytes that a process has mapped of memory that is shared.
fn shared(process: &Process, counted: &Files) -> u64 {
    let mut counts = false;
    let mut bytes = 0;
    for line in text(&process.at, "smaps").lines() {
        if is_mapping(line) {
            counts = counted.lack(line);
        } else if counts {
            bytes += kilobytes(line, &["Pss:"]);
        }
    }
    bytes
}

/// Whether a line is the first about an area of memory.
fn is_mapping(line: &str) -> bool {
    line.split_ascii_whitespace().next().is_some_and(|first| !first.ends_with(':'))
}

/// Files in memory.
#[derive(Default)]
struct Files {
    /// Those that the tree has open, mapped or not, by their inodes, and how many bytes each holds.
    open: BTreeMap<u64, u64>,
    /// Bytes of those that have a name, open or not, where these are the tree's own.
    named: Option<u64>,
    /// Pipes and sockets that the tree has open, by their names in `/proc`.
    pipes: BTreeSet<String>,
    sockets: BTreeSet<String>,
    /// Whether there is a process that may not be looked into.
    are_closed: bool,
}

impl Files {
    /// Nothing where it was stopped.
    fn of(processes: &Processes, are_own: bool, is_stopped: &dyn Fn() -> bool) -> Option<Self> {
        let mut files = Self { named: are_own.then(named), ..Self::default() };
        for process in processes.values() {
            if is_stopped() {
                return None;
            }
            // Threads of a process have the same files open, or the filter does not let them be.
            let open = fs::read_dir(format!("{}/fd", process.at));
            let is_refused = open.as_ref().is_err_and(|error| error.kind() == ErrorKind::PermissionDenied);
            files.are_closed |= is_refused && process.is_filtered();
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
                    && !files.have(about.st_ino(), name)
                {
                    files.open.insert(about.st_ino(), about.st_blocks() * 512);
                }
            }
        }
        Some(files)
    }

    fn bytes(&self) -> u64 {
        self.open.values().sum::<u64>() + self.named.unwrap_or(0)
    }

    /// Bytes that pipes and sockets can hold which nobody has read. Of few of them nothing is made: every program has some.
    fn buffers(&self) -> u64 {
        const FEW: usize = 32;
        const PIPE: usize = 64 << 10;
        const SOCKET: usize = 208 << 10;
        let beyond = |open: &BTreeSet<String>| open.len().saturating_sub(FEW);
        (beyond(&self.pipes) * PIPE + beyond(&self.sockets) * SOCKET) as u64
    }

    /// Whether a file is counted.
    fn have(&self, inode: u64, name: &str) -> bool {
        self.open.contains_key(&inode) || self.named.is_some() && name.starts_with("/dev/shm/")
    }

    /// Whether an area, told by its line, is of memory that is shared and not counted as a file.
    fn lack(&self, line: &str) -> bool {
        // 7f0000000000-7f0000021000 rw-s 00000000 00:01 1034                   /memfd:name (deleted)
        let mut words = line.split_ascii_whitespace().skip(4);
        let file = words.next().and_then(|inode| inode.parse().ok()).unwrap_or(0);
        let is_shared = |name: &str| is_in_memory(name) || name == "/dev/zero";
        words.next().is_some_and(|name| is_shared(name) && !self.have(file, name))
    }

    /// Whether somebody has a part of such memory, of which there may be any amount besides: pages that a process filled and gave
    /// back, or whose addresses it gave up, are there until nobody has any part, and no process is told to have them. Nothing
    /// where it was stopped.
    fn are_hidden(&self, processes: &Processes, is_stopped: &dyn Fn() -> bool) -> Option<bool> {
        for process in processes.values() {
            if is_stopped() {
                return None;
            }
            let maps = text(&process.at, "maps");
            if maps.lines().any(|line| self.lack(line)) {
                return Some(true);
            }
        }
        Some(false)
    }
}

/// Bytes of all files whose memory is shared by name, and of the files themselves.
fn named() -> u64 {
    rustix::fs::statvfs(SHARED_MEMORY).map_or(0, |about| {
        (about.f_blocks - about.f_bfree) * about.f_frsize + (about.f_files - about.f_ffree) * FILE
    })
}

/// What the kernel keeps for each file in memory.
const FILE: u64 = 1 << 10;

/// Whether a file of this name lies in memory, where nobody can see it.
fn is_in_memory(name: &str) -> bool {
    name.starts_with("/memfd:") || name.starts_with("/dev/shm/") || name.starts_with("/SYSV")
}

/// The sum of the lines that begin so.
fn kilobytes(text: &str, names: &[&str]) -> u64 {
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
        assert_eq!(kilobytes(text, &["RssAnon:", "RssShmem:"]), 120 << 10);
        assert_eq!(kilobytes("Pss_Anon: x\nPss_Anon: 3 kB\nPss: 5 kB", &["Pss_Anon:"]), 3 << 10);
    }

    #[test]
    fn a_process_holds_something_of_its_own() {
        let process = Process::of(std::process::id().cast_signed());
        assert!(process.resident > 1 << 16 && own(&process, &Files::default()) > 1 << 16);
    }
}
