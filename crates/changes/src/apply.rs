//! Applies and undoes changes of a stored set: staged, journalled, executed, and either completed or taken back.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::SystemTime;

use rustix::fs::{AtFlags, Mode, mkdirat, renameat, unlinkat};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::content::{new_name, old_name, prepare_staged, save};
use super::journal::{Journal, open_staging};
use super::model::{ChangeSet, Conflict, FileState, escape};
use super::operation::{Expected, Failure, Operation, Place, discard};
use super::plan::{Action, Step, Transition, plan};
use super::private_file;
use super::store_dir::{remove_folder, subfolder};
use metier_core::error::{ErrorContext, Result, SkillError};
use metier_core::policy::Timestamp;

const STATE: &str = "state.json";
pub(crate) const CONTENT: &str = "content";
/// How the name of the folder begins in which files are staged in a project on another file system than the store.
const STAGING_PREFIX: &str = ".metier-apply-";

/// What was applied or undone, and what was not.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ApplyReport {
    /// The paths that the project now has as wanted, as the change set names them.
    pub applied: Vec<String>,
    /// The paths that stayed as they are in the project.
    pub conflicts: Vec<Conflict>,
}

/// What has become of a stored set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SetState {
    /// Raised whenever changes were applied or undone.
    pub(crate) serial: u64,
    /// The changes that are applied, by their numbers, and whether each can be undone.
    pub(crate) applied: BTreeMap<usize, bool>,
    /// The bytes of all contents.
    pub(crate) bytes: u64,
    /// When it was stored.
    pub(crate) stored: Timestamp,
    /// When something of it was applied last.
    pub(crate) applied_at: Option<Timestamp>,
    /// The same in nanoseconds since 1970, which tells apart what was applied in the same second.
    #[serde(default)]
    pub(crate) applied_nanos: u64,
}

/// The open folder of a stored set.
pub(crate) struct SetFolder {
    pub(crate) dir: OwnedFd,
    pub(crate) content: OwnedFd,
}

/// Whether changes are applied or undone.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    /// With the old contents stored, or without.
    Apply {
        keep_old: bool,
    },
    Undo,
}

impl SetState {
    pub(crate) fn write(&self, dir: &OwnedFd) -> io::Result<()> {
        private_file::replace(dir, STATE, &serde_json::to_vec(self)?)
    }

    pub(crate) fn read(dir: &OwnedFd) -> io::Result<Option<Self>> {
        match private_file::read(dir, STATE)? {
            Some(text) => Ok(Some(serde_json::from_slice(&text)?)),
            None => Ok(None),
        }
    }
}

impl Direction {
    /// The name of what is put into the project, and that of what it replaces.
    fn names(self, change: usize) -> (String, String) {
        match self {
            Self::Apply { .. } => (new_name(change), old_name(change)),
            Self::Undo => (old_name(change), new_name(change)),
        }
    }

    fn verb(self) -> &'static str {
        match self {
            Self::Apply { .. } => "apply",
            Self::Undo => "undo",
        }
    }
}

impl SetFolder {
    pub(crate) fn open(store: &OwnedFd, id: &str) -> io::Result<Self> {
        let dir = subfolder(store, id)?;
        let content = subfolder(&dir, CONTENT)?;
        Ok(Self { dir, content })
    }

