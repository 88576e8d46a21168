//! Creates private temporary directories (for runs, clients and unpacked skills), and removes those that a killed host left
//! behind.
//!
//! ```text
//! /tmp/metier-1000/              the user's alone; no script sees it
//!      host-0123456789abcdef/    of one process, which holds a lock on it as long as it lives
//!           drafts               folders in which this process was writing files
//!           metier-Ab12Cd/       of one run
//! ```

use std::collections::BTreeSet;
use std::collections::hash_map::RandomState;
use std::ffi::{CString, OsStr};
use std::fs::{self, File, Permissions};
use std::hash::{BuildHasher, Hasher};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use rustix::fs::{
    AtFlags, CWD, Dir, FileType, FlockOperation, Mode, OFlags, chmod, flock, fstat, mkdirat, openat, statat,
    unlinkat,
};
use rustix::io::Errno;
use rustix::process::geteuid;
use tempfile::TempDir;

use crate::host::dir_cleaner::{DirCleaner, OPEN_BY_NAME};
use crate::host::metier_dirs::{
    HOST_DIR_PREFIX, TEMP_DIR_PREFIX, metier_dirs, resolve_existing, state_dir, unsafe_reason,
};
use crate::host::visibility_lock::is_visible_to_scripts;
use crate::host::{FileId, begins_with};

/// A new temporary directory that only the user can access; removed when dropped.
pub struct PrivateTempDir {
    dir: TempDir,
    /// Dropped after the directory itself.
    parent: Arc<ProcessTempDir>,
}

impl PrivateTempDir {
    /// A new directory in none of these folders, which scripts see.
    pub fn outside(avoided: &[&Path]) -> io::Result<Self> {
        let mut tries = 0;
        loop {
            let place = process_dir_outside(avoided)?;
            let own = Permissions::from_mode(0o700);
            let created = tempfile::Builder::new().prefix("metier-").permissions(own).tempdir_in(&place.path);
            match created {
                // Another process removed the parent directory.
                Err(error) if error.kind() == io::ErrorKind::NotFound && tries < MAX_ATTEMPTS => {
                    lock_state().process_dirs.retain(|kept| !Arc::ptr_eq(kept, &place));
                    tries += 1;
                }
                created => return Ok(Self { dir: created?, parent: place }),
            }
        }
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Separates the path, which somebody else removes, from the parent directory that must exist until then.
    pub fn into_parts(self) -> (PathBuf, Arc<ProcessTempDir>) {
        (self.dir.keep(), self.parent)
    }
}

/// The directory of this process that contains its other temporary directories.
pub struct ProcessTempDir {
    parent: PathBuf,
    path: PathBuf,
    /// A process that can take this lock knows that this process has ended. `None` if the file system has no locks.
    _lock: Option<OwnedFd>,
    /// Device and inode number of the recorded folders.
    recorded_dirs: Mutex<BTreeSet<FileId>>,
}

/// Keeps the directories of this process while at least one lease exists, and starts the removal of what killed hosts left
/// behind.
pub struct TempDirLease(());

#[derive(Default)]
struct TempDirState {
    holders: usize,
    process_dirs: Vec<Arc<ProcessTempDir>>,
    cleanup_threads: Vec<JoinHandle<()>>,
}

static STATE: Mutex<TempDirState> =
    Mutex::new(TempDirState { holders: 0, process_dirs: Vec::new(), cleanup_threads: Vec::new() });

fn lock_state() -> MutexGuard<'static, TempDirState> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

impl TempDirLease {
    /// Keeps the folders of temporary files while it lives.
    pub fn acquire() -> Self {
        let mut state = lock_state();
        state.holders += 1;
        if state.holders == 1 {
            let parents = BASE_DIRS.iter().map(|base| parent_dir_in(base));
            state.cleanup_threads.extend(parents.filter_map(|parent| clean_up_abandoned(&parent)));
        }
        Self(())
    }
}

impl Drop for TempDirLease {
    fn drop(&mut self) {
        let mut state = lock_state();
        state.holders -= 1;
        if state.holders == 0 {
            let (places, clearing) =
                (std::mem::take(&mut state.process_dirs), std::mem::take(&mut state.cleanup_threads));
            drop(state);
            for thread in clearing {
                thread.join().ok();
            }
            drop(places);
        }
    }
}

/// Canonical parent directories for temporary files, in the order in which they are tried. Those that every script can read are
/// excluded.
static BASE_DIRS: LazyLock<Vec<PathBuf>> = LazyLock::new(|| {
    const SEEN: [&str; 9] =
        ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/dev/shm", "/proc", "/sys"];
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    let named =
        [Some(std::env::temp_dir()), runtime, Some("/tmp".into()), Some("/var/tmp".into()), state_dir()];
    let mut bases = Vec::new();
    for base in
        named.into_iter().flatten().filter(|base| base.is_absolute()).map(|base| resolve_existing(&base))
    {
        if !bases.contains(&base) && !SEEN.iter().any(|seen| base.starts_with(seen)) {
            bases.push(base);
        }
    }
    bases
});

/// Every directory of this process's own, canonical, whether it exists or not: for persistent and for temporary files.
static OWN_DIRS: LazyLock<Vec<PathBuf>> = LazyLock::new(|| {
    let persistent = metier_dirs().into_iter().map(|folder| resolve_existing(&folder));
    persistent.chain(BASE_DIRS.iter().map(|base| parent_dir_in(base))).collect()
});

/// The temporary directories whose base is safe to use.
static SAFE_PARENT_DIRS: LazyLock<Vec<PathBuf>> = LazyLock::new(|| {
    BASE_DIRS.iter().filter(|base| unsafe_reason(base).is_none()).map(|base| parent_dir_in(base)).collect()
});

fn parent_dir_in(base: &Path) -> PathBuf {
    base.join(format!("{TEMP_DIR_PREFIX}{}", geteuid().as_raw()))
}

/// All of them.
pub fn own_dirs() -> &'static [PathBuf] {
    &OWN_DIRS
}

