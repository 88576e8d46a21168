//! The store of prepared packages: private to its user, shared between projects, and checked before use.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rustix::fs::{FlockOperation, flock};
use rustix::process::geteuid;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::added_packages::AddedPackages;
use super::requirements::{Ecosystem, Requirements};
use super::stored::{InstalledInterpreter, StoredPackages};
use super::tree::{Tree, hex};
use metier_core::error::{ErrorKind, Result, SkillError};
use metier_core::host::DirCleaner;
use metier_core::host::metier_dirs::{package_store_dir, resolve_existing, unsafe_reason};
use metier_core::policy::{SkillDigest, Timestamp};

const ENTRIES: &str = "entries";
const REQUESTS: &str = "requests";
const ADDED: &str = "added";
const LOCK: &str = "lock";
const RECORD: &str = "about.json";
const FILES: &str = "files";
const WORK_PREFIX: &str = "work-";
/// Maximum bytes of a record.
const MAX_RECORD_BYTES: u64 = 16 << 20;
/// How long something that no run has used is kept by [`PackageStore::prune`].
const MAX_IDLE: Duration = Duration::from_hours(30 * 24);
/// How old the time of the last use may be before it is written again.
const USE_INTERVAL: Duration = Duration::from_hours(24);

/// The folder with the packages that were prepared for scripts, shared between projects. Only the user can read it; a script
/// reads the packages that were prepared for it, and changes none.
#[derive(Clone, Debug)]
pub struct PackageStore {
    folder: PathBuf,
}

/// What is known of an entry, in its `about.json`.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct EntryRecord {
    ecosystem: String,
    packages: Vec<String>,
    lock: String,
    interpreter: InstalledInterpreter,
    content: String,
    stamps: String,
    bytes: u64,
    files: u64,
    prepared: u64,
}

/// One set of requirements: which entries serve it.
#[derive(Default, Serialize, Deserialize)]
struct RequestRecord {
    served: Vec<ServedRequest>,
}

#[derive(Clone, Serialize, Deserialize)]
struct ServedRequest {
    interpreter: InstalledInterpreter,
    /// What the system says about the executable: another one at its path is another interpreter.
    stamp: String,
    entry: String,
    content: String,
}

/// What a script needs, and where it is looked for.
#[derive(Clone, Debug)]
pub struct PackageRequest {
    /// The store.
    pub store: PackageStore,
    /// What is required.
    pub requirements: Arc<Requirements>,
}

/// Packages that a run may read.
#[derive(Clone, Debug)]
pub struct PreparedFiles {
    /// The folder that is searched for modules.
    pub folder: PathBuf,
    /// The interpreter that they were prepared for.
    pub executable: PathBuf,
}

/// A preparation in progress. Dropped without [`Preparation::publish`], it leaves nothing.
pub struct Preparation {
    store: PackageStore,
    work: PathBuf,
    _lock: File,
}

impl PackageStore {
    /// The store of this user: in the folder that the environment variable `METIER_DATA_DIR` names, or in that of metier in the
    /// user's data folder. `unavailable` if the user has none.
    pub fn user() -> Result<Self> {
        let missing = || {
            let sentence = "there is no folder for packages: the home folder of the user is not known";
            SkillError::new(ErrorKind::Unavailable, sentence)
                .with_help("set METIER_DATA_DIR to the path of a folder")
        };
        package_store_dir().map(Self::new).ok_or_else(missing)
    }

