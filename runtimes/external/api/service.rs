//! What a run answers its processes: one call at a time, in the order in which they are heard.

use std::borrow::Cow;
use std::io::PipeReader;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde_json::Value;

use super::line::{Line, Turn};
use super::lines::Lines;
use super::request::{self, Request};
use crate::error::{ErrorKind, Location, Result, SkillError};
use crate::host::{SkillContext, guarded, weight_of_json};

/// Lines that are open at a time; a process that sends one more waits.
const MOST_LINES: usize = 32;

/// Bytes of unfinished requests, and of unread answers, for all lines of a run, where its output may not be larger.
const MOST_HELD: usize = 64 << 20;

/// Bytes of a request beside its arguments.
const ENVELOPE: usize = 4 << 10;

/// The input of a run that has none.
static NOTHING: Value = Value::Null;

/// The host's side of one run.
pub(in super::super) struct Service<'a> {
    /// Stops with the run's processes, which may be before its deadline.
    ctx: SkillContext,
    script: &'a str,
    input: &'a Value,
    fault: Mutex<Option<Fault>>,
    /// Whether errors are answered with all their parts.
    whole_errors: bool,
    /// The kinds of errors that were answered.
    refused: Mutex<Vec<ErrorKind>>,
}

/// An error that a process ends for, and the exit code it ends with.
struct Fault {
    code: i32,
    error: SkillError,
}

/// The error a line was last answered, and the request it was for.
pub(super) struct Refused {
    id: Value,
    error: SkillError,
}

impl<'a> Service<'a> {
    /// `script` is the name that errors carry.
    pub(in super::super) fn new(ctx: &SkillContext, script: &'a str, input: Option<&'a Value>) -> Self {
        let ctx = ctx.under(ctx.cancel().child());
        Self {
            ctx,
            script,
            input: input.unwrap_or(&NOTHING),
            fault: Mutex::default(),
            whole_errors: false,
            refused: Mutex::default(),
        }
    }

    /// The same for a process that passes errors on as they are, with their places and violations.
    pub(in super::super) fn with_whole_errors(self) -> Self {
        Self { whole_errors: true, ..self }
    }

    /// Whether a call was answered with an error of that kind.
    pub(in super::super) fn has_refused(&self, kind: ErrorKind) -> bool {
        self.refused.lock().unwrap_or_else(PoisonError::into_inner).contains(&kind)
    }

    /// Answers what comes by these lines, and by those that are sent over them, until `over` hangs up or nobody is left.
    pub(in super::super) fn serve(&self, Lines(lines): &mut Lines, over: &PipeReader) {
        while !lines.is_empty() && has_come(lines, over) {
            let (mut open, mut sent) = (Vec::with_capacity(lines.len()), Vec::new());
            for at in 0..lines.len() {
                if is_over(over) {
                    return;
                }
                let load = Load::of(lines);
                let line = &mut lines[at];
                open.push(load.lets_wait(line) || self.attend(line, &load));
                sent.append(&mut line.sent());
            }
            let mut open = open.into_iter();
            lines.retain(|_| open.next().unwrap_or_default());
            lines.extend(sent.into_iter().map(Line::new));
        }
    }

    /// Stops a call that is under way, and refuses further ones: nobody is left to hear the answer.
    pub(in super::super) fn stop(&self) {
        self.ctx.cancel().cancel();
    }

    /// The error of a script that ended with this exit code: the host's own, where the script says that it ended for one.
    pub(in super::super) fn explained(&self, error: SkillError, code: Option<i32>) -> SkillError {
        let fault = self.fault().take().filter(|fault| Some(fault.code) == code);
        match fault {
            Some(fault) if error.kind() == ErrorKind::Script => fault.error,
            _ => error,
        }
    }

    /// One turn of one line; whether it stays open.
    fn attend(&self, line: &mut Line, load: &Load) -> bool {
        let most = MOST_HELD.max(2 * self.longest());
        let longest = self.longest().min(most.saturating_sub(load.unfinished) + line.unfinished());
        match line.turn(longest) {
            Turn::Gone => return false,
            Turn::Nothing => {}
            Turn::TooLong => line.say(request::refused(&Value::Null, &too_long(longest))),
            Turn::Request(text) => {
                if let Some(answer) = self.answer(&text, line.refused()) {
                    line.say(answer);
                }
            }
        }
        true
    }

    fn longest(&self) -> usize {
        usize::try_from(self.ctx.limits().output).unwrap_or(usize::MAX / 4).saturating_add(ENVELOPE)
    }

