//! One run of a script: as a plain process, or in a sandbox.

use std::io;
use std::path::Path;
use std::sync::Arc;

use crate::home;
use crate::home_files::HomeFile;
use crate::host_api::RequestHandler;
use crate::leftovers;
use crate::observation::RunFiles;
use crate::outcome::{self, EndedScript, ProtectionGaps};
use crate::placeholder_variables;
use crate::policy;
use crate::process::launch::Launch;
use crate::process::run::{self, ProcessInput, ProcessOptions};
use crate::process::setup_error::probe;
use crate::process::supervisor_lost::SupervisorLost;
use crate::project_overlay::ProjectOverlay;
use crate::script_command::{PreparedLaunch, ProcessVariables, ScriptCommand};
use crate::services::ExternalServices;
use crate::worker::pool::{WorkerKey, WorkerPool};
use crate::worker::process::{WorkerCleanup, WorkerProcess};
use crate::worker::session::WorkerSession;
use metier_core::error::{ErrorKind, Result, SkillError};
use metier_core::executor::{Script, SkillExecutor, SkillInput, SkillOutput, WatchedAccess, input_text};
use metier_core::host::{
    ProcessOutput, RunContext, RunMessages, RunReporting, SandboxReport, SkillContext, process_variables,
    run_secrets,
};
use metier_core::policy::{Access, CancelToken, Permissions, RunPermissions, SandboxMode, WorkerOptions};
use metier_state::StateLease;

/// Detects the script's interpreter; `invalid-skill` if neither its shebang nor its file extension names one, or if it has no
/// folder. Whether the interpreter is installed is checked when the script runs.
pub fn load(script: &Script, services: &ExternalServices) -> Result<Box<dyn SkillExecutor>> {
    Ok(Box::new(ExternalExecutor::new(script, services)?))
}

/// Runs a script as a process, or passes its runs to workers.
pub(super) struct ExternalExecutor {
    pub(super) script: ScriptCommand,
    workers: WorkerPool,
}

impl SkillExecutor for ExternalExecutor {
    fn execute_with_context(&self, input: SkillInput, context: Option<&SkillContext>) -> Result<SkillOutput> {
        let name = self.script.file.name();
        let ctx = context.ok_or_else(|| {
            let sentence = format!("{name} runs as a process, which takes a project");
            SkillError::new(ErrorKind::Unavailable, sentence)
        })?;
        ctx.cancel().check()?;
        if let Some(delta) = &ctx.facts().delta {
            return Err(delta.refusal.clone());
        }
        let _count = self.script.services.count_process();
        if Self::is_unsandboxed(ctx) {
            return self.run_unsandboxed(&input, ctx);
        }
        match self.run_sandboxed(&input, ctx) {
            Err(error) if Self::may_fall_back_to_unsandboxed(ctx, &error) => {
                self.run_unsandboxed(&input, ctx)
            }
            outcome => outcome,
        }
    }
}

impl ExternalExecutor {
    pub(super) fn new(script: &Script, services: &ExternalServices) -> Result<Self> {
        Ok(Self { script: ScriptCommand::new(script, services)?, workers: WorkerPool::default() })
    }

    /// Whether the caller turned the sandbox off.
    pub(super) fn is_unsandboxed(ctx: &SkillContext) -> bool {
        let allows = |permissions: &Permissions| match ctx.depth() {
            0 => permissions.is_granted(&Access::exec_unsandboxed()),
            _ => permissions.allows(&Access::exec_unsandboxed()),
        };
        ctx.sandbox_mode() == SandboxMode::Off || allows(ctx.permissions())
    }

    /// Whether a run whose sandbox cannot be set up may continue without one.
    pub(super) fn may_fall_back_to_unsandboxed(ctx: &SkillContext, error: &SkillError) -> bool {
        error.kind() == ErrorKind::SandboxUnavailable && ctx.sandbox_mode() == SandboxMode::BestEffort
    }

