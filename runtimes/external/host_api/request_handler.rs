//! Answers the host API requests of a run: one call at a time, in the order of arrival.

use std::borrow::Cow;
use std::io::PipeReader;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde_json::Value;

use super::request::{self, ApiRequest};
use crate::error::{ErrorKind, Location, Result, SkillError};
use crate::host::{SkillContext, catch_panic, memory_size_of_json};
use crate::runtimes::external::host_api::connection::{Connection, TurnOutcome};
use crate::runtimes::external::host_api::connections::Connections;

/// Lines that are open at a time; a process that sends one more waits.
const MAX_CONNECTIONS: usize = 32;

/// Bytes of unfinished requests, and of unread answers, for all lines of a run, where its output may not be larger.
const MAX_BUFFERED_BYTES: usize = 64 << 20;

/// Bytes of a request beside its arguments.
const REQUEST_OVERHEAD: usize = 4 << 10;

/// The input of a run that has none.
static NULL_VALUE: Value = Value::Null;

/// The host's side of one run.
pub(in super::super) struct RequestHandler<'a> {
    /// Stops with the run's processes, which may be before its deadline.
    ctx: SkillContext,
    script: &'a str,
    input: &'a Value,
    exit_cause: Mutex<Option<ExitCause>>,
    /// Whether errors are answered with all their parts.
    sends_full_errors: bool,
    /// The kinds of errors that were answered.
    answered_kinds: Mutex<Vec<ErrorKind>>,
}

/// An error that a process ends for, and the exit code it ends with.
struct ExitCause {
    code: i32,
    error: SkillError,
}

/// The error a line was last answered, and the request it was for.
pub(super) struct AnsweredError {
    id: Value,
    error: SkillError,
}

impl<'a> RequestHandler<'a> {
    /// `script` is the name that errors carry.
    pub(in super::super) fn new(ctx: &SkillContext, script: &'a str, input: Option<&'a Value>) -> Self {
        let ctx = ctx.with_cancel(ctx.cancel().child());
        Self {
            ctx,
            script,
            input: input.unwrap_or(&NULL_VALUE),
            exit_cause: Mutex::default(),
            sends_full_errors: false,
            answered_kinds: Mutex::default(),
        }
    }

    /// The same for a process that passes errors on as they are, with their places and violations.
    pub(in super::super) fn with_full_errors(self) -> Self {
        Self { sends_full_errors: true, ..self }
    }

    /// Whether a call was answered with an error of that kind.
    pub(in super::super) fn has_answered_error(&self, kind: ErrorKind) -> bool {
        self.answered_kinds.lock().unwrap_or_else(PoisonError::into_inner).contains(&kind)
    }

    /// Answers what comes by these lines, and by those that are sent over them, until `over` hangs up or nobody is left.
    pub(in super::super) fn serve(&self, Connections(lines): &mut Connections, over: &PipeReader) {
        while !lines.is_empty() && wait_for_turn(lines, over) {
            let (mut open, mut sent) = (Vec::with_capacity(lines.len()), Vec::new());
            for at in 0..lines.len() {
                if is_over(over) {
                    return;
                }
                let load = ConnectionLoad::measure(lines);
                let line = &mut lines[at];
                open.push(load.must_wait(line) || self.take_turn(line, &load));
                sent.append(&mut line.take_received_fds());
            }
            let mut open = open.into_iter();
            lines.retain(|_| open.next().unwrap_or_default());
            lines.extend(sent.into_iter().map(Connection::new));
        }
    }

    /// Stops a call that is under way, and refuses further ones: nobody is left to hear the answer.
    pub(in super::super) fn stop(&self) {
        self.ctx.cancel().cancel();
    }

    /// The error of a script that ended with this exit code: the host's own, where the script says that it ended for one.
    pub(in super::super) fn error_for_exit(&self, error: SkillError, code: Option<i32>) -> SkillError {
        let fault = self.exit_cause().take().filter(|fault| Some(fault.code) == code);
        match fault {
            Some(fault) if error.kind() == ErrorKind::Script => fault.error,
            _ => error,
        }
    }

    /// One turn of one line; whether it stays open.
    fn take_turn(&self, line: &mut Connection, load: &ConnectionLoad) -> bool {
        let most = MAX_BUFFERED_BYTES.max(2 * self.max_request_bytes());
        let longest =
            self.max_request_bytes().min(most.saturating_sub(load.request_bytes) + line.request_bytes());
        match line.take_turn(longest) {
            TurnOutcome::Closed => return false,
            TurnOutcome::Nothing => {}
            TurnOutcome::TooLong => {
                line.send_answer(request::encode_error(&Value::Null, &request_too_large(longest)));
            }
            TurnOutcome::Request(text) => {
                if let Some(answer) = self.answer(&text, line.last_error()) {
                    line.send_answer(answer);
                }
            }
        }
        true
    }

    fn max_request_bytes(&self) -> usize {
        usize::try_from(self.ctx.limits().output).unwrap_or(usize::MAX / 4).saturating_add(REQUEST_OVERHEAD)
    }

