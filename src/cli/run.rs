//! `metier run`: one skill, run to its end.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use metier::config::Configuration;
use metier::engine::{Engine, EngineBuilder, Invocation, Outcome};
use metier::error::{ErrorKind, Hint, Result, SkillError};
use metier::host::{LeftoverPath, SandboxReport};
use metier::policy::{CancelToken, Permission, SandboxMode, SkillDigest};
use metier_core::excerpt::byte_size;
use metier_core::host::opens_more;

use super::prompt::{Question, Reply, permission_sentence};
use super::session::Session;
use super::terminal::escape_text;
use super::terminal_approver::TerminalApprover;
use super::unread_skills::with_place_of_skill;
use super::{explain, input, output, prompt, raw, stdin, verify};
use crate::cli::config_args::ConfigArgs;
use crate::cli::env_args::EnvArgs;
use crate::cli::exit_watchdog::WatchdogObserver;
use crate::cli::hint::{error_with_option, outcome_with_option};
use crate::cli::interrupt::cancel_on_interrupt;
use crate::cli::limit_args::LimitArgs;
use crate::cli::preview::{Preview, PreviewArgs};
use crate::cli::progress::ProgressDisplay;
use crate::cli::tool_filter_args::ToolFilterArgs;

/// The options of `metier run`.
#[derive(clap::Args)]
pub struct Args {
    /// The name of the skill: NAME, NAME@RANGE or SCOPE/ROOT:NAME@VERSION
    name: String,
    /// The script to run if the skill has several: its path in the skill's folder or its name in skill.yaml
    #[arg(long, value_name = "PATH")]
    script: Option<String>,
    /// The tool of the skill to call, in place of a script
    #[arg(long, value_name = "TOOL", conflicts_with = "script")]
    tool: Option<String>,
    #[command(flatten)]
    consent: ConsentArgs,
    #[command(flatten)]
    filter: ToolFilterArgs,
    /// The input: JSON, @FILE, or - for standard input [default: {}]
    #[arg(long, value_name = "JSON", allow_hyphen_values = true)]
    input: Option<String>,
    /// Grant a permission that the skill requests, such as write, write:out or net:example.com (may be repeated)
    #[arg(long, value_name = "PERM")]
    allow: Vec<String>,
    /// Copy what the script leaves at this path of its /tmp or its home into the project: tmp:PATH or home:PATH (may be repeated)
    #[arg(long, value_name = "PLACE:PATH")]
    keep: Vec<LeftoverPath>,
    /// Save each finished step of a plan in this folder, and resume there on the next run
    #[arg(long, value_name = "DIR")]
    journal: Option<PathBuf>,
    #[command(flatten)]
    streams: StreamArgs,
    #[command(flatten)]
    preview: PreviewArgs,
    #[command(flatten)]
    limits: LimitArgs,
    /// Run the skill only if it is as .metier/skills.lock has it, with all that it calls
    #[arg(long)]
    locked: bool,
    /// Show what the run could reach, and run nothing
    #[arg(long)]
    explain: bool,
    #[command(flatten)]
    trust: TrustArgs,
    #[command(flatten)]
    config: ConfigArgs,
    #[command(flatten)]
    env: EnvArgs,
    /// Arguments for the script, if it is an external one
    #[arg(last = true, value_name = "ARGS")]
    arguments: Vec<String>,
}

/// The options about the standard streams of an external script.
#[derive(clap::Args)]
struct StreamArgs {
    /// Pass standard input through to an external script; --input then reaches it by the client only
    #[arg(long)]
    stdin: bool,
    /// Pass the output of an external script on as it comes, and exit with its own code
    #[arg(long, conflicts_with_all = ["journal", "explain"])]
    raw: bool,
}

/// The options about a person's consent to a call.
#[derive(clap::Args)]
struct ConsentArgs {
    /// Agree to the call of a tool that asks for it
    #[arg(long, requires = "tool")]
    confirm: bool,
    /// Where nobody can be asked: let the call wait for a person, who decides with `metier pending`
    #[arg(long)]
    park: bool,
}

/// The options about trust and remembered grants.
#[derive(clap::Args)]
struct TrustArgs {
    /// Run it as if a model had chosen it: only if it is trusted, and with results that a model may read
    #[arg(long)]
    for_model: bool,
    /// Trust the skill and those that it calls for this run
    #[arg(long)]
    trust: bool,
    /// Use no remembered grants
    #[arg(long)]
    no_remembered: bool,
}

