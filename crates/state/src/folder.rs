//! The folder with the state of one skill in one project: opened by handles, locked, and replaced as a whole.

use std::ffi::{CStr, CString};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Mode, mkdirat, renameat, unlinkat};
use rustix::io::Errno;

use super::private_dir::{
    OpenStore, exists, folder_names, is_at, lock_folder, open_existing, open_lock, open_store, remove,
    try_lock,
};
use super::record::{SkillState, StoredFile, StoredState, StoredValue};
use super::tree::{self, TreeError, open_dir};
use super::{record_file, values};
use metier_core::error::{ErrorKind, Hint, LimitKind, Result, SkillError};
use metier_core::policy::Timestamp;

const CURRENT: &CStr = c"current";
const HOME: &CStr = c"home";
const PREVIOUS: &CStr = c"previous";
/// What is being removed.
const DISCARDED: &CStr = c"discarded";
const LOCK: &CStr = c"lock";
const NEW_RECORD: &CStr = c"about.json.new";
/// How the name of a state begins that is being removed. No name of a skill or of a store does.
const DISCARDED_STATE: &[u8] = b"discarded.";

/// The state of a skill while a run works on a copy of it. Dropped without [`StateLease::keep`], the copy is discarded and the
/// state stays as it was.
#[derive(Debug)]
pub struct StateLease {
    folder: StateFolder,
    home: PathBuf,
}

impl StateLease {
    /// Waits until no other run works on the state, and copies it. `check` fails when the run must not wait any longer.
    pub fn acquire(state: &SkillState, check: &dyn Fn() -> Result<()>) -> Result<Self> {
        let failed = |source| SkillError::io("failed to open the state of the skill", source);
        let root = open_store(&state.store, true)?.ok_or_else(|| failed(io::ErrorKind::NotFound.into()))?;
        let (dir, lock) = lock_folder(&root, state, LOCK, check)?;
        let folder = StateFolder { dir, _lock: lock };
        folder.recover().map_err(failed)?;
        record_file::write(&folder.dir, &state.record, NEW_RECORD).map_err(failed)?;
        let home = root.path.join(&state.project_name).join(&state.skill_name).join("home");
        mkdirat(&folder.dir, HOME, Mode::RWXU).map_err(|error| failed(error.into()))?;
        let lease = Self { folder, home };
        lease.copy_current(check)?;
        Ok(lease)
    }

    fn copy_current(&self, check: &dyn Fn() -> Result<()>) -> Result<()> {
        let failed = |source| SkillError::io("failed to copy the state of the skill", source);
        let dir = &self.folder.dir;
        if !exists(dir, CURRENT) {
            return Ok(());
        }
        let current = open_dir(dir, CURRENT).map_err(|error| failed(error.into()))?;
        let home = open_dir(dir, HOME).map_err(|error| failed(error.into()))?;
        let is_stopped = || check().map_err(|_| io::ErrorKind::Interrupted.into());
        match tree::copy(&current, &home, &is_stopped) {
            Ok(()) => Ok(()),
            Err(TreeError::Io(error)) => {
                check()?;
                Err(failed(error))
            }
            Err(TreeError::Excess(excess)) => Err(failed(io::Error::other(format!("it has {excess}")))),
        }
    }

    /// What the run sees as its home: absolute, without links.
    pub fn home(&self) -> &Path {
        &self.home
    }

    /// Measures the home of the run in progress; fails if it holds more than may be kept.
    pub fn measure(&self, max_bytes: u64) -> Result<(), TreeError> {
        tree::measure(&open_dir(&self.folder.dir, HOME)?, max_bytes).map(drop)
    }

