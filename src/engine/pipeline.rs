//! The pipeline of a run: resolve, select, validate the input, load, decide permissions, execute, validate the value, redact,
//! enforce the output cap. Each step produces one new value. A skill that another one calls takes the same path, under its
//! caller's token, limits and permissions.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::invocation::JournalTarget;
use super::{EngineInner, Invocation, Outcome, worker};
use crate::engine::approval_memory::ForModel;
use crate::engine::builder::with_validated_tools;
use crate::engine::confirmation::{ask_before_run, called_tool};
use crate::engine::contract_validation::{validate_input, validate_value};
use crate::engine::folder_lock::{FolderLock, may_change_folder};
use crate::engine::host_capabilities::require_capabilities;
use crate::engine::limit_support;
use crate::engine::output_cap::OutputCap;
use crate::engine::requested_permissions::{declared_permissions, with_permissions};
use crate::engine::run_target::RunTarget;
use crate::engine::script_selection::SelectedScript;
use crate::engine::sensitivity::require_person;
use crate::engine::skill_set::{Attempts, SkillSet};
use crate::engine::trust::RunTrust;
use crate::error::{ErrorKind, Hint, Result, SkillError};
use crate::executor::{RuntimeId, Script, ScriptTool, SkillExecutor, SkillInput};
use crate::host::outcome::{RedactedOutcome, RunWarning};
use crate::host::{
    AddressSpaceReservation, ContextBuilder, Environment, EventKind, Files, LogLevel, OutputSinks, Providers,
    Redaction, RunEvents, RunId, RunThreadGuard, SandboxReport, SkillContext, StdinSource, catch_panic,
    check_memory_reserve,
};
use crate::plan;
use crate::policy::{
    CancelToken, DeadlineGuard, GrantOrigin, GrantReport, Limits, Permission, Permissions,
    RequestedPermissions, SkillDigest, ThreadBudget, WorkerOptions,
};
use crate::registry::{FileList, Skill, SkillFolder, command_skill};
use crate::runtimes;

/// The deadline of a run that began at `began`.
pub(super) fn run_deadline(began: Instant, limits: &Limits) -> Instant {
    /// The clock cannot represent more; a century is as good as no deadline.
    const MAX_TIMEOUT: Duration = Duration::from_hours(100 * 365 * 24);
    began + limits.timeout.min(MAX_TIMEOUT)
}

/// A run whose deadline has started.
struct RunStart {
    found: Result<FoundSkill>,
    limits: Limits,
    armed: DeadlineGuard,
}

/// A skill, the set it was found in, and the script that was selected and read, or why not.
struct FoundSkill {
    set: Arc<SkillSet>,
    skill: Skill,
    script: Result<(SelectedScript, Result<(Script, Files)>)>,
    /// What is known about its trust, in engines that ask.
    trust: Option<Result<RunTrust>>,
}

impl FoundSkill {
    fn runtime(&self) -> Option<RuntimeId> {
        self.script.as_ref().ok().map(|(selected, _)| selected.runtime)
    }

    fn is_untrusted(&self) -> bool {
        matches!(&self.trust, Some(Err(error)) if error.kind() == ErrorKind::Untrusted)
    }

    /// The folder from which the script was read.
    fn folder(&self) -> Option<&Files> {
        self.script.as_ref().ok()?.1.as_ref().ok().map(|(_, files)| files)
    }
}

