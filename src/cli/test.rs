//! `metier test`: the cases of skills, each in a fresh project.

mod report;

use std::sync::Arc;

use metier::cases::{CaseResult, CaseStatus, DiscoveredCases, Suite, discover_cases};
use metier::engine::Outcome;
use metier::error::{ErrorKind, Result, SkillError};
use metier::policy::{CancelToken, ExecutionMode};
use metier::registry::{Registry, Scope, Skill};
use serde_json::json;

use super::interrupt::cancel_on_interrupt;
use super::output;
use super::session::Session;
use crate::cli::exit_watchdog::WatchdogObserver;
use crate::cli::hint::{error_with_option, result_with_option};
use crate::cli::limit_args::execution_mode_parser;

/// The options of `metier test`.
#[derive(clap::Args)]
pub struct Args {
    /// The name of the skill [default: every skill of the project that has cases]
    name: Option<String>,
    /// Run only the cases whose name contains TEXT
    #[arg(long, value_name = "TEXT")]
    case: Option<String>,
    /// Grant the cases what reaches outside of their project: net, shm or exec:unsandboxed (may be repeated)
    #[arg(long, value_name = "PERM")]
    allow: Vec<String>,
    /// Run Lua, Rhai and WebAssembly in this process, or in a worker process that is killed at the deadline [default: in-process]
    #[arg(long, value_name = "MODE", value_parser = execution_mode_parser())]
    execution: Option<ExecutionMode>,
}

/// The number of cases for each result.
#[derive(Default)]
struct CaseCounts {
    passed: usize,
    failed: usize,
    not_run: usize,
}

impl Args {
    /// The skill's name, as the caller wrote it; empty if there is none.
    pub(super) fn name(&self) -> &str {
        self.name.as_deref().unwrap_or_default()
    }
}

pub(super) fn run(args: &Args, session: &Session) -> Result<u8> {
    let roots = session.roots()?;
    let registry = Registry::discover(&roots);
    let token = CancelToken::new();
    cancel_on_interrupt(token.clone());
    let watchdog = session.exit_watchdog();
    let _guard = watchdog.watch_token(&token);
    let mut suite = Suite::new(roots)
        .cancel(token.clone())
        .configuration(session.configuration())
        .execution_mode(args.execution.unwrap_or_else(|| session.configuration().execution_mode()))
        .observer(Arc::new(WatchdogObserver::new(watchdog.clone())));
    for permission in &args.allow {
        suite = suite.grant(permission.parse()?);
    }
    if args.name.is_none() {
        output::print_problems(&registry);
    }
    let suite = Arc::new(suite);
    clean_up_on_exit(&suite, args, session);
    let mut counts = CaseCounts::default();
    let mut results = Vec::new();
    for SkillCases { skill, discovery } in select_cases(args, &registry)? {
        let not_run = discovery.not_run.into_iter();
        let run = discovery.cases.iter().map(|case| suite.run(skill, case));
        for result in not_run.chain(run).map(result_with_option) {
            watchdog.disarm();
            // The result of a case that was stopped says nothing about the skill.
            token.check()?;
            counts.count(&result.status);
            if session.json() {
                results.push(result);
            } else {
                self::report::print_result(&result)?;
            }
        }
    }
    watchdog.finish();
    if session.json() {
        output::print_json(&counts.to_json(&results))?;
    } else {
        output::print(&counts.summary())?;
    }
    Ok(u8::from(!counts.is_ok()))
}

/// Removes the project of a case that does not end, before the command ends.
fn clean_up_on_exit(suite: &Arc<Suite>, args: &Args, session: &Session) {
    let (running, abandoned) = (suite.clone(), suite.clone());
    session.exit_watchdog().wait_for_cleanup(move || running.runs_processes());
    let skill = session.json().then(|| args.name().to_owned());
    session.exit_watchdog().set_error_printer(move |error| {
        let case = abandoned.remove_running_project();
        let error = SkillError::new(error.kind(), format!("{}{}", case.unwrap_or_default(), error.message()));
        match skill {
            // If standard output is closed, there is no other place to report to.
            Some(skill) => drop(output::print_json(&Outcome::failed(skill, error_with_option(error)))),
            None => output::print_error(&error),
        }
    });
}

impl CaseCounts {
    fn count(&mut self, status: &CaseStatus) {
        *match status {
            CaseStatus::Passed => &mut self.passed,
            CaseStatus::Failed(_) => &mut self.failed,
            CaseStatus::NotRun(_) => &mut self.not_run,
        } += 1;
    }

    /// A case that did not run is not a success.
    fn is_ok(&self) -> bool {
        self.failed + self.not_run == 0
    }

    fn summary(&self) -> String {
        let Self { passed, failed, not_run } = self;
        format!("{passed} passed, {failed} failed, {not_run} not run")
    }

    fn to_json(&self, results: &[CaseResult]) -> serde_json::Value {
        let Self { passed, failed, not_run } = self;
        let ok = self.is_ok();
        json!({"ok": ok, "passed": passed, "failed": failed, "not_run": not_run, "cases": results})
    }
}

/// A skill to test, and its cases.
struct SkillCases<'a> {
    skill: &'a Skill,
    discovery: DiscoveredCases,
}

/// The skills to test and their cases. An invalid case or contract counts as a case that was not run.
fn select_cases<'a>(args: &Args, registry: &'a Registry) -> Result<Vec<SkillCases<'a>>> {
    let skills: Vec<&Skill> = match &args.name {
        Some(name) => vec![registry.find(name)?],
        None => registry.visible().filter(|skill| skill.scope() == Scope::Project).collect(),
    };
    let mut selected = Vec::new();
    for skill in skills {
        let mut discovery = discover_cases(skill)?;
        let is_selected = |name: &str| args.case.as_ref().is_none_or(|text| name.contains(text));
        discovery.cases.retain(|case| is_selected(case.name()));
        // An invalid contract may have examples of any name.
        let is_contract = |name: &str| skill.contract_file() == Some(name);
        discovery.not_run.retain(|result| is_selected(&result.case) || is_contract(&result.case));
        if !(discovery.cases.is_empty() && discovery.not_run.is_empty()) {
            selected.push(SkillCases { skill, discovery });
        }
    }
    if selected.is_empty() {
        return Err(no_cases_error(args));
    }
    Ok(selected)
}

fn no_cases_error(args: &Args) -> SkillError {
    let whose = args
        .name
        .as_ref()
        .map_or("no skill of the project".to_owned(), |name| format!("the skill {name} does not"));
    let verb = if args.name.is_some() { "have" } else { "has" };
    let which = args.case.as_ref().map_or(String::new(), |text| format!(" whose name contains {text:?}"));
    SkillError::new(ErrorKind::Usage, format!("{whose} {verb} a case{which}"))
        .with_help("a case is a file cases/NAME.json in the skill's folder; `metier new` creates one")
}
