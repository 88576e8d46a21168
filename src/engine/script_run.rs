//! One run of a script that was selected and read: limits, input, loading, permissions, questions, the lock of its folder, the
//! script, its value, redaction, the output cap.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::{EngineInner, Invocation, Outcome, worker};
use crate::engine::contract_validation::{validate_input, validate_output, validate_printed_output};
use crate::engine::folder_lock::{FolderLock, may_change_folder};
use crate::engine::gates::called_tool;
use crate::engine::limit_support;
use crate::engine::model_texts::{ModelTexts, is_read_by_model};
use crate::engine::output_cap::OutputCap;
use crate::engine::preview::RunningCopy;
use crate::engine::result_cache::{ResultSlot, cache_ttl, result_key};
use crate::engine::run_audit::RunAudit;
use crate::engine::run_context::catch_runtime_panic;
use crate::engine::run_target::RunTarget;
use crate::engine::script_selection::SelectedScript;
use crate::engine::skill_set::SkillSet;
use crate::registry::{FileList, Skill};
use metier_core::error::{ErrorKind, Result, SkillError};
use metier_core::executor::{
    OutcomeFilter, ProjectCopy, RuntimeId, Script, SkillExecutor, SkillInput, SkillOutput, UndoGap,
};
use metier_core::host::outcome::{CachedResult, RedactedOutcome};
use metier_core::host::{
    AddressSpaceReservation, CallAccess, ContextBuilder, Files, KeepPaths, LogLevel, OutputSinks, Redaction,
    RunEvents, RunId, SkillContext, StdinSource, catch_panic,
};
use metier_core::policy::{
    CancelToken, GrantOrigin, GrantReport, Limits, Permission, Permissions, RunArguments, RuntimeLimit,
    SandboxMode, SkillDigest, StopCause, WorkerOptions,
};
use metier_core::strict_json;

/// By what a run is known in the log and in events.
pub(super) struct RunTrace<'a> {
    pub(super) id: RunId,
    pub(super) span: &'a tracing::Span,
    pub(super) events: Option<Arc<RunEvents>>,
    /// What is recorded about it, in engines with an audit log.
    pub(super) audit: Option<&'a RunAudit>,
}

/// A run whose script was selected.
pub(super) struct ScriptRun<'a> {
    pub(super) engine: &'a EngineInner,
    pub(super) set: &'a Arc<SkillSet>,
    pub(super) skill: &'a Skill,
    pub(super) selected: &'a SelectedScript,
    /// Of all files that the run may use, in engines that know a trust store.
    pub(super) digest: Option<SkillDigest>,
    /// Whether it was trusted, or invoked, for exactly the files with this digest.
    pub(super) is_for_these_files: bool,
    /// Including limits that its runtime does not enforce.
    pub(super) given_limits: Limits,
    pub(super) token: CancelToken,
    pub(super) audit: Option<&'a RunAudit>,
    /// The copy of the project on which it runs, unless that is its caller's.
    pub(super) copy: Option<&'a RunningCopy>,
}

/// A run that can start.
struct ReadyScript {
    executor: Arc<dyn SkillExecutor>,
    context: SkillContext,
    input: SkillInput,
    /// The address space for all that it may allocate.
    reservation: AddressSpaceReservation,
}