impl EngineInner {
    pub(super) fn run(&self, invocation: Invocation) -> Outcome {
        let _for_run = RunThreadGuard::enter();
        let started = Instant::now();
        let token = invocation.cancel.child();
        let start = catch_panic("the engine", ErrorKind::Unavailable, || {
            Ok(self.start_run(&invocation, started, &token))
        });
        let RunStart { found, limits, armed: _armed } =
            start.unwrap_or_else(|error| self.failed_start(&invocation, started, &token, error));
        let run_id = RunId::next();
        let name = found.as_ref().map_or(invocation.skill.as_str(), |found| found.skill.name());
        let span = tracing::info_span!("run", skill = name, %run_id);
        let _entered = span.enter();
        let events = run_events(&invocation, run_id, name);
        let caller = events.as_ref().and_then(|_| invocation.caller.clone());
        if let Some(events) = &events {
            events.notify(&Redaction::default(), self.start_event(found.as_ref().ok(), &invocation));
        }
        let _stopping = events.clone().map(|events| {
            token.on_stop_last(move |cause| {
                events.notify(&Redaction::default(), EventKind::Stopping { cause });
            })
        });
        let runtime = found.as_ref().ok().and_then(FoundSkill::runtime);
        let mut outcome = match found {
            Ok(found) => self.run_skill(found, invocation, limits, token, (run_id, &span, events.clone())),
            Err(error) => Outcome::not_run(invocation.skill, None, &limits, error),
        };
        outcome.warnings.extend(self.helper_warning(runtime, &outcome));
        outcome.duration = started.elapsed();
        let Some(events) = events else { return outcome };
        match caller {
            Some(caller) => events.finish(caller.redaction(), outcome),
            None => events.finish(&Redaction::default(), outcome),
        }
    }

    /// The warning about a missing helper program, for a run that paid for it: whose process was started by a copy of this one,
    /// or whose module was not compiled.
    fn helper_warning(&self, runtime: Option<RuntimeId>, outcome: &Outcome) -> Option<RunWarning> {
        let services = self.script_cache.services();
        let is_in_sandbox =
            |report: SandboxReport| ![SandboxReport::NONE, SandboxReport::IN_PROCESS].contains(&report);
        let is_unavailable =
            || outcome.result.as_ref().is_err_and(|error| error.kind() == ErrorKind::Unavailable);
        let is_concerned = outcome.sandbox.is_some_and(is_in_sandbox)
            || runtime == Some(RuntimeId::WASM) && !services.compiles_in_process() && is_unavailable();
        let warning =
            (is_concerned && runtimes::starts_from_copy(services)).then_some(RunWarning::NoHelperProgram)?;
        if !self.has_warned.swap(true, Ordering::Relaxed) {
            tracing::warn!(help = warning.help(), "{warning}");
        }
        Some(warning)
    }

    /// The outcome of a run that does not start; its observer receives it too.
    pub(super) fn refuse(&self, invocation: &Invocation, error: SkillError) -> Outcome {
        let limits = invocation.limits.as_ref().unwrap_or(&self.limits);
        let outcome = Outcome::not_run(invocation.skill.clone(), None, limits, error);
        let Some(events) = run_events(invocation, RunId::next(), &invocation.skill) else { return outcome };
        events.notify(&Redaction::default(), self.start_event(None, invocation));
        events.finish(&Redaction::default(), outcome)
    }

    fn start_event(&self, found: Option<&FoundSkill>, invocation: &Invocation) -> EventKind {
        let skill = found.map(|found| &found.skill);
        let script = found.and_then(|found| found.script.as_ref().ok()).map(|(selected, _)| selected);
        let folder = found.map(|found| self.folders.of_run(&found.set, &found.skill, invocation));
        EventKind::Started {
            qualified_name: skill.map(Skill::qualified_name),
            version: skill.map(|skill| skill.version().to_string()),
            runtime: script.map(|script| script.runtime.name()),
            script: script.map(|script| script.path.clone()),
            project: folder.and_then(Result::ok).map(|(_, folder)| folder.path.clone()),
            step: invocation.caller.as_ref().and_then(SkillContext::step),
        }
    }

    fn failed_start(
        &self,
        invocation: &Invocation,
        started: Instant,
        token: &CancelToken,
        error: SkillError,
    ) -> RunStart {
        let limits = invocation.limits.as_ref().unwrap_or(&self.limits).clone();
        let armed = self.watchdog.arm(run_deadline(started, &limits), token);
        RunStart { found: Err(error), limits, armed }
    }

