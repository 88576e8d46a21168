//! The store of change sets in the user's data folder: each with what it would put into its project.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{CWD, Dir, Mode, OFlags, fstat, openat, renameat};
use rustix::io::Errno;
use serde::Serialize;
use serde_json::{Value, json};

use super::apply::{ApplyReport, CONTENT, Direction, SetFolder, SetState};
use super::content::{new_name, open_content, take};
use super::diff::TextDiff;
use super::journal::Journal;
use super::model::{Change, ChangeSet, Conflict, EntryType, escape};
use super::plan::select;
use super::snapshot::identity;
use super::stored_diff::stored_diff;
use super::{private_file, store_dir};
use metier_core::error::{ErrorKind, Result, SkillError};
use metier_core::host::metier_dirs;
use metier_core::policy::Timestamp;

const SET: &str = "set.json";
/// The digits of an id.
const ID_DIGITS: usize = 32;
/// Lines of the diff of one file, files of which there is one, and changes that are looked through for them.
const MAX_DIFF_LINES: usize = 200;
const MAX_DIFFS: usize = 50;
const MAX_COMPARED: usize = 2_000;
/// A set that is being stored, and one that is being removed.
const NEW_SUFFIX: &str = ".new";
const DISCARDED_SUFFIX: &str = ".discarded";

/// The change sets of one user, in a folder that only its user can read.
///
/// Whatever changes it, or a project by it, holds a lock. A change that was interrupted by a kill is completed or taken back when the store is
/// opened the next time.
#[derive(Clone, Debug)]
pub struct ChangeStore {
    folder: PathBuf,
    limits: StoreLimits,
}

/// How long change sets are stored, and how much they hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreLimits {
    /// The age at which a set is removed.
    pub age: Duration,
    /// The bytes of all sets; the oldest are removed first.
    pub bytes: u64,
}

/// A change set, and what has become of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct StoredChangeSet {
    /// The changes.
    #[serde(flatten)]
    pub set: ChangeSet,
    /// The paths of the changes that are applied.
    pub applied: Vec<String>,
    /// The paths of those of them that can be undone.
    pub undoable: Vec<String>,
    /// The bytes of all contents.
    pub bytes: u64,
    /// When it was stored.
    pub stored: Timestamp,
    /// When something of it was applied last.
    pub applied_at: Option<Timestamp>,
    /// The same in nanoseconds since 1970; 0 if nothing was.
    #[serde(skip)]
    pub applied_nanos: u64,
}

/// How changes are applied.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ApplyOptions {
    /// The paths to apply, each with all below it and the new folders above it; `None` for all.
    pub paths: Option<Vec<String>>,
    /// Stores what the changes replace, so that they can be undone.
    pub keep_old: bool,
    /// Applies the set only if this is its [digest](ChangeSet::digest): that of what somebody agreed to.
    pub digest: Option<String>,
    /// Applies nothing if there is any conflict.
    pub all_or_nothing: bool,
}

impl Default for StoreLimits {
    fn default() -> Self {
        Self { age: Duration::from_hours(7 * 24), bytes: 1 << 30 }
    }
}

impl ChangeStore {
    /// The store of this user, in the folder that `METIER_DATA_DIR` names or in that of metier in the user's data folder;
    /// `unavailable` if the user has none.
    pub fn user() -> Result<Self> {
        let folder = metier_dirs::changes_dir().ok_or_else(|| {
            let sentence = "there is no folder for change sets: the home folder of the user is not known";
            SkillError::new(ErrorKind::Unavailable, sentence)
                .with_help("set METIER_DATA_DIR to the path of a folder")
        })?;
        Self::open(folder)
    }

    /// The store in this folder, which need not exist. It must not lie in a project, where scripts could write to it. What a killed
    /// process left is completed or taken back, unless another process works on the store.
    pub fn open(folder: impl Into<PathBuf>) -> Result<Self> {
        // A slash at the end would follow a link.
        let folder: PathBuf = folder.into().components().collect();
        let store = Self { folder, limits: StoreLimits::default() };
        if let Some(dir) = store_dir::open(&store.folder, false)?
            && needs_recovery(&dir)?
            && let Some(_locked) = store_dir::try_lock(&dir)?
        {
            recover(&dir);
        }
        Ok(store)
    }

