//! The attackers in C, each compiled once, when it is first needed.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{LazyLock, Mutex};

use tempfile::TempDir;

use crate::sandbox::case::SkipReason;
use crate::support::not_run::find_program;

struct CompiledAttackers {
    folder: TempDir,
    programs: HashMap<String, PathBuf>,
}

static COMPILED: LazyLock<Mutex<CompiledAttackers>> = LazyLock::new(|| {
    Mutex::new(CompiledAttackers { folder: tempfile::tempdir().unwrap(), programs: HashMap::new() })
});

/// Where the sources lie; a copy of them where the package itself may not be read by whoever runs the tests.
pub const SOURCES_VARIABLE: &str = "METIER_SANDBOX_ATTACKERS";

/// The program made of `attackers/NAME.c`.
pub fn program(name: &'static str) -> Result<PathBuf, SkipReason> {
    built(name.into(), name, &[])
}

/// The same as a library that other programs can be made to load.
pub fn library(name: &'static str) -> Result<PathBuf, SkipReason> {
    built(format!("{name}.so"), name, &["-shared", "-fPIC"])
}

/// One that lies beside its source, or that is compiled now.
fn built(file: String, name: &'static str, flags: &[&str]) -> Result<PathBuf, SkipReason> {
    let beside = sources().join(&file);
    if beside.exists() {
        return Ok(beside);
    }
    let compiler = ["cc", "clang", "gcc"].into_iter().find(|compiler| find_program(compiler).is_some());
    let compiler = compiler.ok_or_else(|| SkipReason::Unsupported("there is no C compiler".into()))?;
    // Those of a case that failed are as good as before.
    let mut built = COMPILED.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    if let Some(program) = built.programs.get(&file) {
        return Ok(program.clone());
    }
    let program = built.folder.path().join(&file);
    let made = Command::new(compiler)
        .args(["-O1", "-w"])
        .args(flags)
        .arg("-o")
        .arg(&program)
        .arg(sources().join(name).with_extension("c"))
        .args(["-lrt", "-ldl"])
        .output()
        .unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    built.programs.insert(file, program.clone());
    Ok(program)
}

/// The folder of the attackers.
pub fn sources() -> PathBuf {
    std::env::var_os(SOURCES_VARIABLE)
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/sandbox/attackers"), PathBuf::from)
}
