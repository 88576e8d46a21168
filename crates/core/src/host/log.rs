//! Log lines, which are kept for the outcome of a run, and progress reports, which are passed to the observer.

use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::Serialize;

use super::redaction::Redacted;
use crate::error::{ErrorKind, Result, SkillError};

/// The severity of a log line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum LogLevel {
    /// For people who debug the skill.
    Trace,
    /// For people who write the skill.
    Debug,
    /// For people who run the skill; `print` writes here.
    Info,
    /// Something is wrong, but the run continues.
    Warn,
    /// Something failed.
    Error,
}

impl LogLevel {
    /// The level of that name; every unknown name is `info`.
    pub(crate) fn from_name(name: &str) -> Self {
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
#[non_exhaustive]
pub struct LogLine {
    /// Its severity.
    pub level: LogLevel,
    /// Its text.
    pub message: String,
}

impl LogLine {
    /// A line with this level.
    pub(super) fn new(level: LogLevel, message: Redacted<String>) -> Redacted<Self> {
        message.map(|message| Self { level, message })
    }
}

/// The progress of a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Progress {
    /// The current activity.
    pub message: String,
    /// Units done.
    pub done: Option<f64>,
    /// Total units.
    pub total: Option<f64>,
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

/// Bytes that a line counts besides its text, so that the number of empty lines is bounded too.
const LINE_OVERHEAD_BYTES: u64 = 16;

impl RunLog {
    /// An empty log with this capacity in bytes.
    pub fn new(cap: u64) -> Self {
        Self { buffer: Mutex::default(), max_bytes: cap }
    }

    /// Keeps a line; a line beyond the capacity is an `output` error and is not kept.
    pub(super) fn log(&self, line: Redacted<LogLine>) -> Result<()> {
        let (line, mut kept) = (line.into_inner(), self.lock());
        let cost = line.message.len() as u64 + LINE_OVERHEAD_BYTES;
        if kept.bytes + cost > self.max_bytes {
            let sentence = format!("the log is full: a run may write at most {} bytes", self.max_bytes);
            return Err(
                SkillError::new(ErrorKind::Output, sentence).with_help("log less, or raise the output limit")
            );
        }
        kept.bytes += cost;
        kept.lines.push(line);
        Ok(())
    }

    /// Checks that a line of this many bytes could fit into an empty log; `output` if not.
    pub fn check_line_fits(&self, bytes: usize) -> Result<()> {
        if bytes as u64 > self.max_bytes {
            let sentence =
                format!("the log line has {bytes} bytes; the whole log may have at most {}", self.max_bytes);
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
