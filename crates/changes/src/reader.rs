//! Reads a change set from the upper folder of an overlay mount or a delta: only what a run changed is looked at, however large the project is.

use std::collections::HashSet;
use std::ffi::{CString, OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use rustix::fs::{Dir, FileType, Mode, Stat, fgetxattr, fstat};
use rustix::io::Errno;

use super::beneath::open_dir;
use super::link_target::leads_outside;
use super::model::{Change, ChangeKind, ChangeSet, EntryType, FileState, Refusal, encode, is_git_name};
use super::renames::pair_renames;
use super::snapshot::{MODE_BITS, identity, open_file, os_name, size, special_noun, stat, state_of};
use metier_core::error::{ErrorKind, Result, SkillError};
use metier_core::host::files::HiddenPaths;
use metier_core::host::{OPEN_BY_NAME, open_unlocked};
use metier_core::policy::Timestamp;

/// Bytes of a path. The kernel takes 4,096.
const MAX_PATH_BYTES: usize = 3_800;
/// Bytes of all paths together.
const MAX_ALL_PATH_BYTES: usize = 64 << 20;

/// On a folder: nothing of the lower one is seen in it (`y`), or files in it can be whiteouts (`x`).
const OPAQUE: &str = "user.overlay.opaque";
/// On an empty file: it is a whiteout.
const WHITEOUT: &str = "user.overlay.whiteout";
/// On a folder: it is the lower folder of another path.
const REDIRECT: &str = "user.overlay.redirect";
/// On a file: its content is in the lower folder.
const METACOPY: &str = "user.overlay.metacopy";

/// What is known about a run.
#[derive(Clone, Debug)]
pub struct RunFacts {
    /// The canonical folder of the project.
    pub project: PathBuf,
    /// What ran, for a person to read.
    pub skill: String,
    /// When it began: what the project has of a later time is a conflict.
    pub started: SystemTime,
}

/// How much a run may have changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadLimits {
    /// Paths that the run touched, and that are gone.
    pub paths: usize,
    /// Bytes of all files that it wrote.
    pub bytes: u64,
}

impl Default for ReadLimits {
    fn default() -> Self {
        Self { paths: 200_000, bytes: 8 << 30 }
    }
}

/// What a reader of change sets asks its caller.
#[derive(Clone, Copy)]
pub struct ReadRules<'a> {
    /// Asked again and again; its error ends the reading.
    pub check: &'a dyn Fn() -> Result<()>,
    /// Why a path is refused, as a part of a sentence, with all below it; `None` if it is not. For files that no script may change.
    pub refuse: &'a dyn Fn(&str) -> Option<String>,
    /// The paths of the project that are gone, if a delta wrote the folder; `None` for an overlay, which notes them in the folder itself.
    pub hidden: Option<&'a HiddenPaths>,
}

impl Default for ReadRules<'_> {
    fn default() -> Self {
        Self { check: &|| Ok(()), refuse: &|_| None, hidden: None }
    }
}

impl ChangeSet {
    /// Reads what a run that has ended wrote into the upper folder of an overlay mount over `project`, or of a delta. Folders and files that the run
    /// made unreadable in `upper` get the permissions that reading them takes.
    ///
    /// `denied` if the run changed more than `limits` allow; an error of the rules ends it.
    pub fn read(
        project: BorrowedFd<'_>,
        upper: BorrowedFd<'_>,
        facts: &RunFacts,
        limits: &ReadLimits,
        rules: &ReadRules<'_>,
    ) -> Result<Self> {
        let failed = |source| SkillError::io("failed to read what the run changed", source);
        let ended = Timestamp::now();
        let id = random_id()?;
        let project_identity = identity(&fstat(project).map_err(|error| failed(error.into()))?);
        let started = facts.started.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let mut reader = Reader {
            project,
            upper,
            started: i64::try_from(started.as_nanos()).unwrap_or(i64::MAX),
            limits: *limits,
            rules: *rules,
            paths: 0,
            path_bytes: 0,
            bytes: 0,
            folders: vec![UpperFolder { path: PathBuf::new(), lower: Lower::Merged }],
            changes: Vec::new(),
            refused: Vec::new(),
        };
        while let Some(folder) = reader.folders.pop() {
            reader.read_folder(&folder).map_err(|stop| stop.into_error(&failed))?;
        }
        let Reader { mut changes, mut refused, .. } = reader;
        changes.sort_by(|one, other| path_order(&one.path, &other.path));
        refused.sort_by(|one, other| path_order(&one.path, &other.path));
        Ok(Self {
            id,
            started: Timestamp::from_seconds(started.as_secs()),
            ended,
            project: encode(&facts.project),
            project_identity,
            skill: facts.skill.clone(),
            changes: pair_renames(changes),
            refused,
        })
    }
}

