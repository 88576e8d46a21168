//! A project in a temporary folder. Each suite has a type of its own, to which it adds what its tests write into one and do with it.

use std::fs;
use std::marker::PhantomData;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

/// A project that is removed after the test, in a folder of its own.
pub struct Project<Suite>(TempDir, PathBuf, PhantomData<Suite>);

impl<Suite> Project<Suite> {
    pub fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("project");
        fs::create_dir(&root).unwrap();
        Self(folder, root, PhantomData)
    }

    pub fn root(&self) -> &Path {
        &self.1
    }

    pub fn path(&self, path: &str) -> PathBuf {
        self.root().join(path)
    }

    /// A home outside of the project, which need not exist.
    pub fn home(&self) -> PathBuf {
        self.0.path().join("home")
    }

    /// Writes a file, and the folders it needs.
    pub fn file(self, path: &str, text: impl AsRef<[u8]>) -> Self {
        write(&self.path(path), text);
        self
    }

    /// Creates a link, and the folders it needs.
    #[cfg(unix)]
    pub fn link(self, target: impl AsRef<Path>, path: &str) -> Self {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::os::unix::fs::symlink(target, path).unwrap();
        self
    }

    /// Puts a copy of the project in its place: another project at the same path. The first one is beside it.
    #[cfg(unix)]
    pub fn replace(&self) -> PathBuf {
        let aside = self.root().with_file_name("aside");
        fs::rename(self.root(), &aside).unwrap();
        let copied = std::process::Command::new("cp").arg("-r").arg(&aside).arg(self.root()).status();
        assert!(copied.unwrap().success());
        aside
    }

    /// A file's text; empty if there is none.
    pub fn read(&self, path: &str) -> String {
        fs::read_to_string(self.path(path)).unwrap_or_default()
    }
}

/// Writes a file, and the folders it needs.
pub fn write(path: &Path, text: impl AsRef<[u8]>) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}
