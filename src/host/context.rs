//! What one run reaches: the project's files, the skill's own, its permissions, limits and log. Scripts see it as `ctx`.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value;

use super::files::Files;
use super::journal::{Journal, LogLevel, LogLine, Observer, Progress};
use super::providers::Providers;
use super::report::{ProcessReport, SandboxReport};
use super::table::{function, unknown_function};
use crate::error::{ErrorKind, Result, SkillError};
use crate::policy::{CancelToken, Limits, Permissions};

/// The context of one run. Made by the engine; executors call host functions through it and stop when it says so.
///
/// Cloning is cheap and gives the same context.
#[derive(Clone)]
pub struct SkillContext(Arc<Inner>);

struct Inner {
    skill: String,
    project: Option<Files>,
    skill_files: Option<Files>,
    permissions: Permissions,
    limits: Limits,
    cancel: CancelToken,
    journal: Journal,
    observer: Option<Arc<dyn Observer>>,
    providers: Providers,
    depth: usize,
    report: Mutex<(Option<ProcessReport>, Option<SandboxReport>)>,
}

impl SkillContext {
    /// A context for the skill of that name: nothing granted, no files, default limits.
    pub fn builder(skill: impl Into<String>) -> ContextBuilder {
        ContextBuilder {
            skill: skill.into(),
            project: None,
            skill_files: None,
            permissions: Permissions::read_only(),
            limits: Limits::default(),
            cancel: CancelToken::new(),
            observer: None,
            providers: Providers::default(),
            depth: 0,
        }
    }

    /// Calls a host function by name, as a script would.
    pub fn call(&self, name: &str, arguments: Vec<Value>) -> Result<Value> {
        function(name).ok_or_else(|| unknown_function(name))?.call(self, arguments)
    }

    /// The skill's name.
    pub fn skill(&self) -> &str {
        &self.0.skill
    }

    /// The project's files; `unavailable` when the run has no project.
    pub fn project(&self) -> Result<&Files> {
        self.0.project.as_ref().ok_or_else(|| {
            SkillError::new(ErrorKind::Unavailable, "this run has no project, so it has no files")
        })
    }

    /// The project's root, where there is one.
    pub fn project_root(&self) -> Option<&Path> {
        self.0.project.as_ref().map(Files::root)
    }

    /// The skill's own files, read-only; `unavailable` when the script has no folder.
    pub fn skill_files(&self) -> Result<&Files> {
        self.0.skill_files.as_ref().ok_or_else(|| {
            SkillError::new(ErrorKind::Unavailable, "this script has no skill folder, so it has no assets")
        })
    }

    /// What the run may do.
    pub fn permissions(&self) -> &Permissions {
        &self.0.permissions
    }

    /// What the host offers beside files.
    pub fn providers(&self) -> &Providers {
        &self.0.providers
    }

    /// How many skills called one another to get here; 0 for the one the caller invoked.
    pub fn depth(&self) -> usize {
        self.0.depth
    }

    /// Who hears the run while it runs, where somebody does.
    pub fn observer(&self) -> Option<&Arc<dyn Observer>> {
        self.0.observer.as_ref()
    }

    /// How much the run may use.
    pub fn limits(&self) -> &Limits {
        &self.0.limits
    }

    /// The token that stops the run, at the caller's word or at its deadline.
    pub fn cancel(&self) -> &CancelToken {
        &self.0.cancel
    }

    /// Writes a log line; `output` when the log is full.
    pub fn log(&self, level: LogLevel, message: impl Into<String>) -> Result<()> {
        let line = LogLine { level, message: message.into() };
        let Some(observer) = &self.0.observer else { return self.0.journal.log(line) };
        self.0.journal.log(line.clone())?;
        observer.logged(&line);
        Ok(())
    }

    /// Tells whoever listens how far the run has come.
    pub fn progress(&self, progress: &Progress) {
        if let Some(observer) = &self.0.observer {
            observer.progressed(progress);
        }
    }

    /// Records how the run's process ended, also when the run fails.
    pub fn report_process(&self, report: ProcessReport) {
        self.0.report.lock().unwrap_or_else(PoisonError::into_inner).0 = Some(report);
    }

    /// Records which isolation held.
    pub fn report_sandbox(&self, report: SandboxReport) {
        self.0.report.lock().unwrap_or_else(PoisonError::into_inner).1 = Some(report);
    }

    /// What was recorded so far; empty afterwards.
    pub fn take_reports(&self) -> (Option<ProcessReport>, Option<SandboxReport>) {
        std::mem::take(&mut *self.0.report.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The log so far; empty afterwards.
    pub fn take_log(&self) -> Vec<LogLine> {
        self.0.journal.take()
    }
}

/// Puts a [`SkillContext`] together.
pub struct ContextBuilder {
    skill: String,
    project: Option<Files>,
    skill_files: Option<Files>,
    permissions: Permissions,
    limits: Limits,
    cancel: CancelToken,
    observer: Option<Arc<dyn Observer>>,
    providers: Providers,
    depth: usize,
}

impl ContextBuilder {
    /// The project whose files the run may see.
    pub fn project(mut self, files: Files) -> Self {
        self.project = Some(files);
        self
    }

    /// The skill's own folder, for `asset`.
    pub fn skill_files(mut self, files: Files) -> Self {
        self.skill_files = Some(files);
        self
    }

    /// What the run may do.
    pub fn permissions(mut self, permissions: Permissions) -> Self {
        self.permissions = permissions;
        self
    }

    /// How much the run may use. The deadline is held by whoever arms a watchdog on the cancel token.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// The token that stops the run.
    pub fn cancel(mut self, cancel: CancelToken) -> Self {
        self.cancel = cancel;
        self
    }

    /// Who hears the run while it runs.
    pub fn observer(mut self, observer: Arc<dyn Observer>) -> Self {
        self.observer = Some(observer);
        self
    }

    /// What the host offers beside files; nothing when never said.
    pub fn providers(mut self, providers: Providers) -> Self {
        self.providers = providers;
        self
    }

    /// How many skills called one another to get here; 0 for the one the caller invoked.
    pub fn depth(mut self, depth: usize) -> Self {
        self.depth = depth;
        self
    }

    /// The context.
    pub fn build(self) -> SkillContext {
        SkillContext(Arc::new(Inner {
            skill: self.skill,
            project: self.project,
            skill_files: self.skill_files,
            permissions: self.permissions,
            journal: Journal::new(self.limits.output),
            limits: self.limits,
            cancel: self.cancel,
            observer: self.observer,
            providers: self.providers,
            depth: self.depth,
            report: Mutex::default(),
        }))
    }
}
