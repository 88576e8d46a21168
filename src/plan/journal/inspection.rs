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
use crate::error::{ErrorKind, Result, SkillError};

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
    /// The input of the run; `None` if it contained a secret.
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
    /// The journals in a folder, by name, without those of plans that a plan calls. A file that is no journal, or a damaged one,
    /// is listed with what is wrong. No file is changed, and a run that writes one is not disturbed.
    ///
    /// `io` if the folder cannot be read or has more than 10,000 entries. A journal of more than 64 MiB, and one after 256 MiB of
    /// others, is listed as too large to look at.
    pub fn list(folder: &Path) -> Result<Vec<JournalSummary>> {
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
        let mut left = MAX_LIST_BYTES;
        let look = |name| {
            let path = folder.join(name);
            match read(&path, MAX_BYTES.min(left)) {
                Ok(found) => {
                    left -= found.bytes;
                    found.content(path).summary
                }
                Err(error) => JournalSummary { damage: Some(error), ..JournalSummary::unread(path) },
            }
        };
        Ok(names.into_iter().map(look).collect())
    }

    /// What a journal contains, also one that a run is writing, which is not disturbed. Of a damaged journal, what comes before
    /// the damage.
    ///
    /// `usage` if the file is no journal, `io` if it cannot be read or has more than 64 MiB.
    pub fn peek(path: &Path) -> Result<JournalContent> {
        Ok(read(path, MAX_BYTES)?.content(path.to_owned()))
    }

    /// Removes a journal, and those of the plans that its plan calls. `usage` if a run is writing it or if the file is no journal:
    /// then nothing is removed.
    pub fn discard(path: &Path) -> Result<()> {
        let failed =
            |error| SkillError::io(format_args!("failed to remove the journal {}", path.display()), error);
        let file = open(path)?;
        let lock = lock(&file, std::fs::File::try_lock).map_err(failed)?;
        if !lock {
            return Err(file::journal_in_use_error(path));
        }
        let removed = remove_with_nested(path, &file).map_err(failed);
        // A process that was forked meanwhile shares the file and its lock.
        file.unlock().ok();
        removed?
    }
}

/// Removes a journal that is open and locked, if it is one.
fn remove_with_nested(path: &Path, file: &std::fs::File) -> io::Result<Result<()>> {
    let mut head = Vec::new();
    file.take(file::MAX_HEADER_START).read_to_end(&mut head)?;
    if !file::is_header_start(&head) {
        return Ok(Err(file::not_a_journal_error(path)));
    }
    let (folder, name) = split(path);
    let dir = Dir::open_ambient_dir(folder, ambient_authority())?;
    let stem = name.to_string_lossy().strip_suffix(ENDING).map(|stem| format!("{stem}."));
    let is_nested = |other: &str| {
        let rest = stem.as_deref().and_then(|stem| other.strip_prefix(stem)?.strip_suffix("journal"));
        rest.is_some_and(|rest| {
            !rest.is_empty() && rest.chars().all(|c| c.is_ascii_digit() || ".-".contains(c))
        })
    };
    for entry in dir.entries()? {
        let other = entry?.file_name();
        if other.to_str().is_some_and(is_nested) {
            dir.remove_file(other)?;
        }
    }
    dir.remove_file(name).map(Ok)
}

/// A journal that was read.
struct JournalRead {
    bytes: u64,
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
            let JournalRecord { step: index, item, id, state } = record;
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

/// Reads a journal of at most so many bytes.
fn read(path: &Path, most: u64) -> Result<JournalRead> {
    let failed = |error| SkillError::io(format_args!("failed to read the journal {}", path.display()), error);
    let mut file = open(path)?;
    let modified = file.metadata().and_then(|metadata| metadata.modified()).ok();
    let mut bytes = Vec::new();
    (&mut file).take(most + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > most {
        let sentence = format!("the journal {} is too large to look at", path.display());
        return Err(SkillError::new(ErrorKind::Io, sentence)
            .with_help("resume its run, which reads more, or remove it"));
    }
    let is_locked = !lock(&file, std::fs::File::try_lock_shared).map_err(failed)?;
    file.unlock().ok();
    let (lines, _, damage) = file::decode_lines(&bytes, path);
    if lines.is_empty()
        && let Some(error) = damage
    {
        return Err(error);
    }
    Ok(JournalRead { bytes: bytes.len() as u64, lines, damage, modified, is_locked })
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

/// Opens a regular file, which is not a link, without waiting.
fn open(path: &Path) -> Result<std::fs::File> {
    let failed = |error| SkillError::io(format_args!("failed to open the journal {}", path.display()), error);
    let (folder, name) = split(path);
    let dir = Dir::open_ambient_dir(folder, ambient_authority()).map_err(failed)?;
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
