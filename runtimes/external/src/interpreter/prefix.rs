//! The folders that an interpreter outside of the system reads.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

use crate::interpreter::path::is_executable_file;
use crate::system_paths::is_system_path;
use metier_core::host::untrusted;
use metier_core::host::untrusted::{MAX_SYMLINKS, UntrustedDirs};

/// Interpreters that scripts of other languages often start.
pub(crate) const COMMON_INTERPRETERS: [&str; 3] = ["python3", "python", "node"];

/// The paths that this program reads, that other programs of its name in `path_dirs` read, and that common interpreters read.
///
/// A symlink that an untrusted party may control adds a path only if it leads to a complete installation of an interpreter. The
/// result may still contain paths that an untrusted party controls; the caller removes them.
pub(crate) fn readable_paths(
    program: &Path,
    path_dirs: &[PathBuf],
    untrusted: &UntrustedDirs,
) -> BTreeSet<PathBuf> {
    let names = COMMON_INTERPRETERS.map(Path::new).into_iter().chain(program.file_name().map(Path::new));
    let names: BTreeSet<&Path> = names.collect();
    let folders = path_dirs.iter().filter(|folder| !is_system_path(folder));
    let candidates =
        folders.flat_map(|folder| names.iter().map(|name| folder.join(name)).collect::<Vec<_>>());
    let programs = candidates.filter(|program| is_executable_file(program)).chain([program.to_owned()]);
    programs.flat_map(|program| program_paths(&program, untrusted)).collect()
}

/// The paths beside the program and beside each symlink on the way to it. After the first symlink that an untrusted party may
/// control, only a complete installation counts.
fn program_paths(program: &Path, untrusted: &UntrustedDirs) -> Vec<PathBuf> {
    let real = std::fs::canonicalize(program).ok();
    let mut paths = Vec::new();
    let mut next = Some(program.to_owned());
    for _ in 0..MAX_SYMLINKS {
        let Some(path) = next.take() else { break };
        if path.parent().is_none_or(|folder| untrusted.may_control(folder)) {
            paths.extend(real.as_deref().and_then(complete_install_paths).into_iter().flatten());
            return paths;
        }
        paths.extend(paths_beside_program(&path));
        next = std::fs::read_link(&path).ok().map(|target| path.with_file_name(target));
    }
    paths.extend(real.into_iter().flat_map(|real| paths_beside_program(&real)));
    paths
}

/// The entries beside `bin` that belong to an interpreter or a virtual environment. The folder may contain anything else, since
/// a `bin/python3` may be anywhere.
const PREFIX_ENTRIES: [&str; 8] =
    ["bin", "lib", "lib32", "lib64", "libexec", "include", "share", "pyvenv.cfg"];

/// The entries beside `shims` by which the folder of a version manager is known. The whole folder belongs to it.
pub(crate) const VERSION_MANAGER_DIRS: [&str; 2] = ["versions", "installs"];

/// The prefix entries for `PREFIX/bin/python3`, the root of the version manager for `ROOT/shims/python3`, and otherwise the file
/// alone.
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

/// The prefix entries of a complete installation: a program, at its real path, with the standard library beside it. Neither a
/// virtual environment nor an ordinary program has one.
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

/// Whether there is a file like `lib/python3.13/os.py`. Virtual environments have none.
fn has_python_stdlib(prefix: &Path) -> bool {
    let folders = std::fs::read_dir(prefix.join("lib")).into_iter().flatten().filter_map(Result::ok);
    let is_library = |name: &str| name.starts_with("python") || name.starts_with("pypy");
    folders
        .filter(|folder| folder.file_name().to_str().is_some_and(is_library))
        .any(|folder| folder.path().join("os.py").is_file())
}

fn prefix_entries(prefix: &Path) -> Vec<PathBuf> {
    PREFIX_ENTRIES.map(|part| prefix.join(part)).to_vec()
}

/// The real path of the folder above that of the program.
fn prefix_dir(program: &Path) -> Option<PathBuf> {
    std::fs::canonicalize(program.parent()?.parent()?).ok()
}

/// Whether this is the root, a folder with home directories, a home directory, or a `.local`, which has the data of all programs
/// of a user: key rings are in `~/.local/share`.
fn is_shared_dir(prefix: &Path) -> bool {
    let mut parts = prefix.components().filter(|part| matches!(part, Component::Normal(_)));
    let is_home = match parts.next() {
        None => true,
        Some(first) => first.as_os_str() == "home" && parts.nth(1).is_none(),
    };
    let is_dot_local = prefix.file_name().is_some_and(|name| name == ".local");
    is_home || is_dot_local || untrusted::home_dirs().iter().any(|home| home.starts_with(prefix))
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
