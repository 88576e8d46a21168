//! A run, from its invocation to its outcome: find → settle → prepare → execute → finish. Each step makes one new value of what it is given. A skill
//! that another one calls takes the same steps, under its caller's token, limits and permissions.

use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::invocation::{JournalTarget, StoredGrants, TrustOptions};
use super::{EngineInner, Invocation, Outcome, worker};
use crate::engine::audit::run_listener;
use crate::engine::base_url_hosts::base_url_hosts_of_run;
use crate::engine::builder::with_validated_tools;
use crate::engine::contract_validation::{validate_input, validate_output, validate_printed_output};
use crate::engine::folder_lock::{FolderLock, may_change_folder};
use crate::engine::gates::called_tool;
use crate::engine::limits::{run_deadline, unsupported_warning};
use crate::engine::model_texts::{ModelTexts, SanitizedObserver, is_read_by_model, with_error_for_model};
use crate::engine::output_cap::OutputCap;
use crate::engine::preview::{RunCopy, files_of_run};
use crate::engine::requested_permissions::{declared_permissions, requests_store, with_permissions};
use crate::engine::result_cache::{ResultSlot, cache_ttl, result_key};
use crate::engine::run_audit::RunAudit;
use crate::engine::run_target::RunTarget;
use crate::engine::run_terms::{FoundScript, FoundSkill, RunTerms, ScriptCall};
use crate::engine::script_selection::SelectedScript;
use crate::engine::skill_set::Attempts;
use crate::engine::tool_selection::refuse_internal;
use crate::engine::trust::RunTrust;
use crate::pending::PendingApprover;
use crate::registry::{FileList, Skill, command_skill};
use crate::runtimes;
use crate::trust::ProjectIdentity;
use metier_core::error::{ErrorContext, ErrorKind, Hint, Result, SkillError};
use metier_core::executor::{
    RuntimeId, Script, SkillExecutor, SkillInput, SkillOutput, input_text, with_input_text,
};
use metier_core::host::outcome::{RedactedOutcome, RunWarning};
use metier_core::host::{
    AddressSpaceReservation, CallAccess, CallRecords, ContextBuilder, EventKind, Files, LogLevel, Providers,
    Redaction, RunContext, RunContextBuilder, RunEvents, RunId, RunMessages, RunReporting, RunThreadGuard,
    SandboxReport, SkillContext, address_space, catch_panic, check_memory_reserve, error_output,
    have_same_values, next_run_id, outcome, override_providers, process_host_memory, run_started,
    run_stopping,
};
use metier_core::policy::{
    CancelToken, DeadlineGuard, GrantOrigin, GrantReport, Limits, Permission, Permissions, RunArguments,
    RunPermissions, SandboxMode, SkillDigest, StopCause, ThreadBudget, WorkerOptions, on_stop_last,
};
use metier_core::sanitizer::SanitizeProfile;
use metier_core::strict_json;

/// By what a run is known in the log, in events and in the audit log.
struct RunTrace<'a> {
    id: RunId,
    span: &'a tracing::Span,
    events: Option<Arc<RunEvents>>,
    audit: Option<&'a RunAudit>,
}

/// What a lookup has found, and the deadline that it started.
struct Lookup<'e> {
    found: Result<FoundSkill>,
    /// Those of the deadline.
    limits: Limits,
    armed: DeadlineGuard<'e>,
}

/// A run of which everything is decided.
pub(super) struct SettledRun<'e> {
    pub(super) terms: RunTerms<'e>,
    pub(super) call: ScriptCall,
    pub(super) copy: RunCopy,
}

/// A script that can start.
struct PreparedRun<'r> {
    executor: Arc<dyn SkillExecutor>,
    input: SkillInput,
    run: ActiveRun<'r>,
}

/// A run whose script can start, runs or has ended.
struct ActiveRun<'r> {
    terms: &'r RunTerms<'r>,
    copy: &'r RunCopy,
    context: SkillContext,
    /// Where its value is cached for equal runs.
    slot: Option<ResultSlot<'r>>,
    audit: Option<&'r RunAudit>,
    /// The address space for all that it may allocate.
    _reservation: AddressSpaceReservation,
}

/// A script that is loaded, and the context of its run.
pub(super) struct LoadedScript {
    executor: Arc<dyn SkillExecutor>,
    pub(super) context: ContextBuilder,
    worker: Option<WorkerOptions>,
}

