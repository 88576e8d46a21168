//! What reading the configuration adds to a command: both files and the environment, against reading the bytes of both.

use std::hint::black_box;
use std::path::{Path, PathBuf};

use criterion::Criterion;
use metier::config::{Configuration, load_with_user_file};
use tempfile::TempDir;

const USER: &str = "\
permissions.deny = [\"net:internal.example.com\"]
[limits]
timeout = \"1m\"
memory = \"64MB\"
[sandbox]
mode = \"required\"
[skills.deploy]
grants = [\"write:out\", \"net:api.example.com\", \"secret:TOKEN\"]
config.region = \"eu\"
secrets.TOKEN = { command = [\"pass\", \"show\", \"deploy\"] }
";

const PROJECT: &str = "\
[limits]
timeout = \"10s\"
memory = \"32MB\"
[runtimes]
disabled = [\"external\"]
[skills.deploy]
deny = [\"net\"]
";

/// Writes both files, and returns where they lie: the user's, and that of the project.
pub fn write_files(user: &Path, project: &Path) -> [PathBuf; 2] {
    let files = [user.join("config.toml"), project.join(".metier/config.toml")];
    for (file, text) in files.iter().zip([USER, PROJECT]) {
        std::fs::create_dir_all(file.parent().expect("a folder")).expect("a folder");
        std::fs::write(file, text).expect("a file");
    }
    files
}

pub fn load(criterion: &mut Criterion) {
    let folder = TempDir::new().expect("a folder");
    let project = folder.path().join("project");
    let files = write_files(&folder.path().join("user"), &project);
    let read = || files.each_ref().map(|file| std::fs::read(file).expect("a file"));
    let load = || load_with_user_file(Some(&files[0]), Configuration::new(), |_| Some(project.clone()));
    load().check().expect("a configuration");
    let mut group = criterion.benchmark_group("configuration");
    group.bench_function("read", |b| b.iter(|| black_box(read())));
    group.bench_function("metier", |b| b.iter(|| black_box(load())));
}