impl ScriptRun<'_> {
    /// The outcome of the run: of the script, or of what kept it from starting.
    pub(super) fn run(
        &self,
        opened: Result<(Script, Files)>,
        invocation: &mut Invocation,
        trace: RunTrace<'_>,
    ) -> Outcome {
        let given = self.given_limits.clone();
        let (limits, not_applied) = match self.engine.effective_limits(self.skill, self.selected, given) {
            Ok(split) => split,
            Err(error) => return not_run(self.skill, &self.given_limits, error),
        };
        let source = opened.as_ref().ok().map(|(script, _)| script.source.clone());
        let outcome = match self.prepare(opened, invocation, &limits, trace) {
            Ok(ReadyScript { reservation: _reservation, executor, context, input }) => {
                let slot = source.and_then(|source| self.result_slot(&source, &input, &context));
                let result =
                    self.execute(&*executor, &context, input, invocation, &not_applied, slot.as_ref());
                if let Some(audit) = self.audit {
                    audit.redact_input(&context);
                }
                self.set_outcome_filter(&context);
                let applied = self.copy.map_or(Ok(()), |copy| copy.apply_granted(&context, self.engine));
                if let (Err(_), Err(lost)) = (&result, &applied) {
                    context.warn(format!("its changes were not applied to the project: {lost}"));
                }
                let result = result.and_then(|output| applied.map(|()| output));
                let outcome = self.outcome(result, &context, &limits, slot);
                self.with_changes(outcome, &context)
            }
            Err(error) => not_run(self.skill, &limits, error),
        };
        outcome.with_unsupported_limits(not_applied)
    }

    /// Tells a caller that shows more than the outcome has what is taken out of it.
    fn set_outcome_filter(&self, context: &SkillContext) {
        let Some(filter) = context.extension::<OutcomeFilter>().filter(|_| context.caller().is_none()) else {
            return;
        };
        let texts = Mutex::new(ModelTexts::for_run(context, self.engine.sanitize_profile(Some(self.skill))));
        // Not the context itself, which holds the filter.
        let redaction = context.redaction().snapshot();
        filter.set(move |value| {
            let texts = texts.lock().unwrap_or_else(PoisonError::into_inner);
            texts.value(redaction.value(value), false).into_inner()
        });
    }

    /// What must be there before the script starts: all that its contract requires, its input, its code, its context and its
    /// address space.
    fn prepare(
        &self,
        opened: Result<(Script, Files)>,
        invocation: &mut Invocation,
        limits: &Limits,
        trace: RunTrace<'_>,
    ) -> Result<ReadyScript> {
        let input = self.validate_input(invocation)?;
        let loaded = opened.and_then(|opened| self.load(opened, &input, invocation, limits, trace));
        // Where the script could not be loaded for lack of it, this error says so.
        let reservation = AddressSpaceReservation::for_run(limits.address_space(self.is_in_process()))?;
        let (executor, context) = loaded?;
        let context = context.callee_limits(self.given_limits.clone()).build();
        Ok(ReadyScript { executor, context, input, reservation })
    }

    /// Whether this script may be called as it was in an earlier run, with what it had then. Asks whoever has to be asked.
    pub(super) fn check_call(
        &self,
        opened: (Script, Files),
        invocation: &Invocation,
        trace: RunTrace<'_>,
        call: &CallAccess,
    ) -> Result<()> {
        let (limits, _) =
            self.engine.effective_limits(self.skill, self.selected, self.given_limits.clone())?;
        let input = SkillInput::new(call.confirmed.clone(), Vec::new());
        let (_, context) = self.load(opened, &input, invocation, &limits, trace)?;
        let context = context.callee_limits(self.given_limits.clone()).build();
        self.engine.pass_gates_again(self.target(), &input, &context)?;
        context.check_access(call)
    }

    /// Records for the step of a plan that led here what this run had.
    fn record_access(&self, context: &SkillContext, confirmed: Option<Value>) {
        let Some(caller) = context.caller().filter(|caller| caller.call_recorder().is_some()) else { return };
        let is_loose = !self.is_in_process() && context.sandbox_mode() != SandboxMode::Required;
        let mut call = context.access_of_call();
        call.skill = Some(self.skill.qualified_name());
        call.tool = self.target().tool.map(|tool| tool.name.clone());
        call.sandbox = is_loose.then(|| context.sandbox_mode().to_string());
        call.confirmed = confirmed;
        caller.record_call(call);
    }

    fn validate_input(&self, invocation: &mut Invocation) -> Result<SkillInput> {
        self.engine.require_available(self.set, self.skill, invocation, &self.token)?;
        let value = catch_contract_panic(|| validate_input(self.target(), invocation.input.take()))
            .map_err(|error| self.with_argument_help(error, invocation))?;
        let is_unchanged = |text: &Arc<str>| strict_json::parse(text).ok() == value && !self.is_in_process();
        let text = invocation.input_text.take().filter(is_unchanged);
        let text = text.map(|text| strict_json::without_white_space(&text).into_boxed_str());
        Ok(SkillInput::new(value, std::mem::take(&mut invocation.args)).text(text))
    }

    /// The error of an input that lacks what the caller passed as arguments, which no script in this process gets.
    fn with_argument_help(&self, error: SkillError, invocation: &Invocation) -> SkillError {
        if invocation.args.is_empty() || !self.is_in_process() || error.kind() != ErrorKind::InvalidInput {
            return error;
        }
        let help = "arguments reach external scripts only: pass them as fields of the input, in JSON";
        error.with_help(help).with_hint(None)
    }

    fn load(
        &self,
        opened: (Script, Files),
        input: &SkillInput,
        invocation: &Invocation,
        limits: &Limits,
        trace: RunTrace<'_>,
    ) -> Result<(Arc<dyn SkillExecutor>, ContextBuilder)> {
        let token = self.token.clone();
        let source = opened.0.source.clone();
        let (executor, context) = self.engine.prepare_run(
            (self.set, self.skill),
            self.selected,
            opened,
            invocation,
            limits,
            token,
        )?;
        let runtime = self.selected.runtime;
        let worker = worker::requested_worker(self.skill.manifest(), runtime, &self.given_limits)?;
        require_streams(invocation, runtime, worker)?;
        // What a process has loaded is not run for other files.
        let files = worker.filter(|worker| !worker.is_single_run());
        let files = files.and_then(|_| Some(self.list_files()?.digest()));
        let context = context.arguments(|| self.run_arguments(input, &source));
        let context = context.worker(worker).worker_files(files);
        Ok((executor, context.run_id(trace.id).span(trace.span).events(trace.events)))
    }

    /// What an approver is shown, and what tells this call from every other one.
    fn run_arguments(&self, input: &SkillInput, source: &[u8]) -> RunArguments {
        let SelectedScript { path, function, .. } = self.selected;
        let mut digest = Sha256::new();
        digest.update(Sha256::digest(source));
        // A process reads the text as it is, and no input is another one than `null`.
        let text = input.json_text().filter(|_| !self.is_in_process());
        digest.update(json!([input.value.is_some(), text]).to_string());
        RunArguments {
            input: input.value.clone(),
            args: input.args.clone(),
            tool: self.target().tool.map(|tool| called_tool(self.skill, tool)),
            script: function.as_ref().map_or_else(|| path.clone(), |function| format!("{path}#{function}")),
            source: SkillDigest::new(digest.finalize().into()).to_string(),
        }
    }

    /// Asks whoever has to be asked, and runs the script if nothing has changed meanwhile.
    fn execute(
        &self,
        executor: &dyn SkillExecutor,
        context: &SkillContext,
        input: SkillInput,
        invocation: &Invocation,
        not_applied: &[RuntimeLimit],
        slot: Option<&ResultSlot<'_>>,
    ) -> Result<SkillOutput> {
        if let Some(warning) = limit_support::unsupported_warning(self.selected.runtime, not_applied) {
            context.log_once(LogLevel::Warn, warning)?;
        }
        if let Some(UndoGap(reason)) = context.extension::<UndoGap>().filter(|_| context.caller().is_none()) {
            context
                .log_once(LogLevel::Warn, format!("the changes of this run cannot be undone: {reason}"))?;
        }
        let has_agreed =
            self.engine.pass_gates(self.target(), &input, invocation, context, self.is_in_process())?;
        context.cancel().check()?;
        let may_change = self.process_folder().is_some() && may_change_folder(context);
        let lock = self.lock_folder(may_change, context)?;
        self.require_unchanged(lock.is_some(), context)?;
        if let Some(audit) = self.audit {
            let now = || self.engine.current_digest((self.set, self.skill), context).ok();
            audit.start((context, &input), invocation, self.digest.or_else(now), has_agreed)?;
        }
        let shown = (has_agreed && context.call_recorder().is_some())
            .then(|| context.redaction().value(input.value.clone().unwrap_or_default()).into_inner());
        if let Some((value, age)) = slot.and_then(|slot| slot.get(context)) {
            let age = age.as_secs();
            context.log_once(LogLevel::Info, format!("the value is that of an equal run, {age} s ago"))?;
            self.record_access(context, shown);
            self.audit.into_iter().for_each(RunAudit::set_cached);
            return Ok(SkillOutput::from(value));
        }
        if slot.is_some() && self.is_in_process() {
            context.record_reads();
        }
        let before = if may_change { self.list_files() } else { None };
        let result = catch_runtime_panic(|| executor.execute_with_context(input, Some(context)));
        self.record_access(context, shown);
        if let Some(before) = before {
            self.engine.warn_of_changed_files(self.skill, &before, context);
        }
        let output = result?;
        // An executor of an embedder may have ignored the token.
        context.cancel().check()?;
        Ok(output)
    }

    /// Locks the folder of the skill against runs that may change it, or for this run if it may.
    fn lock_folder(&self, may_change: bool, context: &SkillContext) -> Result<Option<FolderLock>> {
        let is_compared = self.digest.is_some() && self.is_for_these_files;
        let folder = self.process_folder().filter(|_| may_change || is_compared);
        folder.map(|folder| FolderLock::acquire(folder, context, may_change)).transpose()
    }

    /// Whoever was asked, or whoever held the lock, took time in which files may have changed.
    fn require_unchanged(&self, was_locked: bool, context: &SkillContext) -> Result<()> {
        let is_stale = was_locked || context.permissions().has_decisions();
        match self.digest.filter(|_| is_stale) {
            Some(digest) => self.engine.require_unchanged((self.set, self.skill), digest, context),
            None => Ok(()),
        }
    }

    /// The outcome, without secrets and within the output cap.
    fn outcome(
        &self,
        result: Result<SkillOutput>,
        context: &SkillContext,
        limits: &Limits,
        slot: Option<ResultSlot<'_>>,
    ) -> Outcome {
        let limits = worker::without_cpu_limit_of_worker(context.worker(), limits);
        let redaction = context.redaction();
        let (process, sandbox) = context.take_reports();
        let cap = OutputCap::new(&limits, process.as_ref());
        let texts = ModelTexts::for_run(context, self.engine.sanitize_profile(Some(self.skill)));
        let process = process.map(|report| texts.process(redaction.process(report)));
        // It is cut once it has no secret. That of a skill that was called says more about the error than what its caller wrote.
        let output = |error: &SkillError| match &process {
            Some(report) if error.output().is_none() => Some(report.as_inner().error_output()),
            _ => None,
        };
        let value = result
            .and_then(|output| self.validate_value(output, context))
            .map(|value| cap.redact(context.value_redaction(), value));
        let cached = slot.as_ref().and_then(ResultSlot::answer_age).map(CachedResult::new);
        // As the script made it: a later run may be for a person.
        let entry = slot.and_then(|slot| slot.entry(value.as_ref().ok()?.as_inner(), context));
        let result = value
            .map(|value| texts.value(value, cap.is_beginning()))
            .and_then(|value| cap.enforce(value))
            .map_err(|error| redaction.error(with_deadline(error, context, &limits)))
            .map_err(|error| match output(error.as_inner()) {
                Some(output) => error.map(|error| error.with_output(output)),
                None => error,
            });
        if let (Ok(_), Some(entry)) = (&result, entry.filter(|_| !cap.was_truncated())) {
            entry.insert();
        }
        tracing::debug!(skill = self.skill.name(), ok = result.is_ok(), "ran");
        let left = RedactedOutcome {
            result,
            log: texts.log(context.take_redacted_log()),
            process,
            steps: texts.steps(context.take_redacted_steps()),
            sandbox,
            refused: texts.refused_accesses(context.take_redacted_refused_accesses()),
        };
        let grants = match context.caller() {
            None => approved_grants(context.permissions(), redaction),
            Some(_) => Vec::new(),
        };
        let version = Some(self.skill.version().to_string());
        Outcome::from_run(self.skill.name().to_owned(), version, &limits, left)
            .with_grants(grants)
            .with_truncation(cap.was_truncated())
            .with_cached(cached)
            .with_sanitized(texts.changes())
            .with_stop_cause(context.cancel().cause())
    }

    /// The outcome with what the run changed in a copy of its project. If that cannot be read, the run has failed.
    fn with_changes(&self, mut outcome: Outcome, context: &SkillContext) -> Outcome {
        let Some(copy) = self.copy else { return outcome };
        let texts = ModelTexts::for_run(context, self.engine.sanitize_profile(Some(self.skill)));
        let shown = |value| texts.value(context.redaction().value(value), false).into_inner();
        match copy.finish(shown) {
            Ok(changes) => outcome.changes = changes.map(Box::new),
            Err(error) if outcome.result.is_ok() => {
                outcome.result = Err(context.redaction().error(error).into_inner());
            }
            Err(error) => tracing::warn!("the changes of a failed run cannot be read: {error}"),
        }
        outcome.sanitized += texts.changes();
        outcome
    }

    /// The value of a script; output that was passed on is none to validate.
    fn validate_value(&self, output: SkillOutput, context: &SkillContext) -> Result<Value> {
        match context.output_sinks() {
            Some(_) => Ok(output.value),
            None if self.is_in_process() => catch_contract_panic(|| validate_output(self.target(), output)),
            None => catch_contract_panic(|| validate_printed_output(self.target(), output)),
        }
    }

    /// Where the value of this run is kept for equal ones, if its skill permits it.
    fn result_slot(
        &self,
        source: &[u8],
        input: &SkillInput,
        context: &SkillContext,
    ) -> Option<ResultSlot<'_>> {
        // A value that comes from elsewhere changes nothing in a copy, and one that was made there says nothing of the project.
        if context.extension::<ProjectCopy>().is_some() {
            return None;
        }
        let cache = self.engine.results.as_ref()?;
        let ttl = cache_ttl(self.skill, self.selected.runtime, context)?;
        // A key does not hold what the caller's own providers say.
        if !context.providers().has_values_of(&self.engine.providers) {
            return None;
        }
        let files = match (self.digest, self.selected.runtime) {
            (Some(digest), _) => Some(digest),
            // They read no other file of the skill but by `ctx.asset`, which is compared.
            (None, RuntimeId::LUA | RuntimeId::RHAI) => None,
            (None, _) => Some(self.list_files()?.digest()),
        };
        Some(cache.slot(result_key((self.skill, files), (self.selected, source), input, context), ttl))
    }

    /// What is called: the skill, or a tool of it.
    fn target(&self) -> RunTarget<'_> {
        RunTarget { skill: self.skill, tool: self.selected.tool.as_deref() }
    }

    fn is_in_process(&self) -> bool {
        self.selected.runtime != RuntimeId::EXTERNAL
    }

    /// The folder of the skill, if a process of its script could change it.
    fn process_folder(&self) -> Option<&Path> {
        self.skill.folder().disk_path().filter(|_| !self.is_in_process())
    }

    /// The files of the skill as they are now.
    fn list_files(&self) -> Option<Arc<FileList>> {
        self.engine.digests.list(self.skill, &self.token).ok()
    }
}

