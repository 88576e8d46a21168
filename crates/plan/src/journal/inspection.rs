//! Looks at journals without a run: which a folder has, what they contain, and whether a run is writing them.
//!
//! A folder of journals may contain anything: only regular files are opened, without following links, and what is read is bounded.

use std::collections::BTreeMap;
use std::fs::TryLockError;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use cap_fs_ext::{FollowSymlinks, OpenOptionsFollowExt, OpenOptionsSyncExt};
use cap_std::ambient_authority;
use cap_std::fs::{Dir, OpenOptions};
use serde_json::Value;

use super::file::{self, LineContent};
use super::{Journal, JournalHeader, JournalRecord, RecordState, StepKey, line};
use metier_core::error::{ErrorKind, Result, SkillError};

/// Maximum names in a folder of journals.
const MAX_ENTRIES: usize = 10_000;
/// Maximum bytes of a journal that is looked at; a run reads larger ones.
const MAX_BYTES: u64 = 64 << 20;
/// Maximum bytes of all journals of a list.
const MAX_LIST_BYTES: u64 = 256 << 20;
/// The ending of a journal's file.
const ENDING: &str = ".journal";

/// A journal in a folder, as far as it can be read.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct JournalSummary {
    /// Its file.
    pub path: PathBuf,
    /// The name of the skill; empty if it cannot be read.
    pub skill: String,
    /// The skill's qualified name, which distinguishes it from others of the same name.
    pub qualified_name: Option<String>,
    /// The project that the run works on.
    pub project: Option<PathBuf>,
    /// When a step was last recorded.
    pub modified: Option<SystemTime>,
    /// The number of steps that ended: with a value, with an error that did not end the run, or skipped.
    pub steps_done: usize,
    /// The number of steps of the plan, if the journal says so.
    pub steps: Option<usize>,
    /// Whether the plan was run to its end.
    pub is_finished: bool,
    /// Whether a run is writing it now.
    pub is_locked: bool,
    /// What is wrong with it: then a run does not resume it.
    pub damage: Option<SkillError>,
}

/// What a journal contains.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct JournalContent {
    /// The journal as a list shows it.
    pub summary: JournalSummary,
    /// The input of the run; `None` if it contained a secret that the run, or one that called it, had received before its plan
    /// started. A secret that a step of the plan receives later is not noticed in the input.
    pub input: Option<Value>,
    /// Its steps and the items of their loops, as far as they began, in the order of the plan.
    pub steps: Vec<JournalStep>,
}

/// A step of a plan, or one item of its loop, in a journal.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct JournalStep {
    /// The step's index, from 0.
    pub index: usize,
    /// The item's index, from 0; `None` for the step itself.
    pub item: Option<usize>,
    /// The step's id.
    pub id: String,
    /// How it ended.
    pub state: JournalState,
    text: Option<String>,
}

/// How a step in a journal ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum JournalState {
    /// It began, and its run ended or was killed before it did. A run that resumes does it again.
    Interrupted,
    /// With a value. For a loop, all of its items.
    Done,
    /// With a value that contained a secret, which is not in the journal.
    Withheld,
    /// With an error, after which the plan went on.
    Failed,
    /// It was not run, because its condition was false.
    Skipped,
}

impl JournalStep {
    /// The value, or the text of the error; `None` if it has none.
    pub fn value(&self) -> Option<Value> {
        self.text.as_deref().and_then(line::parse_value)
    }
}

impl Journal {
    /// The journals in a folder, by name, without those of plans that a plan calls. A file that is not a journal, or a damaged one,
    /// is listed with what is wrong. No file is changed. Each is locked for a moment, shared with others; a run that opens it meanwhile
    /// tries again, so it is not disturbed.
    ///
    /// `io` if the folder cannot be read or has more than 10,000 entries. A journal of more than 64 MiB, and one after 256 MiB of
    /// others, is listed as too large to look at.
    pub fn list(folder: &Path) -> Result<Vec<JournalSummary>> {
        Self::list_within(folder, MAX_LIST_BYTES)
    }

    /// The same, reading at most so many bytes.
    pub(super) fn list_within(folder: &Path, most: u64) -> Result<Vec<JournalSummary>> {
        let failed = |error| SkillError::io(format_args!("failed to list {}", folder.display()), error);
        let dir = Dir::open_ambient_dir(folder, ambient_authority()).map_err(failed)?;
        let mut names = Vec::new();
        for (at, entry) in dir.entries().map_err(failed)?.enumerate() {
            if at == MAX_ENTRIES {
                let sentence = format!(
                    "{} has more than {MAX_ENTRIES} entries, so it is not searched",
                    folder.display()
                );
                return Err(SkillError::new(ErrorKind::Io, sentence)
                    .with_help("keep journals in a folder of their own"));
            }
            let name = entry.map_err(failed)?.file_name();
            let stem = name.to_str().and_then(|name| name.strip_suffix(ENDING));
            // The journals of plans that a plan calls have a dot: `x.3.journal`.
            if stem.is_some_and(|stem| !stem.contains('.')) {
                names.push(name);
            }
        }
        names.sort_unstable();
        let mut left = most;
        let look = |name| {
            let path = folder.join(name);
            match read(&path, &mut left) {
                Ok(found) => found.content(path).summary,
                Err(error) => JournalSummary { damage: Some(error), ..JournalSummary::unread(path) },
            }
        };
        Ok(names.into_iter().map(look).collect())
    }

