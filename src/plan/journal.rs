//! What is remembered of a run's steps, in a file: each that finished, once, before anything goes on because of it.
//!
//! A line a record: a checksum, what happened, and the value. Lines are only ever added, each with one write that is on the disk
//! before the step counts as finished. What a crash leaves of a line is cut off when the file is opened again; a fault before the
//! last line is no crash, and is refused. The file is locked while a run has it.

mod file;
mod line;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::callees::{Callee, Callees, Lookup};
use super::{Plan, digest};
use crate::error::{ErrorKind, Result, SkillError};
use crate::policy::CancelToken;
use file::Lines;

/// The journal of one run.
pub struct Journal {
    path: PathBuf,
    lines: Mutex<Lines>,
    finished: HashMap<Part, Finished>,
    started: HashSet<Part>,
}

/// A step, or what it does for one item of its loop, both from 0.
pub(super) type Part = (usize, Option<usize>);

/// How a step or its item finished.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Finished {
    /// With this value.
    Done(Value),
    /// With a value that held a secret and was not written down.
    Withheld,
    /// With an error that did not end the run.
    Failed(String),
}

/// A run that is remembered.
pub struct Journaled<'a> {
    /// The skill, by its name.
    pub skill: &'a str,
    /// What tells the skill from every other one.
    pub identity: &'a str,
    /// The root of the project that the run works on, without links.
    pub project: Option<&'a Path>,
    /// The plan.
    pub plan: &'a Plan,
    /// The input.
    pub input: &'a Value,
    /// What the plan may call.
    pub callees: &'a dyn Callees,
    /// What stops the run.
    pub token: &'a CancelToken,
}

/// What a journal belongs to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Head {
    #[serde(rename = "metier-journal")]
    version: u32,
    skill: String,
    #[serde(default)]
    project: Option<String>,
    #[serde(default)]
    files: Option<String>,
    plan: String,
    input: String,
    callees: BTreeMap<String, String>,
}

/// What a line says beside its value.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Record {
    step: usize,
    item: Option<usize>,
    id: String,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum State {
    Started,
    Done,
    Withheld,
    Failed,
    Ended,
}

impl Head {
    fn of(run: &Journaled<'_>) -> Result<Self> {
        let Journaled { skill, identity, project, plan, input, callees, token } = *run;
        Ok(Self {
            version: 3,
            skill: skill.to_owned(),
            project: project.map(|root| root.to_string_lossy().into_owned()),
            files: callees.digest(identity),
            plan: digest::of_bytes(format!("{}\n{}", plan.file(), plan.text()).as_bytes()),
            input: digest::of_value(input),
            callees: digests(identity, plan, callees, token)?,
        })
    }
}

/// The digests of the skills that a plan calls or may call, and of those that these do, each looked at once. What they ask for
/// counts, and not what this run grants.
fn digests(
    own: &str,
    plan: &Plan,
    callees: &dyn Callees,
    token: &CancelToken,
) -> Result<BTreeMap<String, String>> {
    let mut found = BTreeMap::new();
    let mut known: HashSet<String> = HashSet::new();
    let mut open: Vec<String> = plan.calls().map(str::to_owned).chain(callees.may_call(own)).collect();
    while let Some(name) = open.pop() {
        if !known.insert(name.clone()) {
            continue;
        }
        token.check()?;
        let Lookup::Found(Callee { identity, calls, .. }) = callees.skill(&name) else { continue };
        found.extend(callees.digest(&identity).map(|digest| (name, digest)));
        open.extend(calls.into_iter().chain(callees.may_call(&identity)));
    }
    Ok(found)
}

impl Journal {
    /// The journal at that path for this run, new or begun earlier.
    ///
    /// `usage` when it belongs to another run or another run has it; `io` when it cannot be written, or is damaged.
    pub fn open(path: &Path, run: &Journaled<'_>) -> Result<Self> {
        let head = Head::of(run)?;
        let (lines, found) = Lines::open(path)?;
        let mut journal = Self {
            path: path.to_owned(),
            lines: Mutex::new(lines),
            finished: HashMap::new(),
            started: HashSet::new(),
        };
        let mut found = found.into_iter();
        match found.next() {
            None => {
                journal.write(&head, None)?;
                journal.keep()?;
            }
            Some((text, _)) => journal.belongs(&text, &head)?,
        }
        for (text, value) in found {
            journal.take(&text, value.as_deref())?;
        }
        Ok(journal)
    }

    /// How a part of the plan finished in an earlier run, where it did.
    pub(super) fn finished(&self, part: Part) -> Option<&Finished> {
        self.finished.get(&part)
    }

    /// Whether an earlier run started that part, which did not finish.
    pub(super) fn was_interrupted(&self, part: Part) -> bool {
        self.started.contains(&part) && !self.finished.contains_key(&part)
    }

