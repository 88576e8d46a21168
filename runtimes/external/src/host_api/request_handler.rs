//! Answers the host API requests of a run: one call at a time, in the order of arrival.

use std::borrow::Cow;
use std::io::PipeReader;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde_json::Value;

use super::request::{self, AnsweredError, ApiRequest};
use crate::host_api::connection::{Connection, TurnOutcome};
use crate::host_api::connections::Connections;
use metier_core::error::{ErrorContext, ErrorKind, Hint, Location, Result, SkillError};
use metier_core::host::{RunContext, SkillContext, catch_panic, memory_size_of_json};

/// Maximum number of open connections. A process that sends another one waits.
const MAX_CONNECTIONS: usize = 32;

/// Maximum number of bytes of incomplete requests, and of unread answers, over all connections of a run, unless its output limit
/// is larger.
const MAX_BUFFERED_BYTES: usize = 64 << 20;

/// Bytes that a request may have besides its arguments.
const REQUEST_OVERHEAD: usize = 4 << 10;

/// The input of a run that has none.
static NULL_VALUE: Value = Value::Null;

/// Answers the requests of one run.
pub(crate) struct RequestHandler<'a> {
    /// Its token is cancelled when the processes of the run end, which may be before the run itself ends.
    ctx: SkillContext,
    script: &'a str,
    input: &'a Value,
    exit_cause: Mutex<Option<ExitCause>>,
    /// Whether answers contain errors with all of their parts.
    sends_full_errors: bool,
    /// What the errors that were sent contain.
    answered: Mutex<AnsweredParts>,
}

/// Maximum hints and missing permissions of answered errors that are remembered.
const MAX_ANSWERED_PARTS: usize = 64;

/// The kinds, hints and missing permissions of the errors that were sent, each once.
#[derive(Default)]
struct AnsweredParts {
    kinds: Vec<ErrorKind>,
    hints: Vec<Hint>,
    missing: Vec<String>,
}

/// The error because of which a process exits, and its exit code.
struct ExitCause {
    code: i32,
    error: SkillError,
}

impl<'a> RequestHandler<'a> {
    /// `script` is the name of the script in errors.
    pub(crate) fn new(ctx: &SkillContext, script: &'a str, input: Option<&'a Value>) -> Self {
        let ctx = ctx.with_cancel(ctx.cancel().child());
        Self {
            ctx,
            script,
            input: input.unwrap_or(&NULL_VALUE),
            exit_cause: Mutex::default(),
            sends_full_errors: false,
            answered: Mutex::default(),
        }
    }

    /// The same for a process that passes on errors with their locations and violations.
    pub(crate) fn with_full_errors(self) -> Self {
        Self { sends_full_errors: true, ..self }
    }

    /// Whether an error of this kind was sent.
    pub(crate) fn has_answered_error(&self, kind: ErrorKind) -> bool {
        self.lock_answered().kinds.contains(&kind)
    }

    /// Whether an error with this hint was sent.
    pub(crate) fn has_answered_hint(&self, hint: &Hint) -> bool {
        self.lock_answered().hints.contains(hint)
    }

    /// Whether an error was sent that says that this permission is missing.
    pub(crate) fn has_answered_missing(&self, permission: &str) -> bool {
        self.lock_answered().missing.iter().any(|name| name == permission)
    }

    /// Remembers what an error contains that is sent.
    pub(crate) fn remember_answer(&self, error: &SkillError) {
        fn add<T: PartialEq>(all: &mut Vec<T>, part: Option<T>) {
            all.extend(part.filter(|part| all.len() < MAX_ANSWERED_PARTS && !all.contains(part)));
        }
        let mut answered = self.lock_answered();
        add(&mut answered.kinds, Some(error.kind()));
        add(&mut answered.hints, error.hint().cloned());
        add(&mut answered.missing, error.missing_permission().map(str::to_owned));
    }

    fn lock_answered(&self) -> MutexGuard<'_, AnsweredParts> {
        self.answered.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Answers the requests of these connections, and of those that are sent over them, until `stopped` hangs up or all of them are
    /// closed.
    pub(crate) fn serve(&self, connections: &mut Connections, stopped: &PipeReader) {
        self.ctx.in_span(|| self.serve_in_turns(connections, stopped));
    }

    fn serve_in_turns(&self, Connections(connections): &mut Connections, stopped: &PipeReader) {
        while !connections.is_empty() && wait_for_turn(connections, stopped) {
            let (mut open, mut received) = (Vec::with_capacity(connections.len()), Vec::new());
            for at in 0..connections.len() {
                if is_stopped(stopped) {
                    return;
                }
                let load = ConnectionLoad::measure(connections);
                let connection = &mut connections[at];
                open.push(load.must_wait(connection) || self.take_turn(connection, &load));
                received.append(&mut connection.take_received_fds());
            }
            let mut open = open.into_iter();
            connections.retain(|_| open.next().unwrap_or_default());
            connections.extend(received.into_iter().map(Connection::new));
        }
    }

    /// Stops the call that is being answered, and refuses further ones.
    pub(crate) fn stop(&self) {
        self.ctx.cancel().cancel();
    }

    /// The error of a script that exited with this code: an error of the host, if the script reported that it exits because of it.
    pub(crate) fn error_for_exit(&self, error: SkillError, code: Option<i32>) -> SkillError {
        let cause = self.exit_cause().take().filter(|cause| Some(cause.code) == code);
        match cause {
            Some(cause) if error.kind() == ErrorKind::Script => cause.error,
            _ => error,
        }
    }

