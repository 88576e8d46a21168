//! What leaves a run while it runs: log lines and progress, without the secrets it was handed.

use std::sync::PoisonError;

use super::SkillContext;
use crate::error::Result;
use crate::host::log::{LogLevel, LogLine, Progress};
use crate::host::redaction::{Redacted, Redaction};

impl SkillContext {
    /// Writes a log line, without secrets; `output` when the log is full.
    ///
    /// A skill that another one called writes to the log of its caller: `name: message`.
    pub fn log(&self, level: LogLevel, message: impl Into<String>) -> Result<()> {
        if let Some(host) = self.host_api_client() {
            let level = serde_json::to_value(level).unwrap_or_default();
            return host.call("log", vec![level, message.into().into()]).map(drop);
        }
        let message = self.redaction().text(message.into());
        if let Some(caller) = &self.0.caller {
            return caller.log(level, self.with_skill_prefix(message.as_inner()));
        }
        let line = LogLine::new(level, message);
        let Some(observer) = &self.0.observer else { return self.0.log.log(line) };
        self.0.log.log(line.clone())?;
        observer.on_log(line.as_inner());
        Ok(())
    }

    /// Writes a log line that the run and all that it calls write once, however often there is a reason.
    pub(crate) fn log_once(&self, level: LogLevel, message: String) -> Result<()> {
        if self.is_first_time(format!("{}: {message}", self.skill())) {
            self.log(level, message)
        } else {
            Ok(())
        }
    }

    fn is_first_time(&self, line: String) -> bool {
        match &self.0.caller {
            Some(caller) => caller.is_first_time(line),
            None => self.0.logged_lines.lock().unwrap_or_else(PoisonError::into_inner).insert(line),
        }
    }

    /// Whether a line of so many bytes could ever be kept; `output` where not.
    pub(in crate::host) fn check_line_fits(&self, bytes: usize) -> Result<()> {
        self.0.log.check_line_fits(bytes)
    }

    /// Tells whoever listens how far the run has come, without secrets; marked as log lines are.
    pub fn progress(&self, progress: &Progress) {
        self.forward_progress(progress, None);
    }

    /// Passes on what this run says of itself, or what a skill says that a step of its plan runs.
    fn forward_progress(&self, progress: &Progress, step: Option<usize>) {
        let message = self.redaction().text(progress.message.clone());
        if let Some(caller) = &self.0.caller {
            caller.forward_progress(
                &Progress { message: self.with_skill_prefix(message.as_inner()), ..*progress },
                caller.3,
            );
        } else if let Some(observer) = &self.0.observer {
            let progress = Progress { message: message.into_inner(), ..*progress };
            match step {
                Some(step) => observer.on_step_progress(step, &progress),
                None => observer.on_progress(&progress),
            }
        }
    }

    fn with_skill_prefix(&self, message: &str) -> String {
        format!("{}: {message}", self.skill())
    }

    /// From now on this value leaves the run, and those that called it, as `[secret:NAME]`.
    pub(crate) fn learn_secret(&self, name: &str, value: &str) {
        self.0.redaction.learn(name, value);
        if let Some(caller) = &self.0.caller {
            caller.learn_secret(name, value);
        }
    }

    /// From now on what others were handed leaves this run by its name as well, and those that called it.
    #[cfg_attr(not(unix), allow(dead_code, reason = "only processes know secrets of earlier runs"))]
    pub(crate) fn learn_secrets(&self, others: &Redaction) {
        self.0.redaction.learn_from(others);
        if let Some(caller) = &self.0.caller {
            caller.learn_secrets(others);
        }
    }

    /// The secrets that are not to leave with what the run says: its own, and those of the runs that called it, since its
    /// words are cut and kept where they are not known to be theirs.
    pub(crate) fn redaction(&self) -> &Redaction {
        // A caller learns whatever the skills that it calls learn.
        self.0.caller.as_ref().map_or(&self.0.redaction, |caller| caller.redaction())
    }

    /// The secrets that are not to leave with its value: its own. What its caller handed in it may hand back.
    pub(crate) fn value_redaction(&self) -> &Redaction {
        &self.0.redaction
    }

    /// The log so far, without secrets that became known since, those over several lines included; empty afterwards.
    pub fn take_log(&self) -> Vec<LogLine> {
        self.take_redacted_log().into_inner()
    }

    pub(crate) fn take_redacted_log(&self) -> Redacted<Vec<LogLine>> {
        let lines = self.0.log.take().into_iter().map(|line| (line.level, line.message));
        let (levels, messages): (Vec<_>, Vec<_>) = lines.unzip();
        let of_level = |(level, message)| LogLine { level, message };
        self.redaction()
            .lines(messages)
            .map(|messages| levels.into_iter().zip(messages).map(of_level).collect())
    }
}
