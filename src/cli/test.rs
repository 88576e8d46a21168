//! `metier test`: the cases of skills, each in a project of its own.

mod report;

use std::sync::Arc;

use metier::cases::{CaseResult, CaseStatus, DiscoveredCases, Suite, discover_cases};
use metier::engine::Outcome;
use metier::error::{ErrorKind, Result, SkillError};
use metier::policy::{CancelToken, ExecutionMode};
use metier::registry::{Registry, Scope, Skill};
use serde_json::json;

use super::output;
use super::run::cancel_on_interrupt;
use super::session::Session;
use crate::cli::exit_watchdog::WatchdogObserver;
use crate::cli::limit_args::execution_mode_parser;

/// The options of `metier test`.
#[derive(clap::Args)]
pub struct Args {
    /// The skill, plain or qualified [default: every skill of the project that has cases]
    name: Option<String>,
    /// Only cases whose name contains this
    #[arg(long, value_name = "TEXT")]
    case: Option<String>,
    /// Grant what leads out of a case's project, where a case needs it: net, shm or exec:unsandboxed (may be repeated)
    #[arg(long, value_name = "PERM")]
    allow: Vec<String>,
    /// Where Lua and Rhai scripts run: in this process, or in a worker process that is killed at the deadline [default: in-process]
    #[arg(long, value_name = "MODE", value_parser = execution_mode_parser())]
    execution: Option<ExecutionMode>,
}

/// How many cases came out how.
#[derive(Default)]
struct Tally {
    passed: usize,
    failed: usize,
    not_run: usize,
}

impl Args {
    /// The skill's name, as it was written; empty where none was.
    pub(super) fn name(&self) -> &str {
        self.name.as_deref().unwrap_or_default()
    }
}

pub(super) fn run(args: &Args, session: &Session) -> Result<u8> {
    let roots = session.roots()?;
    let registry = Registry::discover(&roots);
    let token = CancelToken::new();
    cancel_on_interrupt(token.clone());
    let last_resort = session.exit_watchdog();
    let _following = last_resort.watch_token(&token);
    let mut suite = Suite::new(roots)
        .cancel(token.clone())
        .execution_mode(args.execution.unwrap_or_default())
        .observer(Arc::new(WatchdogObserver::new(last_resort.clone())));
    for permission in &args.allow {
        suite = suite.grant(permission.parse()?);
    }
    if args.name.is_none() {
        output::print_problems(&registry);
    }
    let suite = Arc::new(suite);
    clean_up_on_exit(&suite, args, session);
    let mut tally = Tally::default();
    let mut verdicts = Vec::new();
    for SkillCases { skill, discovery: collected } in select_cases(args, &registry)? {
        let not_run = collected.not_run.into_iter();
        let run = collected.cases.iter().map(|case| suite.run(skill, case));
        for verdict in not_run.chain(run) {
            last_resort.disarm();
            // Its project is gone by now; what was stopped says nothing of the skill.
            token.check()?;
            tally.count(&verdict.status);
            if session.json() {
                verdicts.push(verdict);
            } else {
                self::report::print_result(&verdict)?;
            }
        }
    }
    last_resort.finish();
    if session.json() {
        output::print_json(&tally.to_json(&verdicts))?;
    } else {
        output::print(&tally.summary())?;
    }
    Ok(u8::from(!tally.is_ok()))
}

/// A case that does not end leaves no project either.
fn clean_up_on_exit(suite: &Arc<Suite>, args: &Args, session: &Session) {
    let (running, abandoned) = (suite.clone(), suite.clone());
    session.exit_watchdog().wait_for_cleanup(move || running.runs_processes());
    let about = session.json().then(|| args.name().to_owned());
    session.exit_watchdog().set_error_printer(move |error| {
        let case = abandoned.remove_running_project();
        let error = SkillError::new(error.kind(), format!("{}{}", case.unwrap_or_default(), error.message()));
        match about {
            // When nobody reads it there is nobody left to tell.
            Some(skill) => drop(output::print_json(&Outcome::failed(skill, error))),
            None => output::print_error(&error),
        }
    });
}

impl Tally {
    fn count(&mut self, status: &CaseStatus) {
        *match status {
            CaseStatus::Passed => &mut self.passed,
            CaseStatus::Failed(_) => &mut self.failed,
            CaseStatus::NotRun(_) => &mut self.not_run,
        } += 1;
    }

    /// What did not run was not shown to hold.
    fn is_ok(&self) -> bool {
        self.failed + self.not_run == 0
    }

    fn summary(&self) -> String {
        let Self { passed, failed, not_run } = self;
        format!("{passed} passed, {failed} failed, {not_run} not run")
    }

    fn to_json(&self, verdicts: &[CaseResult]) -> serde_json::Value {
        let Self { passed, failed, not_run } = self;
        let ok = self.is_ok();
        json!({"ok": ok, "passed": passed, "failed": failed, "not_run": not_run, "cases": verdicts})
    }
}

/// A skill to test, and what of it.
struct SkillCases<'a> {
    skill: &'a Skill,
    discovery: DiscoveredCases,
}

/// The skills to test and their cases. What is no case, or no contract, counts as one that was not run.
fn select_cases<'a>(args: &Args, registry: &'a Registry) -> Result<Vec<SkillCases<'a>>> {
    let skills: Vec<&Skill> = match &args.name {
        Some(name) => vec![registry.find(name)?],
        None => registry.visible().filter(|skill| skill.scope() == Scope::Project).collect(),
    };
    let mut chosen = Vec::new();
    for skill in skills {
        let mut collected = discover_cases(skill)?;
        let is_meant = |name: &str| args.case.as_ref().is_none_or(|text| name.contains(text));
        collected.cases.retain(|case| is_meant(case.name()));
        // Nobody knows what examples a contract has that does not stand.
        let is_contract = |name: &str| skill.contract_file() == Some(name);
        collected.not_run.retain(|verdict| is_meant(&verdict.case) || is_contract(&verdict.case));
        if !(collected.cases.is_empty() && collected.not_run.is_empty()) {
            chosen.push(SkillCases { skill, discovery: collected });
        }
    }
    if chosen.is_empty() {
        return Err(no_cases_error(args));
    }
    Ok(chosen)
}

fn no_cases_error(args: &Args) -> SkillError {
    let whose = args
        .name
        .as_ref()
        .map_or("no skill of the project".to_owned(), |name| format!("the skill {name} does not"));
    let verb = if args.name.is_some() { "have" } else { "has" };
    let which = args.case.as_ref().map_or(String::new(), |text| format!(" whose name contains {text:?}"));
    SkillError::new(ErrorKind::Usage, format!("{whose} {verb} a case{which}"))
        .with_help("a case is a file cases/NAME.json in the skill's folder; `metier new` makes one")
}