    /// Applies or undoes these changes. Paths at which the project has something else than expected are conflicts; any other failure
    /// takes everything back, and so does any conflict if it is all or nothing.
    pub(crate) fn perform(
        &self,
        project: BorrowedFd<'_>,
        set: &ChangeSet,
        state: &SetState,
        changes: &[usize],
        (direction, all_or_nothing): (Direction, bool),
    ) -> Result<ApplyReport> {
        let verb = direction.verb();
        let failed =
            |source| SkillError::io(format_args!("failed to {verb} the change set {}", set.id), source);
        let transitions: Vec<Transition<'_>> = changes
            .iter()
            .filter_map(|index| {
                let change = set.changes.get(*index)?;
                Some(match direction {
                    Direction::Apply { .. } => Transition::apply(*index, change),
                    Direction::Undo => Transition::undo(*index, change),
                })
            })
            .collect();
        let steps = plan(set, &transitions);
        let mut attempt = Attempt {
            folder: self,
            project,
            set,
            direction,
            journal: Journal {
                serial: state.serial + 1,
                keeps_removed: direction != Direction::Apply { keep_old: false },
                staging: Some(format!("{STAGING_PREFIX}{}", set.id)),
                operations: Vec::new(),
            },
            staging: None,
        };
        // The name of the staging folder is in the journal before there is one.
        attempt.journal.write(&self.dir).map_err(failed)?;
        let prepared = attempt.prepare(&steps);
        let groups = match prepared {
            Ok(groups) => groups,
            Err(error) => {
                self.finish(project, &attempt.journal, true).map_err(failed)?;
                return Err(error);
            }
        };
        let executed = attempt.execute(&steps, &groups);
        if let Ok(done) = &executed
            && all_or_nothing
            && !done.conflicts.is_empty()
        {
            let left = self.take_back(project, &attempt.journal).map_err(failed)?;
            let conflicts = done.conflicts.clone();
            if left.is_empty() {
                return Ok(ApplyReport { applied: Vec::new(), conflicts });
            }
            return Err(with_left(&failed(io::Error::other("the project has changed meanwhile")), &left));
        }
        let done = executed.and_then(|done| {
            attempt.save_removed().map_err(failed)?;
            attempt.next_state(state, &done).write(&self.dir).map_err(failed)?;
            Ok(done)
        });
        match done {
            Ok(done) => {
                self.finish(project, &attempt.journal, false).map_err(failed)?;
                Ok(done.report(set, direction))
            }
            Err(error) => {
                let left = self.take_back(project, &attempt.journal).map_err(failed)?;
                Err(with_left(&error, &left))
            }
        }
    }

    /// Completes or takes back what was going on when a process was killed. Returns what could not be taken back.
    pub(crate) fn recover(
        &self,
        project: BorrowedFd<'_>,
        journal: &Journal,
        state: &SetState,
    ) -> io::Result<Vec<String>> {
        if state.serial >= journal.serial {
            self.finish(project, journal, false)?;
            return Ok(Vec::new());
        }
        self.take_back(project, journal)
    }

    fn take_back(&self, project: BorrowedFd<'_>, journal: &Journal) -> io::Result<Vec<String>> {
        let staging = match &journal.staging {
            Some(name) => open_staging(project, name)?,
            None => None,
        };
        let place = Place { project, staging: staging.as_ref().unwrap_or(&self.content).as_fd() };
        let left = journal.revert(place)?;
        if let Some(staging) = &staging {
            // What somebody else has put at a path meanwhile stays there, and what was there before stays in the store.
            save_removed(journal, staging, &self.content)?;
            // A kill while the folder is removed must not have it looked for again.
            let journal = Journal { operations: Vec::new(), ..journal.clone() };
            journal.write(&self.dir).ok();
        }
        self.finish(project, journal, true)?;
        Ok(left)
    }

    /// Removes what is not needed any more, and the journal last.
    fn finish(&self, project: BorrowedFd<'_>, journal: &Journal, is_taken_back: bool) -> io::Result<()> {
        if let Some(name) = &journal.staging {
            remove_folder(project, name)?;
        }
        if !is_taken_back && !journal.keeps_removed {
            for name in journal.operations.iter().filter_map(removed_name) {
                discard(self.content.as_fd(), name.as_ref())?;
            }
        }
        Journal::remove(&self.dir)
    }
}

/// Changes of one set that are being applied or undone.
struct Attempt<'a> {
    folder: &'a SetFolder,
    project: BorrowedFd<'a>,
    set: &'a ChangeSet,
    direction: Direction,
    journal: Journal,
    /// The folder in the project where files are staged; `None` where they are staged in the store.
    staging: Option<OwnedFd>,
}

/// The operations of a step, and what each expects.
struct Group {
    operations: Vec<(Operation, Option<FileState>)>,
}

/// What became of the changes.
#[derive(Default)]
struct Done {
    changes: BTreeSet<usize>,
    failed: BTreeSet<usize>,
    conflicts: Vec<Conflict>,
}

