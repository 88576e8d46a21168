//! The folder of a store of the user, such as the trust store: opened by handle, checked for its owner and mode, its files replaced
//! atomically under a lock.

use std::fs::{File, TryLockError};
use std::io::{self, Read, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use cap_fs_ext::{DirExt, FollowSymlinks, OpenOptionsFollowExt, OpenOptionsSyncExt};
use cap_std::ambient_authority;
use cap_std::fs::{Dir, OpenOptions};

use metier_core::error::{ErrorKind, Result, SkillError};
use metier_core::host::canonical_folder::canonical_folder;
use metier_core::host::file_stat::FileStat;
use metier_core::host::{FileId, file_id};

/// Maximum bytes of a file of the store.
const MAX_BYTES: u64 = 16 << 20;
/// How long a writer waits for another one.
const LOCK_TIMEOUT: Duration = Duration::from_secs(30);
const LOCK_INTERVAL: Duration = Duration::from_millis(2);

/// What a store is called.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StoreName {
    /// In a sentence, such as `the trust store`.
    pub(crate) title: &'static str,
    /// What follows where it cannot be used.
    pub(crate) consequence: &'static str,
    /// The file that is locked while it changes.
    pub(crate) lock_file: &'static str,
}

/// The open folder of a store.
#[derive(Debug)]
pub(crate) struct StoreFolder {
    name: StoreName,
    dir: Dir,
    /// No other folder has it while this one is open.
    id: Option<FileId>,
}

