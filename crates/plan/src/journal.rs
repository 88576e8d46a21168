//! The journal of a plan run: a file that records each finished step once, before anything that depends on it runs.
//!
//! Each line is a record: a checksum, the event, and the value. Lines are only appended, each with one write that is on the
//! disk before the step counts as finished. A partial last line is the result of a crash and is cut off when the file is
//! opened again; a damaged line before it is not, and the journal is refused. The file is locked during a run.

mod file;
mod inspection;
mod line;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::callees::{Callee, CalleeLookup, Callees};
use crate::{Plan, callee_names};
use file::JournalFile;
pub use inspection::{JournalContent, JournalState, JournalStep, JournalSummary};
use metier_core::error::{ErrorContext, ErrorKind, Hint, Result, SkillError};
use metier_core::host::{CallAccess, CallRecords, SkillContext};
use metier_core::policy::{CancelToken, split_tool_name};

/// The journal of one run. `Invocation::journal` keeps one; the functions here look at
/// journals, and `Invocation::resume` goes on with one.
pub struct Journal {
    path: PathBuf,
    file: Mutex<JournalFile>,
    outcomes: HashMap<StepKey, RecordedOutcome>,
    /// The id of each step with an outcome, and what its calls had.
    accesses: BTreeMap<StepKey, (String, Vec<CallAccess>)>,
    started: HashSet<StepKey>,
    /// The steps that ended without an outcome of their own, and whether the plan ended.
    ended: HashSet<usize>,
    is_finished: bool,
}

/// A step, or a step with an item of its loop; both indices count from 0.
pub(super) type StepKey = (usize, Option<usize>);

/// How a step or its item finished.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum RecordedOutcome {
    /// With this value.
    Done(Value),
    /// With a value that contained a secret and was not saved.
    Withheld,
    /// With an error that did not end the run.
    Failed(String),
}

/// What identifies a run with a journal.
pub struct JournaledRun<'a> {
    /// The name of the skill.
    pub skill: &'a str,
    /// The unique identity of the skill.
    pub identity: &'a str,
    /// The qualified name of the skill, by which an invocation finds it.
    pub qualified_name: Option<&'a str>,
    /// The root of the project that the run works on, with symlinks resolved.
    pub project: Option<&'a Path>,
    /// What tells the project from another one at the same path.
    pub project_identity: Option<&'a str>,
    /// The plan.
    pub plan: &'a Plan,
    /// The input.
    pub input: &'a Value,
    /// Whether the input is saved, so that the run can be resumed without it: not if it contains a secret.
    pub saves_input: bool,
    /// The callees of the plan.
    pub callees: &'a dyn Callees,
    /// The token that stops the run.
    pub token: &'a CancelToken,
}

/// The run that a journal belongs to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct JournalHeader {
    #[serde(rename = "metier-journal")]
    version: u32,
    skill: String,
    #[serde(default)]
    qualified_name: Option<String>,
    #[serde(default)]
    steps: Option<usize>,
    #[serde(default)]
    project: Option<String>,
    #[serde(default)]
    project_identity: Option<String>,
    #[serde(default)]
    files: Option<String>,
    plan: String,
    input: String,
    callees: BTreeMap<String, String>,
}

/// The content of a line without its value.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct JournalRecord {
    step: usize,
    item: Option<usize>,
    id: String,
    state: RecordState,
    /// What the calls of the step had.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    access: Vec<CallAccess>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum RecordState {
    Started,
    Done,
    Withheld,
    Failed,
    Ended,
    /// A loop whose items all have a record of their own.
    Looped,
    /// A step whose condition was false.
    Skipped,
    /// The whole plan.
    Finished,
}

impl JournalHeader {
    fn for_run(run: &JournaledRun<'_>) -> Result<Self> {
        let JournaledRun { skill, identity, qualified_name, project, plan, input, callees, token, .. } = *run;
        Ok(Self {
            version: VERSION,
            skill: skill.to_owned(),
            qualified_name: qualified_name.map(str::to_owned),
            steps: Some(plan.steps().len()),
            project: project.map(|root| root.to_string_lossy().into_owned()),
            project_identity: run.project_identity.map(str::to_owned),
            files: callees.digest(identity),
            plan: line::bytes_digest(format!("{}\n{}", plan.file(), plan.text()).as_bytes()),
            input: line::value_digest(input),
            callees: callee_digests(identity, plan, callees, token)?,
        })
    }
}

/// The version of the format. Journals of version 3 do not say what the calls of a step had, so no run takes them up.
const VERSION: u32 = 4;

/// The digests of the skills that a plan calls or may call, and of those that these call, each computed once. The permissions
/// that skills request count, not those that this run grants.
fn callee_digests(
    own: &str,
    plan: &Plan,
    callees: &dyn Callees,
    token: &CancelToken,
) -> Result<BTreeMap<String, String>> {
    let mut found = BTreeMap::new();
    let mut known: HashSet<String> = HashSet::new();
    let of_tools = plan.tools().filter_map(split_tool_name).map(|(skill, _)| skill);
    let named = callee_names(plan).chain(of_tools).map(str::to_owned);
    let mut open: Vec<String> = named.chain(callees.permitted_callees(own)).collect();
    while let Some(name) = open.pop() {
        if !known.insert(name.clone()) {
            continue;
        }
        token.check()?;
        let CalleeLookup::Found(Callee { identity, calls, .. }) = callees.skill(&name) else { continue };
        found.extend(callees.digest(&identity).map(|digest| (name, digest)));
        open.extend(calls.into_iter().chain(callees.permitted_callees(&identity)));
    }
    Ok(found)
}

