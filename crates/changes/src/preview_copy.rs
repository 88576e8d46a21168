//! A copy of a project for one run: an overlay or a delta shows the project, and what the run changes goes to a folder of the user's, which
//! ends with the run.

use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use metier_core::error::{ErrorKind, Result, SkillError};
use metier_core::host::files::Delta;
use metier_core::host::{DirCleaner, metier_dirs};
use metier_sandbox::{OverlayError, OverlayRequest};
use rustix::fs::{FlockOperation, flock};

use super::model::ChangeSet;
use super::reader::{ReadLimits, ReadRules, RunFacts, random_id};

/// A copy of a project, and what a run changes in it.
pub struct PreviewCopy {
    /// The project itself.
    project: OwnedFd,
    facts: RunFacts,
    folder: UpperFolder,
    /// By which the run changes the copy, if it has no overlay.
    delta: Option<Arc<Delta>>,
}

impl PreviewCopy {
    /// Makes a folder in `parent`, on the file system of the store, for what the run changes, and has the overlay mounted; what `mount`
    /// returns comes with it. `skill` is what runs, for a person to read. `sandbox-unavailable` with the reason where there can be no copy.
    pub fn create<M>(
        parent: &Path,
        (project, skill): (&Path, &str),
        mount: impl FnOnce(&Path, OverlayRequest<'_>) -> std::result::Result<M, OverlayError>,
    ) -> Result<(Self, M)> {
        let copy = Self::without_changes(parent, (project, skill))?;
        let folder = &copy.folder;
        let request =
            OverlayRequest { lower: copy.project(), upper: &folder.upper(), work: &folder.path.join(WORK) };
        let mounted = mount(copy.root(), request).map_err(|error| {
            let refusal = error.refusal();
            let sentence = format!("failed to run in a copy of the project: {}", refusal.reason);
            SkillError::new(ErrorKind::SandboxUnavailable, sentence).with_help(refusal.help)
        })?;
        Ok((copy, mounted))
    }

    /// As [`create`](Self::create), for a run whose changes go to a delta. Only the host functions know it: no process may start.
    pub fn with_delta(parent: &Path, (project, skill): (&Path, &str)) -> Result<(Self, Arc<Delta>)> {
        let copy = Self::without_changes(parent, (project, skill))?;
        let failed = |error| SkillError::io("failed to make a copy of the project", error);
        let upper = fs::File::open(copy.folder.upper()).map_err(failed)?;
        let project = copy.project.try_clone().map_err(failed)?;
        let delta = Arc::new(Delta::new(project.into(), upper));
        Ok((Self { delta: Some(delta.clone()), ..copy }, delta))
    }

    fn without_changes(parent: &Path, (project, skill): (&Path, &str)) -> Result<Self> {
        let failed = |error| SkillError::io(format_args!("failed to open {}", project.display()), error);
        let root = project.canonicalize().map_err(failed)?;
        let opened = fs::File::open(&root).map_err(failed)?;
        let folder = UpperFolder::create(parent)
            .map_err(|error| SkillError::io("failed to make a folder for what the run changes", error))?;
        // The kernel mounts such an overlay, and then what it changed cannot be opened.
        if folder.path.canonicalize().map_err(failed)?.starts_with(&root) {
            let sentence =
                format!("failed to run in a copy of the project: the data folder is in {}", root.display());
            return Err(SkillError::new(ErrorKind::SandboxUnavailable, sentence)
                .with_help("set METIER_DATA_DIR to the path of a folder outside of the project"));
        }
        let facts = RunFacts { project: root, skill: skill.to_owned(), started: SystemTime::now() };
        Ok(Self { project: opened.into(), facts, folder, delta: None })
    }

    /// The project itself.
    pub fn project(&self) -> BorrowedFd<'_> {
        self.project.as_fd()
    }

    /// The canonical path of the project.
    pub fn root(&self) -> &Path {
        &self.facts.project
    }

    /// What the run has changed, once it has ended, and the folder from which [`ChangeStore::keep`](super::ChangeStore::keep) takes it.
    pub fn read(&self) -> Result<(ChangeSet, OwnedFd)> {
        let failed = |error| SkillError::io("failed to read what the run changed", error);
        let upper = fs::File::open(self.folder.upper()).map_err(failed)?;
        let hidden = self.delta.as_ref().map(|delta| delta.hidden_paths());
        let rules = ReadRules { hidden: hidden.as_ref(), ..ReadRules::default() };
        let limits = ReadLimits::default();
        let set = ChangeSet::read(self.project.as_fd(), upper.as_fd(), &self.facts, &limits, &rules)?;
        Ok((set, upper.into()))
    }
}

const UPPER: &str = "upper";
const WORK: &str = "work";
const LOCK: &str = "lock";

/// A folder for what one run changes, which ends with it. Those of runs that were killed end with the next one.
struct UpperFolder {
    path: PathBuf,
    /// Locked as long as the run lives.
    _lock: fs::File,
}

impl UpperFolder {
    fn create(parent: &Path) -> io::Result<Self> {
        let mut builder = fs::DirBuilder::new();
        builder.mode(0o700).recursive(true).create(parent)?;
        if let Some(reason) = metier_dirs::unsafe_reason(&parent.canonicalize()?) {
            return Err(io::Error::other(reason));
        }
        // Nobody takes a folder for abandoned that is not locked yet.
        let creation = fs::File::open(parent)?;
        flock(&creation, FlockOperation::LockExclusive)?;
        remove_abandoned(parent);
        let path = parent.join(format!("run-{}", random_id().map_err(io::Error::other)?));
        builder.recursive(false).create(&path)?;
        let lock = fs::File::create(path.join(LOCK))?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive)?;
        for name in [UPPER, WORK] {
            builder.create(path.join(name))?;
        }
        Ok(Self { path, _lock: lock })
    }

    fn upper(&self) -> PathBuf {
        self.path.join(UPPER)
    }
}

impl Drop for UpperFolder {
    fn drop(&mut self) {
        remove(&self.path);
    }
}

fn remove_abandoned(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let path = entry.path();
        let lock = fs::File::open(path.join(LOCK));
        if lock.is_ok_and(|lock| flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok()) {
            remove(&path);
        }
    }
}

/// Removes a folder whatever modes a script gave to what is in it.
fn remove(path: &Path) {
    let emptied = DirCleaner::open(path).and_then(|mut cleaner| cleaner.remove_entries(usize::MAX));
    if emptied.is_ok() {
        fs::remove_dir(path).ok();
    }
}
