//! A project, the upper folder of an overlay over it, and a store: what tests of change sets are made of.
#![allow(dead_code, reason = "each test uses a part of it")]

pub mod overlay;

use std::collections::BTreeMap;
use std::fs::{self, File, Permissions};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use metier_changes::{
    ApplyOptions, ApplyReport, Change, ChangeSet, ChangeStore, ReadLimits, ReadRules, RunFacts,
    StoredChangeSet,
};
use rustix::fs::{CWD, FileType, Mode, XattrFlags, mknodat, setxattr};
use tempfile::TempDir;

pub struct Bench {
    pub temp: TempDir,
    pub project: PathBuf,
    pub upper: PathBuf,
    pub store: PathBuf,
}

impl Bench {
    /// A project with these files.
    pub fn new(files: &[(&str, &str)]) -> Self {
        Self::in_folder(tempfile::tempdir().unwrap(), files)
    }

    pub fn in_folder(temp: TempDir, files: &[(&str, &str)]) -> Self {
        let root = temp.path().canonicalize().unwrap();
        let [project, upper, store] = ["project", "upper", "store"].map(|name| root.join(name));
        fs::create_dir(&project).unwrap();
        fs::create_dir(&upper).unwrap();
        let bench = Self { temp, project, upper, store };
        for (path, content) in files {
            write(&bench.project, path, content);
        }
        bench
    }

    pub fn store(&self) -> ChangeStore {
        ChangeStore::open(&self.store).unwrap()
    }

    pub fn project_dir(&self) -> OwnedFd {
        File::open(&self.project).unwrap().into()
    }

    /// What the upper folder says, of a run that began now.
    pub fn read(&self) -> ChangeSet {
        self.try_read(SystemTime::now(), &ReadLimits::default()).unwrap()
    }

    pub fn try_read(
        &self,
        started: SystemTime,
        limits: &ReadLimits,
    ) -> metier_core::error::Result<ChangeSet> {
        self.read_by(started, limits, &ReadRules::default())
    }

    pub fn read_by(
        &self,
        started: SystemTime,
        limits: &ReadLimits,
        rules: &ReadRules<'_>,
    ) -> metier_core::error::Result<ChangeSet> {
        let upper = File::open(&self.upper).unwrap();
        let facts = RunFacts { project: self.project.clone(), skill: "test".to_owned(), started };
        ChangeSet::read(self.project_dir().as_fd(), upper.as_fd(), &facts, limits, rules)
    }

    pub fn keep(&self, set: &ChangeSet) -> StoredChangeSet {
        let upper = File::open(&self.upper).unwrap();
        self.store().keep(set, upper.as_fd()).unwrap()
    }

    /// Reads and stores; returns the id.
    pub fn read_and_keep(&self) -> String {
        self.keep(&self.read()).set.id
    }

    pub fn apply(&self, id: &str, paths: Option<&[&str]>, keep_old: bool) -> ApplyReport {
        let paths = paths.map(|paths| paths.iter().map(|path| (*path).to_owned()).collect());
        let options = ApplyOptions { paths, keep_old, ..ApplyOptions::default() };
        self.store().apply(id, self.project_dir().as_fd(), &options).unwrap()
    }

    pub fn undo(&self, id: &str) -> ApplyReport {
        self.store().undo(id, self.project_dir().as_fd()).unwrap()
    }

    pub fn tree(&self) -> Tree {
        tree(&self.project)
    }
}

/// All paths of a folder, with what a reader sees of each.
pub type Tree = BTreeMap<PathBuf, String>;

pub fn tree(root: &Path) -> Tree {
    let mut found = Tree::new();
    let mut folders = vec![PathBuf::new()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(root.join(&folder)).unwrap() {
            let path = folder.join(entry.unwrap().file_name());
            let about = root.join(&path).symlink_metadata().unwrap();
            let mode = about.mode() & 0o7777;
            let text = if about.is_symlink() {
                format!("link to {}", fs::read_link(root.join(&path)).unwrap().display())
            } else if about.is_dir() {
                folders.push(path.clone());
                format!("folder {mode:o}")
            } else {
                format!("{mode:o} {}", fs::read(root.join(&path)).unwrap().escape_ascii())
            };
            found.insert(path, text);
        }
    }
    found
}

pub fn write(root: &Path, path: &str, content: &str) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
}

pub fn link(root: &Path, path: &str, target: &str) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    symlink(target, path).unwrap();
}

pub fn set_mode(root: &Path, path: &str, mode: u32) {
    fs::set_permissions(root.join(path), Permissions::from_mode(mode)).unwrap();
}

/// As an overlay notes that a path is gone.
pub fn whiteout(upper: &Path, path: &str) {
    let path = upper.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    mknodat(CWD, &path, FileType::CharacterDevice, Mode::empty(), 0).unwrap();
}

/// As an overlay notes that a folder has nothing of the lower one.
pub fn make_opaque(upper: &Path, path: &str) {
    fs::create_dir_all(upper.join(path)).unwrap();
    set_attribute(upper, path, "user.overlay.opaque", b"y");
}

pub fn set_attribute(upper: &Path, path: &str, name: &str, value: &[u8]) {
    setxattr(upper.join(path), name, value, XattrFlags::empty()).unwrap();
}

/// `kind path` of each change, and `from` where it has one.
pub fn kinds(set: &ChangeSet) -> Vec<String> {
    let text = |change: &Change| match &change.from {
        Some(from) => format!("{} {from} => {}", change.kind.name(), change.path),
        None => format!("{} {}", change.kind.name(), change.path),
    };
    set.changes.iter().map(text).collect()
}

/// `path: reason` of what is refused.
pub fn refusals(set: &ChangeSet) -> Vec<String> {
    set.refused.iter().map(|refusal| format!("{}: {}", refusal.path, refusal.reason)).collect()
}

/// `path: reason` of what was not applied.
pub fn conflicts(report: &ApplyReport) -> Vec<String> {
    report.conflicts.iter().map(|conflict| format!("{}: {}", conflict.path, conflict.reason)).collect()
}