    /// Finds the skill, reads its script and starts the deadline. `SKILL.md` and contract are compared with those that were read
    /// after the script was read, so the permissions and the script of a run were on disk at the same time.
    fn start_run(&self, invocation: &Invocation, started: Instant, token: &CancelToken) -> RunStart {
        let by = invocation.caller.as_ref().and_then(SkillContext::qualified_name);
        let folder = self.folders.before_lookup(invocation);
        let mut attempts = Attempts::default();
        let mut trusted_namesake: Option<String> = None;
        let is_for_model = invocation.extensions.get::<ForModel>().is_some();
        loop {
            let set = self.skills.set();
            let name = trusted_namesake.as_deref().unwrap_or(&invocation.skill);
            let found = check_memory_reserve().and_then(|()| {
                if invocation.is_command {
                    return command_skill();
                }
                let found = set.registry.find_for_run(by, folder, name).cloned();
                found.map_err(|error| self.lookup_error(error, name, is_for_model))
            });
            let limits = match &found {
                Ok(skill) => self.run_limits(skill, invocation),
                Err(_) => invocation.limits.as_ref().unwrap_or(&self.limits).clone(),
            };
            let armed = self.watchdog.arm(run_deadline(started, &limits), token);
            let found = found.map(|skill| {
                // Its files are listed before the script is read, and the script is compared with the list.
                let trust = self.run_trust(&set, &skill, invocation, token);
                let listed = trust.as_ref().and_then(|trust| trust.as_ref().ok()?.list());
                let selected = self
                    .check_enabled(&skill)
                    .and_then(|()| self.selected_script(&skill, invocation.script_choice()?));
                let script = selected.map(|selected| {
                    let opened = self.open_listed_script(&skill, &selected, listed, token);
                    (selected, opened)
                });
                FoundSkill { set: set.clone(), skill, script, trust }
            });
            if trusted_namesake.is_none() && found.as_ref().is_ok_and(FoundSkill::is_untrusted) {
                trusted_namesake = self.trusted_namesake(&set, invocation, folder, token);
                if trusted_namesake.is_some() {
                    continue;
                }
            }
            let skill = found.as_ref().ok().map(|found| &found.skill);
            let opened = found.as_ref().ok().and_then(FoundSkill::folder);
            if !self.skills.refresh_changed(&set, &invocation.skill, skill, opened) {
                return RunStart { found, limits, armed };
            }
            if let Err(error) = attempts.next(&invocation.skill) {
                return RunStart { found: Err(error), limits, armed };
            }
        }
    }

    fn run_skill(
        &self,
        FoundSkill { set, skill, script, trust }: FoundSkill,
        mut invocation: Invocation,
        limits: Limits,
        token: CancelToken,
        run: (RunId, &tracing::Span, Option<Arc<RunEvents>>),
    ) -> Outcome {
        let not_run = |limits: &Limits, error| {
            Outcome::not_run(skill.name().to_owned(), Some(skill.version().to_string()), limits, error)
        };
        let trust = match trust.transpose() {
            Ok(trust) => trust,
            Err(error) => return not_run(&limits, error),
        };
        let (selected, opened) = match script {
            Ok(script) => script,
            Err(error) => return not_run(&limits, error),
        };
        let digest = trust.as_ref().and_then(RunTrust::digest);
        let is_for_these_files = trust.as_ref().is_some_and(|trust| trust.is_for_these_files(&invocation));
        self.add_configured_grants(&skill, &mut invocation);
        if let Some(trust) = &trust {
            trust.apply_to(&mut invocation);
        }
        self.withhold_configured_values((&set, &skill), trust.as_ref(), &mut invocation, &token);
        let found = (&set, &skill, digest, is_for_these_files);
        let outcome = self.run_script(found, (&selected, opened), &mut invocation, limits, token, run);
        let outcome = outcome.map_error(|error| skill.with_location_path(error, Some(&selected.path)));
        let mut grants = Vec::new();
        if invocation.caller.is_none() {
            let granted = std::mem::take(&mut invocation.grants).into_iter();
            grants.extend(granted.map(|(permission, origin)| GrantReport::new(permission, origin)));
            grants.extend(outcome.grants);
        }
        Outcome { grants, digest, ..outcome }
    }

