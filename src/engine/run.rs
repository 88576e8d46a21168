//! The pipeline: resolve, select, check the input, load, permit, execute, check the value, redact, bound. Each step makes one
//! new value. A skill that another one calls goes the same way, under its caller's token, limits and permissions.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::applied::{self, limits_of};
use super::asked::asks_of;
use super::bound::Bound;
use super::callable::besides;
use super::contract::{checked_input, checked_value, narrowed};
use super::invocation::Remembered;
use super::outcome::Left;
use super::select::{Selected, select};
use super::{Invocation, Outcome, Parts, dependencies, worker};
use crate::error::{ErrorKind, Result, SkillError};
use crate::executor::{Script, SkillExecutor, SkillInput, SkillRuntime};
use crate::host::{ContextBuilder, Files, LogLevel, Promised, SkillContext, guarded, is_left};
use crate::plan;
use crate::policy::{Asked, CancelToken, Limits, Permissions, Protection, Threads};
use crate::registry::{Folder, Skill};

/// When a run that began then must have ended.
pub(super) fn latest(began: Instant, limits: &Limits) -> Instant {
    /// The clock cannot hold more; a century is as good as no deadline.
    const LONGEST: Duration = Duration::from_hours(100 * 365 * 24);
    began + limits.deadline.min(LONGEST)
}

impl Parts {
    pub(super) fn run(&self, invocation: Invocation) -> Outcome {
        let started = Instant::now();
        let by = invocation.caller.as_ref().and_then(SkillContext::qualified);
        let found = self.meant(self.called(by), &invocation.skill);
        let given = invocation.limits.clone().unwrap_or_else(|| self.limits.clone());
        let limits = found.as_ref().map_or(given.clone(), |skill| narrowed(skill, given));
        let token = invocation.cancel.child();
        let observer = invocation.observer.clone();
        let _told = observer.map(|observer| token.on_stop(move |cause| observer.stopped(cause)));
        let _armed = self.watchdog.arm(latest(started, &limits), &token);
        let found = is_left().and(found);
        let mut outcome = match found {
            Ok(skill) => self.run_skill(skill, invocation, limits, token),
            Err(error) => Outcome::not_run(invocation.skill, None, &limits, error),
        };
        outcome.duration = started.elapsed();
        outcome
    }

    fn run_skill(
        &self,
        skill: &Skill,
        mut invocation: Invocation,
        limits: Limits,
        token: CancelToken,
    ) -> Outcome {
        let (name, version) = (skill.name().to_owned(), Some(skill.version().to_string()));
        let selected = match select(skill, invocation.script.as_deref()) {
            Ok(selected) => selected,
            Err(error) => return Outcome::not_run(name, version, &limits, error),
        };
        let given = limits.clone();
        let (limits, not_applied) = limits_of(skill, &selected, limits);
        let not_run = |error| Outcome::not_run(name.clone(), version.clone(), &limits, error);
        let input = dependencies::required(skill, &self.registry)
            .and_then(|()| contract(|| checked_input(skill, invocation.input.take())));
        let input = match input {
            Ok(input) => SkillInput { value: input, args: std::mem::take(&mut invocation.args) },
            Err(error) => return not_run(error).not_applied(not_applied),
        };
        let prepared = self.prepared(skill, &selected, &invocation, &limits, token);
        let prepared = prepared.and_then(|(executor, context)| {
            let worker = worker::asked_for(skill.manifest(), selected.runtime, &given)?;
            Ok((executor, context.worker(worker)))
        });
        let is_in_process = selected.runtime != SkillRuntime::External;
        let promised = Promised::to_run(limits.of_host(is_in_process));
        let (_promised, (executor, context)) = match promised.and_then(|promised| Ok((promised, prepared?))) {
            Ok((promised, (executor, context))) => {
                (promised, (executor, context.limits_handed_on(given).build()))
            }
            Err(error) => return not_run(error).not_applied(not_applied),
        };
        let limits = worker::held_by(context.worker(), &limits);
        let warned = applied::warning(selected.runtime, &not_applied);
        let warned = warned.map_or(Ok(()), |warning| context.log_once(LogLevel::Warn, warning));
        let result = warned
            .and_then(|()| context.cancel().check())
            .and_then(|()| runtime(|| executor.execute_with_context(input, Some(&context))));
        let redaction = context.redaction();
        let (process, sandbox) = context.take_reports();
        let bound = Bound::of(&limits, process.as_ref());
        let result = result
            .and_then(|output| contract(|| checked_value(skill, output.value)))
            .map(|value| bound.redacted(context.redaction_of_value(), value))
            .and_then(|value| bound.hold(value))
            .map_err(|error| redaction.error(error));
        let process = process.map(|report| redaction.process(report));
        tracing::debug!(skill = name, ok = result.is_ok(), "ran");
        let left = Left {
            result,
            log: context.take_redacted_log(),
            process,
            steps: context.take_redacted_steps(),
            sandbox,
        };
        Outcome::of_run(name, version, &limits, left)
            .cut(bound.was_cut())
            .not_applied(not_applied)
            .stopped_by(context.cancel().cause())
    }