impl EngineInner {
    /// Runs a skill to its end. What is here is for those who watch: events, the log, the audit log; the steps are in `run_found`.
    pub(super) fn run(&self, mut invocation: Invocation) -> Outcome {
        match self.pending_approver(&invocation) {
            Ok(None) => {}
            Ok(Some(approver)) => invocation = invocation.asking_first(approver),
            Err(error) => return self.refuse(&invocation, error),
        }
        let _for_run = RunThreadGuard::enter();
        let started = Instant::now();
        let cancel = invocation.cancel.child();
        let lookup = catch_panic("the engine", ErrorKind::Unavailable, || {
            Ok(self.find(&invocation, started, &cancel))
        });
        let Lookup { found, limits, armed: _armed } =
            lookup.unwrap_or_else(|error| self.failed_lookup(&invocation, started, &cancel, error));
        let id = next_run_id();
        let name = found.as_ref().map_or(invocation.skill.as_str(), |found| found.skill.name());
        let span = tracing::info_span!("run", skill = name, run_id = %id);
        let _entered = span.enter();
        let events = run_events(&invocation, id, name);
        let is_read_by_model = is_read_by_model(&invocation);
        let profile = self.sanitize_profile(found.as_ref().ok().map(|found| &found.skill));
        let caller = events.as_ref().and_then(|_| invocation.caller.clone());
        if let Some(events) = &events {
            events.notify(&Redaction::default(), self.start_event(found.as_ref().ok(), &invocation));
        }
        let audit = self.audit.as_ref();
        let audit = audit.map(|writer| RunAudit::new(writer, id, found.as_ref().ok(), &invocation));
        if let Some(writer) = &self.audit {
            invocation = invocation.with_facts(|facts| facts.listener = Some(run_listener(writer)));
        }
        let _stopping = events.clone().map(|events| {
            on_stop_last(&cancel, move |cause| {
                events.notify(&Redaction::default(), run_stopping(cause));
            })
        });
        let selected = found.as_ref().ok().and_then(|found| found.script.selected());
        let runtime = selected.map(|selected| selected.runtime);
        let mut outcome = match found {
            Ok(found) => {
                let trace = RunTrace { id, span: &span, events: events.clone(), audit: audit.as_ref() };
                self.run_found(found, invocation, &limits, cancel, trace)
            }
            Err(error) => outcome::not_run(invocation.skill, None, &limits, error),
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

    /// The steps of a run whose skill was found.
    fn run_found(
        &self,
        found: FoundSkill,
        invocation: Invocation,
        limits: &Limits,
        cancel: CancelToken,
        trace: RunTrace<'_>,
    ) -> Outcome {
        let skill = found.skill.clone();
        let settled = self.settle(found, invocation, cancel).and_then(|settled| self.with_copy(settled));
        let SettledRun { terms, call, copy } = match settled {
            Ok(settled) => settled,
            Err(error) => return not_run(&skill, limits, error),
        };
        let mut outcome = match self.prepare((&terms, &copy), call, trace) {
            Ok(PreparedRun { executor, input, run }) => {
                let result = self.execute(&run, &*executor, input);
                self.finish(run, result)
            }
            Err(error) => not_run(&skill, &terms.limits.enforced, error),
        };
        outcome.limits.not_applied = terms.limits.not_applied;
        outcome.result =
            outcome.result.map_err(|error| skill.with_location_path(error, Some(&terms.selected.path)));
        let granted = terms.grants.into_iter();
        let granted = granted.map(|(permission, origin)| GrantReport::new(permission, origin));
        let approved = std::mem::take(&mut outcome.grants);
        outcome.grants = granted.chain(approved).collect();
        outcome.digest = terms.digest;
        outcome
    }

    /// Whether a run may make this call again, which an earlier one made: the skill is there and trusted, it has the permissions that
    /// it had, and whoever has to be asked agrees. No script runs.
    pub(super) fn check_call(&self, ctx: &SkillContext, call: &CallAccess) -> Result<()> {
        let mut invocation = Invocation::for_callee(ctx, call.skill.as_deref().unwrap_or_default());
        invocation.tool.clone_from(&call.tool);
        let invocation = invocation.with_facts(|facts| facts.is_completed_call = true);
        let cancel = invocation.cancel.child();
        let Lookup { found, armed: _armed, .. } = self.find(&invocation, Instant::now(), &cancel);
        let SettledRun { terms, call: script, copy: _ } = self.settle(found?, invocation, cancel)?;
        let input = SkillInput::new(call.confirmed.clone(), Vec::new());
        let opened = script.source?;
        let source = opened.0.source.clone();
        let LoadedScript { context, .. } = self.load(&terms, script.providers, opened)?;
        let context = context.arguments(|| run_arguments(&terms, &input, &source)).build();
        self.pass_gates_again(terms.target(), &input, &context)?;
        context.check_access(call)
    }

    /// The outcome of a run that does not start; its observer receives it too.
    pub(super) fn refuse(&self, invocation: &Invocation, error: SkillError) -> Outcome {
        let limits = invocation.limits.as_ref().unwrap_or(&self.limits);
        let mut outcome = outcome::not_run(invocation.skill.clone(), None, limits, error);
        if is_read_by_model(invocation) {
            outcome = with_error_for_model(outcome, self.sanitize_profile(None));
        }
        let run_id = next_run_id();
        if let Some(writer) = &self.audit {
            RunAudit::new(writer, run_id, None, invocation).finish(&outcome);
        }
        let Some(events) = run_events(invocation, run_id, &invocation.skill) else { return outcome };
        events.notify(&Redaction::default(), self.start_event(None, invocation));
        events.finish(&Redaction::default(), outcome)
    }

    /// Where nobody can be asked, and the call may wait: the approver that writes down what has to be decided.
    fn pending_approver(&self, invocation: &Invocation) -> Result<Option<PendingApprover>> {
        let Some(caller) = &invocation.parked_by else { return Ok(None) };
        let own = invocation.providers.as_deref().and_then(|own| own.approver.as_ref());
        if own.or(self.providers.approver.as_ref()).is_some() {
            return Ok(None);
        }
        let Some(store) = &self.pending else {
            let sentence = "the call cannot wait for a person: the engine has no store of pending calls";
            return Err(SkillError::new(ErrorKind::Usage, sentence).with_help("build it with one"));
        };
        if invocation.trust.is_trusted_once {
            let sentence = "the call cannot wait for a person: its skill is trusted for this run only";
            return Err(SkillError::new(ErrorKind::Usage, sentence).with_help("trust the skill"));
        }
        Ok(Some(PendingApprover::new(store.clone(), caller.clone())))
    }

    fn start_event(&self, found: Option<&FoundSkill>, invocation: &Invocation) -> EventKind {
        let script = found.and_then(|found| found.script.selected());
        let folder = found.map(|found| self.folders.of_run(&found.set, &found.skill, invocation));
        run_started(
            found.map(|found| (found.skill.qualified_name(), found.skill.version().to_string())),
            script.map(|script| (script.runtime.name(), script.path.clone())),
            folder.and_then(Result::ok).map(|(_, folder)| folder.path.clone()),
            invocation.caller.as_ref().and_then(SkillContext::step),
        )
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
}

/// Find.
impl EngineInner {
    /// Finds the skill, reads its script and starts the deadline. `SKILL.md` and contract are compared with those that were read
    /// after the script was read, so the permissions and the script of a run were on disk at the same time.
    fn find(&self, invocation: &Invocation, started: Instant, cancel: &CancelToken) -> Lookup<'_> {
        let by = invocation.caller.as_ref().and_then(SkillContext::qualified_name);
        let folder = self.folders.before_lookup(invocation);
        let mut attempts = Attempts::default();
        let mut trusted_namesake: Option<String> = None;
        let is_for_model = invocation.facts.is_for_model;
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
                Ok(skill) => {
                    let target = RunTarget::new(skill, invocation);
                    self.settle_limits(target, invocation.limits.as_ref(), None).given
                }
                Err(_) => invocation.limits.as_ref().unwrap_or(&self.limits).clone(),
            };
            let armed = self.watchdog.arm(run_deadline(started, &limits), cancel);
            let found = found.map(|skill| {
                // Its files are listed before the script is read, and the script is compared with the list.
                let trust = self.run_trust(&set, &skill, invocation, cancel);
                let listed = trust.as_ref().ok().and_then(|trust| trust.as_ref()?.list());
                let folder = skill.folder().open();
                let selected = self
                    .check_enabled(&skill)
                    .and_then(|()| invocation.script_choice())
                    .and_then(|choice| self.selected_script_in((&skill, folder.as_ref()), choice))
                    .and_then(|selected| refuse_internal(&skill, selected, by));
                let script = match selected {
                    Ok(selected) => {
                        let opened = self.open_listed_script((&skill, folder), &selected, listed, cancel);
                        FoundScript::Selected(selected, opened)
                    }
                    Err(error) => FoundScript::Unselected(error),
                };
                FoundSkill { set: set.clone(), skill, trust, script }
            });
            if trusted_namesake.is_none() && found.as_ref().is_ok_and(FoundSkill::is_untrusted) {
                trusted_namesake = self.trusted_namesake(&set, invocation, folder, cancel);
                if trusted_namesake.is_some() {
                    continue;
                }
            }
            let (skill, opened) = match &found {
                Ok(found) => (Some(&found.skill), found.script.folder()),
                Err(_) => (None, None),
            };
            if !self.skills.refresh_changed(&set, &invocation.skill, skill, opened) {
                return Lookup { found, limits, armed };
            }
            if let Err(error) = attempts.next(&invocation.skill) {
                return Lookup { found: Err(error), limits, armed };
            }
        }
    }