    fn run_script(
        &self,
        (set, skill, digest, is_for_these_files): (&Arc<SkillSet>, &Skill, Option<SkillDigest>, bool),
        (selected, opened): (&SelectedScript, Result<(Script, Files)>),
        invocation: &mut Invocation,
        limits: Limits,
        token: CancelToken,
        (run_id, span, events): (RunId, &tracing::Span, Option<Arc<RunEvents>>),
    ) -> Outcome {
        let (name, version) = (skill.name().to_owned(), Some(skill.version().to_string()));
        let given = limits;
        let (limits, not_applied) = match self.effective_limits(skill, selected, given.clone()) {
            Ok(split) => split,
            Err(error) => return Outcome::not_run(name, version, &given, error),
        };
        let not_run = |error| Outcome::not_run(name.clone(), version.clone(), &limits, error);
        let target = RunTarget { skill, tool: selected.tool.as_deref() };
        let input = self
            .require_available(set, skill, invocation, &token)
            .and_then(|()| require_capabilities(skill, &self.run_providers(invocation)))
            .and_then(|()| catch_contract_panic(|| validate_input(target, invocation.input.take())));
        let input = match input {
            Ok(input) => SkillInput { value: input, args: std::mem::take(&mut invocation.args) },
            Err(error) => return not_run(error).with_unsupported_limits(not_applied),
        };
        let cancel = token.clone();
        let prepared = opened
            .and_then(|opened| self.prepare((set, skill), selected, opened, invocation, &limits, token));
        let prepared = prepared.and_then(|(executor, context)| {
            let worker = worker::requested_worker(skill.manifest(), selected.runtime, &given)?;
            let tool = || target.tool.map(|tool| called_tool(skill, tool));
            let context = context.arguments(input.value.as_ref(), &input.args, tool);
            // What a process has loaded is not run for other files.
            let files = worker.filter(|worker| !worker.is_single_run());
            let files = files.and_then(|_| Some(self.digests.list(skill, &cancel).ok()?.digest()));
            let context = context.worker_files(files);
            require_streams(invocation, selected.runtime, worker)?;
            Ok((executor, context.run_id(run_id).span(span).events(events).worker(worker)))
        });
        let is_in_process = selected.runtime != RuntimeId::EXTERNAL;
        let promised = AddressSpaceReservation::for_run(limits.address_space(is_in_process));
        let (_promised, (executor, context)) = match promised.and_then(|promised| Ok((promised, prepared?))) {
            Ok((promised, (executor, context))) => {
                (promised, (executor, context.callee_limits(given).build()))
            }
            Err(error) => return not_run(error).with_unsupported_limits(not_applied),
        };
        let limits = worker::without_cpu_limit_of_worker(context.worker(), &limits);
        let warned = limit_support::unsupported_warning(selected.runtime, &not_applied);
        let warned = warned.map_or(Ok(()), |warning| context.log_once(LogLevel::Warn, warning));
        let result = warned
            .and_then(|()| ask_before_run(invocation, target.tool, &context, is_in_process))
            .and_then(|has_agreed| if has_agreed { Ok(()) } else { require_person(skill, &context) })
            .and_then(|()| context.cancel().check())
            .and_then(|()| {
                let folder = skill.folder().disk_path().filter(|_| !is_in_process);
                let may_change = folder.is_some() && may_change_folder(&context);
                let locked = folder.filter(|_| may_change || digest.is_some() && is_for_these_files);
                let locked = locked.map(|folder| FolderLock::acquire(folder, &context, may_change));
                locked.transpose().map(|lock| (lock, may_change))
            })
            // Whoever was asked, or whoever held the lock, took time in which files may have changed.
            .and_then(|(lock, may_change)| {
                let is_stale = lock.is_some() || context.permissions().has_decisions();
                if let Some(digest) = digest.filter(|_| is_stale) {
                    self.require_unchanged((set, skill), digest, &context)?;
                }
                let before = may_change.then(|| self.digests.list(skill, &cancel).ok()).flatten();
                let result = catch_runtime_panic(|| executor.execute_with_context(input, Some(&context)));
                if let Some(before) = before {
                    self.warn_of_changed_files(skill, &before, &context);
                }
                result
            })
            // An executor of an embedder may have ignored the token.
            .and_then(|output| context.cancel().check().map(|()| output));
        let redaction = context.redaction();
        let (process, sandbox) = context.take_reports();
        let bound = OutputCap::new(&limits, process.as_ref());
        let result = result
            .and_then(|output| match context.output_sinks() {
                Some(_) => Ok(output.value),
                None => catch_contract_panic(|| validate_value(target, output.value)),
            })
            .map(|value| bound.redact(context.value_redaction(), value))
            .and_then(|value| bound.enforce(value))
            .map_err(|error| redaction.error(error));
        let process = process.map(|report| redaction.process(report));
        tracing::debug!(skill = name, ok = result.is_ok(), "ran");
        let left = RedactedOutcome {
            result,
            log: context.take_redacted_log(),
            process,
            steps: context.take_redacted_steps(),
            sandbox,
        };
        let grants = match &invocation.caller {
            None => approved_grants(context.permissions(), redaction),
            Some(_) => Vec::new(),
        };
        Outcome::from_run(name, version, &limits, left)
            .with_grants(grants)
            .with_truncation(bound.was_truncated())
            .with_unsupported_limits(not_applied)
            .with_stop_cause(context.cancel().cause())
    }