impl Args {
    /// The skill's name, as the caller wrote it.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// The same for a run that is only to be looked at, with the network of these hosts.
    #[cfg(target_os = "linux")]
    pub(super) fn watched_in_copy(mut self, hosts: &[String], applies: bool) -> Self {
        self.allow.extend(hosts.iter().map(|host| format!("net:{host}")));
        Self { preview: PreviewArgs::watched_in_copy(applies), ..self }
    }
}

pub(super) fn run(args: &Args, session: &Session) -> Result<u8> {
    if args.explain {
        let configuration = args.limits.configure(session.configuration())?;
        let (builder, invocation) = prepare(args, session, &configuration)?;
        session.exit_watchdog().start_loading_timeout();
        let engine = builder.build()?;
        let explanation = engine.explain(&with_lock(args, &engine, session, invocation)?)?;
        session.exit_watchdog().finish();
        return explain::print(explanation, session);
    }
    let preview = args.preview.begin(session, &args.name)?;
    if args.streams.raw {
        let (outcome, code) = run_raw(args, session)?;
        let preview = preview.filter(|preview| !preview.has_refused(&outcome));
        return finish(args, session, preview, (outcome, code));
    }
    let token = CancelToken::new();
    // The outcome is printed before the engine is dropped, which removes what the run left behind.
    let (mut outcome, engine) = match invoke(args, session, &token) {
        Ok((outcome, engine)) => (outcome, Some(engine)),
        Err(error) => (Outcome::failed(args.name.clone(), error), None),
    };
    outcome.result = outcome.result.map_err(|error| with_place_of_skill(error, &args.name, session));
    // A worker that lives could change what is read of a copy, also after a person has seen it, and is quarantined at its end.
    let _engine = engine.filter(|_| preview.is_none());
    if preview.is_some() {
        session.exit_watchdog().wait_for_cleanup(|| false);
    }
    session.exit_watchdog().finish();
    let preview = preview.filter(|preview| !preview.has_refused(&outcome));
    if token.is_cancelled() {
        session.exit_watchdog().start_print_timeout();
    }
    // Only printing is left, and from here on one Ctrl-C ends that.
    token.cancel();
    if !args.arguments.is_empty() && outcome.sandbox == Some(SandboxReport::IN_PROCESS) {
        output::print_warning(
            "the arguments after -- are passed to external scripts only; this script sees only its --input",
        );
    }
    warn_of_unread_input(args);
    let code = outcome.exit_code();
    if session.json() {
        return match preview {
            Some(preview) => preview.finish(&outcome_with_option(outcome), session).map(|(code, _)| code),
            None => print_outcome(outcome, session).map(|()| code),
        };
    }
    print_outcome(outcome.clone(), session)?;
    finish(args, session, preview, (outcome, code))
}

/// What is printed after the outcome: what a run in a copy changed, and what a watched one was refused.
fn finish(
    args: &Args,
    session: &Session,
    preview: Option<Preview>,
    (outcome, code): (Outcome, u8),
) -> Result<u8> {
    let finished = preview.map(|preview| preview.finish(&outcome, session)).transpose()?;
    let (apply_code, changes) = finished.unzip();
    args.preview.print_grants(&outcome, changes.flatten().as_ref(), Some(&args.name), session);
    Ok(code.max(apply_code.unwrap_or(0)))
}

/// Runs the script as if nobody stood between: nobody is asked, and what metier refuses is reported when it ended.
fn run_raw(args: &Args, session: &Session) -> Result<(Outcome, u8)> {
    raw::require_no_json(session, "--raw")?;
    let outcome = raw::run(session, || {
        let configuration = args.limits.configure(session.configuration())?;
        let (builder, invocation) = prepare(args, session, &configuration)?;
        let engine = builder.build()?;
        let invocation = with_lock(args, &engine, session, args.limits.limit_streams(invocation))?;
        Ok((engine, invocation))
    })?;
    warn_of_unread_input(args);
    let code = raw::exit_code(&outcome);
    raw::print_notes(&outcome);
    print_copies(&outcome);
    Ok((outcome, code))
}

/// Says where the copies are of what the script left.
fn print_copies(outcome: &Outcome) {
    for file in outcome.process.iter().flat_map(|process| &process.left) {
        if let Some(copy) = &file.copied_to {
            output::eprint(&format!("copied to {} ({} bytes)", escape_text(copy), file.bytes));
        }
    }
}

/// Something was piped in, and the run did not get it.
fn warn_of_unread_input(args: &Args) {
    let is_taken = args.streams.stdin || args.input.as_deref() == Some("-");
    if !is_taken && stdin::has_unread_input() {
        output::print_warning(
            "standard input was not read: pass it to an external script with --stdin, or as JSON with --input -",
        );
    }
}

