//! The folder with the state of one skill in one project: opened by handles, locked, and replaced as a whole.

use std::ffi::{CStr, CString};
use std::fs::{DirBuilder, File};
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{
    AtFlags, CWD, FileType, FlockOperation, Mode, OFlags, RawDir, Stat, fchmod, flock, fstat, mkdirat,
    openat, renameat, statat, unlinkat,
};
use rustix::io::Errno;
use rustix::process::geteuid;

use super::record::{SkillState, StateRecord, StoredFile, StoredState};
use super::tree::{self, TreeError, open_dir};
use metier_core::error::{ErrorKind, Hint, LimitKind, Result, SkillError};
use metier_core::host::metier_dirs::{resolve_existing, unsafe_reason};
use metier_core::host::{DirCleaner, FileId};
use metier_core::policy::Timestamp;

const CURRENT: &CStr = c"current";
const HOME: &CStr = c"home";
const PREVIOUS: &CStr = c"previous";
/// What is being removed.
const DISCARDED: &CStr = c"discarded";
const LOCK: &CStr = c"lock";
const RECORD: &CStr = c"about.json";
const NEW_RECORD: &CStr = c"about.json.new";

/// How long a run that waits for another one sleeps at a time.
const LOCK_INTERVAL: Duration = Duration::from_millis(10);
/// Maximum bytes of a record.
const MAX_RECORD_BYTES: u64 = 64 << 10;

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
        let folder = loop {
            let project = private_subfolder(&root.dir, &state.project_name).map_err(failed)?;
            let dir = private_subfolder(&project, &state.skill_name).map_err(failed)?;
            let lock = open_lock(&dir).map_err(failed)?;
            while !try_lock(&lock).map_err(failed)? {
                check().map_err(|error| {
                    error.with_help("another run of the skill works on its state; wait for it")
                })?;
                std::thread::sleep(LOCK_INTERVAL);
            }
            // Whoever held the lock may have removed the folder.
            if is_at(&dir, &project, &state.skill_name) {
                break StateFolder { dir, _lock: lock };
            }
        };
        folder.recover().map_err(failed)?;
        folder.write_record(&state.record).map_err(failed)?;
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

    fn write_record(&self, record: &StateRecord) -> io::Result<()> {
        remove(&self.dir, NEW_RECORD)?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut file = File::from(openat(&self.dir, NEW_RECORD, flags, Mode::RUSR | Mode::WUSR)?);
        file.write_all(&serde_json::to_vec(record)?)?;
        Ok(renameat(&self.dir, NEW_RECORD, &self.dir, RECORD)?)
    }
}

/// The open folder of a store, and its path without links.
struct OpenStore {
    dir: OwnedFd,
    path: PathBuf,
}

/// Opens the folder of a store, which is created if `creates`; `None` where there is none. `denied` if somebody else could have
/// written to it.
fn open_store(store: &Path, creates: bool) -> Result<Option<OpenStore>> {
    let failed = |source| SkillError::io(format_args!("failed to open {}", store.display()), source);
    let refused = |reason: &str| {
        let sentence = format!("the state of skills in {} is not used: {reason}", store.display());
        Err(SkillError::new(ErrorKind::Denied, sentence).with_help(
            "use a folder of your own that is outside of any project, and set METIER_DATA_DIR to its path",
        ))
    };
    let path = resolve_existing(store);
    if let Some(reason) = unsafe_reason(&path) {
        return refused(&reason);
    }
    match store.symlink_metadata() {
        Ok(found) if !found.is_dir() => return refused("it is not a folder but a link or a file"),
        Ok(_) => {}
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
        Err(_) if !creates => return Ok(None),
        Err(_) => DirBuilder::new().recursive(true).mode(0o700).create(&path).map_err(failed)?,
    }
    let name = CString::new(path.as_os_str().as_bytes()).map_err(|error| failed(error.into()))?;
    let dir = open_dir(CWD, &name).map_err(|error| failed(error.into()))?;
    let about = fstat(&dir).map_err(|error| failed(error.into()))?;
    if about.st_uid != geteuid().as_raw() {
        return refused("it belongs to somebody else");
    }
    fchmod(&dir, Mode::RWXU).map_err(|error| failed(error.into()))?;
    Ok(Some(OpenStore { dir, path }))
}

/// A folder of that name which only its user can read, created if it is missing.
fn private_subfolder(above: &OwnedFd, name: &str) -> io::Result<OwnedFd> {
    let name = CString::new(name)?;
    match mkdirat(above, name.as_c_str(), Mode::RWXU) {
        Err(error) if error != Errno::EXIST => return Err(error.into()),
        _ => {}
    }
    let dir = open_dir(above, &name)?;
    fchmod(&dir, Mode::RWXU)?;
    Ok(dir)
}

fn open_lock(dir: &OwnedFd) -> io::Result<File> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    Ok(File::from(openat(dir, LOCK, flags, Mode::RUSR | Mode::WUSR)?))
}

