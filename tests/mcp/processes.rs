//! What runs on this machine, seen from outside.

use std::time::{Duration, Instant};

/// How many `sleep` processes have this in their command line.
pub fn processes(mark: &str) -> usize {
    let is_meant = |entry: &std::fs::DirEntry| {
        let command = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        command.starts_with(b"sleep") && String::from_utf8_lossy(&command).contains(mark)
    };
    std::fs::read_dir("/proc").unwrap().filter_map(Result::ok).filter(is_meant).count()
}

#[track_caller]
pub fn wait_until(holds: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(20);
    while !holds() {
        assert!(Instant::now() < end, "it does not come true");
        std::thread::sleep(Duration::from_millis(10));
    }
}
