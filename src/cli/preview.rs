//! Runs in a copy of the project: what they change is shown, stored or applied when they have ended, and until then the project is as it was.
//!
//! The command moves itself to where the copy is in the place of the project, so that scripts of all languages and everything that it does for them
//! find the copy there. Only what was opened before leads to the project. Where that cannot be, a skill has a delta, which only the host functions
//! know: no script that is a process starts.

use std::collections::BTreeSet;
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use metier::audit::ChangeSetDecision;
use metier::changes::{ApplyOptions, ChangeKind, ChangeSet, ChangeStore, summary};
use metier::engine::{Invocation, Outcome};
use metier::error::{ErrorKind, Result, SkillError};
use metier::trust::ProjectIdentity;
use metier_changes::{PreviewCopy, summary_facts};
use metier_core::host::outcome::{ChangesReport, changes_report};
use metier_core::host::{OutcomeFilter, ProjectDelta};
use metier_sandbox::enter_overlay;
use serde::Serialize;
use serde_json::{Value, json};

use super::output::{self, plural};
use super::prompt::{self, Question, Reply, output_columns};
use super::proposed_grants::{self, proposed_grants};
use super::session::Session;
use super::stdin;
use super::terminal::escape_line;
use super::terminal_approver::print_diffs;

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
    /// Where the changes of the run go if it has no overlay, once it has begun.
    #[arg(skip)]
    delta: OnceLock<Arc<ProjectDelta>>,
    /// Takes secrets of the run out of what is shown of its changes.
    #[arg(skip)]
    filter: OutcomeFilter,
}

/// What becomes of the changes.
#[derive(Clone, PartialEq, Eq)]
enum Decision {
    /// A person at the terminal is asked.
    Ask,
    Discard,
    Store,
    Apply,
    /// These paths are applied, and the others are stored.
    ApplySome(Vec<String>),
}

impl PreviewArgs {
    /// Puts a copy in the place of the project, for this process and all that it starts; where there is no overlay, the run has a delta. To be
    /// called before anything has opened the project, and before this process has other threads.
    pub fn begin(&self, session: &Session, skill: &str) -> Result<Option<Preview>> {
        let Some(decision) = self.decision(session) else { return Ok(None) };
        let project = session.project_for_scripts()?;
        match Preview::with_overlay(&project, skill, decision.clone(), self.filter.clone()) {
            Err(refusal) if refusal.kind() == ErrorKind::SandboxUnavailable => {
                let (preview, delta) =
                    Preview::with_delta((&project, skill), decision, self.filter.clone(), refusal)?;
                self.delta.set(Arc::new(delta)).ok();
                Ok(Some(preview))
            }
            begun => begun.map(Some),
        }
    }

    /// The same for a process, which takes an overlay.
    pub fn begin_for_process(&self, session: &Session, name: &str) -> Result<Option<Preview>> {
        let Some(decision) = self.decision(session) else { return Ok(None) };
        Preview::with_overlay(&session.project_for_scripts()?, name, decision, self.filter.clone()).map(Some)
    }

    /// What becomes of the changes, if the run is in a copy.
    fn decision(&self, session: &Session) -> Option<Decision> {
        match (self.undoable, self.preview) {
            (true, _) => Some(Decision::Apply),
            (_, false) => None,
            _ if self.applies => Some(Decision::Apply),
            _ if self.keep_changes => Some(Decision::Store),
            _ if session.can_ask() => Some(Decision::Ask),
            _ => Some(Decision::Discard),
        }
    }

    /// The options of a run that is only to be looked at: in a copy, and watched.
    pub fn watched_in_copy(applies: bool) -> Self {
        Self {
            preview: true,
            keep_changes: false,
            undoable: false,
            watch: true,
            applies,
            is_trial: true,
            delta: OnceLock::new(),
            filter: OutcomeFilter::default(),
        }
    }