/// Paths by their names: what a folder holds comes directly after it.
pub(crate) fn path_order(one: &str, other: &str) -> std::cmp::Ordering {
    one.split('/').cmp(other.split('/'))
}

/// 32 hexadecimal digits by chance.
pub(crate) fn random_id() -> Result<String> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|error| {
        let sentence = format!("the system has no random numbers: {error}");
        SkillError::new(ErrorKind::Unavailable, sentence)
    })?;
    Ok(format!("{:032x}", u128::from_be_bytes(bytes)))
}

/// Why reading ends.
enum Stop {
    Io(io::Error),
    Error(SkillError),
}

impl Stop {
    fn into_error(self, failed: &dyn Fn(io::Error) -> SkillError) -> SkillError {
        match self {
            Self::Io(error) => failed(error),
            Self::Error(error) => error,
        }
    }
}

impl From<io::Error> for Stop {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<Errno> for Stop {
    fn from(error: Errno) -> Self {
        Self::Io(error.into())
    }
}

/// What the run saw of the project below a folder of the upper one.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Lower {
    /// What the upper folder does not have.
    Merged,
    /// Nothing, but it is there.
    Hidden,
    /// There is no such folder.
    Missing,
}

struct UpperFolder {
    path: PathBuf,
    lower: Lower,
}

struct Reader<'a> {
    project: BorrowedFd<'a>,
    upper: BorrowedFd<'a>,
    started: i64,
    limits: ReadLimits,
    rules: ReadRules<'a>,
    paths: usize,
    path_bytes: usize,
    bytes: u64,
    folders: Vec<UpperFolder>,
    changes: Vec<Change>,
    refused: Vec<Refusal>,
}