    /// The same store with other limits.
    pub fn with_limits(self, limits: StoreLimits) -> Self {
        Self { limits, ..self }
    }

    /// Its folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The folder beside it in which runs have what they change until it is stored.
    pub fn previews_folder(&self) -> PathBuf {
        self.folder.with_file_name(metier_dirs::PREVIEWS_DIR)
    }

    /// Stores a change set with the contents of its files, which are moved out of the upper folder where the file system allows that.
    /// Sets that are too old, or that leave no place for it, are removed.
    pub fn keep(&self, set: &ChangeSet, upper: BorrowedFd<'_>) -> Result<StoredChangeSet> {
        let failed =
            |source| SkillError::io(format_args!("failed to store the change set {}", set.id), source);
        if !is_id(&set.id) {
            return Err(missing_error(&set.id));
        }
        let (dir, _locked) = self.lock()?;
        let bytes =
            set.changes.iter().filter_map(|change| change.after.as_ref()).map(|after| after.size).sum();
        if bytes > self.limits.bytes {
            let sentence = format!(
                "the change set holds {bytes} bytes, and all that are stored may hold {} together",
                self.limits.bytes
            );
            return Err(SkillError::new(ErrorKind::Denied, sentence)
                .with_help("raise the limit, or let the skill write less in one run"));
        }
        prune(&dir, self.limits, bytes)?;
        let new = format!("{}{NEW_SUFFIX}", set.id);
        let state = SetState {
            serial: 0,
            applied: std::collections::BTreeMap::new(),
            bytes,
            stored: Timestamp::now(),
            applied_at: None,
            applied_nanos: 0,
        };
        let write = || -> io::Result<()> {
            store_dir::remove_folder(&dir, &new)?;
            let folder = store_dir::create_subfolder(&dir, &new)?;
            let content = store_dir::create_subfolder(&folder, CONTENT)?;
            for (index, change) in set.changes.iter().enumerate() {
                if let Some(after) = change.after.as_ref().filter(|after| after.entry_type == EntryType::File)
                {
                    take(upper, &change.path, after, &content, &new_name(index)).map_err(|error| {
                        io::Error::new(error.kind(), format!("{}: {error}", escape(&change.path)))
                    })?;
                }
            }
            private_file::replace(&folder, SET, &serde_json::to_vec(set)?)?;
            state.write(&folder)?;
            Ok(rustix::fs::renameat_with(&dir, &*new, &dir, &*set.id, rustix::fs::RenameFlags::NOREPLACE)
                .or_else(|error| match error {
                    Errno::INVAL | Errno::NOSYS => renameat(&dir, &*new, &dir, &*set.id),
                    error => Err(error),
                })?)
        };
        if let Err(error) = write() {
            store_dir::remove_folder(&dir, &new).ok();
            return Err(failed(error));
        }
        Ok(stored(set.clone(), &state))
    }

    /// The stored sets, the oldest first. One that cannot be read is left out, with a warning in the log.
    pub fn list(&self) -> Result<Vec<StoredChangeSet>> {
        let Some(dir) = store_dir::open(&self.folder, false)? else { return Ok(Vec::new()) };
        let mut sets = Vec::new();
        for id in ids(&dir)? {
            match read(&dir, &id) {
                Ok((set, state)) => sets.push(stored(set, &state)),
                Err(error) => tracing::warn!(id, "a change set cannot be read: {error}"),
            }
        }
        sets.sort_by(|one, other| (one.stored, &one.set.id).cmp(&(other.stored, &other.set.id)));
        Ok(sets)
    }