    /// The invocation with what a preview permits, since to write to a copy changes nothing, and watched if the options say so.
    pub fn add_to(&self, invocation: Invocation) -> Result<Invocation> {
        let invocation = if self.watch { invocation.watch() } else { invocation };
        let invocation = if self.is_trial { invocation.ask_about_hosts() } else { invocation };
        // What is applied shall be made of no placeholder.
        let has_placeholders = self.is_trial && !self.applies;
        let is_in_copy = self.preview || self.undoable;
        let invocation = invocation.with_facts(|facts| {
            facts.has_placeholders = has_placeholders;
            facts.is_in_copy = is_in_copy;
            facts.outcome_filter = is_in_copy.then(|| self.filter.clone());
            facts.delta = self.delta.get().cloned();
            facts.applies_copy = self.undoable || self.applies;
        });
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
    copy: PreviewCopy,
    decision: Decision,
    /// Why it has no overlay.
    refusal: Option<SkillError>,
    filter: OutcomeFilter,
}

/// An outcome with what its run would have needed.
#[derive(Serialize)]
struct PreviewedOutcome<'a> {
    #[serde(flatten)]
    outcome: &'a Outcome,
    /// The permissions that the run would have needed.
    proposed_grants: Vec<String>,
}

impl Preview {
    fn with_overlay(project: &Path, skill: &str, decision: Decision, filter: OutcomeFilter) -> Result<Self> {
        let folder = ChangeStore::user()?.previews_folder();
        let (copy, ()) = PreviewCopy::create(&folder, (project, skill), |root, request| {
            ProjectIdentity::fix_before_copy(root);
            enter_overlay(request)
        })?;
        Ok(Self { copy, decision, filter, refusal: None })
    }

    fn with_delta(
        (project, skill): (&Path, &str),
        decision: Decision,
        filter: OutcomeFilter,
        refusal: SkillError,
    ) -> Result<(Self, ProjectDelta)> {
        let folder = ChangeStore::user()?.previews_folder();
        let (copy, delta) = PreviewCopy::with_delta(&folder, (project, skill))?;
        let preview = Self { copy, decision, filter, refusal: Some(refusal.clone()) };
        Ok((preview, ProjectDelta { delta, refusal }))
    }

    /// Whether the script takes an overlay, so that nothing has run.
    pub fn has_refused(&self, outcome: &Outcome) -> bool {
        let (Some(refusal), Err(error)) = (&self.refusal, &outcome.result) else { return false };
        error.kind() == refusal.kind()
            && error.message() == refusal.message()
            && self.copy.read().is_ok_and(|(set, _)| set.changes.is_empty() && set.refused.is_empty())
    }

    /// Shows what the run has changed, with the outcome if that is to be JSON, and does with it what the options or the person at the terminal
    /// say. Returns the exit code of the command, and the changes.
    pub fn finish(self, outcome: &Outcome, session: &Session) -> Result<(u8, Option<ChangeSet>)> {
        let code = outcome.exit_code();
        let (set, report, has_conflicts) = match self.read_and_decide(outcome, session) {
            Ok(read) => read,
            Err(error) if session.json() => {
                let mut failed = outcome.clone();
                failed.result = failed.result.and(Err(error));
                output::print_json(&failed)?;
                return Ok((failed.exit_code(), None));
            }
            Err(error) => return Err(error),
        };
        if session.json() {
            let proposed_grants = proposed_grants(outcome, Some(&set));
            let mut outcome = outcome.clone();
            outcome.changes = Some(Box::new(report));
            output::print_json(&PreviewedOutcome { outcome: &outcome, proposed_grants })?;
        }
        Ok((if code == 0 && has_conflicts { 1 } else { code }, Some(set)))
    }

