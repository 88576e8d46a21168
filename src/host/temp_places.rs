//! Where metier puts what it makes for a while: folders of runs, clients, skills that are laid out; and what becomes of it when
//! its host was killed.
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
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
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

use super::clearing::{BY_NAME, Clearing};
use super::own_folders::{own_folders, state_folder};

/// A new folder, gone when dropped, that nobody but the user gets into.
pub(crate) struct TempFolder {
    dir: TempDir,
    /// Goes after what lies in it.
    place: Arc<TempPlace>,
}

impl TempFolder {
    /// A new folder in none of these, which scripts see.
    pub(crate) fn away_from(avoided: &[&Path]) -> io::Result<Self> {
        let mut tries = 0;
        loop {
            let place = place_away_from(avoided)?;
            let own = Permissions::from_mode(0o700);
            let made = tempfile::Builder::new().prefix("metier-").permissions(own).tempdir_in(&place.folder);
            match made {
                // Somebody tidied up.
                Err(error) if error.kind() == io::ErrorKind::NotFound && tries < TRIES => {
                    state().places.retain(|kept| !Arc::ptr_eq(kept, &place));
                    tries += 1;
                }
                made => return Ok(Self { dir: made?, place }),
            }
        }
    }

    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    /// The folder, which somebody else removes as long as the place is there.
    pub(crate) fn keep(self) -> (PathBuf, Arc<TempPlace>) {
        (self.dir.keep(), self.place)
    }
}

/// The folder of this process in which its other temporary folders lie.
pub(crate) struct TempPlace {
    parent: PathBuf,
    folder: PathBuf,
    /// Who can have it knows that this process is gone. Nothing where there are no locks.
    _lock: Option<OwnedFd>,
    /// Device and number of folders that are noted.
    noted: Mutex<BTreeSet<(u64, u64)>>,
}

/// Keeps the places of this process as long as one of these is there, and has what killed hosts left removed.
pub(crate) struct TempPlaces(());

#[derive(Default)]
struct State {
    holders: usize,
    places: Vec<Arc<TempPlace>>,
    clearing: Vec<JoinHandle<()>>,
}

static STATE: Mutex<State> = Mutex::new(State { holders: 0, places: Vec::new(), clearing: Vec::new() });

fn state() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

impl TempPlaces {
    pub(crate) fn hold() -> Self {
        let mut state = state();
        state.holders += 1;
        if state.holders == 1 {
            state.clearing.extend(parents().filter_map(|parent| clear(&parent)));
        }
        Self(())
    }
}

impl Drop for TempPlaces {
    fn drop(&mut self) {
        let mut state = state();
        state.holders -= 1;
        if state.holders == 0 {
            let (places, clearing) = (std::mem::take(&mut state.places), std::mem::take(&mut state.clearing));
            drop(state);
            for thread in clearing {
                thread.join().ok();
            }
            drop(places);
        }
    }
}

/// Folders for temporary files, without links, in the order in which they are tried. What every script reads is none.
static BASES: LazyLock<Vec<PathBuf>> = LazyLock::new(|| {
    const SEEN: [&str; 9] =
        ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/dev/shm", "/proc", "/sys"];
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    let named =
        [Some(std::env::temp_dir()), runtime, Some("/tmp".into()), Some("/var/tmp".into()), state_folder()];
    let mut bases = Vec::new();
    for base in named.into_iter().flatten().filter(|base| base.is_absolute()).map(|base| real(&base)) {
        if !bases.contains(&base) && !SEEN.iter().any(|seen| base.starts_with(seen)) {
            bases.push(base);
        }
    }
    bases
});

/// Folders in which metier keeps what must stay, without links.
static LASTING: LazyLock<Vec<PathBuf>> =
    LazyLock::new(|| own_folders().iter().map(|folder| real(folder)).collect());