/// Those of them below this canonical folder: no script may read or change their content, whatever it was granted.
pub fn metier_dirs_in(folder: &Path) -> Vec<PathBuf> {
    OWN_DIRS.iter().filter(|own| begins_with(own, folder)).cloned().collect()
}

/// Those of them that exist. In shared temporary directories, where no lock can show that a script sees them, they are created
/// first, so that the sandbox can hide them before they contain anything.
pub fn existing_metier_dirs_in(folder: &Path) -> Vec<PathBuf> {
    const STICKY: u32 = 0o1000;
    for base in BASE_DIRS.iter().filter(|base| begins_with(base, folder)) {
        if base.metadata().is_ok_and(|about| about.mode() & STICKY != 0) {
            // Nobody removes the directory as long as it contains another one.
            lock_state().process_dir_in(&parent_dir_in(base)).ok();
        }
    }
    let mut own = metier_dirs_in(folder);
    // Symbolic links are not hidden: the target is in the list by its own path.
    own.retain(|place| place.symlink_metadata().is_ok_and(|found| found.is_dir() || found.is_file()));
    own
}

fn process_dir_outside(avoided: &[&Path]) -> io::Result<Arc<ProcessTempDir>> {
    let mut failed = io::Error::other(
        "every folder for temporary files is in a project, visible to the script, or writable by other users; set TMPDIR \
         to a folder of your own",
    );
    for parent in
        SAFE_PARENT_DIRS.iter().filter(|parent| !avoided.iter().any(|folder| parent.starts_with(folder)))
    {
        match lock_state().process_dir_in(parent) {
            Ok(place) => return Ok(place),
            Err(error) => failed = io::Error::new(error.kind(), format!("{}: {error}", parent.display())),
        }
    }
    Err(failed)
}

/// Maximum attempts to create something that other processes may remove meanwhile.
const MAX_ATTEMPTS: usize = 16;

impl TempDirState {
    fn process_dir_in(&mut self, parent: &Path) -> io::Result<Arc<ProcessTempDir>> {
        if let Some(place) = self.process_dirs.iter().find(|place| place.parent == parent) {
            return Ok(Arc::clone(place));
        }
        let mut created = Err(Errno::NOENT.into());
        for _ in 0..MAX_ATTEMPTS {
            created = ProcessTempDir::new(parent);
            if created.is_ok() || created.as_ref().is_err_and(|error| error.kind() != io::ErrorKind::NotFound)
            {
                break;
            }
        }
        let place = Arc::new(created?);
        if self.holders > 0 {
            self.process_dirs.push(Arc::clone(&place));
        }
        Ok(place)
    }
}