    /// What is found where the lookup panicked.
    fn failed_lookup(
        &self,
        invocation: &Invocation,
        started: Instant,
        cancel: &CancelToken,
        error: SkillError,
    ) -> Lookup<'_> {
        let limits = invocation.limits.as_ref().unwrap_or(&self.limits).clone();
        let armed = self.watchdog.arm(run_deadline(started, &limits), cancel);
        Lookup { found: Err(error), limits, armed }
    }
}

/// Settle.
impl EngineInner {
    /// Decides what the run may do: by its invocation, the trust in its skill and the user's configuration. Nothing is set up or
    /// executed.
    pub(super) fn settle(
        &self,
        FoundSkill { set, skill, trust, script }: FoundSkill,
        invocation: Invocation,
        cancel: CancelToken,
    ) -> Result<SettledRun<'_>> {
        let trust = trust?;
        let is_called = invocation.caller.is_some();
        let providers = self.run_providers(&invocation);
        let sandbox_mode = self.run_sandbox_mode(&skill, &invocation);
        let mut facts = invocation.facts.clone();
        let TrustOptions { is_trusted_once, stored_grants } = invocation.trust;
        let is_for_model = facts.is_for_model;
        if !is_called && is_for_model && !is_trusted_once {
            facts.untrusted_projects = self.projects_without_trust();
        }
        let is_trusted = trust.as_ref().filter(|_| !is_called).map(|trust| trust.is_trusted);
        let withheld = self.withheld_values((&set, &skill), is_trusted, &cancel);
        if withheld.is_some() || facts.withheld_values.is_some() {
            facts.withheld_values = withheld.map(Arc::new);
        }
        let (selected, source) = match script {
            FoundScript::Selected(selected, source) => (selected, source),
            FoundScript::Unselected(error) => {
                let settings = (&providers, &invocation.extensions, &facts);
                return Err(self.unselected_error((&set, &skill), settings, &invocation, error, &cancel));
            }
        };
        let folder = self.folders.of_run(&set, &skill, &invocation)?;
        let target = RunTarget { skill: &skill, tool: selected.tool.as_deref() };
        let script = (&selected, self.runtimes.get(selected.runtime)?);
        let limits = self.settle_limits(target, invocation.limits.as_ref(), Some(script));
        let is_for_these_files = trust.as_ref().is_some_and(|trust| trust.is_for_these_files(&invocation));
        let digest = trust.as_ref().and_then(RunTrust::digest);
        let is_confirmed = invocation.is_confirmed && !is_called && !is_for_model;
        let has_digest = invocation.digest.is_some();
        let mut grants = invocation.grants;
        if !is_called {
            if stored_grants != StoredGrants::None {
                grants.extend(self.configured_grants(&skill));
            }
            if let Some(trust) = trust {
                let inherited;
                (grants, inherited) = trust.into_grants(grants, (is_for_model, is_trusted_once), has_digest);
                if inherited.is_some() {
                    facts.inherited_trust = inherited.map(Arc::new);
                }
            }
        }
        let terms = RunTerms {
            set,
            skill,
            selected,
            cancel,
            caller: invocation.caller,
            is_command: invocation.is_command,
            folder,
            grants,
            tool_filter: invocation.tool_filter,
            limits,
            sandbox_mode,
            execution_mode: invocation.execution_mode.unwrap_or(self.execution_mode),
            digest,
            is_for_these_files,
            asks_first: invocation.ask_first && !is_called,
            is_confirmed,
            journal: invocation.journal,
            preview: invocation.preview.filter(|_| !is_called),
            extensions: invocation.extensions,
            facts,
        };
        let call = ScriptCall {
            source,
            providers,
            input: invocation.input,
            input_text: invocation.input_text,
            args: invocation.args,
        };
        Ok(SettledRun { terms, call, copy: RunCopy::default() })
    }

    /// The run in the copy of its project, if it needs one that its caller does not have.
    fn with_copy<'e>(&'e self, mut run: SettledRun<'e>) -> Result<SettledRun<'e>> {
        let mut copy = self.begin_copy(&run.terms, &run.call)?;
        if let Some(view) = copy.view.take() {
            (run.terms.extensions, run.terms.facts) = view;
        }
        run.terms.grants.extend(copy.grant.take().map(|permission| (permission, GrantOrigin::Caller)));
        Ok(SettledRun { copy, ..run })
    }

    /// The engine's providers, or those of the caller, with those of the invocation in their place.
    fn run_providers(&self, invocation: &Invocation) -> Providers {
        let inherited = invocation.caller.as_ref().map_or(&self.providers, SkillContext::providers);
        match invocation.providers.as_deref() {
            Some(own) => {
                let own = self.approval_memory.for_providers(own.clone());
                override_providers(inherited, &with_validated_tools(own))
            }
            None => inherited.clone(),
        }
    }
}