    /// The store in this folder, which need not exist. It must not lie in a project, where scripts could write to it.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        // A slash at the end would follow a link.
        Self { folder: folder.into().components().collect() }
    }

    /// Its folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// What is in it, sorted by ecosystem and packages. `denied` if somebody else could have written to it.
    pub fn list(&self) -> Result<Vec<StoredPackages>> {
        let Some(root) = self.open(false)? else { return Ok(Vec::new()) };
        let mut found: Vec<StoredPackages> = names_in(&root.join(ENTRIES))
            .into_iter()
            .filter_map(|key| Some(stored(&read_json(&root.join(ENTRIES).join(&key).join(RECORD))?, key)))
            .collect();
        found.sort_by(|a, b| (&a.ecosystem, &a.packages).cmp(&(&b.ecosystem, &b.packages)));
        Ok(found)
    }

    /// Removes what killed preparations left, what is broken, and what was not used for 30 days. Returns what it removed; of
    /// preparations in progress nothing.
    pub fn prune(&self) -> Result<Vec<StoredPackages>> {
        self.remove_where(|age, is_served| age > MAX_IDLE || !is_served)
    }

    /// Removes everything that is prepared, and what people added. Returns what it removed.
    pub fn clear(&self) -> Result<Vec<StoredPackages>> {
        if let Some(root) = self.open(false)? {
            let failed = |source| SkillError::io("failed to remove packages", source);
            let _lock = lock_store(&root).map_err(failed)?;
            for name in names_in(&root.join(ADDED)) {
                fs::remove_file(root.join(ADDED).join(name)).map_err(failed)?;
            }
        }
        self.remove_where(|_, _| true)
    }

    /// Removes the requests for which this is true, by the time since their last use and whether an entry serves them, and then the
    /// entries that serve none.
    fn remove_where(&self, is_meant: impl Fn(Duration, bool) -> bool) -> Result<Vec<StoredPackages>> {
        let failed = |source| SkillError::io("failed to remove packages", source);
        let Some(root) = self.open(false)? else { return Ok(Vec::new()) };
        let _lock = lock_store(&root).map_err(failed)?;
        sweep(&root).map_err(failed)?;
        let mut used = Vec::new();
        for name in names_in(&root.join(REQUESTS)) {
            let path = root.join(REQUESTS).join(&name);
            let mut record: RequestRecord = read_json(&path).unwrap_or_default();
            record.served.retain(|served| {
                let is_current = stamp(&served.interpreter.executable).is_some_and(|now| now == served.stamp);
                is_current && verify(&root, served).is_ok()
            });
            let age =
                path.metadata().and_then(|about| about.modified()).ok().and_then(|at| at.elapsed().ok());
            if is_meant(age.unwrap_or_default(), !record.served.is_empty()) {
                fs::remove_file(&path).map_err(failed)?;
                continue;
            }
            used.extend(record.served.into_iter().map(|served| served.entry));
        }
        let mut removed = Vec::new();
        for key in names_in(&root.join(ENTRIES)) {
            if used.contains(&key) {
                continue;
            }
            let path = root.join(ENTRIES).join(&key);
            let record = read_json(&path.join(RECORD));
            remove_tree(&path).map_err(failed)?;
            removed.extend(record.map(|record| stored(&record, key)));
        }
        Ok(removed)
    }

    /// The canonical path of the store; `None` where there is none and it is not to be made.
    fn open(&self, creates: bool) -> Result<Option<PathBuf>> {
        let failed =
            |source| SkillError::io(format_args!("failed to open {}", self.folder.display()), source);
        let refused = |reason: &str| {
            let sentence = format!("the packages in {} are not used: {reason}", self.folder.display());
            Err(SkillError::new(ErrorKind::Denied, sentence).with_help(
                "use a folder of your own that is outside of any project, and set METIER_DATA_DIR to its path",
            ))
        };
        let path = resolve_existing(&self.folder);
        if let Some(reason) = unsafe_reason(&path) {
            return refused(&reason);
        }
        match self.folder.symlink_metadata() {
            Ok(found) if !found.is_dir() => return refused("it is not a folder but a link or a file"),
            Ok(found) if found.uid() != geteuid().as_raw() => return refused("it belongs to somebody else"),
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
            Err(_) if !creates => return Ok(None),
            Ok(_) | Err(_) => {}
        }
        for folder in [path.clone(), path.join(ENTRIES), path.join(REQUESTS), path.join(ADDED)] {
            match folder.symlink_metadata() {
                Ok(found) if found.is_dir() => {}
                Ok(_) => return refused(&format!("{} is a link or a file", folder.display())),
                Err(_) => DirBuilder::new().recursive(true).mode(0o700).create(&folder).map_err(failed)?,
            }
        }
        Ok(Some(path))
    }
}

/// Whether anything was ever prepared in the store.
pub fn has_requests(store: &PackageStore) -> bool {
    fs::read_dir(store.folder.join(REQUESTS)).is_ok_and(|mut entries| entries.next().is_some())
}

/// What a person has added to the packages of the skill whose files have this digest.
pub fn added_packages(store: &PackageStore, files: SkillDigest) -> Result<AddedPackages> {
    let Some(root) = store.open(false)? else { return Ok(AddedPackages::default()) };
    Ok(read_json(&root.join(ADDED).join(added_file(files))).unwrap_or_default())
}

/// Notes what a person adds to the packages of the skill whose files have this digest, in place of what was noted before.
pub fn set_added_packages(store: &PackageStore, files: SkillDigest, added: &AddedPackages) -> Result<()> {
    let failed = |source| SkillError::io("failed to store which packages are added", source);
    let root = store.open(true)?.ok_or_else(|| failed(io::ErrorKind::NotFound.into()))?;
    let _lock = lock_store(&root).map_err(failed)?;
    write_json(&root.join(ADDED).join(added_file(files)), added).map_err(failed)
}

