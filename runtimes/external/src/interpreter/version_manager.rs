//! Version managers of the family of rbenv: pyenv, rbenv, nodenv.
//!
//! They put one folder of shims on `PATH`. A shim is a script of the shell that finds out the version to use, from a variable, from a
//! file of the project or from one of the user, and starts the program of that version. This takes some 50 ms at each start, and in a
//! sandbox a shim sees only part of what it reads. So on the `PATH` of a script the folders of the chosen versions come before it.

use std::collections::HashMap;
use std::io::Read;
use std::path::{Component, Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use metier_core::host::open_regular;
use metier_core::host::untrusted::{SymlinkReader, UntrustedDirs};

struct VersionManager {
    /// A program that it has a shim for, which sets this variable.
    program: &'static str,
    root_variable: &'static str,
    /// The variable of the user that names the versions.
    version_variable: &'static str,
    /// The file in a project, or above it, that names them.
    version_file: &'static str,
    /// What may stand before the name of a version.
    version_prefix: &'static str,
    /// Whether `3.11` means the newest release of 3.11.
    completes_versions: bool,
}

const VERSION_MANAGERS: [VersionManager; 3] = [
    VersionManager {
        program: "python",
        root_variable: "PYENV_ROOT",
        version_variable: "PYENV_VERSION",
        version_file: ".python-version",
        version_prefix: "python-",
        completes_versions: true,
    },
    VersionManager {
        program: "ruby",
        root_variable: "RBENV_ROOT",
        version_variable: "RBENV_VERSION",
        version_file: ".ruby-version",
        version_prefix: "ruby-",
        completes_versions: false,
    },
    VersionManager {
        program: "node",
        root_variable: "NODENV_ROOT",
        version_variable: "NODENV_VERSION",
        version_file: ".node-version",
        version_prefix: "node-",
        completes_versions: false,
    },
];

/// What names the programs of the system, which are further behind on `PATH`.
const SYSTEM: &str = "system";

/// Maximum number of versions that are used together.
const MAX_VERSIONS: usize = 16;

/// Maximum number of bytes that are read of a shim or of a file with versions.
const MAX_READ: u64 = 4096;

/// Where shims lead, read once for one look at many scripts. The user may install something later, and a script change its project.
#[derive(Default)]
pub(crate) struct ShimCache {
    links: SymlinkReader,
    /// By the folder of the shims and the directory in which a script runs.
    versions: Mutex<HashMap<(PathBuf, PathBuf), Vec<PathBuf>>>,
}

impl ShimCache {
    fn version_dirs(&self, shims: &Path, working_dir: &Path) -> Vec<PathBuf> {
        let key = (shims.to_owned(), working_dir.to_owned());
        let mut versions = self.versions.lock().unwrap_or_else(PoisonError::into_inner);
        let read = || version_dirs(shims, working_dir, variable).unwrap_or_default();
        versions.entry(key).or_insert_with(read).clone()
    }
}

/// The folders of `PATH`, with those of the versions that a script in this directory uses before shims. The shims stay: where a version
/// is not installed or cannot be told, they say what is wrong, and a program may be named by the path of its shim.
pub(crate) fn precede_shims(
    path_dirs: Vec<PathBuf>,
    working_dir: &Path,
    untrusted: &UntrustedDirs,
    cache: &ShimCache,
) -> Vec<PathBuf> {
    let mut all = Vec::with_capacity(path_dirs.len());
    for folder in path_dirs {
        if folder.ends_with("shims") && !untrusted.may_control_by(&folder, &cache.links) {
            all.extend(cache.version_dirs(&folder, working_dir));
        }
        all.push(folder);
    }
    all
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// The folders with the programs of the versions to which these shims lead; none for those of the system.
fn version_dirs(
    shims: &Path,
    working_dir: &Path,
    variable: impl Fn(&str) -> Option<String>,
) -> Option<Vec<PathBuf>> {
    let (root, manager) = (shims.parent()?, VersionManager::of_shims(shims)?);
    let mut versions = manager.versions(root, working_dir, variable);
    if versions.last().is_some_and(|last| last == SYSTEM) {
        versions.pop();
    }
    versions.iter().map(|version| manager.program_dir(root, version)).collect()
}

impl VersionManager {
    /// The one whose shims are in this folder.
    fn of_shims(folder: &Path) -> Option<&'static Self> {
        let is_of = |manager: &&Self| {
            let shim = read_head(&folder.join(manager.program));
            shim.is_some_and(|shim| shim.contains(&format!("export {}=", manager.root_variable)))
        };
        VERSION_MANAGERS.iter().find(is_of)
    }

    /// The names of the versions, best first.
    fn versions(
        &self,
        root: &Path,
        working_dir: &Path,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Vec<String> {
        if let Some(names) = variable(self.version_variable).filter(|names| !names.is_empty()) {
            return names.split(':').map(str::to_owned).collect();
        }
        let files = working_dir.ancestors().map(|folder| folder.join(self.version_file));
        let text = files.chain([root.join("version")]).find_map(|file| read_head(&file)).unwrap_or_default();
        let words =
            text.lines().filter_map(|line| line.split([' ', '\t', '\r']).find(|word| !word.is_empty()));
        let mut names: Vec<String> =
            words.filter(|word| !word.starts_with('#')).take(MAX_VERSIONS).map(str::to_owned).collect();
        names.dedup();
        names
    }

    /// The folder with the programs of a version, if it is installed.
    fn program_dir(&self, root: &Path, version: &str) -> Option<PathBuf> {
        let versions = root.join("versions");
        let plain = version.strip_prefix(self.version_prefix);
        let installed = [Some(version), plain].into_iter().flatten().find_map(|name| {
            let is_inside = Path::new(name).components().all(|part| matches!(part, Component::Normal(_)));
            let found = is_inside.then(|| versions.join(name)).filter(|folder| folder.is_dir());
            found.or_else(|| newest_release(&versions, name).filter(|_| self.completes_versions))
        });
        Some(installed?.join("bin")).filter(|folder| folder.is_dir())
    }
}

/// The newest installed release whose numbers begin with these.
fn newest_release(versions: &Path, begin: &str) -> Option<PathBuf> {
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let numbers = |name: &str| -> Option<Vec<u64>> {
        name.split('.').map(|part| part.parse().ok().filter(|_| is_number(part))).collect()
    };
    numbers(begin)?;
    let begin = format!("{begin}.");
    let installed = std::fs::read_dir(versions).ok()?.filter_map(Result::ok);
    let names = installed.filter_map(|entry| entry.file_name().into_string().ok());
    let releases =
        names.filter(|name| name.starts_with(&begin)).filter_map(|name| Some((numbers(&name)?, name)));
    releases.max().map(|(_, name)| versions.join(name))
}

/// The beginning of a small text; `None` if there is none at this path.
fn read_head(path: &Path) -> Option<String> {
    let mut bytes = Vec::new();
    open_regular(path).ok()?.take(MAX_READ).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use tempfile::TempDir;

    /// The root of a version manager, and a project.
    struct Fixture(TempDir);

    impl Fixture {
        fn new(root_variable: &str, versions: &[&str]) -> Self {
            let fixture = Self(tempfile::tempdir().unwrap());
            for program in ["python", "ruby", "node"] {
                let shim = format!("#!/usr/bin/env bash\nset -e\nexport {root_variable}=\"/x\"\n");
                fixture.file(&format!("root/shims/{program}"), &shim);
            }
            fixture.file("home/project/sub/file", "");
            for version in versions {
                fs::create_dir_all(fixture.path("root/versions").join(version).join("bin")).unwrap();
            }
            fixture
        }

        fn path(&self, path: &str) -> PathBuf {
            self.0.path().join(path)
        }

        fn file(&self, path: &str, text: &str) {
            fs::create_dir_all(self.path(path).parent().unwrap()).unwrap();
            fs::write(self.path(path), text).unwrap();
        }

        /// The names of the versions; `None` if the shims stay.
        fn chosen(&self, variables: &[(&str, &str)]) -> Option<Vec<String>> {
            let variable = |name: &str| {
                variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
            };
            let folders = version_dirs(&self.path("root/shims"), &self.path("home/project/sub"), variable)?;
            let versions = self.path("root/versions");
            let name = |folder: PathBuf| {
                let version = folder.parent().unwrap().strip_prefix(&versions).unwrap();
                version.to_str().unwrap().to_owned()
            };
            Some(folders.into_iter().map(name).collect())
        }
    }

    #[test]
    fn a_variable_comes_before_the_nearest_file_and_that_before_the_file_of_the_user() {
        let fixture = Fixture::new("PYENV_ROOT", &["3.9.1", "3.10.2", "3.11.7", "2.7.18"]);
        assert_eq!(fixture.chosen(&[]).unwrap(), [""; 0], "the system");
        fixture.file("root/version", "3.9.1\n2.7.18\n");
        assert_eq!(fixture.chosen(&[]).unwrap(), ["3.9.1", "2.7.18"]);
        fixture.file("home/.python-version", "# ours\n\n3.10.2 for work\r\nsystem\n");
        assert_eq!(fixture.chosen(&[]).unwrap(), ["3.10.2"]);
        fixture.file("home/project/.python-version", "3.11.7");
        assert_eq!(fixture.chosen(&[]).unwrap(), ["3.11.7"]);
        assert_eq!(fixture.chosen(&[("PYENV_VERSION", "2.7.18:3.9.1")]).unwrap(), ["2.7.18", "3.9.1"]);
        assert_eq!(fixture.chosen(&[("PYENV_VERSION", ""), ("RBENV_VERSION", "x")]).unwrap(), ["3.11.7"]);
    }

    #[test]
    fn the_begin_of_a_release_means_the_newest_one_where_the_manager_reads_it_so() {
        let versions = ["3.9.18", "3.11.7", "3.11.10", "3.11.12-dev", "3.110.0", "work/3.11.99"];
        let fixture = Fixture::new("PYENV_ROOT", &versions);
        let chosen = |version| fixture.chosen(&[("PYENV_VERSION", version)]);
        assert_eq!(chosen("3.11").unwrap(), ["3.11.10"]);
        assert_eq!(chosen("python-3.9").unwrap(), ["3.9.18"]);
        assert_eq!(chosen("work/3.11.99").unwrap(), ["work/3.11.99"]);
        for none in ["3.12", "03.9", "+3.9", "3.+9", "3.", ".9", "3.9.18.", "3.1"] {
            assert_eq!(chosen(none), None, "{none}");
        }
        let fixture = Fixture::new("RBENV_ROOT", &["3.3.1"]);
        assert_eq!(fixture.chosen(&[("RBENV_VERSION", "3.3")]), None);
        assert_eq!(fixture.chosen(&[("RBENV_VERSION", "ruby-3.3.1")]).unwrap(), ["3.3.1"]);
    }

    #[test]
    fn the_shims_stay_where_they_cannot_be_replaced() {
        let fixture = Fixture::new("PYENV_ROOT", &["3.9.1"]);
        fs::create_dir_all(fixture.path("away/bin")).unwrap();
        let away = fixture.path("away");
        for versions in ["../../away", away.to_str().unwrap(), ".", "3.9.1/..", "system:3.9.1", "3.9.1:none"]
        {
            assert_eq!(fixture.chosen(&[("PYENV_VERSION", versions)]), None, "{versions}");
        }
        // A pipe must not stop the search.
        rustix::fs::mkfifoat(
            rustix::fs::CWD,
            fixture.path("home/project/.python-version"),
            rustix::fs::Mode::RWXU,
        )
        .unwrap();
        assert_eq!(fixture.chosen(&[]).unwrap(), [""; 0]);
        assert_eq!(Fixture::new("OTHER_ROOT", &["3.9.1"]).chosen(&[]), None);
    }

    #[test]
    fn only_shims_of_the_user_are_preceded() {
        let fixture = Fixture::new("NODENV_ROOT", &["20.1.0"]);
        fixture.file("root/version", "20.1.0");
        let project = fixture.path("home/project");
        let shims = fixture.path("root/shims");
        let path = || vec![PathBuf::from("/first"), shims.clone(), PathBuf::from("/last")];
        let cache = ShimCache::default();
        let searched =
            |untrusted: &Path| precede_shims(path(), &project, &UntrustedDirs::new([untrusted]), &cache);
        let versions = fixture.path("root/versions/20.1.0/bin");
        let preceded = ["/first".into(), versions, shims.clone(), PathBuf::from("/last")];
        assert_eq!(searched(&project), preceded);
        // The same look finds the same for the next script, also one that distrusts the shims.
        fixture.file("root/version", "");
        assert_eq!(searched(&project), preceded);
        assert_eq!(searched(&fixture.path("root")), path());
    }
}
