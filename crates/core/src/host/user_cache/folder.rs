//! A cache on disk in the user's own cache directory. Who reads an entry decides what it is of, and whether it is unchanged, by the key.
//!
//! All access goes through one handle on the folder. An entry appears completely or not at all.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use rustix::fs::{
    AtFlags, Dir, FileType, Mode, OFlags, Stat, fstat, mkdirat, open, openat, renameat, statat, unlinkat,
};
use rustix::io::Errno;

use super::key_file;
use super::key_file::check_owner;
use super::mac_key::MacKey;
use crate::host::metier_dirs;

/// The maximum size of a cache; beyond it the entries that were used longest ago are removed.
#[derive(Clone, Copy)]
pub struct CacheLimits {
    /// Maximum number of entries.
    pub entries: usize,
    /// Maximum bytes of all of them.
    pub bytes: u64,
    /// A larger entry is not cached.
    pub entry_bytes: u64,
}

/// The prefix of the name of a file that is still being written.
const TEMP_PREFIX: &str = ".new-";

/// The number of files that this process wrote, so that each temporary name is unique.
static TEMP_COUNTER: AtomicU64 = AtomicU64::new(0);

/// A cache in a folder that only the user can change.
pub struct UserCache {
    folder: OwnedFd,
    mac_key: MacKey,
    limits: CacheLimits,
}

impl UserCache {
    /// Opens the user's cache of that name, or returns the reason why nothing may be cached on disk.
    pub fn open(name: &str, limits: CacheLimits) -> Result<Self, String> {
        let (cache, state) = (metier_dirs::cache_dir(), metier_dirs::state_dir());
        let (cache, state) = cache.zip(state).ok_or_else(|| "the user has no home".to_owned())?;
        Self::open_in(&cache, name, &state, limits)
    }

    /// Opens the cache of that name in the first folder, with its key in the second, or returns the reason why it cannot be used. Both
    /// folders are created if they are missing; the folders around them are the platform's.
    pub fn open_in(own: &Path, name: &str, state: &Path, limits: CacheLimits) -> Result<Self, String> {
        for lasting in [own, state] {
            if let Some(reason) = lasting
                .parent()
                .map(metier_dirs::resolve_existing)
                .and_then(|base| metier_dirs::unsafe_reason(&base))
            {
                return Err(format!("{}: {reason}", lasting.display()));
            }
        }
        let folder = open_own_folder(own, &[name])?;
        let mac_key = key_file::load_or_create(&open_own_folder(state, &[])?, state)?;
        Ok(Self { folder, mac_key, limits })
    }

    /// The key that authenticates its entries.
    pub fn mac_key(&self) -> &MacKey {
        &self.mac_key
    }

    /// The device of its file system.
    pub fn device(&self) -> Option<u64> {
        fstat(&self.folder).ok().map(|found| found.st_dev)
    }

    /// The content of an entry; `None` if there is no such entry that belongs to the user.
    pub fn read_entry(&self, name: &str) -> Option<Vec<u8>> {
        check_folder_owner(&self.folder).ok()?;
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = File::from(openat(&self.folder, name, flags, Mode::empty()).ok()?);
        let found = fstat(&file).ok()?;
        let length = u64::try_from(found.st_size).ok().filter(|length| *length <= self.limits.entry_bytes)?;
        if FileType::from_raw_mode(found.st_mode) != FileType::RegularFile || check_owner(&found).is_err() {
            return None;
        }
        let mut content = Vec::with_capacity(usize::try_from(length).ok()? + 1);
        (&file).take(length + 1).read_to_end(&mut content).ok()?;
        if is_hours_old(modified_time(&found)) {
            // Eviction removes the entry that was used longest ago. If the time cannot be set, the entry may be removed
            // sooner.
            file.set_modified(SystemTime::now()).ok();
        }
        Some(content)
    }

