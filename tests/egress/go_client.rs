//! The client in Go, built once.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use crate::support::go_program;

/// Names the program for another user, who cannot build it where the tests are.
pub const CLIENT_VARIABLE: &str = "METIER_GO_CLIENT";

const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/egress/client.go");

/// The program; `None` where Go is not installed.
pub fn program() -> Option<&'static Path> {
    static PROGRAM: OnceLock<Option<PathBuf>> = OnceLock::new();
    let build = || go_program::build(Path::new(SOURCE), "client");
    PROGRAM.get_or_init(|| std::env::var_os(CLIENT_VARIABLE).map(PathBuf::from).or_else(build)).as_deref()
}
