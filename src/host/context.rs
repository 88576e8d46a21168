//! What one run reaches: the project's files, the skill's own, its permissions, limits and log. Scripts see it as `ctx`.

mod said;

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value;

use super::files::Files;
use super::journal::{Journal, Observer};
use super::providers::Providers;
use super::redaction::Redaction;
use super::report::{ProcessReport, SandboxReport};
use super::table::{function, unknown_function};
use crate::error::{ErrorKind, Result, SkillError};
use crate::policy::{CancelToken, Isolation, Limits, Permissions, Worker};

/// The context of one run. Made by the engine; executors call host functions through it and stop when it says so.
///
/// Cloning is cheap and gives the same context.
#[derive(Clone)]
pub struct SkillContext(Arc<Inner>, CancelToken);

struct Inner {
    skill: String,
    project: Option<Files>,
    skill_files: Option<Files>,
    permissions: Permissions,
    limits: Limits,
    isolation: Isolation,
    worker: Option<Worker>,
    journal: Journal,
    observer: Option<Arc<dyn Observer>>,
    providers: Providers,
    caller: Option<SkillContext>,
    handed_on: Option<Limits>,
    redaction: Redaction,
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
            isolation: Isolation::default(),
            worker: None,
            cancel: CancelToken::new(),
            observer: None,
            providers: Providers::default(),
            caller: None,
            handed_on: None,
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

    /// How many skills called one another to get here; 0 for the one that was invoked first.
    pub fn depth(&self) -> usize {
        self.0.caller.as_ref().map_or(0, |caller| caller.depth() + 1)
    }

    /// How much the run may use.
    pub fn limits(&self) -> &Limits {
        &self.0.limits
    }

    /// Whether the process of an external script answers further runs.
    pub fn worker(&self) -> Option<Worker> {
        self.0.worker
    }

    /// How firmly a process must be held before it may start.
    pub fn isolation(&self) -> Isolation {
        self.0.isolation
    }

    /// The limits of skills that this one calls: as its own caller named them, whatever the runtime made of them.
    pub fn limits_handed_on(&self) -> &Limits {
        self.0.handed_on.as_ref().unwrap_or(&self.0.limits)
    }

    /// The token that stops the run, at the caller's word or at its deadline.
    pub fn cancel(&self) -> &CancelToken {
        &self.1
    }

    /// The same context for a part of the run that may have to stop before the run does.
    pub(crate) fn under(&self, cancel: CancelToken) -> Self {
        Self(self.0.clone(), cancel)
    }

    /// Records how the run's process ended, also when the run fails.
    pub fn report_process(&self, report: ProcessReport) {
        self.0.report.lock().unwrap_or_else(PoisonError::into_inner).0 = Some(report);
    }

    /// Records which isolation held. Of several reports the weaker counts: a skill that calls one without a sandbox has none.
    pub fn report_sandbox(&self, report: SandboxReport) {
        let mut reports = self.0.report.lock().unwrap_or_else(PoisonError::into_inner);
        reports.1 = Some(reports.1.map_or(report, |earlier| earlier.weaker(report)));
    }

    /// What was recorded so far; empty afterwards.
    pub fn take_reports(&self) -> (Option<ProcessReport>, Option<SandboxReport>) {
        std::mem::take(&mut *self.0.report.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Puts a [`SkillContext`] together.
pub struct ContextBuilder {
    skill: String,
    project: Option<Files>,
    skill_files: Option<Files>,
    permissions: Permissions,
    limits: Limits,
    isolation: Isolation,
    worker: Option<Worker>,
    cancel: CancelToken,
    observer: Option<Arc<dyn Observer>>,
    providers: Providers,
    caller: Option<SkillContext>,
    handed_on: Option<Limits>,
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

    /// How firmly a process must be held before it may start; `required` when never said.
    pub fn isolation(mut self, isolation: Isolation) -> Self {
        self.isolation = isolation;
        self
    }

    /// Whether the process of an external script answers further runs; not when never said.
    pub fn worker(mut self, worker: Option<Worker>) -> Self {
        self.worker = worker;
        self
    }

    /// The limits of skills that this one calls; its own when never said.
    pub fn limits_handed_on(mut self, limits: Limits) -> Self {
        self.handed_on = Some(limits);
        self
    }

    /// The run whose skill calls this one. What this one says goes to its caller's log and observer.
    pub fn called_by(mut self, caller: SkillContext) -> Self {
        self.caller = Some(caller);
        self
    }

    /// The context.
    pub fn build(self) -> SkillContext {
        let inner = Arc::new(Inner {
            skill: self.skill,
            project: self.project,
            skill_files: self.skill_files,
            permissions: self.permissions,
            journal: Journal::new(self.limits.output),
            limits: self.limits,
            isolation: self.isolation,
            worker: self.worker,
            observer: self.observer,
            providers: self.providers,
            caller: self.caller,
            handed_on: self.handed_on,
            redaction: Redaction::default(),
            report: Mutex::default(),
        });
        SkillContext(inner, self.cancel)
    }
}