    /// The script as its runtime loads it.
    pub(super) fn load_script(&self, skill: &Skill, selected: &SelectedScript) -> Result<Script> {
        self.open_script(skill, selected, &CancelToken::new()).map(|(script, _)| script)
    }

    /// The script, and a handle to the folder it was read from, even if its path is replaced meanwhile.
    pub(super) fn open_script(
        &self,
        skill: &Skill,
        selected: &SelectedScript,
        cancel: &CancelToken,
    ) -> Result<(Script, Files)> {
        self.open_listed_script(skill, selected, None, cancel)
    }

    /// The same; everything that is read for it must be in this list, if there is one.
    fn open_listed_script(
        &self,
        skill: &Skill,
        selected: &SelectedScript,
        listed: Option<&FileList>,
        cancel: &CancelToken,
    ) -> Result<(Script, Files)> {
        let folder = self.unpacked_skills.disk_folder(skill.folder())?;
        let files = Files::open(&folder)?;
        let read = |path: &str| {
            // A script may name several large files.
            cancel.check()?;
            let bytes = match skill.folder() {
                SkillFolder::Disk(_) | SkillFolder::Script(_) => {
                    SkillFolder::read_from(&files, path, Limits::MAX_READ_SIZE)
                }
                embedded @ SkillFolder::Embedded(_) => embedded.read(path, Limits::MAX_READ_SIZE),
            }?;
            if listed.is_some_and(|listed| !listed.lists(path, &bytes)) {
                return Err(unlisted_file_error(skill, path));
            }
            Ok(bytes)
        };
        let source = runtimes::inline_files(selected.runtime, &selected.path, read(&selected.path)?, read)?;
        let script = Script {
            skill: skill.name().to_owned(),
            path: selected.path.clone(),
            source: source.into(),
            folder: Some(folder),
            function: selected.function.clone(),
            handler: selected.handler.clone(),
            tool: selected.tool.as_deref().map(|tool| ScriptTool {
                name: tool.name.clone(),
                input_schema: tool.input_schema.as_ref().map(|schema| schema.json().clone()),
            }),
        };
        Ok((script, files))
    }