    /// Stores an entry in one step, since other processes may be reading it, and evicts others if needed.
    pub fn store_entry(&self, name: &str, content: &[u8]) {
        if content.len() as u64 > self.limits.entry_bytes || check_folder_owner(&self.folder).is_err() {
            return;
        }
        let count = TEMP_COUNTER.fetch_add(1, Ordering::Relaxed);
        let unfinished = format!("{TEMP_PREFIX}{}-{count}", std::process::id());
        let written = self.write_file(&unfinished, content).and_then(|()| {
            renameat(&self.folder, &unfinished, &self.folder, name).map_err(std::io::Error::from)
        });
        match written {
            Ok(()) => self.evict(name),
            Err(error) => {
                tracing::warn!("an entry of a cache was not written: {error}");
                unlinkat(&self.folder, &unfinished, AtFlags::empty()).ok();
            }
        }
    }

    fn write_file(&self, name: &str, content: &[u8]) -> std::io::Result<()> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        // A process with the same id may have left this file behind when it was killed.
        unlinkat(&self.folder, name, AtFlags::empty()).ok();
        File::from(openat(&self.folder, name, flags, Mode::RUSR | Mode::WUSR)?).write_all(content)
    }

    /// Removes the entries beyond the limits, but never this one.
    fn evict(&self, kept: &str) {
        let mut entries = self.entries();
        entries.sort_by_key(|entry| entry.last_used);
        let (mut count, mut bytes) = (entries.len(), entries.iter().map(|entry| entry.bytes).sum::<u64>());
        for entry in entries {
            let is_given_up = entry.name.starts_with(TEMP_PREFIX) && is_hours_old(entry.last_used);
            let is_too_much = count > self.limits.entries || bytes > self.limits.bytes;
            if entry.name != kept && (is_given_up || is_too_much) {
                unlinkat(&self.folder, &entry.name, AtFlags::empty()).ok();
                count -= 1;
                bytes = bytes.saturating_sub(entry.bytes);
            }
        }
    }

    fn entries(&self) -> Vec<CacheFile> {
        let Ok(folder) = Dir::read_from(&self.folder) else { return Vec::new() };
        let entry = |name: &str| {
            let found = statat(&self.folder, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
            let is_file = FileType::from_raw_mode(found.st_mode) == FileType::RegularFile;
            let bytes = u64::try_from(found.st_size).ok()?;
            is_file.then(|| CacheFile { name: name.to_owned(), bytes, last_used: modified_time(&found) })
        };
        folder.flatten().filter_map(|found| entry(found.file_name().to_str().ok()?)).collect()
    }
}

struct CacheFile {
    name: String,
    bytes: u64,
    last_used: SystemTime,
}

const FOLDER_FLAGS: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Opens a folder of metier's own and one in it, both accessible to the user alone; they are created if they are missing.
fn open_own_folder(path: &Path, inside: &[&str]) -> Result<OwnedFd, String> {
    let failed = |what: &Path, error: Errno| format!("{}: {error}", what.display());
    let (Some(base), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(format!("{} is not a folder", path.display()));
    };
    std::fs::create_dir_all(base).map_err(|error| format!("{}: {error}", base.display()))?;
    let mut folder = open(base, FOLDER_FLAGS, Mode::empty()).map_err(|error| failed(base, error))?;
    let mut path = base.to_owned();
    check_folder_owner(&folder).map_err(|reason| format!("{} {reason}", path.display()))?;
    for part in std::iter::once(name).chain(inside.iter().map(OsStr::new)) {
        path.push(part);
        match mkdirat(&folder, part, Mode::RWXU) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(failed(&path, error)),
        }
        folder = openat(&folder, part, FOLDER_FLAGS, Mode::empty()).map_err(|error| failed(&path, error))?;
        check_folder_owner(&folder).map_err(|reason| format!("{} {reason}", path.display()))?;
    }
    Ok(folder)
}

fn check_folder_owner(folder: impl AsFd) -> Result<(), &'static str> {
    check_owner(&fstat(folder).map_err(|_| "cannot be looked at")?)
}

fn modified_time(found: &Stat) -> SystemTime {
    let seconds = u64::try_from(found.st_mtime).unwrap_or(0);
    SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(seconds)).unwrap_or(SystemTime::UNIX_EPOCH)
}

/// Whether a time is hours ago: nobody will finish a temporary file that old, and a use that old is noted again.
fn is_hours_old(then: SystemTime) -> bool {
    then.elapsed().is_ok_and(|age| age > Duration::from_hours(1))
}