    /// The script as its runtime loads it.
    pub(super) fn script(&self, skill: &Skill, selected: &Selected) -> Result<Script> {
        self.script_and_files(skill, selected).map(|(script, _)| script)
    }

    /// The script, and the very folder it came from, whatever becomes of its path.
    fn script_and_files(&self, skill: &Skill, selected: &Selected) -> Result<(Script, Files)> {
        let folder = self.shipped.folder(skill.folder())?;
        let files = Files::open(&folder)?;
        let source = match skill.folder() {
            Folder::Disk(_) => Folder::read_in(&files, &selected.path, Limits::FILE)?,
            shipped @ Folder::Shipped(_) => shipped.read(&selected.path, Limits::FILE)?,
        };
        let script = Script {
            skill: skill.name().to_owned(),
            path: selected.path.clone(),
            source: source.into(),
            folder: Some(folder),
            function: selected.function.clone(),
        };
        Ok((script, files))
    }

    pub(super) fn prepared(
        &self,
        skill: &Skill,
        selected: &Selected,
        invocation: &Invocation,
        limits: &Limits,
        token: CancelToken,
    ) -> Result<(Arc<dyn SkillExecutor>, ContextBuilder)> {
        token.check()?;
        let (script, files) = self.script_and_files(skill, selected)?;
        let mode = invocation.execution.unwrap_or(self.execution);
        let executor = runtime(|| self.loaded.load(selected.runtime, &script, mode, &token))?;
        let asked = besides(asks_of(skill, selected.runtime), executor.asks());
        let context = SkillContext::builder(skill.name())
            .qualified(skill.qualified())
            .project(Files::open_itself(&self.project)?.remembering(&self.secret_links))
            .skill_files(files)
            .permissions(self.permitted(skill, asked, invocation))
            .limits(limits.clone())
            .isolation(invocation.isolation.unwrap_or(self.isolation))
            .execution_mode(mode)
            .providers(self.providers.clone())
            .threads(Threads::new(self.threads))
            .cancel(token);
        let context = match selected.runtime {
            SkillRuntime::External => context.host_memory(limits.host_memory_of_process()),
            _ => context,
        };
        let context = match &invocation.observer {
            Some(observer) => context.observer(observer.clone()),
            None => context,
        };
        let context = match &invocation.caller {
            Some(caller) => context.called_by(caller.clone()),
            None => context,
        };
        let context = match journal_file(invocation, skill, selected)? {
            Some(file) => context.journal_file(file),
            None => context,
        };
        Ok((executor, context))
    }

    fn permitted(&self, skill: &Skill, asked: Asked, invocation: &Invocation) -> Permissions {
        let permissions = if let Some(caller) = &invocation.caller {
            caller.permissions().handed_on(caller.skill(), skill.name(), asked)
        } else {
            let protection = Protection::new(self.protected.iter().cloned());
            Permissions::new(asked, invocation.granted.iter().cloned(), protection)
        };
        let names_some = skill.contract().is_some_and(|contract| contract.permissions.is_some());
        match skill.contract_file().filter(|_| names_some) {
            Some(contract) => permissions.listed_in(contract),
            None => permissions,
        }
    }
}

/// Where the run remembers its steps, where it is to. Only plans have any.
fn journal_file(invocation: &Invocation, skill: &Skill, selected: &Selected) -> Result<Option<PathBuf>> {
    let is_plan = selected.runtime == SkillRuntime::ToolSequence;
    match &invocation.journal {
        Some(Remembered::In(folder)) if is_plan => Ok(Some(plan::file_of(folder, skill.name()))),
        Some(Remembered::In(_)) => {
            let sentence =
                format!("skill {} runs no plan, so there is nothing to keep a journal of", skill.name());
            Err(SkillError::new(ErrorKind::Usage, sentence).with_help("run it without --journal"))
        }
        Some(Remembered::At(file)) if is_plan => Ok(Some(file.clone())),
        _ => Ok(None),
    }
}

/// A panic in there is a defect of ours or of an embedder's executor; it must not take the host down.
fn runtime<T>(work: impl FnOnce() -> Result<T>) -> Result<T> {
    guarded("the runtime", ErrorKind::Script, work)
}

/// The same for what holds values against schemas.
fn contract<T>(work: impl FnOnce() -> Result<T>) -> Result<T> {
    guarded("the contract", ErrorKind::InvalidSkill, work)
}