impl StoreFolder {
    /// Opens the folder; `None` where there is none. `denied` if somebody else could have written to it.
    pub(crate) fn open(path: &Path, name: StoreName) -> Result<Option<Self>> {
        let failed = |source| SkillError::io(format_args!("failed to open {}", path.display()), source);
        match path.symlink_metadata() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(failed(error)),
            Ok(found) if !found.is_dir() => {
                return Err(store_error(path, name, "it is not a folder but a link or a file"));
            }
            Ok(_) => {}
        }
        let real = canonical_folder(path).map_err(failed)?;
        if let Some(reason) = unsafe_reason(&real) {
            return Err(store_error(path, name, &reason));
        }
        // No link in the last name, even one that was put there since.
        let (Some(parent), Some(last)) = (real.parent(), real.file_name()) else {
            return Err(store_error(path, name, "it is the root of a file system"));
        };
        let parent = Dir::open_ambient_dir(parent, ambient_authority()).map_err(failed)?;
        let dir = parent.open_dir_nofollow(last).map_err(failed)?;
        Ok(Some(Self::new(dir, name)))
    }

    fn new(dir: Dir, name: StoreName) -> Self {
        let id = dir.dir_metadata().ok().map(|opened| file_id(&opened));
        Self { name, dir, id }
    }

    /// Opens the folder, which only its user can read; it and the folders above are created.
    pub(crate) fn create(path: &Path, name: StoreName) -> Result<Self> {
        let failed = |source| SkillError::io(format_args!("failed to create {}", path.display()), source);
        if let Some(reason) = unsafe_reason(&metier_core::host::metier_dirs::resolve_existing(path)) {
            return Err(store_error(path, name, &reason));
        }
        private_dir_builder().create(path).map_err(failed)?;
        let folder = Self::open(path, name)?.ok_or_else(|| failed(io::ErrorKind::NotFound.into()))?;
        // It may have been there, open to the eyes of others.
        make_private(&folder.dir).map_err(failed)?;
        Ok(folder)
    }

    /// A folder in it, created if it is missing.
    pub(crate) fn subfolder(&self, name: &str) -> io::Result<Self> {
        match self.dir.create_dir(name) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        let dir = self.dir.open_dir_nofollow(name)?;
        make_private(&dir)?;
        Ok(Self::new(dir, self.name))
    }

    /// Locks the store against other writers until the file is dropped.
    pub(crate) fn lock(&self) -> Result<File> {
        let title = self.name.title;
        let failed = |source| SkillError::io(format_args!("failed to lock {title}"), source);
        let mut options = private_file_options();
        let lock = self.dir.open_with(self.name.lock_file, options.create(true)).map_err(failed)?.into_std();
        let began = Instant::now();
        loop {
            match lock.try_lock() {
                Ok(()) => return Ok(lock),
                Err(TryLockError::WouldBlock) if began.elapsed() < LOCK_TIMEOUT => {
                    std::thread::sleep(LOCK_INTERVAL);
                }
                Err(TryLockError::WouldBlock) => {
                    let sentence =
                        format!("failed to lock {title}: another process has held it for 30 seconds");
                    return Err(
                        SkillError::new(ErrorKind::Unavailable, sentence).with_help("end that process")
                    );
                }
                Err(TryLockError::Error(error)) => return Err(failed(error)),
            }
        }
    }

    /// The content of a file and its stat; `None` where there is none. `denied` for a link, and for a file that is not the
    /// user's own or that others can write.
    pub(crate) fn read(&self, name: &str) -> Result<Option<(Vec<u8>, FileStat)>> {
        let title = self.name.title;
        let failed = |source| SkillError::io(format_args!("failed to read {name} of {title}"), source);
        let refused = |reason: &str| {
            let sentence = format!("{name} of {title} is not used: {reason}");
            Err(SkillError::new(ErrorKind::Denied, sentence).with_help("look at it and remove it"))
        };
        match self.dir.symlink_metadata(name) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(failed(error)),
            Ok(found) if !found.is_file() => return refused("it is not a regular file"),
            Ok(_) => {}
        }
        let mut options = OpenOptions::new();
        options.read(true).nonblock(true).follow(FollowSymlinks::No);
        let mut file = self.dir.open_with(name, &options).map_err(failed)?.into_std();
        let about = file.metadata().map_err(failed)?;
        if let Some(reason) = foreign_reason(&about) {
            return refused(reason);
        }
        let stat = FileStat::of_open(&file).map_err(failed)?;
        let size = usize::try_from(about.len().min(MAX_BYTES)).unwrap_or_default();
        let mut content = Vec::with_capacity(size + 1);
        (&mut file).take(MAX_BYTES + 1).read_to_end(&mut content).map_err(failed)?;
        if content.len() as u64 > MAX_BYTES {
            return refused("it is larger than 16 MiB");
        }
        Ok(Some((content, stat)))
    }

    /// The stat of a file, without reading it.
    #[cfg(unix)]
    pub(crate) fn stat(&self, name: &str) -> Option<FileStat> {
        let flags = rustix::fs::AtFlags::SYMLINK_NOFOLLOW;
        rustix::fs::statat(&self.dir, name, flags).ok().map(|stat| FileStat::new(&stat))
    }

    #[cfg(not(unix))]
    pub(crate) fn stat(&self, name: &str) -> Option<FileStat> {
        FileStat::of_open(&self.dir.open(name).ok()?.into_std()).ok()
    }

    /// Puts a new file in the place of another one: a reader finds the old content or the new, also after a crash. If `previous`
    /// is named, the old file is kept under that name.
    pub(crate) fn replace(&self, name: &str, content: &[u8], previous: Option<&str>) -> io::Result<()> {
        let new = self.write_beside(name, content, File::sync_all)?;
        if let Some(previous) = previous {
            self.keep_as(name, previous)?;
        }
        self.dir.rename(&new, &self.dir, name)?;
        self.sync()
    }

    /// The same for a file that may be lost in a crash.
    pub(crate) fn replace_unsynced(&self, name: &str, content: &[u8]) -> io::Result<()> {
        let new = self.write_beside(name, content, |_| Ok(()))?;
        self.dir.rename(&new, &self.dir, name)
    }

    /// Writes the new content of a file under another name, which is the answer.
    fn write_beside(
        &self,
        name: &str,
        content: &[u8],
        sync: impl FnOnce(&File) -> io::Result<()>,
    ) -> io::Result<String> {
        if content.len() as u64 > MAX_BYTES {
            return Err(io::Error::other("it would be larger than 16 MiB"));
        }
        let new = format!("{name}.new");
        // A writer that was killed may have left it.
        self.remove(&new)?;
        let write = || {
            let mut file = self.dir.open_with(&new, private_file_options().create_new(true))?.into_std();
            file.write_all(content)?;
            sync(&file)
        };
        if let Err(error) = write() {
            self.remove(&new).ok();
            return Err(error);
        }
        Ok(new)
    }

    /// Whether there is a file of that name.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.dir.symlink_metadata(name).is_ok()
    }

    /// Whether the folder at this path is this one, and no link leads to it.
    pub(crate) fn is_at(&self, path: &Path) -> bool {
        let found = path.symlink_metadata().map(|found| file_id(&found));
        self.id.is_some_and(|id| found.is_ok_and(|found| found == id))
    }

    /// Keeps a file under another name too, in place of one that has it.
    pub(crate) fn keep_as(&self, name: &str, other: &str) -> io::Result<()> {
        self.remove(other)?;
        // Without it only the copy is missing, so a file system without hard links is no reason to fail.
        self.dir.hard_link(name, &self.dir, other).ok();
        Ok(())
    }

    /// Removes a file, if it is there.
    pub(crate) fn remove(&self, name: &str) -> io::Result<()> {
        match self.dir.remove_file(name) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// The names in it.
    pub(crate) fn names(&self) -> io::Result<Vec<String>> {
        let entries = self.dir.entries()?;
        let names = entries.map(|entry| Ok(entry?.file_name().into_string().ok()));
        names.filter_map(io::Result::transpose).collect()
    }

    /// Waits until the names in it are on disk.
    pub(crate) fn sync(&self) -> io::Result<()> {
        if cfg!(unix) { self.dir.open(".")?.into_std().sync_all() } else { Ok(()) }
    }
}