    /// The set of that id; `usage` if there is none.
    pub fn find(&self, id: &str) -> Result<StoredChangeSet> {
        let Some(dir) = store_dir::open(&self.folder, false)?.filter(|_| is_id(id)) else {
            return Err(missing_error(id));
        };
        let (set, state) = read(&dir, id)?;
        Ok(stored(set, &state))
    }

    /// The content that a change puts into the project; `None` if it is no file, or is not stored any more.
    pub fn open_new_content(&self, set: &ChangeSet, change: usize) -> Result<Option<File>> {
        let failed =
            |source| SkillError::io(format_args!("failed to read the change set {}", set.id), source);
        let after = set.changes.get(change).and_then(|change| change.after.as_ref());
        let Some(after) = after.filter(|after| after.entry_type == EntryType::File) else { return Ok(None) };
        let Some(dir) = store_dir::open(&self.folder, false)?.filter(|_| is_id(&set.id)) else {
            return Err(missing_error(&set.id));
        };
        let folder = SetFolder::open(&dir, &set.id).map_err(failed)?;
        match open_content(&folder.content, &new_name(change), after) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            file => file.map(Some).map_err(failed),
        }
    }

    /// The lines that differ in a file of a stored set; `None` if there are none to show: of folders and links, of what is no text or is
    /// larger than 1 MiB, and where the content is not stored any more or the project, which `project` is, has another one.
    pub fn text_diff(
        &self,
        set: &ChangeSet,
        change: usize,
        project: BorrowedFd<'_>,
        max_lines: usize,
    ) -> Result<Option<TextDiff>> {
        let failed =
            |source| SkillError::io(format_args!("failed to compare the change set {}", set.id), source);
        let Some(dir) = store_dir::open(&self.folder, false)?.filter(|_| is_id(&set.id)) else {
            return Err(missing_error(&set.id));
        };
        let folder = SetFolder::open(&dir, &set.id).map_err(failed)?;
        stored_diff(set, change, &folder.content, project, max_lines).map_err(failed)
    }

    /// The lines that differ in texts, of the first files that have any, each with its change.
    pub fn text_diffs<'a>(
        &'a self,
        set: &'a ChangeSet,
        project: BorrowedFd<'a>,
    ) -> impl Iterator<Item = (&'a Change, TextDiff)> {
        let diff = move |index| self.text_diff(set, index, project, MAX_DIFF_LINES).unwrap_or_default();
        let compared = set.changes.iter().enumerate().take(MAX_COMPARED);
        let diffs = compared.filter_map(move |(index, change)| Some((change, diff(index)?)));
        diffs.filter(|(_, diff)| !diff.lines.is_empty()).take(MAX_DIFFS)
    }

    /// The same as JSON: `{path, diff}` of each.
    pub fn text_diffs_as_json(
        &self,
        set: &ChangeSet,
        project: BorrowedFd<'_>,
        shown: impl Fn(Value) -> Value,
    ) -> Vec<Value> {
        let diffs = self.text_diffs(set, project);
        let shown = |text: &str| shown(text.into());
        diffs
            .map(|(change, diff)| json!({"path": shown(&change.path), "diff": shown(&diff.to_string())}))
            .collect()
    }

    /// Opens the project of a set at its recorded path; `usage` if another folder is there now.
    pub fn open_project(&self, set: &ChangeSet) -> Result<OwnedFd> {
        open_project(set)
    }

    /// Applies changes of a set to its project, which `project` is. Paths at which the project has something else than before the run
    /// are conflicts and stay as they are; all others are applied. An error means that nothing was applied.
    pub fn apply(&self, id: &str, project: BorrowedFd<'_>, options: &ApplyOptions) -> Result<ApplyReport> {
        let (dir, _locked) = self.lock()?;
        let (set, state) = read(&dir, id)?;
        check_project(&set, project)?;
        check_digest(&set, options.digest.as_deref())?;
        check_recovered(&dir, id)?;
        let selected = select(&set, options.paths.as_deref()).map_err(|path| {
            let sentence = format!("the change set {id} has no change at {path:?}");
            SkillError::new(ErrorKind::Usage, sentence)
                .with_help("show the change set, and name a path of it")
        })?;
        let (late, meant): (Vec<usize>, Vec<usize>) = selected
            .into_iter()
            .filter(|index| !state.applied.contains_key(index))
            .partition(|index| set.changes.get(*index).is_some_and(|change| change.conflict.is_some()));
        let folder = open_set(&dir, id)?;
        let direction = Direction::Apply { keep_old: options.keep_old };
        let is_refused = options.all_or_nothing && !late.is_empty();
        let mut report = if meant.is_empty() || is_refused {
            ApplyReport::default()
        } else {
            folder.perform(project, &set, &state, &meant, (direction, options.all_or_nothing))?
        };
        let late = late.into_iter().filter_map(|index| set.changes.get(index)).map(|change| Conflict {
            path: change.path.clone(),
            reason: change.conflict.clone().unwrap_or_default(),
            expected: None,
            found: change.before.clone(),
        });
        report.conflicts.splice(0..0, late);
        Ok(report)
    }

    /// Restores what applied changes replaced, at every path that nobody has changed since; the others are conflicts and stay as they
    /// are. `usage` if nothing of the set can be undone.
    pub fn undo(&self, id: &str, project: BorrowedFd<'_>) -> Result<ApplyReport> {
        let (dir, _locked) = self.lock()?;
        let (set, state) = read(&dir, id)?;
        check_project(&set, project)?;
        check_recovered(&dir, id)?;
        let undoable: Vec<usize> =
            state.applied.iter().filter(|(_, can_undo)| **can_undo).map(|(index, _)| *index).collect();
        if undoable.is_empty() {
            let sentence = if state.applied.is_empty() {
                format!("nothing of the change set {id} is applied")
            } else {
                format!("the change set {id} cannot be undone: what it replaced was not stored")
            };
            return Err(SkillError::new(ErrorKind::Usage, sentence)
                .with_help("apply with the old contents stored to be able to undo it"));
        }
        open_set(&dir, id)?.perform(project, &set, &state, &undoable, (Direction::Undo, false))
    }

    /// Removes a set with its contents; what is applied stays applied, and cannot be undone any more.
    pub fn discard(&self, id: &str) -> Result<()> {
        let (dir, _locked) = self.lock()?;
        let (set, _) = read(&dir, id)?;
        // Where the project is gone for good, nothing can be taken back any more.
        if set.project_path().exists() {
            check_recovered(&dir, id)?;
        }
        discard(&dir, id)
            .map_err(|source| SkillError::io(format_args!("failed to discard the change set {id}"), source))
    }

    /// Removes the sets that are too old or too large together; returns how many they were.
    pub fn prune(&self) -> Result<usize> {
        if store_dir::open(&self.folder, false)?.is_none() {
            return Ok(0);
        }
        let (dir, _locked) = self.lock()?;
        prune(&dir, self.limits, 0)
    }

    /// The open folder, created if it is missing, and its lock. What a killed process left is taken up first.
    fn lock(&self) -> Result<(OwnedFd, File)> {
        let missing = || SkillError::io("failed to open the change sets", io::ErrorKind::NotFound.into());
        let dir = store_dir::open(&self.folder, true)?.ok_or_else(missing)?;
        let lock = store_dir::lock(&dir)?;
        recover(&dir);
        Ok((dir, lock))
    }
}

