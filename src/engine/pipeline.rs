//! The pipeline of a run: the skill is found and its script is read (`run_start`), configuration and trust are applied (here), and
//! the script runs (`script_run`). Each step produces one new value. A skill that another one calls takes the same path, under its
//! caller's token, limits and permissions.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use super::{EngineInner, Invocation, Outcome};
use crate::engine::audit::run_listener;
use crate::engine::model_texts::{SanitizedObserver, is_read_by_model, with_error_for_model};
use crate::engine::run_audit::RunAudit;
use crate::engine::run_start::{FoundSkill, RunStart};
use crate::engine::script_run::{RunTrace, ScriptRun, not_run};
use crate::engine::trust::RunTrust;
use crate::pending::{CompletedCallCheck, PendingApprover};
use crate::runtimes;
use metier_core::error::{ErrorKind, Result, SkillError};
use metier_core::executor::RuntimeId;
use metier_core::host::outcome::RunWarning;
use metier_core::host::{
    CallAccess, EventKind, Redaction, RunEvents, RunId, RunThreadGuard, SandboxReport, SkillContext,
    catch_panic,
};
use metier_core::policy::{CancelToken, GrantReport, Limits};

impl EngineInner {
    pub(super) fn run(&self, mut invocation: Invocation) -> Outcome {
        if let Err(error) = self.add_pending_approver(&mut invocation) {
            return self.refuse(&invocation, error);
        }
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
        let is_read_by_model = is_read_by_model(&invocation);
        let profile = self.sanitize_profile(found.as_ref().ok().map(|found| &found.skill));
        let caller = events.as_ref().and_then(|_| invocation.caller.clone());
        if let Some(events) = &events {
            events.notify(&Redaction::default(), self.start_event(found.as_ref().ok(), &invocation));
        }
        let audit = self.audit.as_ref().map(|writer| {
            invocation.extensions.insert(run_listener(writer));
            RunAudit::new(writer, run_id, found.as_ref().ok(), &invocation)
        });
        let _stopping = events.clone().map(|events| {
            token.on_stop_last(move |cause| {
                events.notify(&Redaction::default(), EventKind::stopping(cause));
            })
        });
        let runtime = found.as_ref().ok().and_then(FoundSkill::runtime);
        let mut outcome = match found {
            Ok(found) => {
                let trace =
                    RunTrace { id: run_id, span: &span, events: events.clone(), audit: audit.as_ref() };
                self.run_skill(found, invocation, limits, token, trace)
            }
            Err(error) => Outcome::not_run(invocation.skill, None, &limits, error),
        };
        outcome.warnings.extend(self.helper_warning(runtime, &outcome));
        if is_read_by_model {
            outcome = with_error_for_model(outcome, profile);
        }
        outcome.duration = started.elapsed();
        if let Some(audit) = audit {
            audit.finish(&outcome);
        }
        let Some(events) = events else { return outcome };
        match caller {
            Some(caller) => events.finish(caller.redaction(), outcome),
            None => events.finish(&Redaction::default(), outcome),
        }
    }

    /// Where nobody can be asked, and the call may wait: the approver that writes down what has to be decided.
    fn add_pending_approver(&self, invocation: &mut Invocation) -> Result<()> {
        let Some(caller) = invocation.parked_by.take() else { return Ok(()) };
        let own = invocation.providers.as_deref().and_then(|own| own.approver.as_ref());
        if own.or(self.providers.approver.as_ref()).is_some() {
            return Ok(());
        }
        let Some(store) = &self.pending else {
            let sentence = "the call cannot wait for a person: the engine has no store of pending calls";
            return Err(SkillError::new(ErrorKind::Usage, sentence).with_help("build it with one"));
        };
        if invocation.trust.is_trusted_once {
            let sentence = "the call cannot wait for a person: its skill is trusted for this run only";
            return Err(SkillError::new(ErrorKind::Usage, sentence).with_help("trust the skill"));
        }
        let approver = PendingApprover::new(store.clone(), caller);
        let providers = invocation.providers.get_or_insert_default();
        providers.approver = Some(Arc::new(approver));
        invocation.ask_first = true;
        Ok(())
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
        let mut outcome = Outcome::not_run(invocation.skill.clone(), None, limits, error);
        if is_read_by_model(invocation) {
            outcome = with_error_for_model(outcome, self.sanitize_profile(None));
        }
        let run_id = RunId::next();
        if let Some(writer) = &self.audit {
            RunAudit::new(writer, run_id, None, invocation).finish(&outcome);
        }
        let Some(events) = run_events(invocation, run_id, &invocation.skill) else { return outcome };
        events.notify(&Redaction::default(), self.start_event(None, invocation));
        events.finish(&Redaction::default(), outcome)
    }