impl Journal {
    /// What the calls of a part of the plan had in an earlier run.
    pub(super) fn recorded_access(&self, part: StepKey) -> &[CallAccess] {
        self.accesses.get(&part).map_or(&[], |(_, calls)| calls)
    }

    /// The outcome of a part of the plan in an earlier run, if it finished.
    pub(super) fn recorded_outcome(&self, part: StepKey) -> Option<&RecordedOutcome> {
        self.outcomes.get(&part)
    }

    /// Whether an earlier run started this part and did not finish it.
    pub(super) fn was_interrupted(&self, part: StepKey) -> bool {
        self.started.contains(&part) && !self.outcomes.contains_key(&part)
    }

    /// Records that a part that can do more than read is about to run. The record survives a crash of this process; it may be
    /// lost when the machine crashes, which only costs a warning.
    pub(super) fn record_start(&self, part: StepKey, id: &str) -> Result<()> {
        if self.was_interrupted(part) {
            return Ok(());
        }
        self.append_record(part, id, RecordState::Started, None)
    }

    /// Records that a part finished, and what its calls had; the record is on the disk when this returns.
    pub(super) fn record_outcome(
        &self,
        part: StepKey,
        id: &str,
        how: &RecordedOutcome,
        access: Vec<CallAccess>,
    ) -> Result<()> {
        let failed;
        let (state, value) = match how {
            RecordedOutcome::Done(value) => (RecordState::Done, Some(value)),
            RecordedOutcome::Withheld if self.outcomes.contains_key(&part) => return Ok(()),
            RecordedOutcome::Withheld => (RecordState::Withheld, None),
            RecordedOutcome::Failed(why) => {
                failed = Value::from(why.as_str());
                (RecordState::Failed, Some(&failed))
            }
        };
        self.append_line(&JournalRecord { access, ..JournalRecord::new(part, id, state) }, value)?;
        self.sync()
    }

    /// Records that a started part ended with an error that ends the run, so that it does not count as interrupted.
    pub(super) fn record_abort(&self, part: StepKey, id: &str) -> Result<()> {
        self.append_record(part, id, RecordState::Ended, None)
    }

    /// Records that a step ended that has no outcome of its own. It may be lost, which costs nothing but what a list shows.
    pub(super) fn record_end(&self, step: usize, id: &str, was_skipped: bool) -> Result<()> {
        if self.ended.contains(&step) {
            return Ok(());
        }
        let state = if was_skipped { RecordState::Skipped } else { RecordState::Looped };
        self.append_record((step, None), id, state, None)
    }

    /// Records that the whole plan ended.
    pub(super) fn record_finish(&self) -> Result<()> {
        if self.is_finished {
            return Ok(());
        }
        self.append_record((0, None), "", RecordState::Finished, None)?;
        self.sync()
    }

    fn append_record(
        &self,
        part: StepKey,
        id: &str,
        state: RecordState,
        value: Option<&Value>,
    ) -> Result<()> {
        self.append_line(&JournalRecord::new(part, id, state), value)
    }

    fn append_line(&self, what: &impl Serialize, value: Option<&Value>) -> Result<()> {
        let text = serde_json::to_string(what).map_err(|error| self.io_error("write", error.into()))?;
        let value = value.map(Value::to_string);
        let mut lines = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        lines.append(&line::encode(&text, value.as_deref())).map_err(|error| self.io_error("write", error))
    }

    fn sync(&self) -> Result<()> {
        let mut lines = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        lines.sync().map_err(|error| self.io_error("write", error))
    }

    fn validate_header(&self, text: &str, head: &JournalHeader) -> Result<()> {
        let known: JournalHeader =
            serde_json::from_str(text).map_err(|_| file::not_a_journal_error(&self.path))?;
        let changed = if known.version != head.version {
            "was written by another version of metier".into()
        } else if known.skill != head.skill {
            format!("belongs to the skill {}", known.skill)
        } else if known.project != head.project {
            format!("belongs to the project {}", known.project.as_deref().unwrap_or("of nobody"))
        } else if known.project_identity != head.project_identity {
            "belongs to another project that was at the same path".into()
        } else if known.plan != head.plan {
            format!("was begun before the plan of {} changed", head.skill)
        } else if known.files != head.files {
            format!("was begun before a file in the folder of {} changed", head.skill)
        } else if known.input != head.input {
            "was begun with another input".into()
        } else if let Some(name) = changed_callee(&known.callees, &head.callees) {
            format!("was begun before the skill {name} changed, which the plan calls")
        } else {
            return Ok(());
        };
        let sentence =
            format!("the journal {} {changed}, so the run is not taken up again", self.path.display());
        Err(SkillError::new(ErrorKind::Usage, sentence)
            .with_help("name another folder, or remove the file to start over")
            .with_hint(Hint::Journal))
    }