    fn read_and_decide(
        &self,
        outcome: &Outcome,
        session: &Session,
    ) -> Result<(ChangeSet, ChangesReport, bool)> {
        let project = self.copy.project();
        let (set, upper) = self.copy.read()?;
        let mut report = changes_report(set.to_json_with(|text| self.filter.apply(text)), set.digest());
        // What is shown, and decides about nothing.
        let shown: ChangeSet = serde_json::from_value(report.set.clone()).map_err(|error| {
            let sentence = format!("the changes of the run cannot be shown without its secrets: {error}");
            SkillError::new(ErrorKind::InvalidOutput, sentence).with_help("run it without a preview")
        })?;
        if !session.json() {
            print_summary(&shown, outcome, &self.decision);
        }
        if set.changes.is_empty() {
            return Ok((shown, report, false));
        }
        let store = ChangeStore::user()?;
        let stored = store.keep(&set, upper.as_fd())?;
        let diffs = || store.text_diffs_as_json(&stored.set, project, |text| self.filter.apply(text));
        if session.json() {
            report.diffs = diffs();
        }
        let decision = match &self.decision {
            Decision::Ask => ask(&stored.set, &shown, &diffs),
            decision => decision.clone(),
        };
        let mut has_conflicts = false;
        let paths = if let Decision::ApplySome(paths) = &decision { Some(paths.clone()) } else { None };
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
                report.is_stored = true;
                if !session.json() {
                    let id = &stored.set.id;
                    output::eprint(&format!(
                        "stored as {id}: look at it with `metier changes show {id}`, apply it with `metier changes apply {id}`"
                    ));
                }
            }
            Decision::Apply | Decision::ApplySome(_) => {
                let options = ApplyOptions { keep_old: true, paths, ..ApplyOptions::default() };
                let is_part = options.paths.is_some();
                session.record_change_set(&stored.set, ChangeSetDecision::Applied)?;
                let applied = store.apply(&stored.set.id, project, &options)?;
                report.is_stored = true;
                if !session.json() {
                    output::eprint(&format!("applied {}", plural(applied.applied.len(), "path")));
                    for conflict in &applied.conflicts {
                        let shown = self.filter.apply(json!(conflict.to_string()));
                        output::print_warning(&format!(
                            "not applied: {}",
                            shown.as_str().unwrap_or_default()
                        ));
                    }
                    let id = &stored.set.id;
                    output::eprint(&format!("`metier undo {id}` takes it back"));
                    if is_part {
                        output::eprint(&format!(
                            "the others are stored: `metier changes apply {id}` applies them"
                        ));
                    }
                }
                has_conflicts = !applied.conflicts.is_empty();
                report.applied = Some(self.filter.apply(json!(applied)));
            }
        }
        Ok((shown, report, has_conflicts))
    }
}

/// What the person at the terminal decides about a change set, who sees this of it.
fn ask(set: &ChangeSet, shown: &ChangeSet, diffs: &dyn Fn() -> Vec<Value>) -> Decision {
    const CHOICES: &[(char, &str)] = &[('a', "apply them"), ('o', "choose one by one"), ('k', "store them")];
    const VIEWS: &[(char, &str)] = &[('l', "show the lines")];
    stdin::end_pass_through();
    loop {
        let sentence = "The run made these changes in a copy of the project.".to_owned();
        let facts = summary_facts(shown);
        let question = Question::new(sentence, facts, "Apply them to the project?", CHOICES).views(VIEWS);
        match prompt::ask(&question, &|| false) {
            Reply::Choice('l') => print_diffs(&diffs()),
            Reply::Choice('a') => return Decision::Apply,
            Reply::Choice('o') => return choose(set, shown),
            Reply::Choice(_) => return Decision::Store,
            Reply::No | Reply::Interrupt => return Decision::Discard,
        }
    }
}

/// Asks about each change; those of new folders come with what is in them. A Ctrl-C stores all of them.
fn choose(set: &ChangeSet, shown: &ChangeSet) -> Decision {
    const CHOICES: &[(char, &str)] = &[('a', "apply it")];
    let has_content = |folder: &str| {
        set.changes
            .iter()
            .any(|other| other.path.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/')))
    };
    let mut paths = Vec::new();
    for (change, shown_change) in set.changes.iter().zip(&shown.changes) {
        if change.kind == ChangeKind::Created && has_content(&change.path) {
            continue;
        }
        let mut one = shown.clone();
        one.changes = vec![shown_change.clone()];
        let facts = summary_facts(&one);
        let sentence = "One of the changes is this.".to_owned();
        match prompt::ask(&Question::new(sentence, facts, "Apply it to the project?", CHOICES), &|| false) {
            Reply::Choice(_) => paths.push(change.path.clone()),
            Reply::No => {}
            Reply::Interrupt => return Decision::Store,
        }
    }
    if paths.is_empty() { Decision::Store } else { Decision::ApplySome(paths) }
}

/// Lines of a summary besides those of deletions.
const MAX_SUMMARY_LINES: usize = 40;

fn print_summary(set: &ChangeSet, outcome: &Outcome, decision: &Decision) {
    // Whoever is asked sees them with the question, which nobody can agree to before all were shown.
    if *decision != Decision::Ask || set.changes.is_empty() {
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
    let permissions = outcome.grants.iter().map(|grant| &grant.permission);
    let homes: BTreeSet<String> = permissions
        .filter(|permission| permission.name() == "home-write")
        .map(|permission| escape_line(&permission.to_string()))
        .collect();
    if !homes.is_empty() {
        let homes = homes.into_iter().collect::<Vec<_>>().join(", ");
        output::eprint(&format!(" it could change your home itself, of which no copy was made ({homes})"));
    }
}
