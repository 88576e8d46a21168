//! Programs of every kind open, list and remove files where `openat2` is absent, as on Linux before 6.2 in the level `landlock`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use metier::policy::SandboxLevel;

use crate::sandbox::fixture::{self, Fixture, Machine};
use crate::support::go_program;
use crate::support::not_run::{find_program, not_run};

const NODE: &str = include_str!("honest/files.cjs");
const PYTHON: &str = include_str!("honest/files.py");
const C: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/sandbox/honest/files.c");
const GO: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/sandbox/honest/files.go");

#[test]
fn programs_open_files_without_openat2() {
    let machine = Machine { level: SandboxLevel::Landlock, landlock_abi: Some(1) };
    if let Err(reason) = fixture::check_level(machine) {
        return not_run("programs without openat2", &reason);
    }
    open_files(Fixture::python(PYTHON));
    match find_program("node") {
        Some(_) => open_files(Fixture::node(NODE)),
        None => not_run("Node without openat2", "node is not installed"),
    }
    let folder = tempfile::tempdir().unwrap();
    match compile_with_musl(folder.path()) {
        Some(program) => open_files(native(&program)),
        None => not_run("a program of musl without openat2", "musl-gcc is not installed"),
    }
    match go_program::build(Path::new(GO), "files") {
        Some(program) => open_files(native(&program)),
        None => not_run("a program in Go without openat2", "go is not installed"),
    }
}

fn native(program: &Path) -> Fixture {
    Fixture::bash("exec \"$METIER_SKILL_DIR/program\"").file("skills/x/program", fs::read(program).unwrap())
}

fn open_files(fixture: Fixture) {
    let ran = fixture.file("project/out/old", "old").grant("write:out").run();
    ran.assert_stdout("own\nnew\nout own\nremoved\n");
}

fn compile_with_musl(folder: &Path) -> Option<PathBuf> {
    let program = folder.join("program");
    let output = Command::new(find_program("musl-gcc")?)
        .args(["-static", "-o"])
        .arg(&program)
        .arg(C)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(program)
}