/// Begins a preparation: an empty folder, which the package managers may change.
pub fn begin_preparation(store: &PackageStore) -> Result<Preparation> {
    let failed = |source| SkillError::io("failed to make a folder for packages", source);
    let root = store.open(true)?.ok_or_else(|| failed(io::ErrorKind::NotFound.into()))?;
    let _store_lock = lock_store(&root).map_err(failed)?;
    sweep(&root).map_err(failed)?;
    let work = tempfile::Builder::new().prefix(WORK_PREFIX).tempdir_in(&root).map_err(failed)?.keep();
    let lock = open_lock(&work).map_err(failed)?;
    flock(&lock, FlockOperation::NonBlockingLockExclusive).map_err(|error| failed(error.into()))?;
    DirBuilder::new().mode(0o700).create(work.join("project")).map_err(failed)?;
    Ok(Preparation { store: store.clone(), work, _lock: lock })
}

impl PackageRequest {
    /// What was prepared for the interpreter at this path; `None` if nothing was, or if it is another interpreter by now. `untrusted`
    /// if somebody has changed the files since.
    pub fn prepared_for(&self, program: &Path) -> Result<Option<PreparedFiles>> {
        let Some((root, served)) = self.served(program)? else { return Ok(None) };
        let folder = verify(&root, &served).map_err(|reason| {
            let sentence =
                format!("the packages that {} names are not used: {reason}", self.requirements.source);
            SkillError::new(ErrorKind::Untrusted, sentence)
                .with_help("prepare them again, and find out who writes to the folder of packages")
        })?;
        note_use(&root.join(REQUESTS).join(self.file_name()));
        Ok(Some(PreparedFiles { folder, executable: served.interpreter.executable }))
    }

    /// The canonical path of the store, and what serves the interpreter at this path, if it is the same one still.
    fn served(&self, program: &Path) -> Result<Option<(PathBuf, ServedRequest)>> {
        let Some(root) = self.store.open(false)? else { return Ok(None) };
        let record: Option<RequestRecord> = read_json(&root.join(REQUESTS).join(self.file_name()));
        let is_meant = |served: &ServedRequest| {
            let interpreter = &served.interpreter;
            (interpreter.program == program || interpreter.executable == program)
                && stamp(&interpreter.executable).is_some_and(|now| now == served.stamp)
        };
        let served = record.into_iter().flat_map(|record| record.served).find(is_meant);
        Ok(served.map(|served| (root, served)))
    }

    /// The entry that serves this program, for people. Its files are not compared.
    pub fn stored_for(&self, program: &Path) -> Option<StoredPackages> {
        let (root, served) = self.served(program).ok()??;
        let record = read_json(&root.join(ENTRIES).join(&served.entry).join(RECORD))?;
        Some(stored(&record, served.entry))
    }

    /// The digests of the files that were prepared, for whatever interpreter, sorted.
    pub fn content_digests(&self) -> Vec<String> {
        let Ok(Some(root)) = self.store.open(false) else { return Vec::new() };
        let record: RequestRecord =
            read_json(&root.join(REQUESTS).join(self.file_name())).unwrap_or_default();
        let mut digests: Vec<String> = record.served.into_iter().map(|served| served.content).collect();
        digests.sort_unstable();
        digests.dedup();
        digests
    }

    fn file_name(&self) -> String {
        format!("{}.json", hex(&self.requirements.digest()))
    }
}

impl Preparation {
    /// The folder in which the package managers work.
    pub fn project(&self) -> PathBuf {
        self.work.join("project")
    }

    /// Where the files of this lock will lie.
    pub fn destination(
        &self,
        ecosystem: Ecosystem,
        lock: &str,
        interpreter: &InstalledInterpreter,
    ) -> PathBuf {
        let root = self.work.parent().unwrap_or(&self.work);
        root.join(ENTRIES).join(entry_key(ecosystem_name(ecosystem), lock, interpreter)).join(FILES)
    }