fn invoke(args: &Args, session: &Session, token: &CancelToken) -> Result<(Outcome, Engine)> {
    let configuration = args.limits.configure(session.configuration())?;
    let (builder, invocation) = prepare(args, session, &configuration)?;
    let invocation = invocation.cancel(token.clone());
    let watchdog = session.exit_watchdog();
    let _guard = watchdog.watch_token(token);
    cancel_on_interrupt(token.clone());
    watchdog.start_loading_timeout();
    let display = Arc::new(ProgressDisplay::default());
    // Somebody who types the input of the script cannot answer.
    let approver = (session.can_ask() && !args.streams.stdin)
        .then(|| TerminalApprover::new(display.clone(), token.clone()));
    let builder = match approver.clone() {
        Some(approver) => builder.approver(approver),
        None => builder,
    };
    let engine = builder.build()?;
    args.filter.warn_of_unknown(&engine)?;
    let invocation = with_lock(args, &engine, session, invocation)?;
    if let Some(approver) = &approver
        && engine.registry().find(&args.name).is_ok_and(|skill| engine.trust_state(skill).is_trusted())
    {
        approver.offer_always();
    }
    watchdog.disarm();
    let processes = engine.clone();
    watchdog.wait_for_cleanup(move || processes.runs_processes());
    if session.json() {
        let observer = Arc::new(WatchdogObserver::with_log(watchdog.clone()));
        watchdog.set_error_printer(abandoned_outcome_printer(args, &configuration, observer.clone()));
        return Ok((engine.run(invocation.observer(observer)), engine));
    }
    let observer = Arc::new(WatchdogObserver::with_observer(watchdog.clone(), display.clone()));
    let mut invocation = invocation.observer(observer);
    let mut offered = Vec::new();
    // A yes is one for the files of now: the script may be replaced while the question is on the screen.
    let digest = approver.as_ref().and_then(|_| digest_of_offers(&engine, &args.name));
    loop {
        let outcome = engine.run(invocation.clone());
        prompt::restore_terminal();
        display.clear();
        watchdog.disarm();
        let missing = approver.as_ref().filter(|_| !token.is_cancelled()).and_then(|approver| {
            let missing = missing_permissions(&engine, (&args.name, &invocation), &outcome, approver);
            let is_new = missing.first().is_some_and(|permission| !offered.contains(permission));
            is_new.then(|| (missing, approver.choices()))
        });
        let (Some((permissions, choices)), Some(digest)) = (missing, digest) else {
            return Ok((outcome, engine));
        };
        let question = repeat_question(&outcome, &permissions, choices);
        match prompt::ask(&question, &|| token.is_cancelled()) {
            Reply::Choice('a') => {
                if let Err(error) = remember(&engine, &args.name, &permissions, digest) {
                    let has_changed = error.kind() == ErrorKind::Untrusted;
                    let consequence =
                        if has_changed { "it is not run again" } else { "it is granted for this run only" };
                    output::print_error_as_warning(&error, consequence);
                    if has_changed {
                        return Ok((outcome, engine));
                    }
                }
                invocation = permissions.iter().cloned().fold(invocation.digest(digest), Invocation::grant);
            }
            Reply::Choice(_) => {
                invocation = permissions.iter().cloned().fold(invocation.digest(digest), Invocation::grant);
            }
            Reply::No => return Ok((outcome, engine)),
            Reply::Interrupt => {
                token.cancel();
                return Ok((outcome, engine));
            }
        }
        offered.extend(permissions);
    }
}

/// The permission without which a run failed, where to grant it is enough, and after it the others that it was refused: nobody was asked
/// about them before, since no call of the script needs them. To leave the sandbox is never offered.
fn missing_permissions(
    engine: &Engine,
    (name, invocation): (&str, &Invocation),
    outcome: &Outcome,
    approver: &TerminalApprover,
) -> Vec<Permission> {
    let registry = engine.registry();
    let Ok(skill) = registry.find(name) else { return Vec::new() };
    let Some(first) = cause_of_failure(outcome) else { return Vec::new() };
    let refused = outcome.refused.iter().filter_map(|refused| refused.permission.as_deref());
    let others = refused.filter(|name| !opens_more(name)).filter_map(|name| name.parse().ok());
    let others: BTreeSet<Permission> = others.filter(|other| *other != first).collect();
    // A variable that is not set here cannot be given by a yes.
    let has_value = |missing: &Permission| {
        missing.name() != "env" || missing.scope().is_some_and(|name| std::env::var_os(name).is_some())
    };
    let can_be_given = |missing: &Permission| {
        missing.name() != "exec"
            && engine.run_uses_grant(skill, invocation, missing)
            && has_value(missing)
            && !approver.was_refused(missing)
    };
    if !can_be_given(&first) {
        return Vec::new();
    }
    std::iter::once(first).chain(others.into_iter().filter(can_be_given)).collect()
}

