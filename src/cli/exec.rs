//! `metier exec`: one command in the sandbox of a script, without a skill.

use std::sync::Arc;

use metier::engine::{Invocation, Outcome};
use metier::error::Result;
use metier::policy::{CancelToken, SandboxMode};

use super::env_args::EnvArgs;
use super::exit_watchdog::WatchdogObserver;
use super::hint::outcome_with_option;
use super::interrupt::cancel_on_interrupt;
use super::limit_args::LimitArgs;
use super::preview::PreviewArgs;
use super::run::parse_grants;
use super::session::Session;
use super::{config_args::ConfigArgs, output, raw, stdin};

/// The options of `metier exec`.
#[derive(clap::Args)]
pub struct Args {
    /// Grant the command a permission, such as write, write:out or net (may be repeated)
    #[arg(long, value_name = "PERM")]
    allow: Vec<String>,
    #[command(flatten)]
    preview: PreviewArgs,
    #[command(flatten)]
    limits: LimitArgs,
    #[command(flatten)]
    config: ConfigArgs,
    #[command(flatten)]
    env: EnvArgs,
    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<String>,
}

pub(super) fn run(args: &Args, session: &Session) -> Result<u8> {
    let preview = args.preview.begin_for_process(session, "exec")?;
    if session.json() {
        let outcome = run_for_json(args, session)?;
        let code = outcome.exit_code();
        return match preview {
            Some(preview) => preview.finish(&outcome, session).map(|(code, _)| code),
            None => output::print_json(&outcome).map(|()| code),
        };
    }
    let outcome = raw::run(session, || {
        let (builder, invocation) = prepare(args, session)?;
        Ok((builder.build()?, args.limits.limit_streams(invocation)))
    })?;
    let code = raw::exit_code(&outcome);
    raw::print_notes(&outcome);
    let finished = preview.map(|preview| preview.finish(&outcome, session)).transpose()?;
    let (apply_code, changes) = finished.unzip();
    args.preview.print_grants(&outcome, changes.flatten().as_ref(), None, session);
    Ok(code.max(apply_code.unwrap_or(0)))
}

/// The outcome of the command, as that of a skill.
fn run_for_json(args: &Args, session: &Session) -> Result<Outcome> {
    let (token, watchdog) = (CancelToken::new(), session.exit_watchdog());
    let _guard = watchdog.watch_token(&token);
    cancel_on_interrupt(token.clone());
    watchdog.start_loading_timeout();
    let (builder, invocation) = prepare(args, session)?;
    let engine = builder.build()?;
    watchdog.disarm();
    let processes = engine.clone();
    watchdog.wait_for_cleanup(move || processes.runs_processes());
    let observer = Arc::new(WatchdogObserver::new(watchdog.clone()));
    let outcome = engine.run(invocation.cancel(token.clone()).observer(observer));
    watchdog.wait_for_cleanup(|| false);
    drop(engine);
    watchdog.finish();
    if token.is_cancelled() {
        watchdog.start_print_timeout();
    }
    token.cancel();
    Ok(outcome_with_option(outcome))
}

fn prepare(args: &Args, session: &Session) -> Result<(metier::engine::EngineBuilder, Invocation)> {
    let (program, arguments) =
        args.command.split_first().map_or(("", &[][..]), |(first, rest)| (first, rest));
    let configuration = args.limits.configure(session.configuration())?;
    let mut invocation = Invocation::command(program, arguments).stdin(stdin::source());
    let secrets = args.config.secrets()?;
    invocation = args.preview.add_to(invocation)?;
    for permission in parse_grants(&args.allow).into_iter().chain(secrets.grants()?) {
        invocation = invocation.grant(permission);
    }
    let invocation = args.env.add_to(invocation, session)?;
    let is_unsandboxed = configuration.sandbox_mode() == SandboxMode::Off;
    let builder = session.builder(configuration)?.fork_host(true).compile_in_process(is_unsandboxed);
    let builder =
        builder.config(args.config.settings()?).secrets(secrets).tls_broker(args.config.opens_tls());
    Ok((builder, invocation))
}
