//! A test that this machine cannot run writes so into `target/not-run.txt`, past the test harness, which keeps what passing
//! tests print. CI begins without that file and fails when it is there at the end.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::PathBuf;

/// Records that something was not run, and why.
pub fn not_run(what: &str, reason: &str) {
    record(&format!("{what}: {reason}"));
}

/// Records a line on what was not run, and says it.
pub fn record(line: &str) {
    print_uncaptured(&format!("not run: {line}"));
    let Some(file) = file() else { return };
    let written = OpenOptions::new().create(true).append(true).open(&file);
    // In one write, so that lines of tests side by side stay whole.
    if let Err(error) = written.and_then(|mut file| file.write_all(format!("{line}\n").as_bytes())) {
        print_uncaptured(&format!("failed to write {}: {error}", file.display()));
    }
}

/// The file in the folder of this build, which is marked as one; a program copied out of it has none, and whoever started it
/// passes its lines on.
fn file() -> Option<PathBuf> {
    let program = std::env::current_exe().ok()?;
    let target = program.ancestors().find(|folder| folder.join("CACHEDIR.TAG").is_file())?;
    Some(target.join("not-run.txt"))
}

/// Says a line on standard error that nobody captures.
#[allow(dead_code, reason = "not every test needs everything")]
pub fn print_uncaptured(line: &str) {
    // In one write, so that lines of tests side by side stay whole.
    std::io::stderr().write_all(format!("{line}\n").as_bytes()).unwrap();
}

/// Where a command lies on `PATH`.
#[allow(dead_code, reason = "not every test needs everything")]
pub fn find_program(command: &str) -> Option<PathBuf> {
    let folders = std::env::var_os("PATH")?;
    std::env::split_paths(&folders).map(|folder| folder.join(command)).find(|path| path.is_file())
}