/// The outcome of a run that ended before its script started.
pub(super) fn not_run(skill: &Skill, limits: &Limits, error: SkillError) -> Outcome {
    Outcome::not_run(skill.name().to_owned(), Some(skill.version().to_string()), limits, error)
}

/// The error with the time that the run had, if it was stopped at its end. That of a callee may be the deadline of its caller.
fn with_deadline(error: SkillError, context: &SkillContext, limits: &Limits) -> SkillError {
    let stopped = StopCause::Timeout.error();
    let is_deadline = context.cancel().cause() == Some(StopCause::Timeout) && context.caller().is_none();
    if !is_deadline || error.kind() != stopped.kind() || error.message() != stopped.message() {
        return error;
    }
    let time = match u64::try_from(limits.timeout.as_millis()) {
        Ok(time) if time.is_multiple_of(1000) => format!("{} s", time / 1000),
        Ok(time) => format!("{time} ms"),
        Err(_) => return error,
    };
    let placed =
        error.with_message(format!("{stopped} of {time}")).with_traceback(error.traceback().to_vec());
    match error.location() {
        Some(location) => placed.with_location(location.clone()),
        None => placed,
    }
}

/// Only the process of an external script has standard streams of its own.
fn require_streams(invocation: &Invocation, runtime: RuntimeId, worker: Option<WorkerOptions>) -> Result<()> {
    let extensions = &invocation.extensions;
    let has_stdin = extensions.get::<StdinSource>().is_some();
    let has_sinks = extensions.get::<OutputSinks>().is_some();
    if has_sinks && is_read_by_model(invocation) {
        let sentence = "failed to pass the output of the script on as it comes: a model reads it, so it is sanitized when it is whole";
        return Err(SkillError::new(ErrorKind::Usage, sentence)
            .with_help("run it without that; the outcome has the value and the output"));
    }
    let has_copies = extensions.get::<KeepPaths>().is_some();
    let wants_streams = has_stdin || has_sinks || has_copies;
    if !wants_streams || invocation.caller.is_some() || runtime == RuntimeId::EXTERNAL && worker.is_none() {
        return Ok(());
    }
    let what = if has_stdin { "standard input" } else { "the output streams" };
    let why = match worker {
        Some(_) => "its process is a worker, which serves several runs".to_owned(),
        None => format!("only external scripts have streams of their own, and it runs in {runtime}"),
    };
    if !has_stdin && !has_sinks {
        let why = why.replace("streams", "folders");
        return Err(SkillError::new(
            ErrorKind::Usage,
            format!("failed to copy what the script leaves: {why}"),
        )
        .with_help("run it without that, and let the script write to the project"));
    }
    Err(SkillError::new(ErrorKind::Usage, format!("failed to connect {what} of the script: {why}"))
        .with_help("run it without that; its input and its value are in the invocation and the outcome"))
}

/// What the approver of a run permitted.
fn approved_grants(permissions: &Permissions, redaction: &Redaction) -> Vec<GrantReport> {
    let redacted = |permission: Permission| redaction.text(permission.to_string()).into_inner().parse().ok();
    let approved = permissions.approved().into_iter().filter_map(redacted);
    approved.map(|permission| GrantReport::new(permission, GrantOrigin::Approver)).collect()
}

/// A panic in the validation against schemas must not crash the host either.
fn catch_contract_panic<T>(work: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_panic("the contract", ErrorKind::InvalidSkill, work)
}
