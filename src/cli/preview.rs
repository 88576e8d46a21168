//! Runs in a copy of the project: what they change is shown, stored or applied when they have ended, and until then the project is as it was.
//!
//! The command moves itself to where the copy is in the place of the project, so that scripts of all languages and everything that it does for them
//! find the copy there. Only what was opened before leads to the project.

use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use metier::changes::{
    ApplyOptions, ApplyReport, ChangeSet, ChangeStore, ReadLimits, ReadRules, RunFacts, StoredChangeSet,
    summary,
};
use metier::engine::{Invocation, Outcome};
use metier::error::{ErrorKind, Result, SkillError};
use metier::trust::ProjectIdentity;
use metier_core::executor::ProjectCopy;
use metier_core::host::{DirCleaner, metier_dirs};
use metier_sandbox::{OverlayRequest, enter_overlay};
use rustix::fs::{FlockOperation, flock};
use serde::Serialize;
use serde_json::Value;

use super::changes::{self, diffs_as_json, print_report, text_diffs};
use super::output;
use super::prompt::{self, Question, Reply, output_columns};
use super::proposed_grants::{self, proposed_grants};
use super::session::Session;
use super::terminal::escape_line;

/// The options of runs in a copy of the project.
#[derive(clap::Args)]
#[allow(clippy::struct_excessive_bools, reason = "each is an option of the command line")]
pub struct PreviewArgs {
    /// Run in a copy of the project, and show what it would change
    #[arg(long, conflicts_with = "undoable")]
    preview: bool,
    /// Store what it would change for `metier changes`, and do not ask
    #[arg(long, requires = "preview")]
    keep_changes: bool,
    /// Apply what it changed when it has ended, in a way that `metier undo` can take back
    #[arg(long)]
    undoable: bool,
    /// Watch what it opens, creates and executes, and list all that it was refused with the grants that would allow it
    #[arg(long)]
    watch: bool,
    /// Whether the changes of a preview are applied without a question.
    #[arg(skip)]
    applies: bool,
    /// Whether the run is only to be looked at, so that a person is asked about the hosts that it tries to reach.
    #[arg(skip)]
    is_trial: bool,
}

/// What becomes of the changes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Decision {
    /// A person at the terminal is asked.
    Ask,
    Discard,
    Store,
    Apply,
}

impl PreviewArgs {
    /// Puts a copy in the place of the project, for this process and all that it starts. To be called before anything has opened the project,
    /// and before this process has other threads.
    pub fn begin(&self, session: &Session, skill: &str) -> Result<Option<Preview>> {
        let decision = match (self.undoable, self.preview) {
            (true, _) => Decision::Apply,
            (_, false) => return Ok(None),
            _ if self.applies => Decision::Apply,
            _ if self.keep_changes => Decision::Store,
            _ if session.can_ask() => Decision::Ask,
            _ => Decision::Discard,
        };
        Preview::begin(&session.project_for_scripts()?, skill, decision).map(Some)
    }

    /// The options of a run that is only to be looked at: in a copy, and watched.
    pub fn watched_in_copy(applies: bool) -> Self {
        Self { preview: true, keep_changes: false, undoable: false, watch: true, applies, is_trial: true }
    }

    /// The invocation with what a preview permits, since to write to a copy changes nothing, and watched if the options say so.
    pub fn add_to(&self, invocation: Invocation) -> Result<Invocation> {
        let invocation = if self.watch { invocation.watch() } else { invocation };
        let invocation = if self.is_trial { invocation.ask_about_hosts() } else { invocation };
        let is_in_copy = self.preview || self.undoable;
        let invocation = if is_in_copy { invocation.extension(ProjectCopy) } else { invocation };
        if self.preview { Ok(invocation.grant("write".parse()?)) } else { Ok(invocation) }
    }

    /// Prints the grants that a watched run would have needed, of what it was refused and what it changed in a copy.
    pub fn print_grants(
        &self,
        outcome: &Outcome,
        changes: Option<&ChangeSet>,
        skill: Option<&str>,
        session: &Session,
    ) {
        if self.watch && !session.json() {
            proposed_grants::print(outcome, changes, skill, session);
        }
    }
}

/// A run in a copy of the project.
pub struct Preview {
    /// The project itself.
    project: OwnedFd,
    root: PathBuf,
    skill: String,
    started: SystemTime,
    decision: Decision,
    folder: PreviewFolder,
}