/// The path without links, as far as there is anything.
fn real(path: &Path) -> PathBuf {
    for above in path.ancestors() {
        if let Ok(found) = fs::canonicalize(above) {
            return path.strip_prefix(above).map_or(found.clone(), |rest| {
                if rest.as_os_str().is_empty() { found } else { found.join(rest) }
            });
        }
    }
    path.to_owned()
}

fn parents() -> impl Iterator<Item = PathBuf> {
    let name = format!("metier-{}", geteuid().as_raw());
    BASES.iter().map(move |base| base.join(&name))
}

/// Every folder of metier's own that lies in this one, which has no links on its path: no script may read what is in there, nor
/// change it, whatever it was granted.
pub(crate) fn own_places_in(folder: &Path) -> Vec<PathBuf> {
    let all = LASTING.iter().cloned().chain(parents());
    let mut own: Vec<PathBuf> = all.filter(|own| own.starts_with(folder)).collect();
    for base in BASES.iter().filter(|base| base.starts_with(folder)) {
        own.extend(of_others(base).filter(|found| !parents().any(|known| known == *found)));
    }
    own
}

/// The same folders of other users, which root can see into.
fn of_others(base: &Path) -> impl Iterator<Item = PathBuf> {
    let is_number = |rest: &[u8]| !rest.is_empty() && rest.iter().all(u8::is_ascii_digit);
    let named = move |name: &OsStr| name.as_bytes().strip_prefix(b"metier-").is_some_and(is_number);
    let entries = fs::read_dir(base).into_iter().flatten().flatten();
    entries.filter(move |entry| named(&entry.file_name())).map(|entry| entry.path())
}

/// The same, each made where it was missing, so that it can be covered before anything comes into it.
pub(crate) fn covered_places_in(folder: &Path) -> Vec<PathBuf> {
    let mut own = own_places_in(folder);
    for place in &own {
        if place.is_dir() && !parents().any(|own| own == *place) {
            continue;
        }
        if LASTING.contains(place) {
            fs::DirBuilder::new().recursive(true).mode(0o700).create(place).ok();
        } else {
            // As long as one of its folders is there, nobody removes it.
            state().place(place).ok();
        }
    }
    // No link is covered: what it leads to has a place of its own.
    own.retain(|place| place.symlink_metadata().is_ok_and(|found| found.is_dir()));
    // What covers a folder covers what lies in it, which is then no longer there to be covered.
    let outer = own.clone();
    own.retain(|place| !outer.iter().any(|other| place != other && place.starts_with(other)));
    own.dedup();
    own
}

fn place_away_from(avoided: &[&Path]) -> io::Result<Arc<TempPlace>> {
    let mut failed = io::Error::other(
        "every folder for temporary files lies in what the script sees; set TMPDIR to another one",
    );
    for parent in parents().filter(|parent| !avoided.iter().any(|folder| parent.starts_with(folder))) {
        match state().place(&parent) {
            Ok(place) => return Ok(place),
            Err(error) => failed = io::Error::new(error.kind(), format!("{}: {error}", parent.display())),
        }
    }
    Err(failed)
}

/// How often something is made that others may take away meanwhile.
const TRIES: usize = 16;

impl State {
    fn place(&mut self, parent: &Path) -> io::Result<Arc<TempPlace>> {
        if let Some(place) = self.places.iter().find(|place| place.parent == parent) {
            return Ok(Arc::clone(place));
        }
        let mut made = Err(Errno::NOENT.into());
        for _ in 0..TRIES {
            made = TempPlace::new(parent);
            if made.is_ok() || made.as_ref().is_err_and(|error| error.kind() != io::ErrorKind::NotFound) {
                break;
            }
        }
        let place = Arc::new(made?);
        if self.holders > 0 {
            self.places.push(Arc::clone(&place));
        }
        Ok(place)
    }
}