impl Attempt<'_> {
    /// Stages everything, and writes the journal. The project is as it was when this fails.
    fn prepare(&mut self, steps: &[Step<'_>]) -> Result<Vec<Group>> {
        let verb = self.direction.verb();
        let id = &self.set.id;
        let failed = |source| {
            SkillError::io(
                format_args!("failed to {verb} the change set {id}; the project is as it was"),
                source,
            )
        };
        self.staging = self.open_staging().map_err(failed)?;
        let mut groups = Vec::with_capacity(steps.len());
        for step in steps {
            let mut operations = Vec::with_capacity(step.actions.len());
            for (path, action) in &step.actions {
                let failed = |source: io::Error| {
                    failed(io::Error::new(source.kind(), format!("{}: {source}", escape(path))))
                };
                operations.push(self.operation(step.change, path, action).map_err(failed)?);
            }
            groups.push(Group { operations });
        }
        self.journal.operations = groups
            .iter()
            .flat_map(|group| group.operations.iter().map(|(operation, _)| operation.clone()))
            .collect();
        if self.staging.is_none() {
            self.journal.staging = None;
        }
        self.journal.write(&self.folder.dir).map_err(failed)?;
        Ok(groups)
    }

    /// The operation of an action, with what it needs staged.
    fn operation(
        &self,
        change: usize,
        path: &str,
        action: &Action<'_>,
    ) -> io::Result<(Operation, Option<FileState>)> {
        let (incoming, outgoing) = self.direction.names(change);
        let prepare =
            |state: &FileState| prepare_staged(state, &incoming, &self.folder.content, self.staging.as_ref());
        let path = path.to_owned();
        Ok(match action {
            Action::Place(to) => {
                let is_folder = to.entry_type == super::model::EntryType::Folder;
                let placed = prepare(to)?;
                (Operation::Place { path, staged: incoming, is_folder, placed }, None)
            }
            Action::Remove(from) => (Operation::Remove { path, removed: outgoing }, Some((*from).clone())),
            Action::Replace { from, to } => {
                let placed = prepare(to)?;
                let operation = Operation::Replace { path, staged: incoming, removed: outgoing, placed };
                (operation, Some((*from).clone()))
            }
            Action::RemoveFolder { from, mode } => {
                let expected = FileState { mode: *mode, ..(*from).clone() };
                (Operation::RemoveFolder { path, mode: *mode }, Some(expected))
            }
            Action::SetMode { from, to } => {
                let folder = FileState::folder(*from);
                (Operation::SetMode { path, from: *from, to: *to }, Some(folder))
            }
        })
    }

    /// The folder in the project where files are staged, if the store is on another file system: files are moved only within one.
    fn open_staging(&self) -> io::Result<Option<OwnedFd>> {
        const PROBE: &str = "probe";
        let content = &self.folder.content;
        let Some(name) = self.journal.staging.as_deref() else { return Ok(None) };
        remove_folder(self.project, name)?;
        discard(content.as_fd(), PROBE.as_ref())?;
        mkdirat(content, PROBE, Mode::RWXU)?;
        // Two folders of one device can still be of two mounts, so it is tried.
        match renameat(content, PROBE, self.project, name) {
            Ok(()) => {
                unlinkat(self.project, name, AtFlags::REMOVEDIR)?;
                Ok(None)
            }
            Err(error) => {
                discard(content.as_fd(), PROBE.as_ref())?;
                if error != Errno::XDEV {
                    return Err(error.into());
                }
                super::store_dir::create_staging(self.project, name).map(Some)
            }
        }
    }

    /// Executes the steps. An error is one after which nothing else would succeed either.
    fn execute(&self, steps: &[Step<'_>], groups: &[Group]) -> Result<Done> {
        let mut done = Done::default();
        // What prepared another step, by the change.
        let mut preparations: BTreeMap<usize, &Group> = BTreeMap::new();
        for (step, group) in steps.iter().zip(groups) {
            if step.is_auxiliary && done.failed.contains(&step.change) {
                continue;
            }
            match self.execute_group(group) {
                Ok(()) if step.is_auxiliary => {
                    preparations.insert(step.change, group);
                }
                Ok(()) => {
                    done.changes.insert(step.change);
                }
                Err(Failure::Conflict(conflict)) => {
                    let is_here = |(operation, _): &&(Operation, _)| operation.path() == conflict.path;
                    let expected = group.operations.iter().find(is_here);
                    let expected = expected.and_then(|(_, expected)| expected.clone());
                    done.changes.remove(&step.change);
                    done.failed.insert(step.change);
                    done.conflicts.push(Conflict { expected, ..*conflict });
                    // Such as the permission to remove what is in a folder.
                    for (operation, _) in
                        preparations.remove(&step.change).iter().flat_map(|group| &group.operations)
                    {
                        operation
                            .revert(self.place())
                            .map_err(|error| self.fatal(operation.path(), error))?;
                    }
                }
                Err(Failure::Fatal { path, error }) => return Err(self.fatal(&path, error)),
            }
        }
        Ok(done)
    }

    fn execute_group(&self, group: &Group) -> Result<(), Failure> {
        // In whole seconds, so it is never later than what was read.
        let read_at = self.set.read_at();
        for (index, (operation, expected)) in group.operations.iter().enumerate() {
            let expected = Expected { state: expected.as_ref(), read_at };
            if let Err(failure) = operation.execute(self.place(), expected) {
                if let Failure::Conflict(_) = failure {
                    for (earlier, _) in group.operations.iter().take(index).rev() {
                        let path = operation.path().to_owned();
                        earlier.revert(self.place()).map_err(|error| Failure::Fatal { path, error })?;
                    }
                }
                return Err(failure);
            }
        }
        Ok(())
    }

    fn place(&self) -> Place<'_> {
        let staging = self.staging.as_ref().unwrap_or(&self.folder.content);
        Place { project: self.project, staging: staging.as_fd() }
    }

    /// Copies what the changes replaced into the store, if it has to be there and is not.
    fn save_removed(&self) -> io::Result<()> {
        match &self.staging {
            Some(staging) if matches!(self.direction, Direction::Apply { keep_old: true }) => {
                save_removed(&self.journal, staging, &self.folder.content)
            }
            _ => Ok(()),
        }
    }

    fn next_state(&self, state: &SetState, done: &Done) -> SetState {
        let mut next = SetState { serial: self.journal.serial, ..state.clone() };
        let size = |index: &usize| {
            let before = self.set.changes.get(*index).and_then(|change| change.before.as_ref());
            before.map_or(0, |before| before.size)
        };
        match self.direction {
            Direction::Apply { keep_old } => {
                next.applied.extend(done.changes.iter().map(|index| (*index, keep_old)));
                next.applied_at = Some(Timestamp::now());
                let elapsed = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
                next.applied_nanos = u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX);
                if keep_old {
                    next.bytes += done.changes.iter().map(size).sum::<u64>();
                }
            }
            Direction::Undo => {
                next.applied.retain(|index, _| !done.changes.contains(index));
                next.bytes = next.bytes.saturating_sub(done.changes.iter().map(size).sum());
            }
        }
        next
    }

    fn fatal(&self, path: &str, error: io::Error) -> SkillError {
        let verb = self.direction.verb();
        let attempt = format!("failed to {verb} {} of the change set {}", escape(path), self.set.id);
        SkillError::io(attempt, error)
    }
}