    fn start_event(&self, found: Option<&FoundSkill>, invocation: &Invocation) -> EventKind {
        let skill = found.map(|found| &found.skill);
        let script = found.and_then(|found| found.script.as_ref().ok()).map(|(selected, _)| selected);
        let folder = found.map(|found| self.folders.of_run(&found.set, &found.skill, invocation));
        EventKind::started(
            skill.map(|skill| (skill.qualified_name(), skill.version().to_string())),
            script.map(|script| (script.runtime.name(), script.path.clone())),
            folder.and_then(Result::ok).map(|(_, folder)| folder.path.clone()),
            invocation.caller.as_ref().and_then(SkillContext::step),
        )
    }

    /// Runs the script of a skill that was found, with what the configuration and its trust add to the invocation.
    fn run_skill(
        &self,
        FoundSkill { set, skill, script, trust }: FoundSkill,
        mut invocation: Invocation,
        limits: Limits,
        token: CancelToken,
        trace: RunTrace<'_>,
    ) -> Outcome {
        let trust = match trust.transpose() {
            Ok(trust) => trust,
            Err(error) => return not_run(&skill, &limits, error),
        };
        self.add_configured_grants(&skill, &mut invocation);
        let is_for_these_files = trust.as_ref().is_some_and(|trust| trust.is_for_these_files(&invocation));
        if let Some(trust) = &trust {
            trust.apply_to(&mut invocation);
        }
        self.withhold_configured_values((&set, &skill), trust.as_ref(), &mut invocation, &token);
        let (selected, opened) = match script {
            Ok(found) => found,
            Err(error) => {
                let error = self.unselected_error((&set, &skill), &invocation, error, &token);
                return not_run(&skill, &limits, error);
            }
        };
        let script = opened.as_ref().ok().map(|(script, _)| script);
        let copy = match self.begin_copy((&set, &skill), (&selected, script), &mut invocation) {
            Ok(copy) => copy,
            Err(error) => return not_run(&skill, &limits, error),
        };
        if let Err(error) = self.begin_review((&set, &skill), (&selected, script), &mut invocation) {
            return not_run(&skill, &limits, error);
        }
        let digest = trust.as_ref().and_then(RunTrust::digest);
        let run = ScriptRun {
            engine: self,
            set: &set,
            skill: &skill,
            selected: &selected,
            digest,
            is_for_these_files,
            given_limits: limits,
            token,
            audit: trace.audit,
            copy: copy.as_ref(),
        };
        let outcome = run.run(opened, &mut invocation, trace);
        let mut outcome = outcome.map_error(|error| skill.with_location_path(error, Some(&selected.path)));
        let mut grants = Vec::new();
        if invocation.caller.is_none() {
            let granted = std::mem::take(&mut invocation.grants).into_iter();
            grants.extend(granted.map(|(permission, origin)| GrantReport::new(permission, origin)));
            grants.append(&mut outcome.grants);
        }
        outcome.grants = grants;
        outcome.digest = digest;
        outcome
    }
}

impl EngineInner {
    /// Whether a run may make this call again, which an earlier one made: the skill is there and trusted, it has the permissions that
    /// it had, and whoever has to be asked agrees. No script runs.
    pub(super) fn check_call(&self, ctx: &SkillContext, call: &CallAccess) -> Result<()> {
        let mut invocation = Invocation::for_callee(ctx, call.skill.as_deref().unwrap_or_default());
        invocation.tool.clone_from(&call.tool);
        invocation.extensions.insert(CompletedCallCheck);
        let token = invocation.cancel.child();
        let RunStart { found, limits, armed: _armed } = self.start_run(&invocation, Instant::now(), &token);
        let FoundSkill { set, skill, script, trust } = found?;
        let (trust, (selected, opened)) = (trust.transpose()?, script?);
        if let Some(trust) = &trust {
            trust.apply_to(&mut invocation);
        }
        self.withhold_configured_values((&set, &skill), trust.as_ref(), &mut invocation, &token);
        let run = ScriptRun {
            engine: self,
            set: &set,
            skill: &skill,
            selected: &selected,
            digest: trust.as_ref().and_then(RunTrust::digest),
            is_for_these_files: false,
            given_limits: limits,
            token,
            audit: None,
            copy: None,
        };
        let trace = RunTrace { id: RunId::next(), span: &tracing::Span::none(), events: None, audit: None };
        run.check_call(opened?, &invocation, trace, call)
    }
}

/// Where the events of a run go: to the observer of its caller, or to that of the invocation.
fn run_events(invocation: &Invocation, run: RunId, skill: &str) -> Option<Arc<RunEvents>> {
    if let Some(caller) = &invocation.caller {
        return caller.events().map(|events| events.for_callee(run, skill));
    }
    let mut observer = invocation.observer.clone()?;
    if is_read_by_model(invocation) {
        observer = Arc::new(SanitizedObserver(observer));
    }
    Some(RunEvents::new(observer, run, skill, invocation.extensions.clone()))
}