impl ProcessTempDir {
    /// `NotFound` if another process removed it meanwhile.
    fn new(parent: &Path) -> io::Result<Self> {
        // Checked first, so that scripts do not see the directory even for a moment where that can be avoided.
        check_not_visible(parent)?;
        if let Some(base) = parent.parent() {
            fs::DirBuilder::new().recursive(true).mode(0o700).create(base)?;
        }
        match mkdirat(CWD, parent, Mode::RWXU) {
            Err(Errno::EXIST) | Ok(()) => {}
            Err(error) => return Err(error.into()),
        }
        let opened = open_own_dir(CWD, parent)?;
        let name = format!("{HOST_DIR_PREFIX}{:016x}", RandomState::new().build_hasher().finish());
        mkdirat(&opened, &name, Mode::RWXU)?;
        let lock = open_own_dir(&opened, &name)?;
        let lock = match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Some(lock),
            // Another process treats the directory as abandoned.
            Err(Errno::WOULDBLOCK) => return Err(Errno::NOENT.into()),
            Err(_) => None,
        };
        // Before the lock was taken, another process may have removed the directory as abandoned.
        statat(&opened, &name, AtFlags::SYMLINK_NOFOLLOW)?;
        let (parent, folder) = (parent.to_owned(), parent.join(&name));
        let place = Self { parent, path: folder, _lock: lock, recorded_dirs: Mutex::default() };
        // A host that started a script meanwhile looked before this directory existed.
        check_not_visible(&place.parent)?;
        Ok(place)
    }

    /// Records on disk that this process is about to write a file in this folder.
    fn record_dir(&self, folder: impl AsFd) -> io::Result<()> {
        let identity = FileId::from_stat(&fstat(&folder)?);
        let mut recorded = self.recorded_dirs.lock().unwrap_or_else(PoisonError::into_inner);
        if recorded.insert(identity) {
            let mut line = fd_path(&folder)?.into_os_string().into_encoded_bytes();
            line.push(0);
            let mut options = File::options();
            options
                .append(true)
                .create(true)
                .mode(0o600)
                .open(self.path.join(TEMP_FILE_LIST))?
                .write_all(&line)?;
        }
        Ok(())
    }
}

/// Fails if a running script can see this path.
fn check_not_visible(path: &Path) -> io::Result<()> {
    if is_visible_to_scripts(path) {
        return Err(io::Error::other("a running script can see it"));
    }
    Ok(())
}

impl Drop for ProcessTempDir {
    fn drop(&mut self) {
        fs::remove_file(self.path.join(TEMP_FILE_LIST)).ok();
        fs::remove_dir(&self.path).ok();
        // Fails if the directory of another process is in it.
        fs::remove_dir(&self.parent).ok();
    }
}

/// The path of an open folder, without symbolic links.
fn fd_path(folder: impl AsFd) -> io::Result<PathBuf> {
    fs::read_link(format!("/proc/self/fd/{}", folder.as_fd().as_raw_fd()))
}

const TEMP_FILE_LIST: &str = "drafts";

/// Opens a directory that the user owns, and makes it inaccessible to other users.
fn open_own_dir(above: impl AsFd, name: impl rustix::path::Arg) -> io::Result<OwnedFd> {
    let handle = openat(above, name, OPEN_BY_NAME | DIR_FLAGS, Mode::empty())?;
    let about = fstat(&handle)?;
    if about.st_uid != geteuid().as_raw() {
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, "it belongs to somebody else"));
    }
    // A script that sees the directory may have changed its mode.
    if about.st_mode & 0o7777 != 0o700 {
        chmod(format!("/proc/self/fd/{}", handle.as_raw_fd()), Mode::RWXU)?;
    }
    Ok(openat(&handle, c".", OFlags::RDONLY | DIR_FLAGS, Mode::empty())?)
}

/// A new name for a temporary file.
pub(super) fn temp_file_name() -> String {
    format!(".{:016x}{TEMP_FILE_SUFFIX}", RandomState::new().build_hasher().finish())
}

const TEMP_FILE_SUFFIX: &str = ".draft";

/// Records that a temporary file will be written in this folder, before it is created. If it cannot be recorded, the file is
/// written anyway.
pub(super) fn record_temp_file_dir(folder: impl AsFd) {
    let mut state = lock_state();
    if state.holders == 0 {
        return;
    }
    let place = match state.process_dirs.first() {
        Some(place) => Some(Arc::clone(place)),
        None => SAFE_PARENT_DIRS.iter().find_map(|parent| state.process_dir_in(parent).ok()),
    };
    drop(state);
    place.map(|place| place.record_dir(folder).ok());
}

/// Locks a temporary file, so that no process treats it as abandoned.
pub(super) fn lock_temp_file(draft: impl AsFd) {
    flock(draft, FlockOperation::NonBlockingLockExclusive).ok();
}

/// Removes what a killed host left in this directory; called by the process that noticed its end.
pub fn clean_up_after_host(parent: &Path) {
    if parent.file_name() == parent_dir_in(Path::new("/")).file_name() {
        clean_up_abandoned(parent).map(JoinHandle::join);
        fs::remove_dir(parent).ok();
    }
}

