//! A program in Go, built without a network.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::not_run::find_program;

/// The program; `None` where Go is not installed. Another user than the one who built the tests runs the program that is there.
pub fn build(source: &Path, name: &str) -> Option<PathBuf> {
    let go = find_program("go")?;
    // All builds share one cache.
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("go");
    let program = folder.join(name);
    match std::fs::create_dir_all(&folder) {
        Ok(()) if rustix::fs::access(&folder, rustix::fs::Access::WRITE_OK).is_ok() => {}
        _ => return program.exists().then_some(program),
    }
    let mut command = Command::new(go);
    command.args(["build", "-o"]).arg(&program).arg(source).current_dir(&folder);
    // Whatever the user has configured, nothing is downloaded and no C compiler is needed.
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("GO")) {
        command.env_remove(name);
    }
    command
        .env("GOENV", "off")
        .env("GOFLAGS", "-mod=mod")
        .env("GOPROXY", "off")
        .env("GOTOOLCHAIN", "local")
        .env("GOCACHE", folder.join("cache"))
        .env("GOPATH", folder.join("path"))
        .env("CGO_ENABLED", "0");
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(program)
}
