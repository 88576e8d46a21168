//! Runs that are transparent: the output of a script as it comes, and its own exit code.

use std::io::{IsTerminal, Write};
use std::sync::Arc;

use metier::engine::{Engine, Invocation, Outcome};
use metier::error::{ErrorKind, Result, SkillError};
use metier::host::LogLevel;
use metier::policy::CancelToken;

use super::exit_watchdog::WatchdogObserver;
use super::hint::{error_help, sentence_with_options};
use super::interrupt::cancel_on_interrupt;
use super::output;
use super::session::Session;
use super::terminal::escape_sentence;
use super::terminal_filter::TerminalFilter;

/// The exit code by which shells report that this signal ended a program.
const SIGNAL_EXIT_CODE: i32 = 128;

/// Runs the invocation that `prepare` returns, with its output to that of the command. Fails if metier refuses to run it.
pub fn run(session: &Session, prepare: impl FnOnce() -> Result<(Engine, Invocation)>) -> Result<Outcome> {
    let (token, watchdog) = (CancelToken::new(), session.exit_watchdog());
    let _guard = watchdog.watch_token(&token);
    cancel_on_interrupt(token.clone());
    watchdog.start_loading_timeout();
    let (engine, invocation) = prepare()?;
    watchdog.disarm();
    let processes = engine.clone();
    watchdog.wait_for_cleanup(move || processes.runs_processes());
    let observer = Arc::new(WatchdogObserver::new(watchdog.clone()));
    let invocation = invocation
        .cancel(token.clone())
        .observer(observer)
        .stream_output(sink(std::io::stdout()), sink(std::io::stderr()));
    let outcome = engine.run(invocation);
    // With the engine, workers of other skills end here: one that lives could change what is read of a copy.
    watchdog.wait_for_cleanup(|| false);
    drop(engine);
    watchdog.finish();
    if token.is_cancelled() {
        watchdog.start_print_timeout();
    }
    token.cancel();
    Ok(outcome)
}

/// The exit code of the script, `128 + n` after the signal n; or, where metier stopped it or refused to run it, that of the error,
/// which is printed.
pub fn exit_code(outcome: &Outcome) -> u8 {
    let Err(error) = &outcome.result else { return 0 };
    let is_own = !error.kind().is_limit() && error.kind() != ErrorKind::Cancelled;
    let process = outcome.process.as_ref().filter(|_| is_own);
    let code = process.and_then(|process| {
        process.exit_code.or_else(|| process.signal.map(|signal| SIGNAL_EXIT_CODE + signal))
    });
    code.and_then(|code| u8::try_from(code & 0xff).ok()).filter(|code| *code != 0).unwrap_or_else(|| {
        output::print_error(error);
        error.kind().exit_code()
    })
}

/// Prints what the script cannot know: the warnings of the run, and what the sandbox may have refused.
pub fn print_notes(outcome: &Outcome) {
    for line in outcome.log.iter().filter(|line| line.level == LogLevel::Warn) {
        output::print_warning(&sentence_with_options(&line.message));
    }
    let error = outcome.result.as_ref().err().filter(|error| error.kind() == ErrorKind::Script);
    // What the exit code alone means, the script may have meant otherwise.
    let code = outcome.process.as_ref().and_then(|process| process.exit_code);
    let is_of_code = |error: &SkillError| error.hint().is_none() && matches!(code, Some(126 | 127));
    if let Some(help) = error.filter(|error| !is_of_code(error)).and_then(error_help) {
        output::eprint(&format!("help: {}", escape_sentence(&help)));
    }
}

/// Fails with `usage` for JSON, which has the output in the outcome.
pub fn require_no_json(session: &Session, option: &str) -> Result<()> {
    if session.json() {
        let sentence = format!("{option} passes the output on as it is, so there is no JSON");
        return Err(
            SkillError::new(ErrorKind::Usage, sentence).with_help(format!("leave out {option} or --json"))
        );
    }
    Ok(())
}

/// Where a stream of a script goes: to a terminal without anything that it obeys but colours, and to all else as it is.
fn sink(stream: impl Write + IsTerminal + Send + 'static) -> Box<dyn Write + Send> {
    if stream.is_terminal() { Box::new(TerminalFilter::new(stream)) } else { Box::new(stream) }
}