/// The directories of this process, which another process removes if it is killed.
pub fn process_dirs() -> Vec<PathBuf> {
    lock_state().process_dirs.iter().map(|place| place.path.clone()).collect()
}

/// Removes what ended processes left behind here, on a thread of its own if there is anything.
fn clean_up_abandoned(parent: &Path) -> Option<JoinHandle<()>> {
    let listed = openat(CWD, parent, OFlags::RDONLY | DIR_FLAGS, Mode::empty()).ok()?;
    if fstat(&listed).ok()?.st_uid != geteuid().as_raw() {
        return None;
    }
    let names = Dir::read_from(&listed).ok()?.filter_map(|entry| Some(entry.ok()?.file_name().to_owned()));
    let is_host = |name: &CString| is_hex_numbered(name.to_bytes(), HOST_DIR_PREFIX.as_bytes(), b"");
    let left: Vec<AbandonedDir> =
        names.filter(is_host).filter_map(|name| AbandonedDir::lock(&listed, name)).collect();
    if left.is_empty() {
        return None;
    }
    let parent = parent.to_owned();
    let work = move || {
        for left in &left {
            left.remove(&listed);
        }
        fs::remove_dir(&parent).ok();
    };
    std::thread::Builder::new().name("metier-cleanup".into()).spawn(work).ok()
}

/// The directory of an ended process, locked so that no other process cleans it up at the same time.
struct AbandonedDir {
    name: CString,
    folder: OwnedFd,
}

const DIR_FLAGS: OFlags = OFlags::DIRECTORY.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

impl AbandonedDir {
    fn lock(parent: &OwnedFd, name: CString) -> Option<Self> {
        let folder = open_own_dir(parent, name.as_c_str()).ok()?;
        flock(&folder, FlockOperation::NonBlockingLockExclusive).ok()?;
        Some(Self { name, folder })
    }

    fn remove(&self, parent: &OwnedFd) {
        self.remove_temp_files();
        // A process that is still ending there may create or remove files meanwhile.
        for _ in 0..MAX_ATTEMPTS {
            let cleared = DirCleaner::open_at(parent, self.name.as_c_str())
                .and_then(|mut clearing| clearing.remove_entries(usize::MAX));
            if cleared.is_ok() && unlinkat(parent, self.name.as_c_str(), AtFlags::REMOVEDIR).is_ok() {
                return;
            }
        }
    }

    /// Removes the temporary files that the process was writing.
    fn remove_temp_files(&self) {
        let Ok(file) = openat(
            &self.folder,
            TEMP_FILE_LIST,
            OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC,
            Mode::empty(),
        ) else {
            return;
        };
        let mut text = Vec::new();
        File::from(file).take(1 << 20).read_to_end(&mut text).ok();
        for path in text.split(|byte| *byte == 0).filter(|path| !path.is_empty()) {
            remove_temp_files_in(Path::new(OsStr::from_bytes(path))).ok();
        }
    }
}

fn remove_temp_files_in(path: &Path) -> io::Result<()> {
    let folder = openat(CWD, path, OFlags::RDONLY | DIR_FLAGS, Mode::empty())?;
    // If a symbolic link was put into the path since, it is another folder.
    if fd_path(&folder)? != path {
        return Ok(());
    }
    for entry in Dir::read_from(&folder)? {
        let entry = entry?;
        let name = entry.file_name();
        if !is_hex_numbered(name.to_bytes(), b".", TEMP_FILE_SUFFIX.as_bytes()) {
            continue;
        }
        let about = statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW)?;
        let is_own = about.st_uid == geteuid().as_raw() && about.st_nlink == 1;
        if !is_own || FileType::from_raw_mode(about.st_mode) != FileType::RegularFile {
            continue;
        }
        let flags = OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let opened = openat(&folder, name, OFlags::RDONLY | flags, Mode::empty())
            .or_else(|_| openat(&folder, name, OFlags::WRONLY | flags, Mode::empty()));
        // The writer of a temporary file holds a lock on it.
        if opened.is_ok_and(|draft| flock(&draft, FlockOperation::NonBlockingLockExclusive).is_ok()) {
            unlinkat(&folder, name, AtFlags::empty())?;
        }
    }
    Ok(())
}

/// Whether a name is this prefix, sixteen hexadecimal digits, and this suffix.
fn is_hex_numbered(name: &[u8], before: &[u8], behind: &[u8]) -> bool {
    let number = name.strip_prefix(before).and_then(|rest| rest.strip_suffix(behind));
    number.is_some_and(|number| {
        number.len() == 16
            && number.iter().all(|digit| digit.is_ascii_digit() || (b'a'..=b'f').contains(digit))
    })
}