    /// What a journal contains, also one that a run is writing, which is not disturbed. It is locked for a moment, as by
    /// [`list`](Self::list). Of a damaged journal, what comes before the damage.
    ///
    /// `usage` if the file is not a journal, `io` if it cannot be read or has more than 64 MiB.
    pub fn peek(path: &Path) -> Result<JournalContent> {
        Ok(read(path, &mut MAX_BYTES.clone())?.content(path.to_owned()))
    }

    /// Removes a journal, and those of the plans that its plan calls. `usage` if a run is writing one of them or if one of the files
    /// is not a journal: then nothing is removed.
    pub fn discard(path: &Path) -> Result<()> {
        let failed =
            |error| SkillError::io(format_args!("failed to remove the journal {}", path.display()), error);
        let (folder, name) = split(path);
        let dir = Dir::open_ambient_dir(folder, ambient_authority()).map_err(failed)?;
        let file = lock_journal(&dir, name, path)?;
        let removed = remove_with_nested(&dir, folder, name);
        // A process that was forked meanwhile shares the file and its lock.
        file.unlock().ok();
        removed?.map_err(failed)
    }
}

/// Removes a journal that is locked, and those of the plans that its plan calls, unless one of these is locked or no journal.
fn remove_with_nested(dir: &Dir, folder: &Path, name: &Path) -> Result<io::Result<()>> {
    let nested = match nested_names(dir, name) {
        Ok(nested) => nested,
        Err(error) => return Ok(Err(error)),
    };
    for name in &nested {
        lock_journal(dir, Path::new(name), &folder.join(name))?.unlock().ok();
    }
    let nested = nested.iter().map(Path::new);
    Ok(nested.chain([name]).try_for_each(|name| dir.remove_file(name)))
}

/// The names of the journals of the plans that a plan calls: between the name of its own and the ending, they have the indices of
/// steps, each with that of an item if it is a loop, such as `x.3.journal` and `x.3-0.1.journal`.
fn nested_names(dir: &Dir, name: &Path) -> io::Result<Vec<String>> {
    let stem = name.to_string_lossy().strip_suffix(ENDING).map(|stem| format!("{stem}."));
    let Some(stem) = stem else { return Ok(Vec::new()) };
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let is_part = |part: &str| match part.split_once('-') {
        Some((index, item)) => is_number(index) && is_number(item),
        None => is_number(part),
    };
    let mut found = Vec::new();
    for entry in dir.entries()? {
        let Ok(other) = entry?.file_name().into_string() else { continue };
        let parts = other.strip_prefix(&stem).and_then(|rest| rest.strip_suffix(ENDING));
        if parts.is_some_and(|parts| parts.split('.').all(is_part)) {
            found.push(other);
        }
    }
    Ok(found)
}

/// Opens and locks a journal in a folder: a regular file that begins like one, and that no run is writing.
fn lock_journal(dir: &Dir, name: &Path, path: &Path) -> Result<std::fs::File> {
    let failed = |error| SkillError::io(format_args!("failed to lock the journal {}", path.display()), error);
    let file = open(dir, name, path)?;
    let mut start = Vec::new();
    (&file).take(file::MAX_HEADER_START).read_to_end(&mut start).map_err(failed)?;
    if !file::is_header_start(&start) {
        return Err(file::not_a_journal_error(path));
    }
    if !lock(&file, std::fs::File::try_lock).map_err(failed)? {
        return Err(file::journal_in_use_error(path));
    }
    // It may have been removed before it was locked, and a run may have made a new one since.
    if !dir.symlink_metadata(name).is_ok_and(|found| file::is_same_file(&file, &found)) {
        file.unlock().ok();
        return Err(file::journal_in_use_error(path));
    }
    Ok(file)
}

/// A journal that was read.
struct JournalRead {
    lines: Vec<LineContent>,
    damage: Option<SkillError>,
    modified: Option<SystemTime>,
    is_locked: bool,
}

impl JournalSummary {
    fn unread(path: PathBuf) -> Self {
        Self {
            path,
            skill: String::new(),
            qualified_name: None,
            project: None,
            modified: None,
            steps_done: 0,
            steps: None,
            is_finished: false,
            is_locked: false,
            damage: None,
        }
    }
}

