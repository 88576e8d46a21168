//! `metier run`: one skill, run to its end.

use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use metier::engine::{Engine, EngineBuilder, Invocation, Outcome};
use metier::error::{Result, SkillError};
use metier::host::SandboxReport;
use metier::policy::{CancelToken, Permission, SandboxMode};

use super::output;
use super::session::Session;
use super::terminal::escape_text;
use super::{explain, input};
use crate::cli::config_args::ConfigArgs;
use crate::cli::exit_watchdog::WatchdogObserver;
use crate::cli::limit_args::LimitArgs;
use crate::cli::progress::ProgressDisplay;

/// The options of `metier run`.
#[derive(clap::Args)]
pub struct Args {
    /// The skill, plain or qualified: NAME, SCOPE/ROOT:NAME@VERSION
    name: String,
    /// The script, by its path in the skill's folder or its name in skill.yaml, where there are several
    #[arg(long, value_name = "PATH")]
    script: Option<String>,
    /// The input: JSON, @FILE, or - for standard input [default: {}]
    #[arg(long, value_name = "JSON", allow_hyphen_values = true)]
    input: Option<String>,
    /// Grant a permission the skill asks for, such as write, write:out or net:example.com (may be repeated)
    #[arg(long, value_name = "PERM")]
    allow: Vec<String>,
    /// Remember each finished step of a plan in this folder, and go on from there when run again
    #[arg(long, value_name = "DIR")]
    journal: Option<PathBuf>,
    #[command(flatten)]
    limits: LimitArgs,
    /// Say what the run would reach, and run nothing
    #[arg(long)]
    explain: bool,
    #[command(flatten)]
    config: ConfigArgs,
    /// Arguments for the script, if it is an external one
    #[arg(last = true, value_name = "ARGS")]
    passed_on: Vec<String>,
}

impl Args {
    /// The skill's name, as it was written.
    pub(super) fn name(&self) -> &str {
        &self.name
    }
}

pub(super) fn run(args: &Args, session: &Session) -> Result<u8> {
    if args.explain {
        let (builder, invocation) = prepare(args, session)?;
        session.exit_watchdog().start_loading_timeout();
        let explanation = builder.build()?.explain(&invocation)?;
        session.exit_watchdog().finish();
        return explain::print(&explanation, session);
    }
    let token = CancelToken::new();
    // The answer comes first: the engine is done when it has removed what the run left.
    let (outcome, _engine) = match invoke(args, session, &token) {
        Ok((outcome, engine)) => (outcome, Some(engine)),
        Err(error) => (Outcome::failed(args.name.clone(), error), None),
    };
    session.exit_watchdog().finish();
    if token.is_cancelled() {
        session.exit_watchdog().start_print_timeout();
    }
    // What is left to stop is the writing of the answer, and for that one Ctrl-C is enough.
    token.cancel();
    if !args.passed_on.is_empty() && outcome.sandbox == Some(SandboxReport::IN_PROCESS) {
        output::print_warning(
            "only processes are given the arguments after --; this script sees its --input alone",
        );
    }
    print_outcome(&outcome, session)?;
    Ok(outcome.exit_code())
}

fn invoke(args: &Args, session: &Session, token: &CancelToken) -> Result<(Outcome, Engine)> {
    let (builder, invocation) = prepare(args, session)?;
    let invocation = invocation.cancel(token.clone());
    let last_resort = session.exit_watchdog();
    let _following = last_resort.watch_token(token);
    cancel_on_interrupt(token.clone());
    last_resort.start_loading_timeout();
    let engine = builder.build()?;
    last_resort.disarm();
    let processes = engine.clone();
    last_resort.wait_for_cleanup(move || processes.runs_processes());
    if session.json() {
        let heard = Arc::new(WatchdogObserver::with_log(last_resort.clone()));
        last_resort.set_error_printer(abandoned_outcome_printer(args, heard.clone())?);
        return Ok((engine.run(invocation.observer(heard)), engine));
    }
    let watch = Arc::new(ProgressDisplay::default());
    let heard = WatchdogObserver::with_observer(last_resort.clone(), watch.clone());
    let outcome = engine.run(invocation.observer(Arc::new(heard)));
    watch.clear();
    Ok((outcome, engine))
}