/// Prepare.
impl EngineInner {
    /// What must be there before the script starts: all that its contract requires, its input, its code, its context and its
    /// address space.
    fn prepare<'r>(
        &'r self,
        (terms, copy): (&'r RunTerms<'r>, &'r RunCopy),
        call: ScriptCall,
        trace: RunTrace<'r>,
    ) -> Result<PreparedRun<'r>> {
        let ScriptCall { source, providers, input, input_text, args } = call;
        let settings = (&providers, &terms.extensions, &terms.facts);
        self.require_available((&terms.set, &terms.skill), settings, &terms.cancel)?;
        let input = run_input(terms, input, input_text, args)?;
        let loaded = source.and_then(|opened| {
            let source = opened.0.source.clone();
            let LoadedScript { executor, context, worker } = self.load(terms, providers, opened)?;
            require_streams(terms, worker)?;
            // What a process has loaded is not run for other files.
            let files = worker.filter(|worker| !worker.is_single_run());
            let files = files.and_then(|_| Some(self.list_files(terms)?.digest()));
            let context = context.arguments(|| run_arguments(terms, &input, &source)).worker_files(files);
            Ok((executor, context.run_id(trace.id).span(trace.span).events(trace.events), source))
        });
        // Where the script could not be loaded for lack of it, this error says so.
        let space = address_space(&terms.limits.enforced, terms.is_in_process());
        let reservation = AddressSpaceReservation::for_run(space)?;
        let (executor, context, source) = loaded?;
        let context = context.build();
        let slot = self.result_slot(terms, &source, &input, &context);
        let run = ActiveRun { terms, copy, context, slot, audit: trace.audit, _reservation: reservation };
        Ok(PreparedRun { executor, input, run })
    }

    /// The loaded script, and the context of its run: what its script receives, and what it may do.
    pub(super) fn load(
        &self,
        terms: &RunTerms<'_>,
        mut providers: Providers,
        (script, files): (Script, Files),
    ) -> Result<LoadedScript> {
        let RunTerms { set, skill, selected, limits, execution_mode, cancel, .. } = terms;
        cancel.check()?;
        terms.facts.environment.as_ref().map_or(Ok(()), |environment| environment.check())?;
        let (runtime, mode) = (selected.runtime, *execution_mode);
        let executor = catch_runtime_panic(|| {
            self.script_cache.load(&self.runtimes, runtime, &script, (mode, set.generation), cancel)
        })?;
        if terms.facts.is_in_copy {
            // What an editor has is of the project, and it would be asked about changes that nothing makes there.
            providers.files = None;
        }
        let hosts = base_url_hosts_of_run(terms, &providers)?;
        let declared = with_permissions(declared_permissions(skill, runtime), hosts.iter().cloned());
        let listed = declared.listed().len();
        let requested = with_permissions(declared, executor.requested_permissions());
        let (folder_index, folder) = terms.folder;
        let unprotected =
            || SkillError::new(ErrorKind::Unavailable, "the folder of the run is not protected");
        let protected = set.protected_folders.get(folder_index).ok_or_else(unprotected)?;
        let extensions = self.run_extensions(terms, &script.source, requests_store(&requested))?;
        let mut facts = terms.facts.clone();
        if !terms.is_in_process() {
            facts.skill_roots = self.skills.folders_of_skills().into();
        }
        let has_approver = providers.approver.is_some();
        let permissions = self.run_permissions(terms, (requested, listed, hosts), protected, has_approver)?;
        let (project_files, files) = files_of_run(terms, files)?;
        let context = SkillContext::builder(skill.name())
            .qualified_name(skill.qualified_name())
            .project(project_files.with_secret_links(&folder.secret_links))
            .skill_files(files)
            .config_fields(skill.contract().map(|contract| contract.config.clone()))
            .permissions(permissions)
            .limits(limits.enforced.clone())
            .callee_limits(limits.given.clone())
            .sandbox_mode(terms.sandbox_mode)
            .execution_mode(mode)
            .providers(providers)
            .extensions(extensions)
            .facts(facts)
            .thread_budget(ThreadBudget::new(self.max_threads))
            .cancel(cancel.clone());
        let context = match runtime {
            RuntimeId::EXTERNAL => context.host_memory(process_host_memory(&limits.enforced)),
            _ => context,
        };
        let context = match &terms.caller {
            Some(caller) => context.called_by(caller.clone()),
            None => context,
        };
        let context = match journal_file(terms)? {
            Some(file) => {
                context.journal(file, Some(ProjectIdentity::from_canonical(&folder.path)?.to_string()))
            }
            None => context,
        };
        let worker = worker::requested_worker(skill.manifest(), runtime, &limits.given)?;
        Ok(LoadedScript { executor, context: context.worker(worker), worker })
    }

    /// Where the value of this run is kept for equal ones, if its skill permits it.
    fn result_slot(
        &self,
        terms: &RunTerms<'_>,
        source: &[u8],
        input: &SkillInput,
        context: &SkillContext,
    ) -> Option<ResultSlot<'_>> {
        // A value that comes from elsewhere changes nothing in a copy, and one that was made there says nothing of the project.
        if terms.facts.is_in_copy {
            return None;
        }
        let cache = self.results.as_ref()?;
        let RunTerms { skill, selected, .. } = terms;
        let ttl = cache_ttl(skill, selected.runtime, context)?;
        // A key does not hold what the caller's own providers say.
        if !have_same_values(context.providers(), &self.providers) {
            return None;
        }
        let files = match (terms.digest, selected.runtime) {
            (Some(digest), _) => Some(digest),
            // They read no other file of the skill but by `ctx.asset`, which is compared.
            (None, RuntimeId::LUA | RuntimeId::RHAI) => None,
            (None, _) => Some(self.list_files(terms)?.digest()),
        };
        Some(cache.slot(result_key((skill, files), (selected, source), input, context), ttl))
    }

    /// The files of the skill as they are now.
    fn list_files(&self, terms: &RunTerms<'_>) -> Option<Arc<FileList>> {
        self.digests.list(&terms.skill, &terms.cancel).ok()
    }
}

