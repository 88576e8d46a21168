//! The client in Go, built once without a network.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use crate::not_run::find_program;

/// Names the program for another user, who cannot build it where the tests are.
pub const CLIENT_VARIABLE: &str = "METIER_GO_CLIENT";

const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/egress/client.go");

/// The program; `None` where Go is not installed.
pub fn program() -> Option<&'static Path> {
    static PROGRAM: OnceLock<Option<PathBuf>> = OnceLock::new();
    PROGRAM.get_or_init(|| std::env::var_os(CLIENT_VARIABLE).map(PathBuf::from).or_else(build)).as_deref()
}

fn build() -> Option<PathBuf> {
    let go = find_program("go")?;
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("go-client");
    std::fs::create_dir_all(&folder).unwrap();
    let program = folder.join("client");
    let mut command = Command::new(go);
    command.args(["build", "-o"]).arg(&program).arg(SOURCE).current_dir(&folder);
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
