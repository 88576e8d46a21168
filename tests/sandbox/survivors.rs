//! Who is still alive of a run, found the way its host could not be fooled: in the tables of the system.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustix::process::Pid;

/// Processes that carry this text in their environment or arguments, or stand below it as a folder; not this one.
pub fn with_mark(mark: &str) -> Vec<i32> {
    let own = std::process::id().cast_signed();
    all().filter(|pid| *pid != own && is_marked(*pid, mark)).collect()
}

fn is_marked(pid: i32, mark: &str) -> bool {
    let process = PathBuf::from(format!("/proc/{pid}"));
    let holds = |file: &str| {
        let text = fs::read(process.join(file)).unwrap_or_default();
        text.windows(mark.len()).any(|part| part == mark.as_bytes())
    };
    let stands = fs::read_link(process.join("cwd")).is_ok_and(|folder| folder.starts_with(mark));
    stands || holds("environ") || holds("cmdline")
}

/// Fails when somebody marked so lives for longer than a moment.
#[track_caller]
pub fn assert_none(mark: &str) {
    let began = Instant::now();
    while !with_mark(mark).is_empty() {
        assert!(began.elapsed() < Duration::from_secs(1), "{:?} are still alive", with_mark(mark));
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The first process of a run's script.
#[track_caller]
pub fn first_process(mark: &str) -> i32 {
    let began = Instant::now();
    loop {
        let marked = with_mark(mark);
        // Any of them may end, or begin, while this looks.
        let is_first = |pid: &&i32| parent_id(**pid).is_some_and(|parent| !marked.contains(&parent));
        if let Some(first) = marked.iter().find(is_first) {
            return *first;
        }
        assert!(began.elapsed() < Duration::from_secs(5), "nobody runs");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// The parent of a process.
pub fn parent(pid: i32) -> Pid {
    parent_id(pid).and_then(Pid::from_raw).unwrap()
}

/// The parent of a process that may be gone.
fn parent_id(pid: i32) -> Option<i32> {
    stat_fields(pid)?[1].parse().ok()
}

/// Children of this process.
pub fn children() -> Vec<i32> {
    children_of(std::process::id().cast_signed())
}

/// Children of a process.
pub fn children_of(parent: i32) -> Vec<i32> {
    all().filter(|pid| stat_fields(*pid).is_some_and(|words| words[1] == parent.to_string())).collect()
}

/// Children of this process that ended and were not waited for.
pub fn zombies() -> usize {
    children().into_iter().filter(|pid| is_zombie(*pid)).count()
}

/// Whether a process ended and was not waited for.
pub fn is_zombie(pid: i32) -> bool {
    stat_fields(pid).is_some_and(|words| words[0] == "Z")
}

/// KiB of memory a process has of its own and with others.
pub fn resident_kib(pid: i32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.trim().strip_suffix(" kB")?.parse().ok()).unwrap_or_default()
}

fn all() -> impl Iterator<Item = i32> {
    let names = fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    names.filter_map(|name| name.parse().ok())
}

/// The state of a process, its parent, and what else the system says after its name.
fn stat_fields(pid: i32) -> Option<Vec<String>> {
    let status = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, rest) = status.rsplit_once(") ")?;
    Some(rest.split(' ').map(str::to_owned).collect())
}