/// An outcome with what its run changed.
#[derive(Serialize)]
struct PreviewedOutcome<'a> {
    #[serde(flatten)]
    outcome: &'a Outcome,
    changes: &'a Changes,
    /// The permissions that the run would have needed.
    proposed_grants: Vec<String>,
}

/// What a run changed, and what became of it.
#[derive(Serialize)]
struct Changes {
    #[serde(flatten)]
    set: ChangeSet,
    /// The lines that differ in texts.
    diffs: Vec<Value>,
    is_stored: bool,
    /// What was applied, if the options say so.
    applied: Option<ApplyReport>,
}

impl Preview {
    fn begin(project: &Path, skill: &str, decision: Decision) -> Result<Self> {
        let failed = |error| SkillError::io(format_args!("failed to open {}", project.display()), error);
        let root = project.canonicalize().map_err(failed)?;
        let opened = fs::File::open(&root).map_err(failed)?;
        let folder = PreviewFolder::create()
            .map_err(|error| SkillError::io("failed to make a folder for what the run changes", error))?;
        // The kernel mounts such an overlay, and then what it changed cannot be opened.
        if folder.path.canonicalize().map_err(failed)?.starts_with(&root) {
            let sentence =
                format!("failed to run in a copy of the project: the data folder is in {}", root.display());
            return Err(SkillError::new(ErrorKind::SandboxUnavailable, sentence)
                .with_help("set METIER_DATA_DIR to the path of a folder outside of the project"));
        }
        let request =
            OverlayRequest { lower: opened.as_fd(), upper: &folder.upper(), work: &folder.path.join(WORK) };
        let started = SystemTime::now();
        ProjectIdentity::fix_before_copy(&root);
        enter_overlay(request).map_err(|error| {
            let refusal = error.refusal();
            let sentence = format!("failed to run in a copy of the project: {}", refusal.reason);
            SkillError::new(ErrorKind::SandboxUnavailable, sentence).with_help(refusal.help)
        })?;
        Ok(Self { project: opened.into(), root, skill: skill.to_owned(), started, decision, folder })
    }

    /// Shows what the run has changed, with the outcome if that is to be JSON, and does with it what the options or the person at the terminal
    /// say. Returns the exit code of the command, and the changes.
    pub fn finish(self, outcome: &Outcome, session: &Session) -> Result<(u8, ChangeSet)> {
        let code = outcome.exit_code();
        let changes = self.read_and_decide(outcome, session)?;
        let has_conflicts = changes.applied.as_ref().is_some_and(|report| !report.conflicts.is_empty());
        if session.json() {
            let proposed_grants = proposed_grants(outcome, Some(&changes.set));
            output::print_json(&PreviewedOutcome { outcome, changes: &changes, proposed_grants })?;
        }
        Ok((if code == 0 && has_conflicts { 1 } else { code }, changes.set))
    }

    fn read_and_decide(&self, outcome: &Outcome, session: &Session) -> Result<Changes> {
        let (set, upper) = self.read()?;
        let mut changes = Changes { set, diffs: Vec::new(), is_stored: false, applied: None };
        if !session.json() {
            print_summary(&changes.set, outcome, self.decision);
        }
        if changes.set.changes.is_empty() {
            return Ok(changes);
        }
        let store = ChangeStore::user()?;
        let stored = store.keep(&changes.set, upper.as_fd())?;
        if session.json() {
            changes.diffs = diffs_as_json(text_diffs(&store, &stored.set, self.project.as_fd()));
        }
        let decision = match self.decision {
            Decision::Ask => self.ask(&store, &stored, session)?,
            decision => decision,
        };
        match decision {
            Decision::Ask | Decision::Discard => {
                store.discard(&stored.set.id)?;
                if self.decision != Decision::Ask && !session.json() {
                    output::eprint(
                        "nothing was changed in the project; with --keep-changes, the changes are stored",
                    );
                }
            }
            Decision::Store => {
                changes.is_stored = true;
                if !session.json() {
                    let id = &stored.set.id;
                    output::eprint(&format!(
                        "stored as {id}: look at it with `metier changes show {id}`, apply it with `metier changes apply {id}`"
                    ));
                }
            }
            Decision::Apply => {
                let options = ApplyOptions { keep_old: true, ..ApplyOptions::default() };
                let report = store.apply(&stored.set.id, self.project.as_fd(), &options)?;
                changes.is_stored = true;
                if !session.json() {
                    print_report(&report, "applied", session)?;
                    output::eprint(&format!("`metier undo {}` takes it back", stored.set.id));
                }
                changes.applied = Some(report);
            }
        }
        Ok(changes)
    }