impl TempPlace {
    /// `NotFound` where somebody else removed it meanwhile.
    fn new(parent: &Path) -> io::Result<Self> {
        if let Some(base) = parent.parent() {
            fs::DirBuilder::new().recursive(true).mode(0o700).create(base)?;
        }
        match mkdirat(CWD, parent, Mode::RWXU) {
            Err(Errno::EXIST) | Ok(()) => {}
            Err(error) => return Err(error.into()),
        }
        let opened = own_folder(CWD, parent)?;
        let name = format!("{HOST}{:016x}", RandomState::new().build_hasher().finish());
        mkdirat(&opened, &name, Mode::RWXU)?;
        let lock = own_folder(&opened, &name)?;
        let lock = match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Some(lock),
            // Somebody takes it for left.
            Err(Errno::WOULDBLOCK) => return Err(Errno::NOENT.into()),
            Err(_) => None,
        };
        // Between both it may have been taken for left, and removed.
        statat(&opened, &name, AtFlags::SYMLINK_NOFOLLOW)?;
        let folder = parent.join(&name);
        Ok(Self { parent: parent.to_owned(), folder, _lock: lock, noted: Mutex::default() })
    }

    /// Remembers on disk that this process is about to write a file in this folder.
    fn note(&self, folder: impl AsFd) -> io::Result<()> {
        let about = fstat(&folder)?;
        #[allow(
            clippy::unnecessary_cast,
            clippy::cast_sign_loss,
            reason = "they are of other types elsewhere"
        )]
        let identity = (about.st_dev as u64, about.st_ino as u64);
        let mut noted = self.noted.lock().unwrap_or_else(PoisonError::into_inner);
        if noted.insert(identity) {
            let path = fs::read_link(format!("/proc/self/fd/{}", folder.as_fd().as_raw_fd()))?;
            let mut line = path.into_os_string().into_encoded_bytes();
            line.push(0);
            let mut options = File::options();
            options.append(true).create(true).mode(0o600).open(self.folder.join(DRAFTS))?.write_all(&line)?;
        }
        Ok(())
    }
}

impl Drop for TempPlace {
    fn drop(&mut self) {
        fs::remove_file(self.folder.join(DRAFTS)).ok();
        fs::remove_dir(&self.folder).ok();
        // Others may have something in it.
        fs::remove_dir(&self.parent).ok();
    }
}

/// What the folders of processes are called, before a number.
const HOST: &str = "host-";
const DRAFTS: &str = "drafts";

/// Opens a folder of the user's own, which nobody else gets into from then on.
fn own_folder(above: impl AsFd, name: impl rustix::path::Arg) -> io::Result<OwnedFd> {
    let handle = openat(above, name, BY_NAME | FOLDER, Mode::empty())?;
    let about = fstat(&handle)?;
    if about.st_uid != geteuid().as_raw() {
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, "it belongs to somebody else"));
    }
    // A script that sees modes may have changed it.
    if about.st_mode & 0o7777 != 0o700 {
        chmod(format!("/proc/self/fd/{}", handle.as_raw_fd()), Mode::RWXU)?;
    }
    Ok(openat(&handle, c".", OFlags::RDONLY | FOLDER, Mode::empty())?)
}

/// What a draft is called.
pub(super) fn draft_name() -> String {
    format!(".{:016x}{DRAFT}", RandomState::new().build_hasher().finish())
}

const DRAFT: &str = ".draft";

/// Says that a file of that name is being written in this folder, before it is there; where that cannot be said, it is written all
/// the same.
pub(super) fn note_draft(folder: impl AsFd) {
    let mut state = state();
    if state.holders == 0 {
        return;
    }
    let place = match state.places.first() {
        Some(place) => Some(Arc::clone(place)),
        None => parents().find_map(|parent| state.place(&parent).ok()),
    };
    drop(state);
    place.map(|place| place.note(folder).ok());
}

/// Keeps a draft from being taken for one that was left.
pub(super) fn hold_draft(draft: impl AsFd) {
    flock(draft, FlockOperation::NonBlockingLockExclusive).ok();
}