    fn answer(&self, text: &[u8], refused: &mut Option<AnsweredError>) -> Option<Vec<u8>> {
        let mut held = self.ctx.host_memory().empty_reservation();
        let read = held.add(memory_size_of_json(text)).map_err(|error| (Value::Null, error));
        let (id, answer) = match read.and_then(|()| ApiRequest::parse(text)) {
            // Somebody sent both ends of a line: answered, it would go round for ever.
            Ok(None) => return None,
            Ok(Some(request)) => {
                let id = request.id.clone();
                (id, catch_panic("the host", ErrorKind::Script, || self.call(request, refused.as_ref())))
            }
            Err((id, error)) => (id, Err(error)),
        };
        drop(held);
        let answer = answer.and_then(|value| request::encode_answer(&id, &value, self.ctx.host_memory()));
        Some(answer.unwrap_or_else(|error| {
            let mut kinds = self.answered_kinds.lock().unwrap_or_else(PoisonError::into_inner);
            if !kinds.contains(&error.kind()) {
                kinds.push(error.kind());
            }
            drop(kinds);
            let written =
                if self.sends_full_errors { request::encode_full_error } else { request::encode_error };
            let answer = written(&id, &error);
            *refused = Some(AnsweredError { id, error });
            answer
        }))
    }

    fn call(&self, request: ApiRequest, refused: Option<&AnsweredError>) -> Result<Cow<'_, Value>> {
        let (answer, kind, name) = match request.function.as_str() {
            "input" => (Cow::Borrowed(self.input), ErrorKind::InvalidInput, "input"),
            "api" => (Cow::Owned(request::function_table()), ErrorKind::InvalidOutput, "api"),
            "fail" => return self.fail(&request.args, refused),
            function => {
                let answer = self.ctx.call(function, request.args)?;
                // Whatever failed before, the script goes on.
                *self.exit_cause() = None;
                (Cow::Owned(answer), ErrorKind::InvalidOutput, "the answer")
            }
        };
        if request.doubles {
            request::check_doubles(&answer, kind, name)?;
        }
        Ok(answer)
    }

    /// `fail(id, code, line?)`: the process ends for the error that request was answered.
    fn fail(&self, args: &[Value], refused: Option<&AnsweredError>) -> Result<Cow<'_, Value>> {
        let refused = refused.filter(|refused| Some(&refused.id) == args.first());
        let code = args.get(1).and_then(Value::as_i64).and_then(|code| i32::try_from(code).ok());
        let (Some(refused), Some(code)) = (refused, code) else {
            let sentence = "fail(id, code, line?): id must be that of the request that failed last";
            return Err(SkillError::new(ErrorKind::InvalidArgument, sentence));
        };
        let line = args.get(2).and_then(Value::as_u64).and_then(|line| u32::try_from(line).ok());
        let place = Location { file: self.script.to_owned(), line, column: None };
        *self.exit_cause() = Some(ExitCause { code, error: refused.error.clone().with_location(place) });
        Ok(Cow::Borrowed(&NULL_VALUE))
    }

    fn exit_cause(&self) -> MutexGuard<'_, Option<ExitCause>> {
        self.exit_cause.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How much is under way on all lines.
struct ConnectionLoad {
    is_full: bool,
    request_bytes: usize,
    answer_bytes: usize,
}

impl ConnectionLoad {
    fn measure(lines: &[Connection]) -> Self {
        Self {
            is_full: lines.len() > MAX_CONNECTIONS,
            request_bytes: lines.iter().map(Connection::request_bytes).sum(),
            answer_bytes: lines.iter().map(Connection::answer_bytes).sum(),
        }
    }

    /// Whether a line waits until others are done: for a place, or for answers to be read.
    fn must_wait(&self, line: &Connection) -> bool {
        (self.is_full && line.is_shared())
            || (self.answer_bytes > MAX_BUFFERED_BYTES && line.answer_bytes() == 0)
    }
}

fn request_too_large(most: usize) -> SkillError {
    let sentence = format!("a request to the host is larger than the {most} bytes it may have");
    SkillError::new(ErrorKind::Output, sentence)
        .with_help("read the answers, write in parts, or raise the output limit")
}

/// Waits until some line has its turn; false when the run is over.
fn wait_for_turn(lines: &[Connection], over: &PipeReader) -> bool {
    const NO_WAIT: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };
    let load = ConnectionLoad::measure(lines);
    let turns = || lines.iter().filter(|line| !load.must_wait(line));
    let mut waiting = vec![PollFd::new(over, PollFlags::IN)];
    waiting.extend(turns().map(Connection::poll_fd));
    let is_ready = lines.is_empty() || turns().any(Connection::has_request);
    let timeout = is_ready.then_some(&NO_WAIT);
    match poll(&mut waiting, timeout) {
        Ok(_) => waiting.first().is_some_and(|over| over.revents().is_empty()),
        Err(error) => error == rustix::io::Errno::INTR,
    }
}

fn is_over(over: &PipeReader) -> bool {
    !wait_for_turn(&[], over)
}