    /// What the person at the terminal decides.
    fn ask(&self, store: &ChangeStore, stored: &StoredChangeSet, session: &Session) -> Result<Decision> {
        const CHOICES: &[(char, &str)] = &[('a', "apply them"), ('k', "store them")];
        const VIEWS: &[(char, &str)] = &[('l', "show the lines")];
        loop {
            let sentence = "The run made these changes in a copy of the project.".to_owned();
            let facts = vec![("changes", summary(&stored.set, MAX_LINE_COLUMNS, usize::MAX))];
            let question = Question::new(sentence, facts, "Apply them to the project?", CHOICES).views(VIEWS);
            match prompt::ask(&question, &|| false) {
                Reply::Choice('l') => {
                    let _ = changes::show(store, stored, Some(self.project.as_fd()), session)?;
                }
                Reply::Choice('a') => return Ok(Decision::Apply),
                Reply::Choice(_) => return Ok(Decision::Store),
                Reply::No | Reply::Interrupt => return Ok(Decision::Discard),
            }
        }
    }

    fn read(&self) -> Result<(ChangeSet, OwnedFd)> {
        let failed = |error| SkillError::io("failed to read what the run changed", error);
        let upper = fs::File::open(self.folder.upper()).map_err(failed)?;
        let facts = RunFacts { project: self.root.clone(), skill: self.skill.clone(), started: self.started };
        let limits = ReadLimits::default();
        let set =
            ChangeSet::read(self.project.as_fd(), upper.as_fd(), &facts, &limits, &ReadRules::default())?;
        Ok((set, upper.into()))
    }
}

/// Columns of a line that a person is shown before the question.
const MAX_LINE_COLUMNS: usize = 200;

/// Lines of a summary besides those of deletions.
const MAX_SUMMARY_LINES: usize = 40;

fn print_summary(set: &ChangeSet, outcome: &Outcome, decision: Decision) {
    // Whoever is asked sees them with the question, which nobody can agree to before all were shown.
    if decision != Decision::Ask || set.changes.is_empty() {
        output::eprint("in a copy of the project, the run made these changes:");
        output::eprint(summary(set, output_columns(), MAX_SUMMARY_LINES).trim_end());
    }
    let network = outcome.process.as_ref().and_then(|process| process.network.as_ref());
    if let Some(network) = network.filter(|network| network.connections > 0) {
        output::eprint(&format!(
            " it connected to hosts ({}), which nothing takes back",
            escape_line(&network.hosts.join(", "))
        ));
    }
}

const UPPER: &str = "upper";
const WORK: &str = "work";
const LOCK: &str = "lock";

/// A folder for what one run changes, which ends with it. Those of runs that were killed end with the next one.
struct PreviewFolder {
    path: PathBuf,
    /// Locked as long as the run lives.
    _lock: fs::File,
}

impl PreviewFolder {
    fn create() -> io::Result<Self> {
        let parent =
            metier_dirs::previews_dir().ok_or_else(|| io::Error::other("the user has no home folder"))?;
        let mut builder = fs::DirBuilder::new();
        builder.mode(0o700).recursive(true).create(&parent)?;
        if let Some(reason) = metier_dirs::unsafe_reason(&parent) {
            return Err(io::Error::other(reason));
        }
        remove_abandoned(&parent);
        let path = tempfile::Builder::new().prefix("run-").tempdir_in(&parent)?.keep();
        let lock = fs::File::create(path.join(LOCK))?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive)?;
        for name in [UPPER, WORK] {
            builder.create(path.join(name))?;
        }
        Ok(Self { path, _lock: lock })
    }

    fn upper(&self) -> PathBuf {
        self.path.join(UPPER)
    }
}

impl Drop for PreviewFolder {
    fn drop(&mut self) {
        remove(&self.path);
    }
}

fn remove_abandoned(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let path = entry.path();
        let lock = fs::File::open(path.join(LOCK));
        if lock.is_ok_and(|lock| flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok()) {
            remove(&path);
        }
    }
}

/// Removes a folder whatever modes a script gave to what is in it.
fn remove(path: &Path) {
    let emptied = DirCleaner::open(path).and_then(|mut cleaner| cleaner.remove_entries(usize::MAX));
    if emptied.is_ok() {
        fs::remove_dir(path).ok();
    }
}