    /// Serves one turn of one connection. Returns whether it is still open.
    fn take_turn(&self, connection: &mut Connection, load: &ConnectionLoad) -> bool {
        let max_buffered = MAX_BUFFERED_BYTES.max(2 * self.max_request_bytes());
        let longest = self
            .max_request_bytes()
            .min(max_buffered.saturating_sub(load.request_bytes) + connection.request_bytes());
        match connection.take_turn(longest) {
            TurnOutcome::Closed => return false,
            TurnOutcome::Nothing => {}
            TurnOutcome::TooLong => {
                connection.send_answer(request::encode_error(&Value::Null, &request_too_large(longest)));
            }
            TurnOutcome::Request(text) => {
                if let Some(answer) = self.answer(&text, connection.last_error()) {
                    connection.send_answer(answer);
                }
            }
        }
        true
    }

    fn max_request_bytes(&self) -> usize {
        usize::try_from(self.ctx.limits().output).unwrap_or(usize::MAX / 4).saturating_add(REQUEST_OVERHEAD)
    }

    fn answer(&self, text: &[u8], last_error: &mut Option<AnsweredError>) -> Option<Vec<u8>> {
        let mut reservation = self.ctx.host_memory().empty_reservation();
        let reserved = reservation.add(memory_size_of_json(text)).map_err(|error| (Value::Null, error));
        let (id, answer) = match reserved.and_then(|()| ApiRequest::parse(text)) {
            // The host has both ends of this connection. An answer would be read as the next request, forever.
            Ok(None) => return None,
            Ok(Some(request)) => {
                let id = request.id.clone();
                (id, catch_panic("the host", ErrorKind::Script, || self.call(request, last_error.as_ref())))
            }
            Err((id, error)) => (id, Err(error)),
        };
        drop(reservation);
        let answer = answer.and_then(|value| request::encode_answer(&id, &value, self.ctx.host_memory()));
        Some(answer.unwrap_or_else(|error| {
            self.remember_answer(&error);
            let encode =
                if self.sends_full_errors { request::encode_full_error } else { request::encode_error };
            let answer = encode(&id, &error);
            *last_error = Some(AnsweredError { id, error });
            answer
        }))
    }

    fn call(&self, request: ApiRequest, last_error: Option<&AnsweredError>) -> Result<Cow<'_, Value>> {
        let (answer, kind, name) = match request.function.as_str() {
            "input" => (Cow::Borrowed(self.input), ErrorKind::InvalidInput, "input"),
            "api" => (Cow::Owned(request::function_table()), ErrorKind::InvalidOutput, "api"),
            "fail" => return self.fail(&request.args, last_error),
            function => {
                let answer = self.ctx.call(function, request.args)?;
                // The script continues, whatever failed before.
                *self.exit_cause() = None;
                (Cow::Owned(answer), ErrorKind::InvalidOutput, "the answer")
            }
        };
        if request.doubles {
            request::check_doubles(&answer, kind, name)?;
        }
        Ok(answer)
    }

    /// `fail(id, code, line?)`: the process exits because of the error of that request.
    fn fail(&self, args: &[Value], last_error: Option<&AnsweredError>) -> Result<Cow<'_, Value>> {
        let last_error = last_error.filter(|last| Some(&last.id) == args.first());
        let code = args.get(1).and_then(Value::as_i64).and_then(|code| i32::try_from(code).ok());
        let (Some(last), Some(code)) = (last_error, code) else {
            let sentence = "fail(id, code, line?): id must be that of the request that failed last";
            return Err(SkillError::new(ErrorKind::InvalidArgument, sentence));
        };
        let line = args.get(2).and_then(Value::as_u64).and_then(|line| u32::try_from(line).ok());
        let location = Location::new(self.script, line, None);
        *self.exit_cause() = Some(ExitCause { code, error: last.error.clone().with_location(location) });
        Ok(Cow::Borrowed(&NULL_VALUE))
    }

    fn exit_cause(&self) -> MutexGuard<'_, Option<ExitCause>> {
        self.exit_cause.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How much data is buffered for all connections.
struct ConnectionLoad {
    is_full: bool,
    request_bytes: usize,
    answer_bytes: usize,
}

impl ConnectionLoad {
    fn measure(connections: &[Connection]) -> Self {
        Self {
            is_full: connections.len() > MAX_CONNECTIONS,
            request_bytes: connections.iter().map(Connection::request_bytes).sum(),
            answer_bytes: connections.iter().map(Connection::answer_bytes).sum(),
        }
    }

    /// Whether a connection waits until another one is closed, or until other answers were read.
    fn must_wait(&self, connection: &Connection) -> bool {
        (self.is_full && connection.is_shared())
            || (self.answer_bytes > MAX_BUFFERED_BYTES && connection.answer_bytes() == 0)
    }
}

fn request_too_large(most: usize) -> SkillError {
    let sentence = format!("a request to the host is larger than the {most} bytes it may have");
    SkillError::new(ErrorKind::Output, sentence)
        .with_help("read the answers, write in parts, or raise the output limit")
}

/// Waits until a connection can have a turn. Returns false if `stopped` hung up.
fn wait_for_turn(connections: &[Connection], stopped: &PipeReader) -> bool {
    const NO_WAIT: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };
    let load = ConnectionLoad::measure(connections);
    let turns = || connections.iter().filter(|connection| !load.must_wait(connection));
    let mut fds = vec![PollFd::new(stopped, PollFlags::IN)];
    fds.extend(turns().map(Connection::poll_fd));
    let is_ready = connections.is_empty() || turns().any(Connection::has_request);
    let timeout = is_ready.then_some(&NO_WAIT);
    match poll(&mut fds, timeout) {
        Ok(_) => fds.first().is_some_and(|stopped| stopped.revents().is_empty()),
        Err(error) => error == rustix::io::Errno::INTR,
    }
}

fn is_stopped(stopped: &PipeReader) -> bool {
    !wait_for_turn(&[], stopped)
}
