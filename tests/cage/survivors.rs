//! Who is still alive of a run, found the way its host could not be fooled: in the tables of the system.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

/// Processes that carry this text in their environment or arguments, or stand below it as a folder; not this one.
pub fn of(mark: &str) -> Vec<i32> {
    let own = std::process::id().to_string();
    let processes =
        fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let numbers = processes.filter(|name| name.bytes().all(|byte| byte.is_ascii_digit()) && *name != own);
    numbers.filter(|number| is_marked(number, mark)).filter_map(|number| number.parse().ok()).collect()
}

fn is_marked(number: &str, mark: &str) -> bool {
    let process = Path::new("/proc").join(number);
    let holds = |file: &str| {
        let text = fs::read(process.join(file)).unwrap_or_default();
        text.windows(mark.len()).any(|part| part == mark.as_bytes())
    };
    let stands = fs::read_link(process.join("cwd")).is_ok_and(|folder| folder.starts_with(mark));
    stands || holds("environ") || holds("cmdline")
}

/// Fails when somebody marked so lives for longer than a moment.
#[track_caller]
pub fn none(mark: &str) {
    let began = Instant::now();
    while !of(mark).is_empty() {
        assert!(began.elapsed() < Duration::from_secs(1), "{:?} are still alive", of(mark));
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The first process of a run's script.
#[track_caller]
pub fn leader(mark: &str) -> i32 {
    let marked = of(mark);
    let first = marked.iter().find(|pid| !marked.contains(&parent(**pid).as_raw_pid()));
    *first.unwrap_or_else(|| panic!("nobody runs"))
}

/// The parent of a process.
pub fn parent(pid: i32) -> rustix::process::Pid {
    let status = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let (_, rest) = status.rsplit_once(") ").unwrap();
    rustix::process::Pid::from_raw(rest.split(' ').nth(1).unwrap().parse().unwrap()).unwrap()
}