    /// The arguments after the script: none for a worker, which receives the arguments of each run in its request.
    pub(super) fn arguments<'a>(input: &'a SkillInput, ctx: &SkillContext) -> &'a [String] {
        if ctx.worker().is_some() { &[] } else { &input.args }
    }

    /// Runs with all the rights of the user, which the report and the log state.
    fn run_unsandboxed(&self, input: &SkillInput, ctx: &SkillContext) -> Result<SkillOutput> {
        if ctx.facts().is_in_copy {
            let name = self.script.file.name();
            let sentence = format!(
                "failed to run {name} without a sandbox: the run is on a copy of the project, which it could leave"
            );
            let help = "run it in the sandbox, or on the project itself";
            return Err(SkillError::new(ErrorKind::Denied, sentence).with_help(help));
        }
        leftovers::require_none_wanted(ctx)?;
        let command =
            self.script.unsandboxed_command(Self::arguments(input, ctx), &process_variables(ctx)?, ctx)?;
        ctx.report_sandbox(SandboxReport::NONE);
        ctx.warn(format!(
            "{} runs without a sandbox, with all the rights of the user",
            self.script.file.name()
        ));
        if !run_secrets(ctx).is_empty() {
            ctx.warn("placeholders of secrets stay what they are: the host program does not serve the network of such a run");
        }
        let (launch, gaps) = (Launch::Unsandboxed(Box::new(command)), ProtectionGaps::default());
        if let Some(worker) = ctx.worker() {
            let session = WorkerSession::start(launch, ctx.limits())
                .map_err(|error| self.start_error(ctx, &gaps, error))?;
            let (sandbox, cleanup) = (SandboxReport::NONE, WorkerCleanup::default());
            return self
                .new_worker_process(session, worker, sandbox, cleanup, ctx)?
                .run_once(input, ctx)
                .map(SkillOutput::from);
        }
        self.run_process(launch, input, (None, None, None), &gaps, ctx)
    }

    fn run_sandboxed(&self, input: &SkillInput, ctx: &SkillContext) -> Result<SkillOutput> {
        self.script.services.launcher.prepare(&policy::launch_policy(ctx));
        policy::create_granted_folders(ctx, self.script.file.source())?;
        HomeFile::create_granted(ctx, &[ctx.project()?.root(), self.script.file.folder()]);
        let mut variables = process_variables(ctx)?;
        let file = &self.script.file;
        placeholder_variables::add_placeholders(ctx, (file.name(), file.source()), &mut variables);
        match ctx.worker() {
            Some(worker) => self.run_in_worker(worker, &variables, input, ctx),
            None => self.run_in_sandboxed_process(&variables, input, ctx),
        }
    }

    fn run_in_worker(
        &self,
        worker: WorkerOptions,
        variables: &ProcessVariables,
        input: &SkillInput,
        ctx: &SkillContext,
    ) -> Result<SkillOutput> {
        self.script.verified_script_path(ctx)?;
        let state = home::lease_state(ctx)?;
        let start = || self.start_worker(worker, variables, state.as_ref(), input, ctx);
        // The state is that of one run at a time, what is left in the user's home is looked at after each run, and what was observed is known
        // when the process has ended.
        let changes_home = !ctx.permissions().writable_home_paths().is_empty();
        let is_watched = ctx.extension::<WatchedAccess>().is_some();
        // One that is kept would go on in the copy of a project when that was looked at.
        let is_in_copy = ctx.facts().is_in_copy || ctx.extension::<Arc<ProjectOverlay>>().is_some();
        let is_last_run =
            worker.is_single_run() || state.is_some() || changes_home || is_watched || is_in_copy;
        let value = if is_last_run {
            start()?.run_once(input, ctx)
        } else {
            self.workers.run(WorkerKey::new(ctx, variables)?, input, ctx, start)
        };
        home::keep_state(state, ctx, value.map(SkillOutput::from))
    }

    fn run_in_sandboxed_process(
        &self,
        variables: &ProcessVariables,
        input: &SkillInput,
        ctx: &SkillContext,
    ) -> Result<SkillOutput> {
        let state = home::lease_state(ctx)?;
        let mut launch = self.script.prepare_launch(&input.args, variables, state.as_ref(), ctx)?;
        let (guard, home_guard) = (launch.creation_guard(ctx), launch.take_home_guard());
        let fingerprint = launch.fingerprint();
        let gaps = warn_of_protection_gaps(ctx, &launch);
        let files = RunFiles::new(&launch.request, &launch.run_paths());
        launch.request.sandbox.watch = files.watch_rules(ctx);
        let PreparedLaunch { request, egress, temp_dir, home_entries, project, .. } = launch;
        let launch = Launch::Sandboxed(&self.script.services.launcher, Box::new(request), egress);
        let own_home = temp_dir.home();
        let home = state.as_ref().map_or(own_home.as_path(), StateLease::home);
        let place = (state.as_ref(), Some(home), Some(&files));
        let result = self.run_process(launch, input, place, &gaps, ctx);
        fingerprint.report_replaced(ctx, self.script.file.name(), project);
        home::warn_of_replaced_files(ctx, home_entries.links.as_ref());
        drop(home_entries);
        let state_home = state.as_ref().map(StateLease::home);
        let own_home = (state_home.is_none() && !temp_dir.remove_unused_home()).then_some(own_home);
        let copied = leftovers::report_leftovers(
            ctx,
            self.script.file.name(),
            own_home.as_deref(),
            state_home,
            &temp_dir.temporary_files(),
        );
        drop(temp_dir);
        let result = match copied {
            Err(error) if result.is_ok() => Err(error),
            Err(error) => {
                ctx.warn(error.message());
                result
            }
            Ok(()) => result,
        };
        let result = match guard {
            Some(mut guard) => guard.enforce_on(ctx, self.script.file.name(), result),
            None => result,
        };
        let result = home_guard.enforce_on(ctx, self.script.file.name(), result);
        home::keep_state(state, ctx, result)
    }

    /// Starts a worker in a sandbox. What the sandbox enforces is probed with a program that does nothing in the same sandbox,
    /// because the report of the worker itself arrives when it ends, which is too late for its runs.
    fn start_worker(
        &self,
        worker: WorkerOptions,
        variables: &ProcessVariables,
        state: Option<&StateLease>,
        input: &SkillInput,
        ctx: &SkillContext,
    ) -> Result<WorkerProcess> {
        let mut launch = self.script.prepare_launch(Self::arguments(input, ctx), variables, state, ctx)?;
        let gaps = warn_of_protection_gaps(ctx, &launch);
        let (fingerprint, creation_guard) = (launch.fingerprint(), launch.creation_guard(ctx));
        let home_guard = launch.take_home_guard();
        let files = RunFiles::new(&launch.request, &launch.run_paths());
        let PreparedLaunch { mut request, egress, temp_dir, home_entries, .. } = launch;
        let launcher = &self.script.services.launcher;
        let failed = |error| self.start_error(ctx, &gaps, error);
        let report = probe(launcher, request.sandbox.clone()).map_err(failed)?;
        request.sandbox.watch = files.watch_rules(ctx);
        let session =
            WorkerSession::start(Launch::Sandboxed(launcher, Box::new(request), egress), ctx.limits())
                .map_err(failed)?;
        let (files, temp_dir) = (Some(files), Some(temp_dir));
        let cleanup =
            WorkerCleanup { creation_guard, home_guard, fingerprint, files, home_entries, temp_dir };
        self.new_worker_process(session, worker, outcome::sandbox_report(&report), cleanup, ctx)
    }

    fn new_worker_process(
        &self,
        session: WorkerSession,
        worker: WorkerOptions,
        sandbox: SandboxReport,
        cleanup: WorkerCleanup,
        ctx: &SkillContext,
    ) -> Result<WorkerProcess> {
        let project = ctx.project()?.root().to_owned();
        Ok(WorkerProcess::new(session, self.script.file.name(), project, worker, sandbox, cleanup))
    }

    /// A run that was cancelled during its start did not fail to start.
    fn start_error(&self, ctx: &SkillContext, gaps: &ProtectionGaps, error: io::Error) -> SkillError {
        let failed = || match ctx.project() {
            Ok(project) => outcome::start_error(self.script.file.name(), project.root(), gaps, error),
            Err(error) => error,
        };
        ctx.cancel().check().err().unwrap_or_else(failed)
    }

    fn run_process(
        &self,
        launch: Launch<'_>,
        input: &SkillInput,
        (state, home, files): (Option<&StateLease>, Option<&Path>, Option<&RunFiles>),
        gaps: &ProtectionGaps,
        ctx: &SkillContext,
    ) -> Result<SkillOutput> {
        let name = self.script.file.name();
        let package_folders = launch.package_folders();
        let handler = RequestHandler::new(ctx, name, input.value.as_ref());
        // Where standard input is passed through, the input reaches the script by the client only.
        let stdin = match ctx.take_stdin() {
            Some(source) => ProcessInput::Stream(source),
            None if ctx.has_stdin_source() => ProcessInput::Empty,
            None => {
                input_text(input).map_or(ProcessInput::Empty, |text| ProcessInput::Bytes(text.into_bytes()))
            }
        };
        let start = |cancel: &CancelToken| {
            run::run(ProcessOptions {
                launch,
                stdin,
                sinks: ctx.output_sinks().map(|sinks| (sinks, ctx)),
                limits: ctx.limits(),
                cancel,
                observed: if ctx.output_sinks().is_some() {
                    ProcessOutput::default()
                } else {
                    ProcessOutput::new(ctx)
                },
                handler: &handler,
            })
        };
        let (exit, excess) = home::watch_state(state, ctx, start);
        let exit = exit.map_err(|error| {
            SupervisorLost::warn_if_it_is(&error, ctx, name);
            self.start_error(ctx, gaps, error)
        })?;
        if let (Some(files), Some(report)) = (files, &exit.report) {
            ctx.report_refused_accesses(files.refused_accesses(ctx, report));
        }
        let code = exit.status.code();
        let source = self.script.file.source();
        let script = EndedScript {
            name,
            source,
            args: &input.args,
            home,
            files,
            package_folders: package_folders.as_ref(),
        };
        let result =
            outcome::evaluate_exit(ctx, &script, exit).map_err(|error| handler.error_for_exit(error, code));
        match excess.filter(|_| ctx.cancel().cause().is_none()) {
            Some(excess) => Err(excess),
            None => result,
        }
    }
}

/// Warns if some protected paths may not have been found, and returns everything that can keep the process from being started.
fn warn_of_protection_gaps(ctx: &SkillContext, launch: &PreparedLaunch<'_>) -> ProtectionGaps {
    let gaps = ProtectionGaps::in_request(&launch.request, launch.project);
    if let Some(reason) = gaps.incomplete_reason() {
        ctx.warn(format!("not all secrets and histories of the project are protected: {reason}"));
    }
    gaps
}
