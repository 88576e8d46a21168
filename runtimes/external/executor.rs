//! One run of a script: as a plain process, or in a sandbox.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use serde_json::Value;

use super::super::RuntimeServices;
use super::super::sandbox::{self, LaunchRequest, RunTempDir};
use super::process::{self, Launch, WorkerSession};
use crate::error::{ErrorKind, Result, SkillError};
use crate::executor::{Script, SkillExecutor, SkillInput, SkillOutput};
use crate::host::temp_dirs;
use crate::host::untrusted::UntrustedDirs;
use crate::host::{Files, LogLevel, SandboxReport, SkillContext};
use crate::policy::{Access, Permissions, SandboxMode, WorkerOptions};
use crate::runtimes::external::host_api::{RequestHandler, imports_client};
use crate::runtimes::external::interpreter::cache::{Installation, InterpreterQuery};
use crate::runtimes::external::interpreter::detect::{Interpreter, InterpreterCommand, search_path};
use crate::runtimes::external::outcome::ProtectionGaps;
use crate::runtimes::external::policy;
use crate::runtimes::external::policy::RunPaths;
use crate::runtimes::external::protected::creation_guard::CreationGuard;
use crate::runtimes::external::protected::scan::Fingerprint;
use crate::runtimes::external::script_file::ScriptFile;
use crate::runtimes::external::worker::pool::{WorkerKey, WorkerPool};
use crate::runtimes::external::worker::process::{WorkerCleanup, WorkerProcess};
use crate::runtimes::external::{command, outcome};

pub(super) use super::process::is_executable;

/// A script and the interpreter that runs it.
pub(super) struct ExternalExecutor {
    pub(super) file: ScriptFile,
    interpreter: Interpreter,
    pub(super) shared: RuntimeServices,
    workers: WorkerPool,
}

/// What a sandboxed run starts with.
pub(super) struct PreparedLaunch<'a> {
    pub(super) request: LaunchRequest,
    /// Removed with everything in it when this is dropped.
    temp_dir: RunTempDir,
    installation: Arc<Installation>,
    pub(super) project: &'a Path,
    skill: &'a Path,
    /// How many of the request's read paths belong to the script itself; those after them are the clients'.
    pub(super) script_read_count: usize,
}