    fn load_record(&mut self, text: &str, value: Option<&str>) -> Result<()> {
        let damaged = || file::damaged_journal_error(&self.path);
        let JournalRecord { step, item, id, state, access } =
            serde_json::from_str(text).map_err(|_| damaged())?;
        let value = value.map(|text| line::parse_value(text).ok_or_else(damaged)).transpose()?;
        let how = match (state, value) {
            (RecordState::Started, _) => {
                self.started.insert((step, item));
                return Ok(());
            }
            (RecordState::Ended, _) => {
                self.started.remove(&(step, item));
                return Ok(());
            }
            (RecordState::Looped | RecordState::Skipped, _) => {
                self.ended.insert(step);
                return Ok(());
            }
            (RecordState::Finished, _) => {
                self.is_finished = true;
                return Ok(());
            }
            (RecordState::Withheld, _) => RecordedOutcome::Withheld,
            (RecordState::Done, Some(value)) => RecordedOutcome::Done(value),
            (RecordState::Failed, Some(Value::String(why))) => RecordedOutcome::Failed(why),
            _ => return Err(damaged()),
        };
        self.outcomes.insert((step, item), how);
        self.accesses.insert((step, item), (id, access));
        Ok(())
    }

    fn io_error(&self, verb: &str, error: std::io::Error) -> SkillError {
        SkillError::io(format_args!("failed to {verb} the journal {}", self.path.display()), error)
    }
}

/// Opens the journal at this path for this run, either a new one or one of an earlier run.
///
/// Fails with `usage` if it belongs to another run or another run holds its lock; with `io` if it cannot be written or is
/// damaged.
pub fn open_journal(path: &Path, run: &JournaledRun<'_>) -> Result<Journal> {
    let head = JournalHeader::for_run(run)?;
    let (lines, found) = JournalFile::open(path)?;
    let mut journal = Journal {
        path: path.to_owned(),
        file: Mutex::new(lines),
        outcomes: HashMap::new(),
        accesses: BTreeMap::new(),
        started: HashSet::new(),
        ended: HashSet::new(),
        is_finished: false,
    };
    let mut found = found.into_iter();
    match found.next() {
        None => {
            journal.append_line(&head, Some(run.input).filter(|_| run.saves_input))?;
            journal.sync()?;
        }
        Some((text, _)) => journal.validate_header(&text, &head)?,
    }
    for (text, value) in found {
        journal.load_record(&text, value.as_deref())?;
    }
    Ok(journal)
}

/// Whether a run with this context may take up what an earlier run recorded in the journal: it may make the same calls again, with all that
/// they had. Whoever decides about permissions is asked again. `denied` where a permission is missing.
pub fn check_journal_access(journal: &Journal, ctx: &SkillContext) -> Result<()> {
    let mut checked: HashSet<&CallAccess> = HashSet::new();
    for (part, (id, calls)) in &journal.accesses {
        // A value that was not saved is not taken up either.
        if matches!(journal.outcomes.get(part), Some(RecordedOutcome::Withheld) | None) {
            continue;
        }
        for call in calls {
            if checked.insert(call) {
                ctx.check_call(call).map_err(|error| access_error(ctx, id, &error))?;
            }
        }
    }
    Ok(())
}

impl JournalRecord {
    fn new((step, item): StepKey, id: &str, state: RecordState) -> Self {
        Self { step, item, id: id.to_owned(), state, access: Vec::new() }
    }
}

/// Why a run does not take up the value of a step, which ends it before anything of it runs.
fn access_error(ctx: &SkillContext, id: &str, error: &SkillError) -> SkillError {
    let way_out = match error.missing_permission() {
        Some(_) => error.help().map(|help| format!("{help}, or start over with a journal in another folder")),
        None => error.help().map(str::to_owned),
    };
    let help = way_out.unwrap_or_else(|| "start over with a journal in another folder".to_owned());
    let skill = ctx.skill();
    let sentence =
        format!("the run of {skill} does not go on where an earlier one ended: in step {id}, {error}");
    error.with_message(sentence).with_help(help)
}

fn changed_callee<'a>(
    known: &'a BTreeMap<String, String>,
    now: &'a BTreeMap<String, String>,
) -> Option<&'a str> {
    let names = known.keys().chain(now.keys());
    names.into_iter().find(|name| known.get(*name) != now.get(*name)).map(String::as_str)
}

/// The file of the journal of a skill's run, in the folder of journals.
pub fn journal_path(folder: &Path, skill: &str) -> PathBuf {
    folder.join(format!("{}.journal", file::escape_file_name(skill)))
}

/// The journal file of a plan that a part of this plan calls.
pub(super) fn nested_journal_path(own: &Path, (step, item): StepKey) -> PathBuf {
    let name = own.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let item = item.map_or(String::new(), |item| format!("-{item}"));
    own.with_file_name(format!("{name}.{step}{item}.journal"))
}

#[cfg(test)]
mod tests;