/// Says the outcome of a run that does not end, with what it has logged so far.
fn abandoned_outcome_printer(
    args: &Args,
    heard: Arc<WatchdogObserver>,
) -> Result<impl FnOnce(&SkillError) + Send + 'static> {
    let (name, limits, started) = (args.name.clone(), args.limits.limits()?, Instant::now());
    Ok(move |error: &SkillError| {
        let mut outcome = Outcome::abandoned(name, &limits, error.clone());
        outcome.log = heard.log();
        outcome.duration = started.elapsed();
        // When nobody reads it there is nobody left to tell.
        output::print_json(&outcome).ok();
    })
}

/// The engine and what it is asked for, as the options have it.
fn prepare(args: &Args, session: &Session) -> Result<(EngineBuilder, Invocation)> {
    let mut invocation = Invocation::new(&args.name)
        .args(&args.passed_on)
        .limits(args.limits.limits()?)
        .sandbox_mode(args.limits.sandbox_policy())
        .execution_mode(args.limits.execution_mode());
    if let Some(given) = &args.input {
        invocation = invocation.input(input::read(given)?);
    }
    if let Some(script) = &args.script {
        invocation = invocation.script(script);
    }
    if let Some(folder) = &args.journal {
        invocation = invocation.journal(folder);
    }
    let secrets = args.config.secrets()?;
    for permission in parse_grants(&args.allow).into_iter().chain(secrets.grants()?) {
        invocation = invocation.grant(permission);
    }
    // Who wants no sandbox gets modules compiled where there is none.
    let is_free = args.limits.sandbox_policy() == SandboxMode::Off;
    Ok((
        session.builder()?.compile_in_process(is_free).config(args.config.settings()?).secrets(secrets),
        invocation,
    ))
}

/// A name that is no permission warns and grants nothing.
fn parse_grants(names: &[String]) -> Vec<Permission> {
    let parsed = |name: &String| match name.parse() {
        Ok(permission) => Some(permission),
        Err(error) => {
            output::print_error_as_warning(&error, "nothing is granted by it");
            None
        }
    };
    names.iter().filter_map(parsed).collect()
}

/// The first Ctrl-C stops the run, the second stops waiting for it.
pub fn cancel_on_interrupt(token: CancelToken) {
    let handler = move || {
        if token.is_cancelled() {
            std::process::exit(130);
        }
        token.cancel();
    };
    if let Err(error) = ctrlc::set_handler(handler) {
        tracing::warn!(%error, "Ctrl-C will end metier at once");
    }
}

fn print_outcome(outcome: &Outcome, session: &Session) -> Result<()> {
    if session.json() {
        return output::print_json(outcome);
    }
    if let Some(process) = &outcome.process {
        output::print_process_output(&process.stderr);
    }
    if outcome.limits.truncated && outcome.result.is_ok() {
        output::print_warning(&format!(
            "what it wrote was cut at {} bytes; --output sets another cap",
            outcome.limits.output_bytes
        ));
    }
    match &outcome.result {
        Ok(value) => print_value(value),
        Err(error) => {
            if let Some(process) = &outcome.process {
                output::print_process_output(&process.stdout);
            }
            output::print_error(error);
            Ok(())
        }
    }
}

/// Text as it is, everything else as JSON. On a terminal, what a stranger wrote is shown and not obeyed.
fn print_value(value: &serde_json::Value) -> Result<()> {
    let mut text = match value {
        serde_json::Value::String(text) => text.clone(),
        other => format!("{other:#}"),
    };
    if !text.ends_with('\n') {
        text.push('\n');
    }
    let mut stdout = std::io::stdout().lock();
    if stdout.is_terminal() {
        text = escape_text(&text);
    }
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(SkillError::io("failed to write to standard output", error))
        }
        _ => Ok(()),
    }
}