fn stored(set: ChangeSet, state: &SetState) -> StoredChangeSet {
    let paths = |is_meant: &dyn Fn(bool) -> bool| {
        let applied = state.applied.iter().filter(|(_, can_undo)| is_meant(**can_undo));
        applied.filter_map(|(index, _)| Some(set.changes.get(*index)?.path.clone())).collect()
    };
    StoredChangeSet {
        applied: paths(&|_| true),
        undoable: paths(&|can_undo| can_undo),
        bytes: state.bytes,
        stored: state.stored,
        applied_at: state.applied_at,
        applied_nanos: state.applied_nanos,
        set,
    }
}

/// Fails if the folder is not the one that the set was read for.
fn check_project(set: &ChangeSet, project: BorrowedFd<'_>) -> Result<()> {
    let failed = |error: Errno| SkillError::io("failed to look at the project", error.into());
    // The number of the device is another one after some restarts.
    if identity(&fstat(project).map_err(failed)?).ino == set.project_identity.ino {
        return Ok(());
    }
    let sentence = format!("the change set {} is of another project: {}", set.id, escape(&set.project));
    Err(SkillError::new(ErrorKind::Usage, sentence).with_help("name that project"))
}

/// Fails if the set is not the one that somebody agreed to.
fn check_digest(set: &ChangeSet, agreed: Option<&str>) -> Result<()> {
    if agreed.is_none_or(|agreed| agreed == set.digest()) {
        return Ok(());
    }
    let sentence = format!("the change set {} has another digest than the one that is to be applied", set.id);
    Err(SkillError::new(ErrorKind::Denied, sentence)
        .with_help("look at the change set, and name the digest that it has"))
}