    fn answer(&self, text: &[u8], refused: &mut Option<Refused>) -> Option<Vec<u8>> {
        let mut held = self.ctx.host_memory().hold();
        let read = held.add(weight_of_json(text)).map_err(|error| (Value::Null, error));
        let (id, answer) = match read.and_then(|()| Request::read(text)) {
            // Somebody sent both ends of a line: answered, it would go round for ever.
            Ok(None) => return None,
            Ok(Some(request)) => {
                let id = request.id.clone();
                (id, guarded("the host", ErrorKind::Script, || self.called(request, refused.as_ref())))
            }
            Err((id, error)) => (id, Err(error)),
        };
        drop(held);
        let answer = answer.and_then(|value| request::answered(&id, &value, self.ctx.host_memory()));
        Some(answer.unwrap_or_else(|error| {
            let mut kinds = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
            if !kinds.contains(&error.kind()) {
                kinds.push(error.kind());
            }
            drop(kinds);
            let written = if self.whole_errors { request::refused_whole } else { request::refused };
            let answer = written(&id, &error);
            *refused = Some(Refused { id, error });
            answer
        }))
    }

    fn called(&self, request: Request, refused: Option<&Refused>) -> Result<Cow<'_, Value>> {
        let (answer, kind, name) = match request.call.as_str() {
            "input" => (Cow::Borrowed(self.input), ErrorKind::InvalidInput, "input"),
            "api" => (Cow::Owned(request::api()), ErrorKind::InvalidOutput, "api"),
            "fail" => return self.fail(&request.args, refused),
            function => {
                let answer = self.ctx.call(function, request.args)?;
                // Whatever failed before, the script goes on.
                *self.fault() = None;
                (Cow::Owned(answer), ErrorKind::InvalidOutput, "the answer")
            }
        };
        if request.doubles {
            request::check_doubles(&answer, kind, name)?;
        }
        Ok(answer)
    }

    /// `fail(id, code, line?)`: the process ends for the error that request was answered.
    fn fail(&self, args: &[Value], refused: Option<&Refused>) -> Result<Cow<'_, Value>> {
        let refused = refused.filter(|refused| Some(&refused.id) == args.first());
        let code = args.get(1).and_then(Value::as_i64).and_then(|code| i32::try_from(code).ok());
        let (Some(refused), Some(code)) = (refused, code) else {
            let sentence = "fail(id, code, line?): id must be that of the request that failed last";
            return Err(SkillError::new(ErrorKind::InvalidArgument, sentence));
        };
        let line = args.get(2).and_then(Value::as_u64).and_then(|line| u32::try_from(line).ok());
        let place = Location { file: self.script.to_owned(), line, column: None };
        *self.fault() = Some(Fault { code, error: refused.error.clone().with_location(place) });
        Ok(Cow::Borrowed(&NOTHING))
    }

    fn fault(&self) -> MutexGuard<'_, Option<Fault>> {
        self.fault.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How much is under way on all lines.
struct Load {
    is_full: bool,
    unfinished: usize,
    unread: usize,
}

impl Load {
    fn of(lines: &[Line]) -> Self {
        Self {
            is_full: lines.len() > MOST_LINES,
            unfinished: lines.iter().map(Line::unfinished).sum(),
            unread: lines.iter().map(Line::unread).sum(),
        }
    }

    /// Whether a line waits until others are done: for a place, or for answers to be read.
    fn lets_wait(&self, line: &Line) -> bool {
        (self.is_full && line.is_door()) || (self.unread > MOST_HELD && line.unread() == 0)
    }
}

fn too_long(most: usize) -> SkillError {
    let sentence = format!("a request to the host is larger than the {most} bytes it may have");
    SkillError::new(ErrorKind::Output, sentence)
        .with_help("read the answers, write in parts, or raise the output limit")
}

/// Waits until some line has its turn; false when the run is over.
fn has_come(lines: &[Line], over: &PipeReader) -> bool {
    const AT_ONCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };
    let load = Load::of(lines);
    let turns = || lines.iter().filter(|line| !load.lets_wait(line));
    let mut waiting = vec![PollFd::new(over, PollFlags::IN)];
    waiting.extend(turns().map(Line::waiting));
    let is_ready = lines.is_empty() || turns().any(Line::has_request);
    let timeout = is_ready.then_some(&AT_ONCE);
    match poll(&mut waiting, timeout) {
        Ok(_) => waiting.first().is_some_and(|over| over.revents().is_empty()),
        Err(error) => error == rustix::io::Errno::INTR,
    }
}

fn is_over(over: &PipeReader) -> bool {
    !has_come(&[], over)
}
