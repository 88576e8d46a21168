//! A test whose outside tool is missing says so, past the test harness, which keeps what passing tests print.

use std::io::Write;
use std::path::PathBuf;

/// Says on standard error that something was not run, and why.
pub fn not_run(what: &str, reason: &str) {
    say(&format!("not run: {what}: {reason}"));
}

/// Says a line on standard error that nobody captures.
pub fn say(line: &str) {
    // In one write, so that lines of tests side by side stay whole.
    std::io::stderr().write_all(format!("{line}\n").as_bytes()).unwrap();
}

/// Where a command lies on `PATH`.
#[allow(dead_code, reason = "not every test needs everything")]
pub fn found(command: &str) -> Option<PathBuf> {
    let folders = std::env::var_os("PATH")?;
    std::env::split_paths(&folders).map(|folder| folder.join(command)).find(|path| path.is_file())
}