/// Fails if the set was being applied when a process was killed, and nobody could take that back yet.
fn check_recovered(dir: &OwnedFd, id: &str) -> Result<()> {
    if !has_journal(dir, id) {
        return Ok(());
    }
    let sentence = format!(
        "the change set {id} was interrupted while it was applied or undone, and its project cannot be restored now"
    );
    Err(SkillError::new(ErrorKind::Unavailable, sentence)
        .with_help("move the project back to its path, and make sure that it can be written"))
}

fn has_journal(dir: &OwnedFd, id: &str) -> bool {
    let journal = format!("{id}/{}", super::journal::FILE);
    rustix::fs::statat(dir, journal, rustix::fs::AtFlags::SYMLINK_NOFOLLOW).is_ok()
}

fn open_set(dir: &OwnedFd, id: &str) -> Result<SetFolder> {
    let failed = |source| SkillError::io(format_args!("failed to open the change set {id}"), source);
    SetFolder::open(dir, id).map_err(failed)
}

fn read(dir: &OwnedFd, id: &str) -> Result<(ChangeSet, SetState)> {
    let failed = |source| SkillError::io(format_args!("failed to read the change set {id}"), source);
    let damaged = || {
        let sentence = format!("the change set {id} cannot be read: its files are damaged");
        SkillError::new(ErrorKind::Unavailable, sentence)
            .with_help("remove its folder from the store, and run the skill again")
    };
    if !is_id(id) {
        return Err(missing_error(id));
    }
    let folder = match store_dir::subfolder(dir, id) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(missing_error(id)),
        folder => folder.map_err(failed)?,
    };
    let text = private_file::read(&folder, SET).map_err(failed)?.ok_or_else(damaged)?;
    let set: ChangeSet = serde_json::from_slice(&text).map_err(|_| damaged())?;
    let state = SetState::read(&folder).map_err(failed)?.ok_or_else(damaged)?;
    if set.id != id {
        return Err(damaged());
    }
    Ok((set, state))
}

fn missing_error(id: &str) -> SkillError {
    let sentence = format!("there is no change set {id:?}: it was discarded or has expired");
    SkillError::new(ErrorKind::Usage, sentence).with_help("list the change sets")
}

fn is_id(text: &str) -> bool {
    text.len() == ID_DIGITS && text.bytes().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'))
}

fn names(dir: &OwnedFd) -> Result<Vec<String>> {
    let failed = |error: Errno| SkillError::io("failed to list the change sets", error.into());
    let mut names = Vec::new();
    for entry in Dir::read_from(dir).map_err(failed)? {
        names.extend(entry.map_err(failed)?.file_name().to_str().ok().map(str::to_owned));
    }
    Ok(names)
}

fn ids(dir: &OwnedFd) -> Result<Vec<String>> {
    Ok(names(dir)?.into_iter().filter(|name| is_id(name)).collect())
}

