//! Links the C++ library of Luau into the command, where its archive is installed: at every start, the loader would look up two
//! thousand names in the shared one, which takes as long as a small run.

use std::env;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

const ARCHIVE: &str = "libstdc++.a";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let is = |name: &str, value: &str| env::var(name).is_ok_and(|found| found == value);
    let is_native = env::var("HOST").ok() == env::var("TARGET").ok();
    let is_gnu = is("CARGO_CFG_TARGET_OS", "linux") && is("CARGO_CFG_TARGET_ENV", "gnu");
    if !is_native || !is_gnu || env::var_os("CARGO_FEATURE_LUA_RUNTIME").is_none() {
        return;
    }
    let (Some(archive), Some(out_dir)) = (archive(), env::var_os("OUT_DIR")) else { return };
    let folder = Path::new(&out_dir).join("cxx");
    if link(&archive, &folder).is_ok() {
        // Searched first, the folder with nothing but the archive decides. Only for the command: a program that embeds the library
        // links C++ as it does for its other parts.
        println!("cargo::rustc-link-arg-bins=-L{}", folder.display());
    }
}

/// Where the compiler has the archive.
fn archive() -> Option<PathBuf> {
    let output = Command::new("cc").arg(format!("-print-file-name={ARCHIVE}")).output().ok()?;
    let path = PathBuf::from(String::from_utf8(output.stdout).ok()?.trim());
    (path.is_absolute() && path.is_file()).then_some(path)
}

fn link(archive: &Path, folder: &Path) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    let link = folder.join(ARCHIVE);
    match fs::remove_file(&link) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => symlink(archive, &link),
    }
}

#[cfg(unix)]
fn symlink(archive: &Path, link: &Path) -> io::Result<()> {
    std::os::unix::fs::symlink(archive, link)
}

#[cfg(not(unix))]
fn symlink(_: &Path, _: &Path) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}