/// The permission without which a run failed.
fn cause_of_failure(outcome: &Outcome) -> Option<Permission> {
    let error = outcome.result.as_ref().err()?;
    let hinted = || match error.hint() {
        Some(Hint::Grant(permission)) => permission.parse().ok(),
        _ => None,
    };
    error.missing().or_else(hinted)
}

/// The digest of the skill before its first run, for the permissions that may be offered after it.
fn digest_of_offers(engine: &Engine, name: &str) -> Option<SkillDigest> {
    let registry = engine.registry();
    let skill = registry.find(name).ok()?;
    engine.skill_files(skill).ok().map(|files| files.digest)
}

/// Records the permissions for later runs of the skill as it was before it ran.
fn remember(engine: &Engine, name: &str, permissions: &[Permission], digest: SkillDigest) -> Result<()> {
    let registry = engine.registry();
    let skill = registry.find(name)?;
    if engine.skill_files(skill)?.digest != digest {
        let sentence =
            format!("files of the skill {} changed since it ran, so nothing is remembered", skill.name());
        return Err(SkillError::new(ErrorKind::Untrusted, sentence).with_help("look at it again"));
    }
    let project = engine.project_identity(skill)?;
    let Some(store) = engine.trust_store() else { return Ok(()) };
    store.grant((skill.name(), digest), Some(&project), permissions, "metier run")
}

fn repeat_question(
    outcome: &Outcome,
    permissions: &[Permission],
    choices: &'static [(char, &'static str)],
) -> Question {
    let reason = outcome.result.as_ref().err().map(|error| ("failed", error.message().to_owned()));
    let wants = permissions.iter().map(|permission| ("wants", permission_sentence(permission)));
    let skill = ("skill", outcome.skill.clone());
    let facts = std::iter::once(skill).chain(wants).chain(reason).collect();
    let sentence = "The script seems to have failed because it was not permitted to do something.";
    let prompt = match permissions {
        [_] => "Run it again with this permission?",
        _ => "Run it again with these permissions?",
    };
    Question::new(sentence.into(), facts, prompt, choices)
}

/// Prints the outcome of a run that does not end, with its log so far.
fn abandoned_outcome_printer(
    args: &Args,
    configuration: &Configuration,
    observer: Arc<WatchdogObserver>,
) -> impl FnOnce(&SkillError) + Send + use<> {
    let (name, limits, started) = (args.name.clone(), configuration.limits(), Instant::now());
    move |error: &SkillError| {
        let mut outcome = Outcome::abandoned(name, &limits, error_with_option(error.clone()));
        outcome.log = observer.log();
        outcome.duration = started.elapsed();
        // If standard output is closed, there is no other place to report to.
        output::print_json(&outcome).ok();
    }
}

/// The engine and the invocation that the options describe.
fn prepare(
    args: &Args,
    session: &Session,
    configuration: &Configuration,
) -> Result<(EngineBuilder, Invocation)> {
    let mut invocation = Invocation::new(&args.name).args(&args.arguments);
    // An option is stronger than what the configuration says about the skill.
    if let Some(mode) = args.limits.sandbox_mode() {
        invocation = invocation.sandbox_mode(mode);
    }
    if args.streams.stdin {
        if args.input.as_deref() == Some("-") {
            let sentence = "--stdin passes standard input through, so --input - cannot read it";
            return Err(SkillError::new(ErrorKind::Usage, sentence)
                .with_help("pass the input in a file: --input @FILE"));
        }
        invocation = invocation.stdin(stdin::source());
    }
    if let Some(option) = &args.input {
        let (value, text) = input::read_with_text(option)?;
        invocation = invocation.input(value).input_text(text);
    }
    if let Some(script) = &args.script {
        invocation = invocation.script(script);
    }
    if let Some(tool) = &args.tool {
        invocation = invocation.tool(tool);
    }
    if args.consent.confirm {
        invocation = invocation.confirmed();
    }
    invocation = invocation.tool_filter(args.filter.filter()?);
    for path in &args.keep {
        invocation = invocation.keep(path.clone());
    }
    if let Some(folder) = &args.journal {
        invocation = invocation.journal(folder);
    }
    if args.trust.for_model {
        invocation = invocation.for_model();
    }
    if args.trust.trust {
        invocation = invocation.trust_once();
    }
    if args.consent.park {
        invocation = invocation.park("metier run");
    }
    if args.trust.no_remembered {
        invocation = invocation.without_remembered_grants();
    }
    invocation = args.preview.add_to(invocation)?;
    let secrets = args.config.secrets()?;
    for permission in parse_grants(&args.allow).into_iter().chain(secrets.grants()?) {
        invocation = invocation.grant(permission);
    }
    invocation = args.env.add_to(invocation, session)?;
    // Without a sandbox there is none for the compiler of WebAssembly modules either.
    let is_unsandboxed = configuration.sandbox_mode() == SandboxMode::Off;
    Ok((
        session
            .builder(configuration.clone())?
            .fork_host(true)
            .compile_in_process(is_unsandboxed)
            .config(args.config.settings()?)
            .secrets(secrets)
            .tls_broker(args.config.opens_tls()),
        invocation,
    ))
}