    /// Makes what the run left in its home the state of the skill, once nothing of the run is left. Returns the names of files of a
    /// kind that is not kept. If it fails, the state stays as it was.
    pub fn keep(self, max_bytes: u64) -> Result<Vec<String>, TreeError> {
        let dir = &self.folder.dir;
        let home = metier_core::host::open_unlocked(dir, HOME)?;
        let removed = tree::tidy(&home, max_bytes)?;
        // Killed in between, the next run puts the previous state back.
        if exists(dir, CURRENT) {
            renameat(dir, CURRENT, dir, PREVIOUS)?;
        }
        renameat(dir, HOME, dir, CURRENT)?;
        Ok(removed)
    }
}

impl Drop for StateLease {
    fn drop(&mut self) {
        // What cannot be removed now is removed before the next run.
        if let Err(error) = self.folder.recover() {
            tracing::warn!("failed to remove what a run left of its state: {error}");
        }
    }
}

/// The error of a run that left more than may be kept.
pub fn excess_error(skill: &str, excess: tree::Excess) -> SkillError {
    let sentence =
        format!("the state of {skill} would hold {excess}, so its previous state was left as it is");
    SkillError::new(ErrorKind::State, sentence)
        .with_help("leave less in the home folder, or raise the limit of the state's size")
        .with_hint(Hint::Limit(LimitKind::StateSize))
}

/// The open and locked folder of a skill's state.
#[derive(Debug)]
struct StateFolder {
    dir: OwnedFd,
    _lock: File,
}

impl StateFolder {
    /// Removes what a run left that was killed, and puts back the previous state if it was killed while it replaced it.
    fn recover(&self) -> io::Result<()> {
        let dir = &self.dir;
        self.discard(HOME)?;
        if !exists(dir, CURRENT) && exists(dir, PREVIOUS) {
            renameat(dir, PREVIOUS, dir, CURRENT)?;
        }
        self.discard(PREVIOUS)
    }

    /// Removes a tree. It gets another name first, under which no process reaches it that was started with this one.
    fn discard(&self, name: &CStr) -> io::Result<()> {
        remove(&self.dir, DISCARDED)?;
        match renameat(&self.dir, name, &self.dir, DISCARDED) {
            Err(Errno::NOENT) => Ok(()),
            renamed => {
                renamed?;
                Ok(remove(&self.dir, DISCARDED)?)
            }
        }
    }
}

/// Calls this with every state of a store: the folders of its project and of its skill, and the name of the latter.
fn for_each(store: &Path, mut work: impl FnMut(&OwnedFd, &OwnedFd, &CStr) -> io::Result<()>) -> Result<()> {
    let failed = |source| SkillError::io("failed to read the state of skills", source);
    let Some(root) = open_store(store, false)? else { return Ok(()) };
    for project in folder_names(&root.dir).map_err(failed)? {
        let Some(project_dir) = open_existing(&root.dir, &project).map_err(failed)? else { continue };
        for skill in folder_names(&project_dir).map_err(failed)? {
            if is_discarded(&skill) {
                continue;
            }
            if let Some(dir) = open_existing(&project_dir, &skill).map_err(failed)? {
                work(&project_dir, &dir, &skill).map_err(failed)?;
            }
        }
        // Only an empty one goes.
        unlinkat(&root.dir, project.as_c_str(), AtFlags::REMOVEDIR).ok();
    }
    Ok(())
}

/// Every state of a store.
pub(super) fn list(store: &Path) -> Result<Vec<StoredState>> {
    let mut states = Vec::new();
    for_each(store, |_, dir, _| {
        states.extend(read_state(dir));
        Ok(())
    })?;
    Ok(states)
}

/// The files of the states with this record.
pub(super) fn files(store: &Path, state: &StoredState) -> Result<Vec<StoredFile>> {
    let mut found = Vec::new();
    for_each(store, |_, dir, _| {
        if record_file::read(dir).is_some_and(|record| record == state.record) && exists(dir, CURRENT) {
            let files = tree::files(&open_dir(dir, CURRENT)?).map_err(into_io)?;
            found.extend(files.into_iter().map(|(path, bytes)| StoredFile { path, bytes }));
        }
        Ok(())
    })?;
    Ok(found)
}