    pub(super) fn prepare(
        &self,
        (set, skill): (&SkillSet, &Skill),
        selected: &SelectedScript,
        (script, files): (Script, Files),
        invocation: &Invocation,
        limits: &Limits,
        token: CancelToken,
    ) -> Result<(Arc<dyn SkillExecutor>, ContextBuilder)> {
        token.check()?;
        invocation.extensions.get::<Environment>().map_or(Ok(()), Environment::check)?;
        let mode = invocation.execution_mode.unwrap_or(self.execution_mode);
        let executor = catch_runtime_panic(|| {
            self.script_cache.load(&self.runtimes, selected.runtime, &script, (mode, set.generation), &token)
        })?;
        let declared = declared_permissions(skill, selected.runtime);
        let listed = match &declared {
            RequestedPermissions::Listed(listed) => listed.len(),
            RequestedPermissions::All => 0,
        };
        let asked = with_permissions(declared, executor.requested_permissions());
        let (folder_index, folder) = self.folders.of_run(set, skill, invocation)?;
        let unprotected =
            || SkillError::new(ErrorKind::Unavailable, "the folder of the run is not protected");
        let protected = set.protected_folders.get(folder_index).ok_or_else(unprotected)?;
        let permissions = self.run_permissions(skill, (selected, listed), asked, invocation, protected)?;
        let context = SkillContext::builder(skill.name())
            .qualified_name(skill.qualified_name())
            .project(Files::open_nofollow(&folder.path)?.with_secret_links(&folder.secret_links))
            .skill_files(files)
            .config_fields(skill.contract().map(|contract| contract.config.clone()).unwrap_or_default())
            .permissions(permissions)
            .limits(limits.clone())
            .sandbox_mode(self.run_sandbox_mode(skill, invocation))
            .execution_mode(mode)
            .providers(self.run_providers(invocation))
            .extensions(self.run_extensions(skill, (selected, &script.source), invocation, &folder.path))
            .thread_budget(ThreadBudget::new(self.max_threads))
            .cancel(token);
        let context = match selected.runtime {
            RuntimeId::EXTERNAL => context.host_memory(limits.host_memory_for_process()),
            _ => context,
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

    /// The engine's providers, or those of the caller, with those of the invocation in their place.
    pub(super) fn run_providers(&self, invocation: &Invocation) -> Providers {
        let inherited = invocation.caller.as_ref().map_or(&self.providers, SkillContext::providers);
        match invocation.providers.as_deref() {
            Some(own) => {
                let own = self.approval_memory.for_providers(own.clone());
                inherited.overridden_by(&with_validated_tools(own))
            }
            None => inherited.clone(),
        }
    }
}

/// Where the events of a run go: to the observer of its caller, or to that of the invocation.
fn run_events(invocation: &Invocation, run: RunId, skill: &str) -> Option<Arc<RunEvents>> {
    if let Some(caller) = &invocation.caller {
        return caller.events().map(|events| events.for_callee(run, skill));
    }
    let observer = invocation.observer.clone()?;
    Some(RunEvents::new(observer, run, skill, invocation.extensions.clone()))
}

/// Only the process of an external script has standard streams of its own.
fn require_streams(invocation: &Invocation, runtime: RuntimeId, worker: Option<WorkerOptions>) -> Result<()> {
    let extensions = &invocation.extensions;
    let has_stdin = extensions.get::<StdinSource>().is_some();
    let wants_streams = has_stdin || extensions.get::<OutputSinks>().is_some();
    if !wants_streams || invocation.caller.is_some() || runtime == RuntimeId::EXTERNAL && worker.is_none() {
        return Ok(());
    }
    let what = if has_stdin { "standard input is passed through" } else { "output is passed on" };
    let why = match worker {
        Some(_) => "to or from no script whose process is kept as a worker".to_owned(),
        None => format!("for external scripts only, and this one runs in {runtime}"),
    };
    Err(SkillError::new(ErrorKind::Usage, format!("{what} {why}"))
        .with_help("run it without that; its input and its value are in the invocation and the outcome"))
}

/// A file that is run must be one of those behind the skill's digest.
fn unlisted_file_error(skill: &Skill, path: &str) -> SkillError {
    let sentence = format!(
        "the skill {} is not run: {path} changed while the skill was read, or it is no part of its digest",
        skill.name()
    );
    SkillError::new(ErrorKind::Untrusted, sentence).with_help(
        "run it again when nothing writes to its folder; a file below a path of `state` cannot be run",
    )
}

/// What the approver of a run permitted.
fn approved_grants(permissions: &Permissions, redaction: &Redaction) -> Vec<GrantReport> {
    let redacted = |permission: Permission| redaction.text(permission.to_string()).into_inner().parse().ok();
    let approved = permissions.approved().into_iter().filter_map(redacted);
    approved.map(|permission| GrantReport::new(permission, GrantOrigin::Approver)).collect()
}

/// The journal file of the run, if it has one. Only plans have steps to journal.
fn journal_file(
    invocation: &Invocation,
    skill: &Skill,
    selected: &SelectedScript,
) -> Result<Option<PathBuf>> {
    let is_plan = selected.runtime == RuntimeId::TOOL_SEQUENCE;
    match &invocation.journal {
        Some(JournalTarget::File(file)) if is_plan => Ok(Some(file.clone())),
        Some(JournalTarget::Folder(folder)) if is_plan => {
            let of_tool = selected.tool.as_ref().map(|tool| format!("{}.{}", skill.name(), tool.name));
            Ok(Some(plan::journal_path(folder, of_tool.as_deref().unwrap_or(skill.name()))))
        }
        Some(JournalTarget::File(_)) if invocation.caller.is_some() => Ok(None),
        None => Ok(None),
        Some(_) => {
            let sentence =
                format!("skill {} runs no plan, so there is nothing to keep a journal of", skill.name());
            Err(SkillError::new(ErrorKind::Usage, sentence)
                .with_help("run it without a journal")
                .with_hint(Hint::NoJournal))
        }
    }
}

/// A panic in the runtime is a defect of metier or of an embedder's executor; it must not crash the host.
fn catch_runtime_panic<T>(work: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_panic("the runtime", ErrorKind::Script, work)
}

/// The same for validation against schemas.
fn catch_contract_panic<T>(work: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_panic("the contract", ErrorKind::InvalidSkill, work)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Engine;
    use crate::engine::script_selection::select_script;

    #[test]
    fn no_file_of_a_script_is_read_for_a_run_that_was_stopped() {
        let project = tempfile::tempdir().unwrap();
        let folder = project.path().join(".metier/skills/stopped");
        std::fs::create_dir_all(folder.join("scripts")).unwrap();
        std::fs::write(folder.join("SKILL.md"), "---\nname: stopped\ndescription: Is read.\n---\n").unwrap();
        let manifest = r#"{"wasm": [{"path": "a.wat", "name": "a"}, {"path": "b.wat"}]}"#;
        std::fs::write(folder.join("scripts/plugin.json"), manifest).unwrap();
        for module in ["a", "b"] {
            std::fs::write(folder.join(format!("scripts/{module}.wat")), "(module)").unwrap();
        }
        let engine = Engine::builder(project.path()).build().unwrap();
        let registry = engine.registry();
        let skill = registry.find("stopped").unwrap();
        let selected = select_script(&engine.0.runtimes, skill, None).unwrap();
        let token = CancelToken::new();
        assert!(engine.0.open_script(skill, &selected, &token).is_ok());
        token.cancel();
        let error = engine.0.open_script(skill, &selected, &token).map(drop).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Cancelled);
    }
}