    /// Makes what the package managers left in a folder of the project an entry of the store, which serves this request from now on.
    pub fn publish(
        self,
        request: &PackageRequest,
        interpreter: &InstalledInterpreter,
        (lock, packages): (String, Vec<String>),
        folder: &str,
    ) -> Result<StoredPackages> {
        let failed = |source| SkillError::io("failed to store the packages", source);
        let root = self.store.open(true)?.ok_or_else(|| failed(io::ErrorKind::NotFound.into()))?;
        let entry = self.work.join("entry");
        DirBuilder::new().mode(0o700).create(&entry).map_err(failed)?;
        let files = entry.join(FILES);
        match fs::rename(self.project().join(folder), &files) {
            // Where nothing is needed on this platform, nothing is installed.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                DirBuilder::new().mode(0o700).create(&files).map_err(failed)?;
            }
            renamed => renamed.map_err(failed)?,
        }
        let unusable = |error: io::Error| {
            SkillError::new(ErrorKind::InvalidSkill, format!("the packages are not used: {error}"))
        };
        let tree = Tree::list(&files).map_err(unusable)?;
        let ecosystem = ecosystem_name(request.requirements.ecosystem());
        let record = EntryRecord {
            ecosystem: ecosystem.to_owned(),
            packages,
            content: tree.content().map_err(failed)?,
            stamps: tree.stamps(),
            bytes: tree.bytes,
            files: tree.files,
            prepared: seconds_now(),
            interpreter: interpreter.clone(),
            lock,
        };
        write_json(&entry.join(RECORD), &record).map_err(failed)?;
        sync(&entry);
        let key = entry_key(&record.ecosystem, &record.lock, &record.interpreter);
        let _store_lock = lock_store(&root).map_err(failed)?;
        let place = root.join(ENTRIES).join(&key);
        let mut served = ServedRequest {
            interpreter: interpreter.clone(),
            stamp: stamp(&interpreter.executable).ok_or_else(|| failed(io::ErrorKind::NotFound.into()))?,
            entry: key.clone(),
            content: record.content.clone(),
        };
        let known: Option<EntryRecord> = read_json(&place.join(RECORD));
        let record = match known {
            // Another preparation of the same lock was faster. Files that differ only by their time of making are the same.
            Some(known) if is_intact(&root, &mut served, &known) => known,
            _ => {
                remove_tree(&place).map_err(failed)?;
                fs::rename(&entry, &place).map_err(failed)?;
                served.content.clone_from(&record.content);
                record
            }
        };
        let path = root.join(REQUESTS).join(request.file_name());
        let mut requests: RequestRecord = read_json(&path).unwrap_or_default();
        requests.served.retain(|other| other.interpreter.program != interpreter.program);
        requests.served.push(served);
        write_json(&path, &requests).map_err(failed)?;
        Ok(stored(&record, key))
    }
}

impl Drop for Preparation {
    fn drop(&mut self) {
        if let Err(error) = remove_tree(&self.work) {
            tracing::warn!("failed to remove {}: {error}", self.work.display());
        }
    }
}

/// Whether the entry that is there has the files that it was made with.
fn is_intact(root: &Path, served: &mut ServedRequest, known: &EntryRecord) -> bool {
    served.content.clone_from(&known.content);
    verify(root, served).is_ok()
}

/// The folder of an entry whose files are those that were prepared; otherwise why it is not used: the rest of a sentence.
fn verify(root: &Path, served: &ServedRequest) -> std::result::Result<PathBuf, String> {
    let is_key = served.entry.len() == 64 && served.entry.bytes().all(|digit| digit.is_ascii_hexdigit());
    let entry = root.join(ENTRIES).join(&served.entry);
    let gone = || "they are not in the folder of packages any more".to_owned();
    if !is_key || !entry.symlink_metadata().is_ok_and(|about| about.is_dir()) {
        return Err(gone());
    }
    let record: EntryRecord = read_json(&entry.join(RECORD)).ok_or_else(gone)?;
    let files = entry.join(FILES);
    let changed = "their files were changed since they were prepared";
    let tree = Tree::list(&files).map_err(|error| format!("{changed}: {error}"))?;
    if record.content != served.content
        || entry_key(&record.ecosystem, &record.lock, &record.interpreter) != served.entry
    {
        return Err(changed.to_owned());
    }
    // A copy of the store has other stamps, and the same content.
    let is_same = tree.stamps() == record.stamps
        || tree.content().map_err(|error| format!("{changed}: {error}"))? == served.content;
    if is_same { Ok(files) } else { Err(changed.to_owned()) }
}

/// The lock, the interpreter and the platform, in one name.
fn entry_key(ecosystem: &str, lock: &str, interpreter: &InstalledInterpreter) -> String {
    let mut digest = Sha256::new();
    let executable = interpreter.executable.to_string_lossy();
    let parts = [ecosystem, lock, &interpreter.version, &interpreter.platform, executable.as_ref()];
    digest.update(b"metier entry 1\n");
    for part in parts {
        digest.update((part.len() as u64).to_le_bytes());
        digest.update(part);
    }
    hex(&digest.finalize())
}