/// The input as its script gets it, validated.
fn run_input(
    terms: &RunTerms<'_>,
    input: Option<Value>,
    text: Option<Arc<str>>,
    args: Vec<String>,
) -> Result<SkillInput> {
    let is_in_process = terms.is_in_process();
    let value = catch_contract_panic(|| validate_input(terms.target(), input)).map_err(|error| {
        // No script in this process gets arguments.
        if args.is_empty() || !is_in_process || error.kind() != ErrorKind::InvalidInput {
            return error;
        }
        let help = "arguments reach external scripts only: pass them as fields of the input, in JSON";
        error.with_help(help).with_hint(None)
    })?;
    let is_unchanged = |text: &Arc<str>| strict_json::parse(text).ok() == value && !is_in_process;
    let text = text.filter(is_unchanged);
    let text = text.map(|text| strict_json::without_white_space(&text).into_boxed_str());
    Ok(with_input_text(SkillInput::new(value, args), text))
}

/// What an approver is shown, and what tells this call from every other one.
fn run_arguments(terms: &RunTerms<'_>, input: &SkillInput, source: &[u8]) -> RunArguments {
    let SelectedScript { path, function, .. } = &terms.selected;
    let mut digest = Sha256::new();
    digest.update(Sha256::digest(source));
    // A process reads the text as it is, and no input is another one than `null`.
    let text = input_text(input).filter(|_| !terms.is_in_process());
    digest.update(json!([input.value.is_some(), text]).to_string());
    RunArguments {
        input: input.value.clone(),
        args: input.args.clone(),
        tool: terms.target().tool.map(|tool| called_tool(&terms.skill, tool)),
        script: function.as_ref().map_or_else(|| path.clone(), |function| format!("{path}#{function}")),
        source: SkillDigest::new(digest.finalize().into()).to_string(),
    }
}