impl Reader<'_> {
    fn read_folder(&mut self, folder: &UpperFolder) -> Result<(), Stop> {
        (self.rules.check)().map_err(Stop::Error)?;
        let dir = open_dir(self.upper, &folder.path)?;
        if has_xattr(&dir, REDIRECT)? {
            self.refuse(&folder.path, "it is a folder of another path, which no overlay of metier makes");
            return Ok(());
        }
        let opaque = xattr(&dir, OPAQUE)?;
        let is_gone = self.rules.hidden.is_some_and(|hidden| hidden.contains(&folder.path));
        let is_hidden = folder.lower == Lower::Hidden || opaque.as_deref() == Some(b"y") || is_gone;
        let has_whiteout_files = opaque.as_deref() == Some(b"x");
        let lower = match folder.lower {
            Lower::Missing => None,
            Lower::Merged | Lower::Hidden => open_lower(self.project, &folder.path)?,
        };
        let names = self.names(&dir, &folder.path)?;
        if let (true, Some(lower)) = (is_hidden, &lower) {
            let present: HashSet<&OsString> = names.iter().collect();
            for name in self.names(lower, &folder.path)? {
                if !present.contains(&name) {
                    self.delete(&folder.path.join(&name), lower, &name)?;
                }
            }
        }
        if let (Some(hidden), false, Some(lower)) = (self.rules.hidden, is_hidden, &lower) {
            for name in hidden.names_in(&folder.path).filter(|name| names.binary_search(name).is_err()) {
                self.delete(&folder.path.join(name), lower, name)?;
            }
        }
        for name in &names {
            let Some(found) = stat(&dir, name)? else { continue };
            let entry = UpperEntry { dir: &dir, name, path: folder.path.join(name), stat: found };
            self.read_entry(&entry, lower.as_ref(), is_hidden, has_whiteout_files)?;
        }
        Ok(())
    }

    fn read_entry(
        &mut self,
        entry: &UpperEntry<'_>,
        lower: Option<&OwnedFd>,
        is_hidden: bool,
        has_whiteout_files: bool,
    ) -> Result<(), Stop> {
        (self.rules.check)().map_err(Stop::Error)?;
        if let Some(reason) = self.refusal(&entry.path, entry.name) {
            self.refuse(&entry.path, reason);
            return Ok(());
        }
        let below = match lower {
            Some(lower) => stat(lower, entry.name)?,
            None => None,
        };
        if is_whiteout(&entry.stat) || (has_whiteout_files && entry.is_whiteout_file()?) {
            return match lower {
                Some(lower) => self.delete(&entry.path, lower, entry.name),
                None => Ok(()),
            };
        }
        if let Some(noun) = special_noun(&entry.stat) {
            self.refuse(&entry.path, format!("it is {noun}"));
            return Ok(());
        }
        if let Some(noun) = below.as_ref().and_then(special_noun) {
            self.refuse(&entry.path, format!("{noun} of the project is there"));
            return Ok(());
        }
        let after = match self.upper_state(entry)? {
            Ok(after) => after,
            Err(reason) => {
                self.refuse(&entry.path, reason);
                return Ok(());
            }
        };
        let is_folder_below = below.is_some_and(|below| FileType::from_raw_mode(below.st_mode).is_dir());
        // Where it was neither removed nor created again, the folder of a delta is only the way to what is in it.
        let is_way = is_folder_below
            && !is_hidden
            && self.rules.hidden.is_some_and(|hidden| !hidden.contains(&entry.path));
        let is_way = is_way && after.entry_type == EntryType::Folder;
        let refused = if is_way { None } else { self.compare(entry, &after, lower.zip(below.as_ref())) };
        if let Some(reason) = refused {
            self.refuse(&entry.path, reason);
            return Ok(());
        }
        if after.entry_type == EntryType::Folder {
            let lower = match (is_folder_below, is_hidden) {
                (false, _) => Lower::Missing,
                (true, true) => Lower::Hidden,
                (true, false) => Lower::Merged,
            };
            self.folders.push(UpperFolder { path: entry.path.clone(), lower });
        } else if let (true, Some(lower)) = (is_folder_below, lower) {
            self.delete_content(&entry.path, lower, entry.name)?;
        }
        Ok(())
    }

    /// What the run left at a path, or why it cannot be read.
    fn upper_state(&mut self, entry: &UpperEntry<'_>) -> Result<Result<FileState, String>, Stop> {
        const OWNER_ALL: u32 = 0o700;
        match FileType::from_raw_mode(entry.stat.st_mode) {
            FileType::Directory if mode_of(&entry.stat) & OWNER_ALL != OWNER_ALL => {
                if let Err(error) = open_unlocked(entry.dir, entry.name) {
                    return Ok(Err(format!("it cannot be opened: {error}")));
                }
            }
            FileType::RegularFile => {
                self.bytes = self.bytes.saturating_add(size(&entry.stat));
                if self.bytes > self.limits.bytes {
                    return Err(Stop::Error(too_much(&format!("more than {} bytes", self.limits.bytes))));
                }
                let file = match unlock_file(entry) {
                    Ok(file) => file,
                    Err(error) => return Ok(Err(format!("it cannot be read: {error}"))),
                };
                if file.is_some_and(|file| has_xattr(&file, METACOPY).unwrap_or(true)) {
                    return Ok(Err("its content is not in the copy".to_owned()));
                }
            }
            _ => {}
        }
        match state_of(entry.dir.as_fd(), entry.name, &entry.stat) {
            // Its permissions may have been changed to read it.
            Ok(Some(state)) if state.entry_type == EntryType::File => {
                Ok(Ok(FileState { mode: mode_of(&entry.stat) & MODE_BITS, ..state }))
            }
            Ok(Some(state)) => Ok(Ok(state)),
            Ok(None) => Ok(Err("it disappeared while it was read".to_owned())),
            Err(error) => Ok(Err(format!("it cannot be read: {error}"))),
        }
    }

    /// Notes what differs; returns why the path is refused.
    fn compare(
        &mut self,
        entry: &UpperEntry<'_>,
        after: &FileState,
        below: Option<(&OwnedFd, &Stat)>,
    ) -> Option<String> {
        let mut before = None;
        let mut conflict = None;
        if let Some((lower, below)) = below {
            match state_of(lower.as_fd(), entry.name, below) {
                Ok(state) => before = state,
                Err(error) => {
                    return Some(format!("what the project has there cannot be read: {error}"));
                }
            }
            conflict = self.conflict(below);
        }
        let kind = match &before {
            None => ChangeKind::Created,
            Some(before) if before.is_same_content(after) => return None,
            Some(before) if before.entry_type != after.entry_type => ChangeKind::Changed,
            Some(_) if after.entry_type == EntryType::Symlink => ChangeKind::Link,
            Some(before) if before.digest == after.digest => ChangeKind::Mode,
            Some(_) => ChangeKind::Changed,
        };
        let target = after.target.as_deref().map(metier_core::host::files::name_encoding::decode);
        if target.is_some_and(|target| leads_outside(&entry.path, &target)) {
            return Some("it is a link that leads out of the project".to_owned());
        }
        self.changes.push(Change {
            path: encode(&entry.path),
            kind,
            from: None,
            before,
            after: Some(after.clone()),
            conflict,
        });
        None
    }

    /// Why a change of what the project has there is a conflict already. Folders change whenever something in them does.
    fn conflict(&self, below: &Stat) -> Option<String> {
        let is_folder = FileType::from_raw_mode(below.st_mode).is_dir();
        let is_late = !is_folder && identity(below).ctime > self.started;
        is_late.then(|| "it was changed in the project while the run took place".to_owned())
    }

    /// Notes that a path of the project is gone, and all below it.
    fn delete(&mut self, path: &Path, lower: &OwnedFd, name: &OsStr) -> Result<(), Stop> {
        if self.delete_one(path, lower, name)? {
            self.delete_content(path, lower, name)?;
        }
        Ok(())
    }

    /// Notes that one path is gone; returns whether it is a folder.
    fn delete_one(&mut self, path: &Path, lower: &OwnedFd, name: &OsStr) -> Result<bool, Stop> {
        (self.rules.check)().map_err(Stop::Error)?;
        if let Some(reason) = self.refusal(path, name) {
            self.refuse(path, reason);
            return Ok(false);
        }
        let Some(below) = stat(lower, name)? else { return Ok(false) };
        if let Some(noun) = special_noun(&below) {
            self.refuse(path, format!("{noun} of the project is there"));
            return Ok(false);
        }
        match state_of(lower.as_fd(), name, &below) {
            Ok(Some(before)) => {
                let is_folder = before.entry_type == EntryType::Folder;
                self.changes.push(Change {
                    path: encode(path),
                    kind: ChangeKind::Deleted,
                    from: None,
                    conflict: self.conflict(&below),
                    before: Some(before),
                    after: None,
                });
                Ok(is_folder)
            }
            Ok(None) => Ok(false),
            Err(error) => {
                self.refuse(path, format!("what the project has there cannot be read: {error}"));
                Ok(false)
            }
        }
    }

    /// Notes that all below a folder of the project is gone.
    fn delete_content(&mut self, path: &Path, lower: &OwnedFd, name: &OsStr) -> Result<(), Stop> {
        if !stat(lower, name)?.is_some_and(|found| FileType::from_raw_mode(found.st_mode).is_dir()) {
            return Ok(());
        }
        let mut folders = vec![path.to_owned()];
        while let Some(path) = folders.pop() {
            let Some(dir) = open_lower(self.project, &path)? else {
                self.refuse(&path, "the folder of the project cannot be opened");
                continue;
            };
            for name in self.names(&dir, &path)? {
                let path = path.join(&name);
                if self.delete_one(&path, &dir, &name)? {
                    folders.push(path);
                }
            }
        }
        Ok(())
    }

    /// The names in a folder, in their order.
    fn names(&mut self, dir: &OwnedFd, path: &Path) -> Result<Vec<OsString>, Stop> {
        let mut listing = Dir::new(dir.try_clone()?)?;
        let mut names = Vec::new();
        while let Some(entry) = listing.read() {
            let name: CString = entry?.file_name().to_owned();
            if name.as_c_str() == c"." || name.as_c_str() == c".." {
                continue;
            }
            self.paths += 1;
            self.path_bytes += path.as_os_str().len() + name.as_bytes().len();
            if self.paths > self.limits.paths {
                return Err(Stop::Error(too_much(&format!("more than {} paths", self.limits.paths))));
            }
            if self.path_bytes > MAX_ALL_PATH_BYTES {
                return Err(Stop::Error(too_much(&format!(
                    "paths of more than {MAX_ALL_PATH_BYTES} bytes together"
                ))));
            }
            names.push(os_name(&name).to_owned());
        }
        names.sort_unstable();
        Ok(names)
    }

    /// Why nothing at a path, and below it, is a change.
    fn refusal(&self, path: &Path, name: &OsStr) -> Option<String> {
        if is_git_name(name) {
            return Some("a repository is never changed".to_owned());
        }
        if path.as_os_str().as_bytes().len() > MAX_PATH_BYTES {
            return Some("its path is too long".to_owned());
        }
        (self.rules.refuse)(&encode(path))
    }

    fn refuse(&mut self, path: &Path, reason: impl Into<String>) {
        self.refused.push(Refusal { path: encode(path), reason: reason.into() });
    }
}