    /// Writes down that a part that can do more than read is about to run. Kept from a crash of this process; whether it outlives
    /// one of the machine decides no more than a warning.
    pub(super) fn start(&self, part: Part, id: &str) -> Result<()> {
        if self.was_interrupted(part) {
            return Ok(());
        }
        self.record(part, id, State::Started, None)
    }

    /// Writes down that a part finished; on the disk when this returns.
    pub(super) fn finish(&self, part: Part, id: &str, how: &Finished) -> Result<()> {
        match how {
            Finished::Done(value) => self.record(part, id, State::Done, Some(value))?,
            Finished::Withheld if self.finished.contains_key(&part) => return Ok(()),
            Finished::Withheld => self.record(part, id, State::Withheld, None)?,
            Finished::Failed(why) => {
                self.record(part, id, State::Failed, Some(&Value::from(why.as_str())))?;
            }
        }
        self.keep()
    }

    /// Writes down that a part that was started ended with an error that ends the run, so that nobody takes it for interrupted.
    pub(super) fn end(&self, part: Part, id: &str) -> Result<()> {
        self.record(part, id, State::Ended, None)
    }

    fn record(&self, (step, item): Part, id: &str, state: State, value: Option<&Value>) -> Result<()> {
        self.write(&Record { step, item, id: id.to_owned(), state }, value)
    }

    fn write(&self, what: &impl Serialize, value: Option<&Value>) -> Result<()> {
        let text = serde_json::to_string(what).map_err(|error| self.failed("write", error.into()))?;
        let value = value.map(Value::to_string);
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        lines.add(&line::written(&text, value.as_deref())).map_err(|error| self.failed("write", error))
    }

    fn keep(&self) -> Result<()> {
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        lines.keep().map_err(|error| self.failed("write", error))
    }

    fn belongs(&self, text: &str, head: &Head) -> Result<()> {
        let known: Head = serde_json::from_str(text).map_err(|_| file::foreign(&self.path))?;
        let changed = if known.version != head.version {
            "was written by another version of metier".into()
        } else if known.skill != head.skill {
            format!("belongs to the skill {}", known.skill)
        } else if known.project != head.project {
            format!("belongs to the project {}", known.project.as_deref().unwrap_or("of nobody"))
        } else if known.plan != head.plan {
            format!("was begun before the plan of {} changed", head.skill)
        } else if known.files != head.files {
            format!("was begun before a file in the folder of {} changed", head.skill)
        } else if known.input != head.input {
            "was begun with another input".into()
        } else if let Some(name) = differing(&known.callees, &head.callees) {
            format!("was begun before the skill {name} changed, which the plan calls")
        } else {
            return Ok(());
        };
        let sentence =
            format!("the journal {} {changed}, so the run is not taken up again", self.path.display());
        Err(SkillError::new(ErrorKind::Usage, sentence)
            .with_help("name another folder with --journal, or remove the file to start over"))
    }

    fn take(&mut self, text: &str, value: Option<&str>) -> Result<()> {
        let damaged = || file::damaged(&self.path);
        let Record { step, item, state, .. } = serde_json::from_str(text).map_err(|_| damaged())?;
        let value = value.map(|text| line::value(text).ok_or_else(damaged)).transpose()?;
        let how = match (state, value) {
            (State::Started, _) => {
                self.started.insert((step, item));
                return Ok(());
            }
            (State::Ended, _) => {
                self.started.remove(&(step, item));
                return Ok(());
            }
            (State::Withheld, _) => Finished::Withheld,
            (State::Done, Some(value)) => Finished::Done(value),
            (State::Failed, Some(Value::String(why))) => Finished::Failed(why),
            _ => return Err(damaged()),
        };
        self.finished.insert((step, item), how);
        Ok(())
    }

    fn failed(&self, verb: &str, error: std::io::Error) -> SkillError {
        SkillError::io(format_args!("failed to {verb} the journal {}", self.path.display()), error)
    }
}

fn differing<'a>(known: &'a BTreeMap<String, String>, now: &'a BTreeMap<String, String>) -> Option<&'a str> {
    let names = known.keys().chain(now.keys());
    names.into_iter().find(|name| known.get(*name) != now.get(*name)).map(String::as_str)
}

/// The file that holds the journal of a skill's run, in the folder of journals.
pub fn file_of(folder: &Path, skill: &str) -> PathBuf {
    folder.join(format!("{}.journal", file::plain(skill)))
}

/// The file for the plan of a skill that a part of this one calls.
pub(super) fn file_below(own: &Path, (step, item): Part) -> PathBuf {
    let name = own.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let item = item.map_or(String::new(), |item| format!("-{item}"));
    own.with_file_name(format!("{name}.{step}{item}.journal"))
}

#[cfg(test)]
mod tests;
