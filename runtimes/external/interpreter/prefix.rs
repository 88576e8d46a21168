//! Where interpreters outside of the system keep what they read.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

use crate::host::untrusted;
use crate::host::untrusted::{MAX_SYMLINKS, UntrustedDirs};
use crate::runtimes::external::interpreter::detect::is_executable_file;
use crate::runtimes::external::policy::is_system_path;

/// Interpreters that scripts of other languages call.
pub(in crate::runtimes::external) const COMMON_INTERPRETERS: [&str; 3] = ["python3", "python", "node"];

/// What is to be read for this program, for whatever else in the folders of `PATH` has its name, and for the interpreters that
/// scripts call. Of what a stranger's links lead to, nothing but whole interpreters is among it; what itself is a stranger's, or
/// is reached through them, is still to be left out.
pub(in crate::runtimes::external) fn readable_paths(
    program: &Path,
    folders: &[PathBuf],
    strangers: &UntrustedDirs,
) -> BTreeSet<PathBuf> {
    let names = COMMON_INTERPRETERS.map(Path::new).into_iter().chain(program.file_name().map(Path::new));
    let names: BTreeSet<&Path> = names.collect();
    let folders = folders.iter().filter(|folder| !is_system_path(folder));
    let called = folders.flat_map(|folder| names.iter().map(|name| folder.join(name)).collect::<Vec<_>>());
    let programs = called.filter(|program| is_executable_file(program)).chain([program.to_owned()]);
    // Most programs have the same.
    programs.flat_map(|program| readable_paths_of(&program, strangers)).collect()
}

/// Beside the file, and beside each link to it. From the first one on that is a stranger's, what lies beside proves nothing.
fn readable_paths_of(program: &Path, strangers: &UntrustedDirs) -> Vec<PathBuf> {
    let real = std::fs::canonicalize(program).ok();
    let mut homes = Vec::new();
    let mut next = Some(program.to_owned());
    for _ in 0..MAX_SYMLINKS {
        let Some(path) = next.take() else { break };
        if path.parent().is_none_or(|folder| strangers.may_control(folder)) {
            homes.extend(real.as_deref().and_then(complete_install_paths).into_iter().flatten());
            return homes;
        }
        homes.extend(paths_beside_program(&path));
        next = std::fs::read_link(&path).ok().map(|target| path.with_file_name(target));
    }
    homes.extend(real.into_iter().flat_map(|real| paths_beside_program(&real)));
    homes
}

/// What lies beside `bin` in the folder of an interpreter or of an environment of one. Whatever else is in that folder is not
/// theirs: `bin/python3` may stand in anything.
const PREFIX_ENTRIES: [&str; 8] =
    ["bin", "lib", "lib32", "lib64", "libexec", "include", "share", "pyvenv.cfg"];

/// What lies beside `shims` in the folder of a version manager, which is its own as a whole.
pub(in crate::runtimes::external) const VERSION_MANAGER_DIRS: [&str; 2] = ["versions", "installs"];

/// The parts of `PREFIX/bin/python3`, the root of the version manager of `ROOT/shims/python3`, and the file alone where the
/// folder above holds more than an interpreter.
fn paths_beside_program(program: &Path) -> Vec<PathBuf> {
    let folder = program.parent().and_then(Path::file_name);
    let above = || prefix_dir(program).filter(|above| !is_shared_dir(above));
    let found = match folder {
        Some(name) if name == "bin" => above().map(|prefix| prefix_entries(&prefix)),
        Some(name) if name == "shims" => above()
            .filter(|root| VERSION_MANAGER_DIRS.iter().any(|part| root.join(part).is_dir()))
            .map(|root| vec![root]),
        _ => None,
    };
    found.unwrap_or_else(|| vec![program.to_owned()])
}

/// The parts of a whole interpreter at this path, which has no links: the program and its own library, as nobody keeps it but
/// who installs an interpreter. An environment has none, and neither has a program of somebody's own.
fn complete_install_paths(program: &Path) -> Option<Vec<PathBuf>> {
    let is_in_bin = program.parent().and_then(Path::file_name).is_some_and(|name| name == "bin");
    let prefix = prefix_dir(program).filter(|prefix| is_in_bin && !is_shared_dir(prefix))?;
    let name = program.file_name()?.to_str()?;
    let has_library = match name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.') {
        "python" => has_python_stdlib(&prefix),
        "node" => {
            prefix.join("include/node/node.h").is_file() || prefix.join("lib/node_modules/npm").is_dir()
        }
        _ => false,
    };
    (has_library && is_executable_file(program)).then(|| prefix_entries(&prefix))
}

/// Whether there is a `lib/python3.13/os.py`: no environment has one.
fn has_python_stdlib(prefix: &Path) -> bool {
    let folders = std::fs::read_dir(prefix.join("lib")).into_iter().flatten().filter_map(Result::ok);
    let own = |name: &str| name.starts_with("python") || name.starts_with("pypy");
    folders
        .filter(|folder| folder.file_name().to_str().is_some_and(own))
        .any(|folder| folder.path().join("os.py").is_file())
}

fn prefix_entries(prefix: &Path) -> Vec<PathBuf> {
    PREFIX_ENTRIES.map(|part| prefix.join(part)).to_vec()
}

/// The folder above the one in which the program lies.
fn prefix_dir(program: &Path) -> Option<PathBuf> {
    std::fs::canonicalize(program.parent()?.parent()?).ok()
}

/// Everything, all homes, somebody's home, or what all of somebody's programs keep: key rings are in `~/.local/share`.
fn is_shared_dir(prefix: &Path) -> bool {
    let mut parts = prefix.components().filter(|part| matches!(part, Component::Normal(_)));
    let is_home = match parts.next() {
        None => true,
        Some(first) => first.as_os_str() == "home" && parts.nth(1).is_none(),
    };
    let is_of_all = prefix.file_name().is_some_and(|name| name == ".local");
    is_home || is_of_all || untrusted::home_dirs().iter().any(|home| home.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_all_of_somebodys_programs_keep_is_no_home_of_an_interpreter() {
        for prefix in
            ["/", "/home", "/home/ann", "/home/ann/.local", "/srv/people/ann/.local", "/var/lib/x/.local"]
        {
            assert!(is_shared_dir(Path::new(prefix)), "{prefix}");
        }
        assert!(
            !is_shared_dir(Path::new("/opt/python"))
                && !is_shared_dir(Path::new("/home/ann/.pyenv/versions/3"))
        );
        assert!(untrusted::home_dirs().iter().all(|home| is_shared_dir(home)));
    }
}