fn try_lock(lock: &File) -> io::Result<bool> {
    match flock(lock, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(true),
        Err(Errno::WOULDBLOCK | Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

fn stat(dir: &OwnedFd, name: &CStr) -> Option<Stat> {
    statat(dir, name, AtFlags::SYMLINK_NOFOLLOW).ok()
}

fn exists(dir: &OwnedFd, name: &CStr) -> bool {
    stat(dir, name).is_some()
}

/// Whether this open folder is the one of that name.
fn is_at(dir: &OwnedFd, above: &OwnedFd, name: &str) -> bool {
    let Ok(name) = CString::new(name) else { return false };
    let found = stat(above, &name).map(|found| FileId::from_stat(&found));
    fstat(dir).is_ok_and(|opened| found == Some(FileId::from_stat(&opened)))
}

/// Removes what has this name, with everything in it; a link is removed and not followed.
fn remove(above: &OwnedFd, name: &CStr) -> rustix::io::Result<()> {
    let Some(found) = stat(above, name) else { return Ok(()) };
    if !FileType::from_raw_mode(found.st_mode).is_dir() {
        return unlinkat(above, name, AtFlags::empty());
    }
    DirCleaner::open_at(above, name)?.remove_entries(usize::MAX)?;
    unlinkat(above, name, AtFlags::REMOVEDIR)
}

/// The names of the folders in a folder.
fn folder_names(dir: &OwnedFd) -> io::Result<Vec<CString>> {
    const BUFFER_BYTES: usize = 8 << 10;
    let opened = open_dir(dir, c".")?;
    let mut buffer = Vec::with_capacity(BUFFER_BYTES);
    let mut entries = RawDir::new(&opened, buffer.spare_capacity_mut());
    let mut names = Vec::new();
    while let Some(entry) = entries.next() {
        let name = entry?.file_name().to_owned();
        let is_dir = stat(dir, &name).is_some_and(|found| FileType::from_raw_mode(found.st_mode).is_dir());
        if is_dir && name.as_c_str() != c"." && name.as_c_str() != c".." {
            names.push(name);
        }
    }
    names.sort();
    Ok(names)
}

/// Calls this with every state of a store: the folders of its project and of its skill, and the name of the latter.
fn for_each(store: &Path, mut work: impl FnMut(&OwnedFd, &OwnedFd, &CStr) -> io::Result<()>) -> Result<()> {
    let failed = |source| SkillError::io("failed to read the state of skills", source);
    let Some(root) = open_store(store, false)? else { return Ok(()) };
    for project in folder_names(&root.dir).map_err(failed)? {
        let project_dir = open_dir(&root.dir, &project).map_err(|error| failed(error.into()))?;
        for skill in folder_names(&project_dir).map_err(failed)? {
            let dir = open_dir(&project_dir, &skill).map_err(|error| failed(error.into()))?;
            work(&project_dir, &dir, &skill).map_err(failed)?;
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
        if read_record(dir).is_some_and(|record| record == state.record) && exists(dir, CURRENT) {
            let files = tree::files(&open_dir(dir, CURRENT)?).map_err(into_io)?;
            found.extend(files.into_iter().map(|(path, bytes)| StoredFile { path, bytes }));
        }
        Ok(())
    })?;
    Ok(found)
}

/// Removes the states for which this is true; returns how many they were. `unavailable` if a run works on one of them.
pub(super) fn clear(store: &Path, mut is_meant: impl FnMut(&StoredState) -> bool) -> Result<usize> {
    let (mut count, mut busy) = (0, None);
    for_each(store, |project, dir, name| {
        let Some(state) = read_state(dir).filter(|state| is_meant(state)) else { return Ok(()) };
        let lock = open_lock(dir)?;
        if !try_lock(&lock)? {
            busy = Some(state);
            return Ok(());
        }
        remove(project, name)?;
        count += 1;
        Ok(())
    })?;
    match busy {
        None => Ok(count),
        Some(state) => {
            let sentence =
                format!("the state of {} is not removed: a run of it works on it", state.record.skill);
            Err(SkillError::new(ErrorKind::Unavailable, sentence).with_help("wait until the run has ended"))
        }
    }
}

fn read_state(dir: &OwnedFd) -> Option<StoredState> {
    let record = read_record(dir)?;
    let used = stat(dir, RECORD).and_then(|found| u64::try_from(found.st_mtime).ok()).unwrap_or_default();
    let size = open_dir(dir, CURRENT).ok().and_then(|current| tree::measure(&current, u64::MAX).ok());
    let size = size.unwrap_or_default();
    Some(StoredState {
        record,
        bytes: size.bytes,
        files: size.entries,
        last_used: Timestamp::from_seconds(used),
    })
}

fn read_record(dir: &OwnedFd) -> Option<StateRecord> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = File::from(openat(dir, RECORD, flags, Mode::empty()).ok()?);
    let mut text = Vec::new();
    file.take(MAX_RECORD_BYTES).read_to_end(&mut text).ok()?;
    serde_json::from_slice(&text).ok()
}

fn into_io(error: TreeError) -> io::Error {
    match error {
        TreeError::Io(error) => error,
        TreeError::Excess(excess) => io::Error::other(format!("it has {excess}")),
    }
}