/// A name in a folder of the upper one.
struct UpperEntry<'a> {
    dir: &'a OwnedFd,
    name: &'a OsStr,
    path: PathBuf,
    stat: Stat,
}

impl UpperEntry<'_> {
    /// Newer kernels make these where devices cannot be made.
    fn is_whiteout_file(&self) -> Result<bool, Stop> {
        let is_empty = FileType::from_raw_mode(self.stat.st_mode).is_file() && self.stat.st_size == 0;
        if !is_empty {
            return Ok(false);
        }
        match open_file(self.dir, self.name)? {
            Some(file) => has_xattr(&file, WHITEOUT),
            None => Ok(false),
        }
    }
}

/// Opens a file of the upper folder, which gets the permission to read it if the script has removed that.
fn unlock_file(entry: &UpperEntry<'_>) -> io::Result<Option<std::fs::File>> {
    use std::os::fd::AsRawFd;
    const OWNER_READ: u32 = 0o400;
    if mode_of(&entry.stat) & OWNER_READ == 0 {
        let flags = OPEN_BY_NAME | rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::CLOEXEC;
        let handle = rustix::fs::openat(entry.dir, entry.name, flags, Mode::empty())?;
        let mode = Mode::from_raw_mode(entry.stat.st_mode) | Mode::RUSR;
        rustix::fs::chmod(format!("/proc/self/fd/{}", handle.as_raw_fd()), mode)?;
    }
    open_file(entry.dir, entry.name)
}

