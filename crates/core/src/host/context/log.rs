//! Log lines, progress and events of a run, with the values of its secrets removed.

use std::sync::PoisonError;

use super::SkillContext;
use super::access::CallRecords;
use super::run_context::RunContext;
use crate::error::Result;
use crate::host::event::EventKind;
use crate::host::log::{LogLevel, LogLine, Progress, RunLog};
use crate::host::redaction::{Redacted, Redaction};
use crate::host::run_events::RunEvents;

impl SkillContext {
    /// Writes a log line, without secrets; `output` when the log is full.
    ///
    /// A skill that another one called writes to the log of its caller: `name: message`.
    pub fn log(&self, level: LogLevel, message: impl Into<String>) -> Result<()> {
        if self.is_silent {
            return Ok(());
        }
        if let Some(host) = self.host_api_client() {
            let level = serde_json::to_value(level).unwrap_or_default();
            return host.call("log", vec![level, message.into().into()]).map(drop);
        }
        let (message, log) = self.in_root(message.into());
        let line = LogLine::new(level, message);
        if !self.is_observed() {
            return log.log(line);
        }
        log.log(line.clone())?;
        self.notify(|| EventKind::Log(line.into_inner()));
        Ok(())
    }

    /// The message as the run that nobody called shows it, and the log of that run.
    fn in_root(&self, message: String) -> (Redacted<String>, &RunLog) {
        let message = self.redaction().text(message);
        match &self.inner.caller {
            Some(caller) => caller.in_root(format!("{}: {message}", self.skill())),
            None => (message, &self.inner.log),
        }
    }

    fn is_first_time(&self, line: String) -> bool {
        match &self.inner.caller {
            Some(caller) => caller.is_first_time(line),
            None => self.inner.logged_lines.lock().unwrap_or_else(PoisonError::into_inner).insert(line),
        }
    }

    /// Checks that a line of this many bytes could fit into the log; `output` if not.
    pub(in crate::host) fn check_line_fits(&self, bytes: usize) -> Result<()> {
        self.inner.log.check_line_fits(bytes)
    }

    /// Reports progress to the observer, without secrets; prefixed like log lines.
    pub fn progress(&self, progress: &Progress) {
        if self.is_observed() {
            let message = self.in_root(progress.message.clone()).0.into_inner();
            self.notify(|| EventKind::Progress(Progress { message, ..*progress }));
        }
    }
}

/// What a run says while it goes on, to its log and its observer, and the secrets that nothing of it shows.
///
/// For metier's packages: programs that embed metier do not see it.
pub trait RunMessages: Sized {
    /// Whether somebody observes the run.
    fn is_observed(&self) -> bool;

    /// Where the events of the run go, if somebody observes it.
    fn events(&self) -> Option<&RunEvents>;

    /// Notifies the observer, if there is one, without secrets.
    fn notify(&self, kind: impl FnOnce() -> EventKind);

    /// Logs a warning. If the log is full, the run does not fail.
    fn warn(&self, message: impl Into<String>);

    /// Writes a log line at most once for the run and all that it calls.
    fn log_once(&self, level: LogLevel, message: String) -> Result<()>;

    /// From now on, `[secret:NAME]` replaces this value in the output of the run and of those that called it.
    fn learn_secret(&self, name: &str, value: &str);

    /// From now on, secrets that were given to other runs are replaced by their names in the output of this run and of those that
    /// called it.
    fn learn_secrets(&self, others: &Redaction);

    /// The secrets to remove from the run's messages: its own, and those of the runs that called it, since its messages are cut
    /// and kept where their origin is not known.
    fn redaction(&self) -> &Redaction;

    /// The secrets to remove from its value: its own. Its caller's secrets may be returned to the caller.
    fn value_redaction(&self) -> &Redaction;

    /// The log so far, without secrets that were added since (including those that span several lines); empty afterwards.
    fn take_log(&self) -> Vec<LogLine>;

    /// The same log, for what is redacted as well.
    fn take_redacted_log(&self) -> Redacted<Vec<LogLine>>;
}

#[doc(hidden)]
impl RunMessages for SkillContext {
    fn is_observed(&self) -> bool {
        self.inner.events.is_some()
    }

    fn events(&self) -> Option<&RunEvents> {
        self.inner.events.as_deref()
    }

    fn notify(&self, kind: impl FnOnce() -> EventKind) {
        if let Some(events) = &self.inner.events {
            events.notify(self.redaction(), kind());
        }
    }

    fn warn(&self, message: impl Into<String>) {
        self.log(LogLevel::Warn, message).ok();
    }

    fn log_once(&self, level: LogLevel, message: String) -> Result<()> {
        if self.is_first_time(format!("{}: {message}", self.skill())) {
            self.log(level, message)
        } else {
            Ok(())
        }
    }

    fn learn_secret(&self, name: &str, value: &str) {
        if let Some(recorder) = self.call_recorder() {
            recorder.add_secret(self.run_id(), name, value);
        }
        let runs = std::iter::successors(Some(self), |ctx| ctx.caller());
        runs.for_each(|ctx| ctx.inner.redaction.learn(name, value));
    }

    fn learn_secrets(&self, others: &Redaction) {
        self.inner.redaction.learn_from(others);
        if let Some(caller) = &self.inner.caller {
            caller.learn_secrets(others);
        }
    }

    fn redaction(&self) -> &Redaction {
        // A caller learns the secrets of the skills that it calls.
        self.inner.caller.as_ref().map_or(&self.inner.redaction, |caller| caller.redaction())
    }

    fn value_redaction(&self) -> &Redaction {
        &self.inner.redaction
    }

    fn take_log(&self) -> Vec<LogLine> {
        self.take_redacted_log().into_inner()
    }

    fn take_redacted_log(&self) -> Redacted<Vec<LogLine>> {
        let lines = self.inner.log.take().into_iter().map(|line| (line.level, line.message));
        let (levels, messages): (Vec<_>, Vec<_>) = lines.unzip();
        let of_level = |(level, message)| LogLine { level, message };
        self.redaction()
            .lines(messages)
            .map(|messages| levels.into_iter().zip(messages).map(of_level).collect())
    }
}
