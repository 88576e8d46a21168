//! Log lines and progress of a run, with the values of its secrets removed.

use std::sync::PoisonError;

use super::SkillContext;
use crate::error::Result;
use crate::host::event::EventKind;
use crate::host::log::{LogLevel, LogLine, Progress, RunLog};
use crate::host::redaction::{Redacted, Redaction};

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

/// For the other packages of metier; may change in any release.
#[doc(hidden)]
impl SkillContext {
    /// Logs a warning. If the log is full, the run does not fail.
    pub fn warn(&self, message: impl Into<String>) {
        self.log(LogLevel::Warn, message).ok();
    }

    /// Writes a log line at most once for the run and all that it calls.
    pub fn log_once(&self, level: LogLevel, message: String) -> Result<()> {
        if self.is_first_time(format!("{}: {message}", self.skill())) {
            self.log(level, message)
        } else {
            Ok(())
        }
    }

    /// From now on, `[secret:NAME]` replaces this value in the output of the run and of those that called it.
    pub fn learn_secret(&self, name: &str, value: &str) {
        if let Some(recorder) = self.call_recorder() {
            recorder.add_secret(self.run_id(), name, value);
        }
        let runs = std::iter::successors(Some(self), |ctx| ctx.caller());
        runs.for_each(|ctx| ctx.inner.redaction.learn(name, value));
    }

    /// From now on, secrets that were given to other runs are replaced by their names in the output of this run and of those that
    /// called it.
    #[cfg_attr(not(unix), allow(dead_code, reason = "only processes know secrets of earlier runs"))]
    pub fn learn_secrets(&self, others: &Redaction) {
        self.inner.redaction.learn_from(others);
        if let Some(caller) = &self.inner.caller {
            caller.learn_secrets(others);
        }
    }

    /// The secrets to remove from the run's messages: its own, and those of the runs that called it, since its messages are cut
    /// and kept where their origin is not known.
    pub fn redaction(&self) -> &Redaction {
        // A caller learns the secrets of the skills that it calls.
        self.inner.caller.as_ref().map_or(&self.inner.redaction, |caller| caller.redaction())
    }

    /// The secrets to remove from its value: its own. Its caller's secrets may be returned to the caller.
    pub fn value_redaction(&self) -> &Redaction {
        &self.inner.redaction
    }

    /// The log so far, without secrets that were added since (including those that span several lines); empty afterwards.
    pub fn take_log(&self) -> Vec<LogLine> {
        self.take_redacted_log().into_inner()
    }

    pub fn take_redacted_log(&self) -> Redacted<Vec<LogLine>> {
        let lines = self.inner.log.take().into_iter().map(|line| (line.level, line.message));
        let (levels, messages): (Vec<_>, Vec<_>) = lines.unzip();
        let of_level = |(level, message)| LogLine { level, message };
        self.redaction()
            .lines(messages)
            .map(|messages| levels.into_iter().zip(messages).map(of_level).collect())
    }
}
