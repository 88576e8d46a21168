//! What all processes of a tree hold together, looked at now and then: no limit of the kernel's counts it.
//!
//! What they share is counted once, but only when it matters: a first sum takes it several times and costs a tenth.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::ErrorKind;
use std::os::linux::fs::MetadataExt;
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
    next: Instant,
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
        let own_memory = *self.own_memory.get_or_insert_with(has_own_memory);
        let files = Files::of(&processes, own_memory, is_stopped)?;
        let kernel = files.bytes() + files.buffers() + self.areas_of(&processes) * AREA;
        let first: u64 = kernel + processes.iter().map(|pid| resident(*pid)).sum::<u64>();
        let held = if first > self.most {
            let mut held = kernel;
            for pid in &processes {
                if held > self.most {
                    break;
                }
                held += if is_stopped() { return None } else { own(*pid, &files) };
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

/// What the kernel keeps for each area of memory that a process has: the record, and its place among the others. A process may
/// have 65,530 of them, of a page each.
const AREA: u64 = 224;

impl Watch {
    /// How many areas of memory the tree has. Some processes are asked at each look, one after the other; of those that have
    /// not been, it is taken that they have as many as the others.
    fn areas_of(&mut self, processes: &BTreeSet<Number>) -> u64 {
        const ASKED: usize = 16;
        const LONG: Duration = Duration::from_millis(5);
        self.areas.retain(|pid, _| processes.contains(pid));
        let began = Instant::now();
        // Whoever was never asked comes first, then whoever has the next number.
        let unknown = processes.iter().filter(|pid| !self.areas.contains_key(*pid));
        let again = processes.range(self.asked_last + 1..).chain(processes.range(..=self.asked_last));
        let asked: Vec<Number> = unknown.chain(again).copied().take(ASKED).collect();
        for pid in asked {
            self.asked_last =
                if self.areas.insert(pid, areas(pid)).is_some() { pid } else { self.asked_last };
            if began.elapsed() > LONG {
                break;
            }
        }
        let (known, count) = (self.areas.values().sum::<u64>(), self.areas.len() as u64);
        known + known.checked_div(count).unwrap_or(0) * (processes.len() as u64 - count)
    }
}

/// How many areas of memory a process has.
fn areas(pid: Number) -> u64 {
    let maps = fs::read(format!("/proc/{pid}/maps")).unwrap_or_default();
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

/// Bytes of a process that are in no file on a disk; what it shares with others counts in full.
fn resident(pid: Number) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    kilobytes(&status, &["RssAnon:", "RssShmem:"]) + kernel(&status)
}

/// What the kernel holds for a process, as its status says: the tables of its memory, large pages, and a stack for each thread.
fn kernel(status: &str) -> u64 {
    const THREAD: u64 = 24 << 10;
    let threads = status.lines().find_map(|line| line.strip_prefix("Threads:")?.trim().parse::<u64>().ok());
    kilobytes(status, &["VmPTE:", "HugetlbPages:"]) + threads.unwrap_or(0) * THREAD
}

/// The same, where what is shared counts in parts, and without what is counted as a file already. Where the kernel will not
/// say, all of it.
fn own(pid: Number, counted: &Files) -> u64 {
    /// Areas of memory beyond which it takes too long to ask about each of them.
    const MANY: u64 = 4096;
    let Ok(sums) = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")) else { return resident(pid) };
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let shared = match kilobytes(&status, &["RssShmem:"]) {
        0 => 0,
        all if areas(pid) > MANY => all,
        _ => shared(pid, counted),
    };
    kilobytes(&sums, &["Pss_Anon:"]) + kernel(&status) + shared
}

/// Bytes that a process has mapped of memory that is shared.
fn shared(pid: Number, counted: &Files) -> u64 {
    let maps = fs::read_to_string(format!("/proc/{pid}/smaps")).unwrap_or_default();
    let mut counts = false;
    let mut bytes = 0;
    for line in maps.lines() {
        // 7f0000000000-7f0000021000 rw-s 00000000 00:01 1034                   /memfd:name (deleted)
        let mut words = line.split_ascii_whitespace();
        let is_mapping = words.next().is_some_and(|first| !first.ends_with(':'));
        if is_mapping {
            let file = words.nth(3).and_then(|inode| inode.parse().ok()).unwrap_or(0);
            let is_shared = |name: &str| is_in_memory(name) || name == "/dev/zero";
            counts = words.next().is_some_and(|name| is_shared(name) && !counted.have(file, name));
        } else if counts {
            bytes += kilobytes(line, &["Pss:"]);
        }
    }
    bytes
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
    fn of(processes: &BTreeSet<Number>, are_own: bool, is_stopped: &dyn Fn() -> bool) -> Option<Self> {
        let mut files = Self { named: are_own.then(named), ..Self::default() };
        for pid in processes {
            if is_stopped() {
                return None;
            }
            let open = fs::read_dir(format!("/proc/{pid}/fd"));
            let is_refused = open.as_ref().is_err_and(|error| error.kind() == ErrorKind::PermissionDenied);
            files.are_closed |= is_refused && is_filtered(*pid);
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
}

/// Bytes of all files whose memory is shared by name, and of the files themselves.
fn named() -> u64 {
    rustix::fs::statvfs(SHARED_MEMORY).map_or(0, |about| {
        (about.f_blocks - about.f_bfree) * about.f_frsize + (about.f_files - about.f_ffree) * FILE
    })
}

/// What the kernel keeps for each file in memory.
const FILE: u64 = 1 << 10;

/// Whether the process is behind a filter of system calls and has memory: of one that is ending, which has none, nobody but
/// root sees more.
fn is_filtered(pid: Number) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    status.lines().any(|line| line == "Seccomp:\t2") && status.lines().any(|line| line.starts_with("VmSize:"))
}

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
        let own_id = std::process::id().cast_signed();
        assert!(resident(own_id) > 1 << 16 && own(own_id, &Files::default()) > 1 << 16);
    }
}
