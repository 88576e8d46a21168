//! Tests that measure their own process, each in one of its own.

/// Runs this test again in a process in which no other test runs; true in that process.
pub fn is_alone(test: &str) -> bool {
    const ALONE: &str = "METIER_TEST_RUNS_ALONE";
    if std::env::var_os(ALONE).is_some() {
        return true;
    }
    // What it says of what was not run is passed on.
    let output = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env(ALONE, "1")
        .stderr(std::process::Stdio::inherit())
        .output()
        .unwrap();
    let out = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && out.contains("1 passed"), "{test}: {out}");
    false
}