/// What the system says about a program and what it leads to; `None` if it is gone.
fn stamp(program: &Path) -> Option<String> {
    let real = fs::canonicalize(program).ok()?;
    let about = real.metadata().ok()?;
    let mut digest = Sha256::new();
    digest.update(real.as_os_str().as_encoded_bytes());
    for number in [about.dev(), about.ino(), about.size()] {
        digest.update(number.to_le_bytes());
    }
    for number in [about.mtime(), about.mtime_nsec()] {
        digest.update(number.to_le_bytes());
    }
    Some(hex(&digest.finalize()))
}

fn stored(record: &EntryRecord, key: String) -> StoredPackages {
    StoredPackages {
        ecosystem: record.ecosystem.clone(),
        packages: record.packages.clone(),
        interpreter: format!("{} at {}", record.interpreter.version, record.interpreter.executable.display()),
        platform: record.interpreter.platform.clone(),
        digest: record.content.clone(),
        bytes: record.bytes,
        files: record.files,
        prepared: Timestamp::from_seconds(record.prepared),
        key,
    }
}

fn ecosystem_name(ecosystem: Ecosystem) -> &'static str {
    match ecosystem {
        Ecosystem::Python => "python",
        Ecosystem::Npm => "npm",
    }
}

/// Removes the folders of preparations that nobody works on any more. The lock of the store must be held.
fn sweep(root: &Path) -> io::Result<()> {
    for name in names_in(root).into_iter().filter(|name| name.starts_with(WORK_PREFIX)) {
        let work = root.join(name);
        let is_idle = match open_lock(&work) {
            Ok(lock) => flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok(),
            Err(_) => true,
        };
        if is_idle {
            remove_tree(&work)?;
        }
    }
    Ok(())
}

fn remove_tree(path: &Path) -> io::Result<()> {
    match path.symlink_metadata() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
        Ok(about) if !about.is_dir() => fs::remove_file(path),
        Ok(_) => {
            DirCleaner::open(path)?.remove_entries(usize::MAX)?;
            fs::remove_dir(path)
        }
    }
}

fn added_file(files: SkillDigest) -> String {
    format!("{}.json", files.to_hex())
}

/// The lock of the store, which is waited for.
fn lock_store(root: &Path) -> io::Result<File> {
    let lock = open_lock(root)?;
    flock(&lock, FlockOperation::LockExclusive)?;
    Ok(lock)
}

fn open_lock(folder: &Path) -> io::Result<File> {
    const FLAGS: rustix::fs::OFlags = rustix::fs::OFlags::NOFOLLOW.union(rustix::fs::OFlags::NONBLOCK);
    let flags = i32::try_from(FLAGS.bits()).map_err(io::Error::other)?;
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .custom_flags(flags)
        .open(folder.join(LOCK))
}

fn names_in(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().filter_map(io::Result::ok);
    let mut names: Vec<String> =
        entries.filter_map(|entry| entry.file_name().to_str().map(str::to_owned)).collect();
    names.sort_unstable();
    names
}

fn read_json<T: for<'de> Deserialize<'de>>(path: &Path) -> Option<T> {
    let mut text = Vec::new();
    if !path.symlink_metadata().ok()?.is_file() {
        return None;
    }
    File::open(path).ok()?.take(MAX_RECORD_BYTES).read_to_end(&mut text).ok()?;
    serde_json::from_slice(&text).ok()
}

/// Replaces a file as a whole.
fn write_json(path: &Path, value: &impl Serialize) -> io::Result<()> {
    let folder = path.parent().unwrap_or(path);
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    file.write_all(&serde_json::to_vec(value)?)?;
    file.as_file().sync_all()?;
    file.persist(path).map(drop).map_err(|error| error.error)
}

/// Writes out what was prepared, so that after a failure of the machine no file has lost its content.
fn sync(folder: &Path) {
    #[cfg(target_os = "linux")]
    if let Ok(folder) = File::open(folder) {
        rustix::fs::syncfs(&folder).ok();
    }
    #[cfg(not(target_os = "linux"))]
    let _ = folder;
}

fn note_use(request: &Path) {
    let Ok(file) = OpenOptions::new().append(true).open(request) else { return };
    let age = file.metadata().and_then(|about| about.modified()).ok().and_then(|at| at.elapsed().ok());
    if age.is_some_and(|age| age > USE_INTERVAL) {
        file.set_modified(SystemTime::now()).ok();
    }
}

fn seconds_now() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