/// The journal file of the run, if it has one. Only plans have steps to journal.
fn journal_file(RunTerms { skill, selected, journal, caller, .. }: &RunTerms<'_>) -> Result<Option<PathBuf>> {
    let is_plan = selected.runtime == RuntimeId::TOOL_SEQUENCE;
    match journal {
        Some(JournalTarget::File(file)) if is_plan => Ok(Some(file.clone())),
        Some(JournalTarget::Folder(folder)) if is_plan => {
            let of_tool = selected.tool.as_ref().map(|tool| format!("{}.{}", skill.name(), tool.name));
            Ok(Some(metier_plan::journal_path(folder, of_tool.as_deref().unwrap_or(skill.name()))))
        }
        Some(JournalTarget::File(_)) if caller.is_some() => Ok(None),
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

/// Only the process of an external script has standard streams of its own.
fn require_streams(terms: &RunTerms<'_>, worker: Option<WorkerOptions>) -> Result<()> {
    let RunTerms { facts, caller, selected, .. } = terms;
    let has_stdin = facts.stdin.is_some();
    let has_sinks = facts.output_sinks.is_some();
    if has_sinks && caller.is_none() && facts.is_for_model {
        let sentence = "failed to pass the output of the script on as it comes: a model reads it, so it is sanitized when it is whole";
        return Err(SkillError::new(ErrorKind::Usage, sentence)
            .with_help("run it without that; the outcome has the value and the output"));
    }
    let has_copies = !facts.leftovers_to_copy.is_empty();
    let wants_streams = has_stdin || has_sinks || has_copies;
    if !wants_streams || caller.is_some() || !terms.is_in_process() && worker.is_none() {
        return Ok(());
    }
    let what = if has_stdin { "standard input" } else { "the output streams" };
    let why = if worker.is_some() {
        "its process is a worker, which serves several runs".to_owned()
    } else {
        format!("only external scripts have streams of their own, and it runs in {}", selected.runtime)
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

/// Execute.
impl EngineInner {
    /// Asks whoever has to be asked, and runs the script if nothing has changed meanwhile.
    fn execute(
        &self,
        run: &ActiveRun<'_>,
        executor: &dyn SkillExecutor,
        input: SkillInput,
    ) -> Result<SkillOutput> {
        let ActiveRun { terms, context, audit, .. } = run;
        if let Some(warning) = unsupported_warning(terms.selected.runtime, &terms.limits.not_applied) {
            context.log_once(LogLevel::Warn, warning)?;
        }
        if let Some(reason) = &run.copy.undo_gap {
            context
                .log_once(LogLevel::Warn, format!("the changes of this run cannot be undone: {reason}"))?;
        }
        let has_agreed = self.pass_gates(terms, &input, context)?;
        context.cancel().check()?;
        let may_change = terms.process_folder().is_some() && may_change_folder(context);
        let _lock = self.lock_folder(terms, may_change, context)?;
        if let Some(audit) = audit {
            let now = || self.current_digest((&terms.set, &terms.skill), context).ok();
            audit.start((context, &input), &terms.grants, terms.digest.or_else(now), has_agreed)?;
        }
        let shown = (has_agreed && context.call_recorder().is_some())
            .then(|| context.redaction().value(input.value.clone().unwrap_or_default()).into_inner());
        if let Some((value, age)) = run.slot.as_ref().and_then(|slot| slot.get(context)) {
            let age = age.as_secs();
            context.log_once(LogLevel::Info, format!("the value is that of an equal run, {age} s ago"))?;
            record_access(terms, context, shown);
            if let Some(audit) = audit {
                audit.set_cached();
            }
            return Ok(SkillOutput::from(value));
        }
        if run.slot.is_some() && terms.is_in_process() {
            context.record_reads();
        }
        let before = if may_change { self.list_files(terms) } else { None };
        let result = catch_runtime_panic(|| executor.execute_with_context(input, Some(context)));
        record_access(terms, context, shown);
        if let Some(before) = before {
            self.warn_of_changed_files(&terms.skill, &before, context);
        }
        let output = result?;
        // An executor of an embedder may have ignored the token.
        context.cancel().check()?;
        Ok(output)
    }

    /// Locks the folder of the skill against runs that may change it, or for this run if it may. Fails if its files changed while whoever was
    /// asked, or whoever held the lock, took time.
    fn lock_folder(
        &self,
        terms: &RunTerms<'_>,
        may_change: bool,
        context: &SkillContext,
    ) -> Result<Option<FolderLock>> {
        let is_compared = terms.digest.is_some() && terms.is_for_these_files;
        let folder = terms.process_folder().filter(|_| may_change || is_compared);
        let lock = folder.map(|folder| FolderLock::acquire(folder, context, may_change)).transpose()?;
        let is_stale = lock.is_some() || context.permissions().has_decisions();
        if let Some(digest) = terms.digest.filter(|_| is_stale) {
            self.require_unchanged((&terms.set, &terms.skill), digest, context)?;
        }
        Ok(lock)
    }
}

/// Records for the step of a plan that led here what this run had.
fn record_access(terms: &RunTerms<'_>, context: &SkillContext, confirmed: Option<Value>) {
    let Some(caller) = context.caller().filter(|caller| caller.call_recorder().is_some()) else { return };
    let is_loose = !terms.is_in_process() && context.sandbox_mode() != SandboxMode::Required;
    let mut call = context.access_of_call();
    call.skill = Some(terms.skill.qualified_name());
    call.tool = terms.target().tool.map(|tool| tool.name.clone());
    call.sandbox = is_loose.then(|| context.sandbox_mode().to_string());
    call.confirmed = confirmed;
    caller.record_call(call);
}

/// Finish.
impl EngineInner {
    /// The outcome, without secrets and within the output cap, once the copy is applied or compared.
    fn finish(&self, run: ActiveRun<'_>, result: Result<SkillOutput>) -> Outcome {
        let ActiveRun { terms, copy, context, slot, audit, _reservation } = run;
        let profile = self.sanitize_profile(Some(&terms.skill));
        if let Some(audit) = audit {
            audit.redact_input(&context);
        }
        set_outcome_filter(&context, profile);
        let copy = copy.running.as_ref();
        let applied = copy.map_or(Ok(()), |copy| copy.apply_granted(&context, self));
        if let (Err(_), Err(lost)) = (&result, &applied) {
            context.warn(format!("its changes were not applied to the project: {lost}"));
        }
        let result = result.and_then(|output| applied.map(|()| output));
        let mut outcome = outcome(terms, result, &context, slot, profile);
        // If what the run changed in a copy of its project cannot be read, the run has failed.
        if let Some(copy) = copy {
            let texts = ModelTexts::for_run(&context, profile);
            let shown = |value| texts.value(context.redaction().value(value), false).into_inner();
            match copy.finish(shown) {
                Ok(changes) => outcome.changes = changes.map(Box::new),
                Err(error) if outcome.result.is_ok() => {
                    outcome.result = Err(context.redaction().error(error).into_inner());
                }
                Err(error) => tracing::warn!("the changes of a failed run cannot be read: {error}"),
            }
            outcome.sanitized += texts.changes();
        }
        outcome
    }
}

/// Tells a caller that shows more than the outcome has what is taken out of it.
fn set_outcome_filter(context: &SkillContext, profile: Option<SanitizeProfile>) {
    let Some(filter) = context.facts().outcome_filter.as_ref().filter(|_| context.caller().is_none()) else {
        return;
    };
    let texts = Mutex::new(ModelTexts::for_run(context, profile));
    // Not the context itself, which holds the filter.
    let redaction = context.redaction().snapshot();
    filter.set(move |value| {
        let texts = texts.lock().unwrap_or_else(PoisonError::into_inner);
        texts.value(redaction.value(value), false).into_inner()
    });
}

/// The outcome of what the script returned.
fn outcome(
    terms: &RunTerms<'_>,
    result: Result<SkillOutput>,
    context: &SkillContext,
    slot: Option<ResultSlot<'_>>,
    profile: Option<SanitizeProfile>,
) -> Outcome {
    let skill = &terms.skill;
    let limits = worker::without_cpu_limit_of_worker(context.worker(), &terms.limits.enforced);
    let redaction = context.redaction();
    let (process, sandbox) = context.take_reports();
    let cap = OutputCap::new(&limits, process.as_ref());
    let texts = ModelTexts::for_run(context, profile);
    let process = process.map(|report| texts.process(redaction.process(report)));
    // It is cut once it has no secret. That of a skill that was called says more about the error than what its caller wrote.
    let output = |error: &SkillError| match &process {
        Some(report) if error.output().is_none() => Some(error_output(report.as_inner())),
        _ => None,
    };
    let value = result
        .and_then(|output| validate_value(terms, output, context))
        .map(|value| cap.redact(context.value_redaction(), value));
    let cached = slot.as_ref().and_then(ResultSlot::answer_age).map(outcome::cached_result);
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
    tracing::debug!(skill = skill.name(), ok = result.is_ok(), "ran");
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
    let version = Some(skill.version().to_string());
    let mut outcome = outcome::from_run(skill.name().to_owned(), version, &limits, left);
    outcome.grants = grants;
    outcome.cached = cached;
    outcome.sanitized = texts.changes();
    outcome.limits.truncated = cap.was_truncated();
    // A timeout of only a part of the run is none of the run.
    if outcome.limits.hit == Some(ErrorKind::Timeout) && context.cancel().cause() != Some(StopCause::Timeout)
    {
        outcome.limits.hit = None;
    }
    outcome
}

/// The value of a script; output that was passed on is none to validate.
fn validate_value(terms: &RunTerms<'_>, output: SkillOutput, context: &SkillContext) -> Result<Value> {
    match context.output_sinks() {
        Some(_) => Ok(output.value),
        None if terms.is_in_process() => catch_contract_panic(|| validate_output(terms.target(), output)),
        None => catch_contract_panic(|| validate_printed_output(terms.target(), output)),
    }
}

/// The outcome of a run that ended before its script started.
fn not_run(skill: &Skill, limits: &Limits, error: SkillError) -> Outcome {
    outcome::not_run(skill.name().to_owned(), Some(skill.version().to_string()), limits, error)
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

/// A panic in the runtime is a defect of metier or of an embedder's executor; it must not crash the host.
fn catch_runtime_panic<T>(work: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_panic("the runtime", ErrorKind::Script, work)
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