/// The same for a host that was killed, by whoever saw it.
pub(crate) fn clear_after(parent: &Path) {
    let name = format!("metier-{}", geteuid().as_raw());
    if parent.file_name().is_some_and(|last| last == OsStr::new(&name)) {
        clear(parent).map(JoinHandle::join);
        fs::remove_dir(parent).ok();
    }
}

/// The folders of this process, which somebody else removes should it be killed.
pub(crate) fn places() -> Vec<PathBuf> {
    state().places.iter().map(|place| place.folder.clone()).collect()
}

/// Removes what was left here by processes that are gone, on a thread of its own where there is any.
fn clear(parent: &Path) -> Option<JoinHandle<()>> {
    let listed = openat(CWD, parent, OFlags::RDONLY | FOLDER, Mode::empty()).ok()?;
    if fstat(&listed).ok()?.st_uid != geteuid().as_raw() {
        return None;
    }
    let names = Dir::read_from(&listed).ok()?.filter_map(|entry| Some(entry.ok()?.file_name().to_owned()));
    let is_host = |name: &CString| is_numbered(name.to_bytes(), HOST.as_bytes(), b"");
    let left: Vec<Left> = names.filter(is_host).filter_map(|name| Left::found(&listed, name)).collect();
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
    std::thread::Builder::new().name("metier-clearing".into()).spawn(work).ok()
}

/// The folder of a process that is gone, which nobody else takes for left meanwhile.
struct Left {
    name: CString,
    folder: OwnedFd,
}

const FOLDER: OFlags = OFlags::DIRECTORY.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

impl Left {
    fn found(parent: &OwnedFd, name: CString) -> Option<Self> {
        let folder = own_folder(parent, name.as_c_str()).ok()?;
        flock(&folder, FlockOperation::NonBlockingLockExclusive).ok()?;
        Some(Self { name, folder })
    }

    fn remove(&self, parent: &OwnedFd) {
        self.remove_drafts();
        // Whoever still ends there may make or remove something meanwhile.
        for _ in 0..TRIES {
            let cleared = Clearing::at(parent, self.name.as_c_str())
                .and_then(|mut clearing| clearing.finish(usize::MAX));
            if cleared.is_ok() && unlinkat(parent, self.name.as_c_str(), AtFlags::REMOVEDIR).is_ok() {
                return;
            }
        }
    }

    /// Removes the files it was writing.
    fn remove_drafts(&self) {
        let Ok(file) =
            openat(&self.folder, DRAFTS, OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())
        else {
            return;
        };
        let mut text = Vec::new();
        File::from(file).take(1 << 20).read_to_end(&mut text).ok();
        for path in text.split(|byte| *byte == 0).filter(|path| !path.is_empty()) {
            let path = Path::new(OsStr::from_bytes(path));
            // A link has come there since: it is another folder.
            if fs::canonicalize(path).is_ok_and(|real| real == path) {
                remove_drafts_in(path).ok();
            }
        }
    }
}

fn remove_drafts_in(path: &Path) -> rustix::io::Result<()> {
    let folder = openat(CWD, path, OFlags::RDONLY | FOLDER, Mode::empty())?;
    for entry in Dir::read_from(&folder)? {
        let entry = entry?;
        let name = entry.file_name();
        if !is_numbered(name.to_bytes(), b".", DRAFT.as_bytes()) {
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
        // Who writes it holds it.
        if opened.is_ok_and(|draft| flock(&draft, FlockOperation::NonBlockingLockExclusive).is_ok()) {
            unlinkat(&folder, name, AtFlags::empty())?;
        }
    }
    Ok(())
}

/// Whether a name is this, sixteen digits, and that.
fn is_numbered(name: &[u8], before: &[u8], behind: &[u8]) -> bool {
    let number = name.strip_prefix(before).and_then(|rest| rest.strip_suffix(behind));
    number.is_some_and(|number| {
        number.len() == 16
            && number.iter().all(|digit| digit.is_ascii_digit() || (b'a'..=b'f').contains(digit))
    })
}