impl JournalRead {
    fn content(self, path: PathBuf) -> JournalContent {
        let Self { lines, mut damage, modified, is_locked, .. } = self;
        let mut lines = lines.into_iter();
        let mut summary = JournalSummary { modified, is_locked, ..JournalSummary::unread(path) };
        let mut input = None;
        if let Some((text, value)) = lines.next() {
            match serde_json::from_str::<JournalHeader>(&text) {
                Ok(header) => {
                    summary.skill = header.skill;
                    summary.qualified_name = header.qualified_name;
                    summary.project = header.project.map(PathBuf::from);
                    summary.steps = header.steps;
                    input = value.as_deref().and_then(line::parse_value);
                }
                Err(_) => damage = Some(file::not_a_journal_error(&summary.path)),
            }
        }
        let mut steps: BTreeMap<StepKey, JournalStep> = BTreeMap::new();
        for (text, value) in lines {
            let Ok(record) = serde_json::from_str::<JournalRecord>(&text) else {
                damage.get_or_insert_with(|| file::damaged_journal_error(&summary.path));
                break;
            };
            let JournalRecord { step: index, item, id, state, .. } = record;
            let (state, text) = match state {
                RecordState::Finished => {
                    summary.is_finished = true;
                    continue;
                }
                RecordState::Ended => {
                    steps.remove(&(index, item));
                    continue;
                }
                RecordState::Started => (JournalState::Interrupted, None),
                RecordState::Done => (JournalState::Done, value),
                RecordState::Failed => (JournalState::Failed, value),
                RecordState::Withheld => (JournalState::Withheld, None),
                RecordState::Looped => (JournalState::Done, None),
                RecordState::Skipped => (JournalState::Skipped, None),
            };
            steps.insert((index, item), JournalStep { index, item, id, state, text });
        }
        let is_done = |step: &&JournalStep| step.item.is_none() && step.state != JournalState::Interrupted;
        summary.steps_done = steps.values().filter(is_done).count();
        summary.damage = damage;
        JournalContent { summary, input, steps: steps.into_values().collect() }
    }
}

/// Reads a journal of at most so many bytes, and takes from these what it reads, also of a file that is not a journal.
fn read(path: &Path, left: &mut u64) -> Result<JournalRead> {
    let failed = |error| SkillError::io(format_args!("failed to read the journal {}", path.display()), error);
    let too_large = || {
        let sentence = format!("the journal {} is too large to look at", path.display());
        Err(SkillError::new(ErrorKind::Io, sentence)
            .with_help("resume its run, which reads more, or remove it"))
    };
    let (folder, name) = split(path);
    let dir = Dir::open_ambient_dir(folder, ambient_authority()).map_err(failed)?;
    let mut file = open(&dir, Path::new(name), path)?;
    let metadata = file.metadata().map_err(failed)?;
    let (modified, most) = (metadata.modified().ok(), MAX_BYTES.min(*left));
    if metadata.len() > most {
        return too_large();
    }
    let mut bytes = Vec::new();
    let start = (&mut file).take(file::MAX_HEADER_START).read_to_end(&mut bytes);
    // A file of zeros may be what a crash left of a journal.
    let read = start.and_then(|_| match bytes.first() {
        Some(0) | None => (&mut file).take(most).read_to_end(&mut bytes),
        _ if file::is_header_start(&bytes) => (&mut file).take(most).read_to_end(&mut bytes),
        _ => Ok(0),
    });
    *left = left.saturating_sub(bytes.len() as u64);
    read.map_err(failed)?;
    // It may have grown.
    if bytes.len() as u64 > most {
        return too_large();
    }
    let is_locked = !lock(&file, std::fs::File::try_lock_shared).map_err(failed)?;
    file.unlock().ok();
    let (lines, _, damage) = file::decode_lines(&bytes, path);
    if lines.is_empty()
        && let Some(error) = damage
    {
        return Err(error);
    }
    Ok(JournalRead { lines, damage, modified, is_locked })
}

/// Whether the file could be locked, or is locked by somebody else.
fn lock(
    file: &std::fs::File,
    lock: impl Fn(&std::fs::File) -> std::result::Result<(), TryLockError>,
) -> io::Result<bool> {
    match lock(file) {
        Ok(()) => Ok(true),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// Opens a regular file in a folder, which is not a link, without waiting. `path` is its path in errors.
fn open(dir: &Dir, name: &Path, path: &Path) -> Result<std::fs::File> {
    let failed = |error| SkillError::io(format_args!("failed to open the journal {}", path.display()), error);
    if !dir.symlink_metadata(name).map_err(failed)?.is_file() {
        return Err(file::not_a_journal_error(path));
    }
    let mut options = OpenOptions::new();
    options.read(true).nonblock(true).follow(FollowSymlinks::No);
    let file = dir.open_with(name, &options).map_err(failed)?.into_std();
    if !file.metadata().map_err(failed)?.is_file() {
        return Err(file::not_a_journal_error(path));
    }
    Ok(file)
}

/// The folder of a file, and its name in it.
fn split(path: &Path) -> (&Path, &Path) {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    (folder, path.file_name().map_or(path, Path::new))
}