/// The invocation, for the locked files only if the options say so; where the configuration does, what is not a skill of the project
/// and calls none needs no lock.
fn with_lock(args: &Args, engine: &Engine, session: &Session, invocation: Invocation) -> Result<Invocation> {
    let is_locked =
        args.locked || session.configuration().locked() && verify::uses_project_skills(engine, &args.name)?;
    if is_locked { verify::locked(engine, &args.name, invocation) } else { Ok(invocation) }
}

/// The permissions to grant; a name that is not a permission is reported and grants nothing.
pub(super) fn parse_grants(names: &[String]) -> Vec<Permission> {
    let parsed = |name: &String| match name.parse() {
        Ok(permission) => Some(permission),
        Err(error) => {
            output::print_error_as_warning(&error, "this --allow grants nothing");
            None
        }
    };
    names.iter().filter_map(parsed).collect()
}

/// What a process wrote: at a terminal only the beginning and the end, where it wrote so much that it was stopped.
fn shown_output<'a>(text: &'a str, outcome: &Outcome, is_terminal: bool) -> Cow<'a, str> {
    const PART: usize = 2_000;
    const LINES: usize = 20;
    let has_written_too_much = outcome.result.as_ref().is_err_and(|error| error.kind() == ErrorKind::Output);
    if !is_terminal || !has_written_too_much || text.len() <= 4 * PART {
        return text.into();
    }
    let (begin, end) = (text.floor_char_boundary(PART), text.ceil_char_boundary(text.len() - PART));
    let begin = text[..begin].match_indices('\n').nth(LINES - 1).map_or(begin, |(at, _)| at + 1);
    let end = text[end..].rmatch_indices('\n').nth(LINES).map_or(end, |(at, _)| end + at + 1);
    let omitted = byte_size((end - begin) as u64);
    format!("{}\n[… {omitted} are not shown …]\n{}", &text[..begin], &text[end..]).into()
}

fn print_outcome(outcome: Outcome, session: &Session) -> Result<()> {
    if session.json() {
        return output::print_json(&outcome_with_option(outcome));
    }
    print_copies(&outcome);
    let stderr = outcome.process.as_ref().map(|process| process.stderr.as_str()).unwrap_or_default();
    let quoted = outcome.result.as_ref().err().and_then(|error| quoted_end(error, stderr));
    // A single line is part of the error.
    if quoted.is_none_or(|quoted| stderr.trim() != quoted) {
        output::print_process_output(&shown_output(stderr, &outcome, std::io::stderr().is_terminal()));
    }
    if outcome.limits.truncated && outcome.result.is_ok() {
        output::print_warning(&format!(
            "the output was truncated at {} bytes; set another limit with --output",
            outcome.limits.output_bytes
        ));
    }
    match &outcome.result {
        Ok(value) => print_value(value),
        Err(error) => {
            // Many scripts report what they found on standard output and exit with a code of their own.
            let report = outcome.process.as_ref().map(|process| process.stdout.as_str()).unwrap_or_default();
            let report = shown_output(report, &outcome, std::io::stdout().is_terminal());
            let printed = if report.is_empty() { Ok(()) } else { print_value(&(&*report).into()) };
            match quoted.filter(|quoted| stderr.trim() != *quoted) {
                Some(quoted) => output::print_error_without(error, quoted),
                None => output::print_error(error),
            }
            printed
        }
    }
}

/// The last line of standard error, if the error repeats it at its end.
fn quoted_end<'a>(error: &SkillError, stderr: &'a str) -> Option<&'a str> {
    let last = stderr.trim_end().lines().next_back()?.trim();
    error.message().strip_suffix(last).filter(|before| before.ends_with(": ")).map(|_| last)
}

/// Prints a text as it is, and every other value as JSON. On a terminal control characters are escaped.
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