/// The files are the user's alone.
fn private_file_options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true).follow(FollowSymlinks::No);
    #[cfg(unix)]
    cap_std::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

pub(crate) fn private_dir_builder() -> std::fs::DirBuilder {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder
}

#[cfg(unix)]
pub(crate) fn make_private(dir: &Dir) -> io::Result<()> {
    use cap_std::fs::PermissionsExt;
    dir.set_permissions(".", cap_std::fs::Permissions::from_mode(0o700))
}

#[cfg(not(unix))]
pub(crate) fn make_private(_dir: &Dir) -> io::Result<()> {
    Ok(())
}

#[cfg(unix)]
pub(crate) fn unsafe_reason(folder: &Path) -> Option<String> {
    metier_core::host::metier_dirs::unsafe_reason(folder)
}

#[cfg(not(unix))]
pub(crate) fn unsafe_reason(_folder: &Path) -> Option<String> {
    None
}

/// Why a file is not the user's alone.
#[cfg(unix)]
pub(crate) fn foreign_reason(about: &std::fs::Metadata) -> Option<&'static str> {
    use std::os::unix::fs::MetadataExt;
    const BY_OTHERS: u32 = 0o022;
    if about.uid() != rustix::process::geteuid().as_raw() {
        return Some("it belongs to somebody else");
    }
    (about.mode() & BY_OTHERS != 0).then_some("it can be written by others")
}

#[cfg(not(unix))]
pub(crate) fn foreign_reason(_about: &std::fs::Metadata) -> Option<&'static str> {
    None
}

fn store_error(path: &Path, StoreName { title, consequence, .. }: StoreName, reason: &str) -> SkillError {
    let sentence = format!("{title} {} is not used, so {consequence}: {reason}", path.display());
    SkillError::new(ErrorKind::Denied, sentence).with_help(
        "use a folder of your own that is outside of any project, and set METIER_DATA_DIR to its path",
    )
}