impl Done {
    fn report(self, set: &ChangeSet, direction: Direction) -> ApplyReport {
        let path = |index: &usize| {
            let change = set.changes.get(*index)?;
            let from = change.from.as_ref().filter(|_| direction == Direction::Undo);
            Some(from.unwrap_or(&change.path).clone())
        };
        ApplyReport { applied: self.changes.iter().filter_map(path).collect(), conflicts: self.conflicts }
    }
}

/// Where an operation puts what it replaces.
fn removed_name(operation: &Operation) -> Option<&str> {
    match operation {
        Operation::Remove { removed, .. } | Operation::Replace { removed, .. } => Some(removed),
        _ => None,
    }
}

fn save_removed(journal: &Journal, staging: &OwnedFd, content: &OwnedFd) -> io::Result<()> {
    journal.operations.iter().filter_map(removed_name).try_for_each(|name| save(staging, name, content))
}

/// The error, with what could not be taken back.
fn with_left(error: &SkillError, left: &[String]) -> SkillError {
    const MAX_PATHS: usize = 5;
    let sentence = error.message().to_owned();
    if left.is_empty() {
        return error.with_message(format!("{sentence}; the project is as it was"));
    }
    let shown: Vec<_> = left.iter().take(MAX_PATHS).map(String::as_str).collect();
    error.with_message(format!(
        "{sentence}; all was taken back except {} paths, which changed meanwhile: {}",
        left.len(),
        shown.join(", ")
    ))
}