/// The folder of the project at that path; `None` if there is none, or a link is on the way.
fn open_lower(project: BorrowedFd<'_>, path: &Path) -> Result<Option<OwnedFd>, Stop> {
    match open_dir(project, path) {
        Ok(dir) => Ok(Some(dir)),
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn is_whiteout(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::CharacterDevice && stat.st_rdev == 0
}

#[allow(clippy::useless_conversion, reason = "another type elsewhere")]
fn mode_of(stat: &Stat) -> u32 {
    u32::from(stat.st_mode)
}

fn has_xattr(file: impl AsFd, name: &str) -> Result<bool, Stop> {
    Ok(xattr(file, name)?.is_some())
}

/// The value of an attribute, of which only the first bytes matter.
fn xattr(file: impl AsFd, name: &str) -> Result<Option<Vec<u8>>, Stop> {
    let mut value = [0; 16];
    match fgetxattr(file, name, &mut value) {
        Ok(length) => Ok(Some(value.iter().copied().take(length).collect())),
        Err(Errno::RANGE) => Ok(Some(Vec::new())),
        // Linux and other systems have a name each for a missing one.
        Err(Errno::NODATA | Errno::OPNOTSUPP | Errno::NOSYS) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn too_much(what: &str) -> SkillError {
    let sentence = format!("the run changed {what}, which is more than a change set holds");
    SkillError::new(ErrorKind::Denied, sentence)
        .with_help("let the skill change less in one run, or run it without a preview")
}