/// Whether a process was killed while it changed the store or a project, or does so now.
fn needs_recovery(dir: &OwnedFd) -> Result<bool> {
    Ok(names(dir)?.iter().any(|name| is_left_over(name) || (is_id(name) && has_journal(dir, name))))
}

/// Whether it is the folder of a set that was not stored or not removed completely.
fn is_left_over(name: &str) -> bool {
    [NEW_SUFFIX, DISCARDED_SUFFIX].iter().any(|suffix| name.strip_suffix(suffix).is_some_and(is_id))
}

/// Completes or takes back what processes left that were killed. The lock is held.
fn recover(dir: &OwnedFd) {
    let Ok(names) = names(dir) else { return };
    for name in names {
        if is_left_over(&name) {
            if let Err(error) = store_dir::remove_folder(dir, &name) {
                tracing::warn!(name, "failed to remove a change set that was not stored: {error}");
            }
        } else if is_id(&name) {
            match recover_set(dir, &name) {
                Ok(left) => {
                    for path in left {
                        tracing::warn!(id = name, "a change could not be taken back: {path}");
                    }
                }
                Err(error) => {
                    tracing::warn!(id = name, "a change set that was being applied stays as it is: {error}");
                }
            }
        }
    }
}

fn recover_set(dir: &OwnedFd, id: &str) -> Result<Vec<String>> {
    let failed = |source| SkillError::io(format_args!("failed to take up the change set {id}"), source);
    let folder = store_dir::subfolder(dir, id).map_err(failed)?;
    let Some(journal) = Journal::read(&folder).map_err(failed)? else { return Ok(Vec::new()) };
    let (set, state) = read(dir, id)?;
    let project = open_project(&set)?;
    open_set(dir, id)?.recover(project.as_fd(), &journal, &state).map_err(failed)
}

/// The folder of the project of a set, if it is still the same.
fn open_project(set: &ChangeSet) -> Result<OwnedFd> {
    let path = set.project_path();
    let failed =
        |error: io::Error| SkillError::io(format_args!("failed to open {}", escape(&set.project)), error);
    let opened = metier_core::host::open_without_links(&path).map_err(failed)?;
    let project: OwnedFd = if let Some(dir) = opened {
        dir.into_std_file().into()
    } else {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        openat(CWD, &path, flags, Mode::empty()).map_err(|error| failed(error.into()))?
    };
    check_project(set, project.as_fd())?;
    Ok(project)
}

fn discard(dir: &OwnedFd, id: &str) -> io::Result<()> {
    let discarded = format!("{id}{DISCARDED_SUFFIX}");
    store_dir::remove_folder(dir, &discarded)?;
    renameat(dir, id, dir, &*discarded)?;
    store_dir::remove_folder(dir, &discarded)
}

/// Removes what is too old, and the oldest until `coming` more bytes fit. A set that is being applied stays.
fn prune(dir: &OwnedFd, limits: StoreLimits, coming: u64) -> Result<usize> {
    let failed = |source| SkillError::io("failed to remove old change sets", source);
    let now = Timestamp::now().seconds();
    let mut sets = Vec::new();
    for id in ids(dir)? {
        let folder = store_dir::subfolder(dir, &id).map_err(failed)?;
        let is_busy = has_journal(dir, &id);
        // One that cannot be read has no age; it is removed with the first.
        let state = SetState::read(&folder).ok().flatten();
        let used = state.as_ref().map_or(0, |state| state.applied_at.unwrap_or(state.stored).seconds());
        sets.push((used, id, state.map_or(0, |state| state.bytes), is_busy));
    }
    sets.sort();
    let mut total = sets.iter().fold(coming, |total, (_, _, bytes, _)| total.saturating_add(*bytes));
    let mut count = 0;
    for (used, id, bytes, is_busy) in sets {
        let is_old = now.saturating_sub(used) > limits.age.as_secs();
        if !is_busy && (is_old || total > limits.bytes) {
            discard(dir, &id).map_err(failed)?;
            total = total.saturating_sub(bytes);
            count += 1;
        }
    }
    Ok(count)
}