impl SkillExecutor for ExternalExecutor {
    fn execute_with_context(&self, input: SkillInput, context: Option<&SkillContext>) -> Result<SkillOutput> {
        let name = self.file.name();
        let ctx = context.ok_or_else(|| {
            let sentence = format!("{name} runs as a process, which takes a project");
            SkillError::new(ErrorKind::Unavailable, sentence)
        })?;
        ctx.cancel().check()?;
        let _counted = self.shared.count_process();
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
    pub(super) fn new(script: &Script, shared: &RuntimeServices) -> Result<Self> {
        let interpreter = Interpreter::detect(&script.path, &script.source)?;
        let (file, shared) = (ScriptFile::new(script)?, shared.clone());
        Ok(Self { file, interpreter, shared, workers: WorkerPool::default() })
    }

    /// Whether the caller turned the sandbox off.
    pub(super) fn is_unsandboxed(ctx: &SkillContext) -> bool {
        let is_free = |permissions: &Permissions| match ctx.depth() {
            0 => permissions.is_granted(&Access::exec_unsandboxed()),
            _ => permissions.allows(&Access::exec_unsandboxed()),
        };
        ctx.sandbox_mode() == SandboxMode::Off || is_free(ctx.permissions())
    }

    /// Whether a run whose sandbox cannot be set up may continue without one.
    pub(super) fn may_fall_back_to_unsandboxed(ctx: &SkillContext, error: &SkillError) -> bool {
        error.kind() == ErrorKind::SandboxUnavailable && ctx.sandbox_mode() == SandboxMode::BestEffort
    }

    /// The arguments after the script: none for a worker, which receives the arguments of each run in its request.
    pub(super) fn arguments<'a>(input: &'a SkillInput, ctx: &SkillContext) -> &'a [String] {
        if ctx.worker().is_some() { &[] } else { &input.args }
    }

    /// The folders in which untrusted code may have put anything on the path to a program.
    pub(super) fn untrusted_dirs(&self, ctx: &SkillContext) -> UntrustedDirs {
        let (project, skill) = (ctx.project().ok().map(Files::root), self.file.folder());
        // If the run has opened it, its path contains no symlinks.
        let skill = match ctx.skill_files() {
            Ok(files) if files.root() == skill => Some(skill.to_owned()),
            _ => std::fs::canonicalize(skill).ok(),
        };
        UntrustedDirs::from_canonical(project.map(Path::to_owned).into_iter().chain(skill))
    }

    /// The absolute path of the script, after a check that it is still what was loaded.
    fn verified_script_path(&self, ctx: &SkillContext) -> Result<PathBuf> {
        match self.opened_skill_files(ctx) {
            // One check suffices if the folder is still at the path where it was opened.
            Some(files) if self.file.is_unchanged_in(files) => Ok(self.file.path().to_owned()),
            _ => self.file.verified_path(),
        }
    }

    /// The skill's folder as the run has opened it, if that is what is at its path now.
    fn opened_skill_files<'a>(&self, ctx: &'a SkillContext) -> Option<&'a Files> {
        let folder = self.file.folder();
        let files = ctx.skill_files().ok().filter(|files| files.root() == folder)?;
        let about = folder.symlink_metadata().ok()?;
        (files.file_id(Path::new("")).ok()? == (about.dev(), about.ino())).then_some(files)
    }

    /// The program, and its arguments before the script.
    fn with_client_import(
        &self,
        mut found: InterpreterCommand,
        avoided: &[&Path],
    ) -> Result<InterpreterCommand> {
        if imports_client(&found.program, self.file.source()) {
            let import = self
                .shared
                .api_clients()
                .node_import_arg(|| self.shared.launcher().server_program(), avoided);
            let import = import.map_err(client_write_error)?;
            found.args.insert(0, import.to_string_lossy().into_owned());
        }
        Ok(found)
    }

    /// The command of an unsandboxed process.
    pub(super) fn unsandboxed_command(&self, args: &[String], ctx: &SkillContext) -> Result<Command> {
        let script = self.verified_script_path(ctx)?;
        let (project, strangers) = (ctx.project()?.root(), self.untrusted_dirs(ctx));
        // Inside a sandbox it would be harmless; here it would have all the rights of the user.
        let is_shunned = |program: &Path| strangers.may_control(program);
        let (name, reason) =
            (self.file.name(), "comes from the project or the skill and runs in a sandbox only");
        let interpreter = self.interpreter.locate_allowed(name, &search_path(), is_shunned, reason)?;
        let interpreter = self.with_client_import(interpreter, &[])?;
        let mut command = command::build_command(&interpreter, &script, args, self.file.folder(), project);
        self.shared.api_clients().add_modules_to(&mut command, || self.shared.launcher().server_program());
        Ok(command)
    }

    /// The launch request for a sandboxed process.
    pub(super) fn prepare_launch<'a>(
        &'a self,
        args: &[String],
        ctx: &'a SkillContext,
    ) -> Result<PreparedLaunch<'a>> {
        let (name, project, skill) = (self.file.name(), ctx.project()?.root(), self.file.folder());
        let script = self.verified_script_path(ctx)?;
        let question = InterpreterQuery::new(&self.interpreter, self.untrusted_dirs(ctx));
        let installed = self.shared.interpreter_cache().installation(question, name)?;
        // No other run may see what is created for one run.
        let mut avoided = vec![project, skill];
        avoided.extend(installed.prefix_paths.iter().map(AsRef::<Path>::as_ref));
        let interpreter = self.with_client_import(installed.command.clone(), &avoided)?;
        let scratch = RunTempDir::new(self.shared.cleanup(), &avoided)
            .map_err(|error| SkillError::io("failed to make a folder for the run", error))?;
        let places = RunPaths { project, skill, temp_dir: scratch.path(), installation: &installed };
        let sandbox = policy::sandbox_policy(ctx, &places);
        let own_reads = sandbox.files.as_ref().map_or(0, |rules| rules.read.len());
        let mut order = command::build_request(
            &interpreter,
            &script,
            args,
            &places,
            sandbox,
            ctx.limits(),
            ctx.redaction(),
        )
        .map_err(|error| outcome::start_error(name, project, error))?;
        if ctx.worker().is_some_and(|worker| !worker.is_single_run()) {
            // Both count from the start of the process, which does not fit the runs of a worker; its host enforces the deadline
            // of each.
            order.sandbox.limits.cpu_seconds = None;
            order.timeout_ms = u64::MAX;
        }
        let offered = self.shared.api_clients().add_to_request(
            &mut order,
            || self.shared.launcher().server_program(),
            &avoided,
        );
        offered.map_err(client_write_error)?;
        order.cleanup_dirs.extend(temp_dirs::process_dirs().into_iter().map(Into::into));
        drop(avoided);
        Ok(PreparedLaunch {
            request: order,
            temp_dir: scratch,
            installation: installed,
            project,
            skill,
            script_read_count: own_reads,
        })
    }

    /// Runs with all the rights of the user, which the report and the log state.
    fn run_unsandboxed(&self, input: &SkillInput, ctx: &SkillContext) -> Result<SkillOutput> {
        let command = self.unsandboxed_command(Self::arguments(input, ctx), ctx)?;
        ctx.report_sandbox(SandboxReport::NONE);
        log_warning(
            ctx,
            format!("{} runs without a sandbox, with all the rights of the user", self.file.name()),
        );
        if let Some(worker) = ctx.worker() {
            let started = WorkerSession::start(Launch::Unsandboxed(Box::new(command)), ctx.limits());
            let life =
                self.new_worker_process(started, worker, SandboxReport::NONE, WorkerCleanup::default(), ctx)?;
            return life.run_once(input, ctx).map(SkillOutput::from);
        }
        self.run_process(Launch::Unsandboxed(Box::new(command)), input.value.as_ref(), ctx)
    }

    fn run_sandboxed(&self, input: &SkillInput, ctx: &SkillContext) -> Result<SkillOutput> {
        if let Some(worker) = ctx.worker() {
            self.verified_script_path(ctx)?;
            let start = || self.start_worker(worker, input, ctx);
            let value = if worker.is_single_run() {
                start()?.run_once(input, ctx)
            } else {
                self.workers.run(WorkerKey::new(ctx)?, input, ctx, start)
            };
            return value.map(SkillOutput::from);
        }
        let PreparedLaunch { request: order, temp_dir: scratch, project, .. } =
            self.prepare_launch(Self::arguments(input, ctx), ctx)?;
        let found = order.sandbox.files.as_ref().map(|rules| &rules.protected_paths);
        let before = CreationGuard::new(ctx, project, found);
        let obstacles = check_protection_gaps(ctx, &order, project);
        let outcome = self.run_process(
            Launch::Sandboxed(self.shared.launcher(), Box::new(order)),
            input.value.as_ref(),
            ctx,
        );
        let outcome = outcome.map_err(|error| outcome::with_protection_gaps(error, obstacles));
        drop(scratch);
        match before {
            Some(mut before) => before.enforce_on(ctx, self.file.name(), outcome),
            None => outcome,
        }
    }

    /// Starts a worker in a sandbox. Its enforcement is probed with a program that does nothing in the same sandbox: the worker's
    /// own report arrives when it ends, which is too late for its runs.
    fn start_worker(
        &self,
        worker: WorkerOptions,
        input: &SkillInput,
        ctx: &SkillContext,
    ) -> Result<WorkerProcess> {
        let PreparedLaunch { request: order, temp_dir: scratch, project, .. } =
            self.prepare_launch(Self::arguments(input, ctx), ctx)?;
        let obstacles = check_protection_gaps(ctx, &order, project);
        let found = order.sandbox.files.as_ref().map(|rules| &rules.protected_paths);
        let (marks, before) =
            (found.map(Fingerprint::new).unwrap_or_default(), CreationGuard::new(ctx, project, found));
        let launcher = self.shared.launcher();
        let probed = sandbox::probe(launcher, order.sandbox.clone()).and_then(process::check_setup);
        let report =
            probed.map_err(|error| outcome::with_protection_gaps(self.start_error(ctx, error), obstacles))?;
        let started = WorkerSession::start(Launch::Sandboxed(launcher, Box::new(order)), ctx.limits());
        self.new_worker_process(
            started,
            worker,
            outcome::sandbox_report(&report),
            WorkerCleanup { creation_guard: before, fingerprint: marks, temp_dir: Some(scratch) },
            ctx,
        )
    }

    fn new_worker_process(
        &self,
        started: io::Result<WorkerSession>,
        worker: WorkerOptions,
        sandbox: SandboxReport,
        own: WorkerCleanup,
        ctx: &SkillContext,
    ) -> Result<WorkerProcess> {
        let session = started.map_err(|error| self.start_error(ctx, error))?;
        Ok(WorkerProcess::new(
            session,
            self.file.name(),
            ctx.project()?.root().to_owned(),
            worker,
            sandbox,
            own,
        ))
    }

    /// A run that was cancelled during its start did not fail to start.
    fn start_error(&self, ctx: &SkillContext, error: io::Error) -> SkillError {
        let failed = || match ctx.project() {
            Ok(project) => outcome::start_error(self.file.name(), project.root(), error),
            Err(error) => error,
        };
        ctx.cancel().check().err().unwrap_or_else(failed)
    }

    fn run_process(
        &self,
        start: Launch<'_>,
        input: Option<&Value>,
        ctx: &SkillContext,
    ) -> Result<SkillOutput> {
        let name = self.file.name();
        let service = RequestHandler::new(ctx, name, input);
        let request = process::ProcessOptions {
            launch: start,
            stdin: input.map(|value| value.to_string().into_bytes()),
            limits: ctx.limits(),
            cancel: ctx.cancel(),
            handler: &service,
        };
        let ended = process::run(request).map_err(|error| self.start_error(ctx, error))?;
        let code = ended.status.code();
        outcome::evaluate_exit(ctx, name, ended).map_err(|error| service.error_for_exit(error, code))
    }
}

impl PreparedLaunch<'_> {
    pub(super) fn run_paths(&self) -> RunPaths<'_> {
        RunPaths {
            project: self.project,
            skill: self.skill,
            temp_dir: self.temp_dir.path(),
            installation: &self.installation,
        }
    }
}

fn client_write_error(error: io::Error) -> SkillError {
    SkillError::io("failed to write the clients of the host API", error)
}

/// Warns if some protected paths may not have been found, and returns everything that can keep the process from being started.
fn check_protection_gaps(ctx: &SkillContext, order: &LaunchRequest, project: &Path) -> ProtectionGaps {
    let obstacles = ProtectionGaps::in_request(order, project);
    if let Some(more) = obstacles.incomplete_reason() {
        log_warning(ctx, format!("not all secrets and histories of the project are guarded: {more}"));
    }
    obstacles
}

/// Logs a warning of metier. If the log is too small for it, the run does not fail: the report says the same.
pub(super) fn log_warning(ctx: &SkillContext, line: String) {
    ctx.log(LogLevel::Warn, line).ok();
}
