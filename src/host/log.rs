//! What a run says while it runs: log lines, kept for the outcome, and progress, passed on.

use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::Serialize;

use super::redaction::Redacted;
use super::steps::StepEvent;
use crate::error::{ErrorKind, Result, SkillError};
use crate::policy::StopCause;

/// How much a log line matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum LogLevel {
    /// For whoever debugs the skill.
    Trace,
    /// For whoever writes the skill.
    Debug,
    /// For whoever runs the skill; `print` writes here.
    Info,
    /// Something is off, the run goes on.
    Warn,
    /// Something failed.
    Error,
}

impl LogLevel {
    /// The level of that name; every unknown name is `info`.
    pub fn from_name(name: &str) -> Self {
        match name {
            "error" => Self::Error,
            "warn" => Self::Warn,
            "debug" => Self::Debug,
            "trace" => Self::Trace,
            _ => Self::Info,
        }
    }
}

/// One line of the log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LogLine {
    /// How much it matters.
    pub level: LogLevel,
    /// What it says.
    pub message: String,
}

impl LogLine {
    /// A line of this level.
    pub(super) fn new(level: LogLevel, message: Redacted<String>) -> Redacted<Self> {
        message.map(|message| Self { level, message })
    }
}

/// How far a run has come.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Progress {
    /// What is being done.
    pub message: String,
    /// Units done.
    pub done: Option<f64>,
    /// Units in all.
    pub total: Option<f64>,
}

/// Hears a run while it runs, and the skills it calls. Called on their own threads: be quick, do not block.
pub trait Observer: Send + Sync {
    /// A log line was written.
    fn on_log(&self, _line: &LogLine) {}
    /// The skill reported progress.
    fn on_progress(&self, _progress: &Progress) {}
    /// A skill that the step at that place of the invoked plan runs, from 0, reported progress.
    fn on_step_progress(&self, _step: usize, progress: &Progress) {
        self.on_progress(progress);
    }
    /// A step of the plan that was invoked started or ended; steps of plans that it calls are not told.
    fn on_step(&self, _step: &StepEvent) {}
    /// The run was told to stop, by its caller or at its deadline. What still runs a moment later does not listen.
    fn on_stop(&self, _cause: StopCause) {}
}

/// The log of one run, bounded in bytes.
pub struct RunLog {
    buffer: Mutex<LogBuffer>,
    max_bytes: u64,
}

#[derive(Default)]
struct LogBuffer {
    lines: Vec<LogLine>,
    bytes: u64,
}

/// What a line costs beyond its text, so that empty lines are bounded too.
const LINE_OVERHEAD_BYTES: u64 = 16;

impl RunLog {
    /// An empty log that takes this many bytes.
    pub fn new(cap: u64) -> Self {
        Self { buffer: Mutex::default(), max_bytes: cap }
    }

    /// Keeps a line; a line beyond the cap is an `output` error and is not kept.
    pub(super) fn log(&self, line: Redacted<LogLine>) -> Result<()> {
        let (line, mut kept) = (line.into_inner(), self.lock());
        let cost = line.message.len() as u64 + LINE_OVERHEAD_BYTES;
        if kept.bytes + cost > self.max_bytes {
            let sentence = format!("the log is full: a run may write {} bytes", self.max_bytes);
            return Err(
                SkillError::new(ErrorKind::Output, sentence).with_help("log less, or raise the output limit")
            );
        }
        kept.bytes += cost;
        kept.lines.push(line);
        Ok(())
    }

    /// Whether a line of so many bytes could ever be kept; `output` where not.
    pub fn check_line_fits(&self, bytes: usize) -> Result<()> {
        if bytes as u64 > self.max_bytes {
            let sentence =
                format!("a line of {bytes} bytes is no line of a log, which may have {}", self.max_bytes);
            return Err(
                SkillError::new(ErrorKind::Output, sentence).with_help("log less, or raise the output limit")
            );
        }
        Ok(())
    }

    /// The lines so far; the log is empty afterwards.
    pub fn take(&self) -> Vec<LogLine> {
        std::mem::take(&mut *self.lock()).lines
    }

    fn lock(&self) -> MutexGuard<'_, LogBuffer> {
        self.buffer.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::Redaction;

    #[test]
    fn a_flood_of_empty_lines_meets_the_cap() {
        let journal = RunLog::new(1000);
        let nothing = || Redaction::default().text(String::new());
        let line = || LogLine::new(LogLevel::Info, nothing());
        let written = (0..10_000).take_while(|_| journal.log(line()).is_ok()).count();
        assert_eq!(written, 62);
        assert_eq!(journal.take().len(), 62);
    }
}