/// The values of the states with this record.
pub(super) fn values(store: &Path, state: &StoredState) -> Result<Vec<StoredValue>> {
    let mut found = Vec::new();
    for_each(store, |_, dir, _| {
        if record_file::read(dir).is_some_and(|record| record == state.record) {
            found.extend(values::list(dir)?);
        }
        Ok(())
    })?;
    Ok(found)
}

/// Removes the states for which this is true; returns how many they were. `unavailable` if a run works on one of them.
pub(super) fn clear(store: &Path, mut is_meant: impl FnMut(&StoredState) -> bool) -> Result<usize> {
    let (mut count, mut busy) = (0, None);
    if let Some(root) = open_store(store, false)? {
        remove_discarded(&root);
    }
    for_each(store, |project, dir, name| {
        let Some(state) = read_state(dir).filter(|state| is_meant(state)) else { return Ok(()) };
        let Some((lock, values_lock)) = open_locks(dir)? else { return Ok(()) };
        if !(try_lock(&lock)? && values::hold(&values_lock)?) {
            busy = Some(state);
            return Ok(());
        }
        if !is_at(dir, project, name) {
            return Ok(());
        }
        // Whoever waits for a lock begins again in a new folder.
        let discarded = CString::new([DISCARDED_STATE, name.to_bytes()].concat())?;
        remove(project, &discarded)?;
        renameat(project, name, project, &discarded)?;
        remove_while_opened(project, &discarded)?;
        count += 1;
        Ok(())
    })?;
    match busy {
        None => Ok(count),
        Some(state) => {
            let sentence = format!("{} is not removed: a run of it works on it", state.record.title());
            Err(SkillError::new(ErrorKind::Unavailable, sentence).with_help("wait until the run has ended"))
        }
    }
}

/// What is locked while a run works on a state, and while a value changes; `None` if somebody has just removed the folder.
fn open_locks(dir: &OwnedFd) -> io::Result<Option<(File, File)>> {
    match open_lock(dir, LOCK).and_then(|lock| Ok((lock, open_lock(dir, values::LOCK)?))) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        locks => locks.map(Some),
    }
}

/// Removes the folder of a state, in which somebody who opened it before may still create a lock.
fn remove_while_opened(project: &OwnedFd, name: &CStr) -> rustix::io::Result<()> {
    const MAX_TRIES: usize = 100;
    let mut tries = (0..MAX_TRIES).map(|_| remove(project, name));
    tries.find(|removed| *removed != Err(Errno::NOTEMPTY)).unwrap_or(Err(Errno::NOTEMPTY))
}

/// Removes what somebody left who was killed while it was removed.
fn remove_discarded(root: &OpenStore) {
    for project in folder_names(&root.dir).unwrap_or_default() {
        let Ok(project_dir) = open_dir(&root.dir, &project) else { continue };
        let names = folder_names(&project_dir).unwrap_or_default();
        // Another process may do the same.
        for name in names.iter().filter(|name| is_discarded(name)) {
            remove(&project_dir, name).ok();
        }
    }
}

fn is_discarded(name: &CStr) -> bool {
    name.to_bytes().starts_with(DISCARDED_STATE)
}

fn read_state(dir: &OwnedFd) -> Option<StoredState> {
    let record = record_file::read(dir)?;
    let used = record_file::last_written(dir).max(values::last_changed(dir)).unwrap_or_default();
    let values = values::measure(dir);
    let size = open_dir(dir, CURRENT).ok().and_then(|current| tree::measure(&current, u64::MAX).ok());
    let size = size.unwrap_or_default();
    Some(StoredState {
        record,
        bytes: size.bytes,
        files: size.entries,
        values: values.count,
        value_bytes: values.bytes,
        last_used: Timestamp::from_seconds(used),
    })
}

fn into_io(error: TreeError) -> io::Error {
    match error {
        TreeError::Io(error) => error,
        TreeError::Excess(excess) => io::Error::other(format!("it has {excess}")),
    }
}
