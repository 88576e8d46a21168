//! One run of a script: as a plain process, or in a sandbox.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use serde_json::Value;

use crate::error::{ErrorKind, Result, SkillError};
use crate::executor::{ConfiguredHosts, HandlerCall, Script, SkillExecutor, SkillInput, SkillOutput};
use crate::host::untrusted::UntrustedDirs;
use crate::host::{FileId, Files, ProcessOutput, SandboxReport, SkillContext, temp_dirs};
use crate::packages::{PreparedFiles, SkillPackages};
use crate::policy::{Access, CancelToken, Permissions, SandboxMode, WorkerOptions};
use crate::runtimes::external::egress::EgressRules;
use crate::runtimes::external::host_api::{RequestHandler, imports_client};
use crate::runtimes::external::interpreter::cache::{Installation, InterpreterQuery};
use crate::runtimes::external::interpreter::detect::{Interpreter, InterpreterCommand};
use crate::runtimes::external::interpreter::path::search_path;
use crate::runtimes::external::interpreter::typescript::{check_version, depends_on_version};
use crate::runtimes::external::interpreter::version;
use crate::runtimes::external::outcome::{self, ProtectionGaps};
use crate::runtimes::external::policy::{self, RunPaths};
use crate::runtimes::external::process::launch::Launch;
use crate::runtimes::external::process::run::{self, ProcessInput, ProcessOptions};
use crate::runtimes::external::process::setup_error::probe;
use crate::runtimes::external::protected::creation_guard::CreationGuard;
use crate::runtimes::external::protected::scan::Fingerprint;
use crate::runtimes::external::python_package::module_arguments;
use crate::runtimes::external::script_file::ScriptFile;
use crate::runtimes::external::services::ExternalServices;
use crate::runtimes::external::user_packages::UserPackages;
use crate::runtimes::external::worker::pool::{WorkerKey, WorkerPool};
use crate::runtimes::external::worker::process::{WorkerCleanup, WorkerProcess};
use crate::runtimes::external::worker::session::WorkerSession;
use crate::runtimes::external::{command, home, packages};
use crate::runtimes::sandbox::{LaunchRequest, Launcher, ProtectedPaths, RunTempDir};
use crate::state::StateLease;

/// Detects the script's interpreter; `invalid-skill` if neither its shebang nor its file extension names one, or if it has no
/// folder. Whether the interpreter is installed is checked when the script runs.
pub(crate) fn load(script: &Script, services: &ExternalServices) -> Result<Box<dyn SkillExecutor>> {
    Ok(Box::new(ExternalExecutor::new(script, services)?))
}

/// A script and the interpreter that runs it.
pub(super) struct ExternalExecutor {
    pub(super) file: ScriptFile,
    interpreter: Interpreter,
    handler: Option<HandlerCall>,
    pub(super) services: ExternalServices,
    workers: WorkerPool,
}

/// The environment variables of a process besides those that every script has.
pub(super) type ProcessVariables = BTreeMap<OsString, OsString>;

/// What a sandboxed run starts with.
pub(super) struct PreparedLaunch<'a> {
    pub(super) request: LaunchRequest,
    /// The hosts that it reaches, if it does not reach all or none.
    pub(super) egress: Option<Box<EgressRules>>,
    /// Removed with everything in it when this is dropped.
    temp_dir: RunTempDir,
    home: PathBuf,
    /// The packages that were prepared for the script.
    packages: Option<PreparedFiles>,
    /// Those of the user that it may import.
    user_packages: Option<UserPackages>,
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
        let _count = self.services.count_process();
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
        let interpreter = match &script.handler {
            Some(_) => Interpreter::of_handlers(services.interpreters())?,
            None => Interpreter::detect_with(&script.path, &script.source, services.interpreters())?,
        };
        let (file, services) = (ScriptFile::new(script)?, services.clone());
        let handler = script.handler.clone();
        Ok(Self { file, interpreter, handler, services, workers: WorkerPool::default() })
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

    /// The folders in which untrusted code may have put anything on the path to a program.
    pub(super) fn untrusted_dirs(&self, ctx: &SkillContext) -> UntrustedDirs {
        let (project, skill) = (ctx.project().ok().map(Files::root), self.file.folder());
        let others = self.services.folders().iter().filter(|folder| Some(folder.as_path()) != project);
        // If the run has opened it, its path contains no symlinks.
        let skill = match ctx.skill_files() {
            Ok(files) if files.root() == skill => Some(skill.to_owned()),
            _ => std::fs::canonicalize(skill).ok(),
        };
        UntrustedDirs::from_canonical(
            project.map(Path::to_owned).into_iter().chain(skill).chain(others.cloned()),
        )
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
        let metadata = folder.symlink_metadata().ok()?;
        (files.file_id(Path::new("")).ok()? == FileId::from_metadata(&metadata)).then_some(files)
    }

    /// The interpreter with the arguments that this script needs before its path: those by which an ES module finds the client of
    /// the host API, or a Python module its package.
    fn with_script_arguments(
        &self,
        mut interpreter: InterpreterCommand,
        prepared: Option<&PreparedFiles>,
        avoided: &[&Path],
    ) -> Result<InterpreterCommand> {
        // ES modules find neither the client nor packages by NODE_PATH.
        let has_packages = prepared.is_some() && packages::is_node(&interpreter.program);
        if has_packages || imports_client(&interpreter.program, self.file.source()) {
            let import = self.services.api_clients.node_import_arg(|| self.server_program(), avoided);
            let import = import.map_err(client_write_error)?;
            interpreter.args.insert(0, import.to_string_lossy().into_owned());
        }
        if let Some(handler) = &self.handler {
            let program = self.services.api_clients.handler_program(|| self.server_program(), avoided);
            let program = program.map_err(client_write_error)?;
            interpreter.args.extend([program.to_string_lossy().into_owned(), handler.description.clone()]);
            return Ok(interpreter);
        }
        let file = &self.file;
        let module =
            module_arguments(&interpreter.program, file.source(), file.folder(), file.relative_path());
        interpreter.args.extend(module.into_iter().flatten());
        Ok(interpreter)
    }

    /// `unavailable` if this version of the interpreter does not run the script's language.
    fn check_language(&self, program: &Path, ctx: &SkillContext) -> Result<()> {
        let name = self.file.name();
        if !depends_on_version(name, program) {
            return Ok(());
        }
        let untrusted = self.untrusted_dirs(ctx);
        let is_trusted = !untrusted.may_change(program);
        check_version(name, program, is_trusted, || {
            query_version(program, &untrusted, &self.services.launcher)
        })
    }

    /// The program that serves as the shell client of the host API.
    fn server_program(&self) -> Option<PathBuf> {
        self.services.launcher.server_program()
    }

    /// The command of an unsandboxed process.
    pub(super) fn unsandboxed_command(
        &self,
        args: &[String],
        variables: &ProcessVariables,
        ctx: &SkillContext,
    ) -> Result<Command> {
        let script = self.verified_script_path(ctx)?;
        let (project, untrusted) = (ctx.project()?.root(), self.untrusted_dirs(ctx));
        // Inside a sandbox such a program would be harmless; here it would have all the rights of the user.
        let is_refused = |program: &Path| untrusted.may_control(program);
        let (name, reason) =
            (self.file.name(), "comes from the project or the skill and runs in a sandbox only");
        let interpreter = self.interpreter.locate_allowed(name, &search_path(), is_refused, reason)?;
        self.check_language(&interpreter.program, ctx)?;
        let prepared = packages::prepared_packages(ctx, &interpreter.program)?;
        let interpreter = packages::with_prepared_interpreter(interpreter, prepared.as_ref());
        let interpreter = self.with_script_arguments(interpreter, prepared.as_ref(), &[])?;
        let mut command =
            command::build_command(&interpreter, &script, args, self.file.folder(), project, variables);
        self.services.api_clients.add_modules_to(&mut command, || self.server_program());
        if let Some(prepared) = &prepared {
            packages::add_to_command(&mut command, prepared);
        }
        Ok(command)
    }

    /// The launch request for a sandboxed process.
    pub(super) fn prepare_launch<'a>(
        &'a self,
        args: &[String],
        variables: &ProcessVariables,
        state: Option<&StateLease>,
        ctx: &'a SkillContext,
    ) -> Result<PreparedLaunch<'a>> {
        let (name, project, skill) = (self.file.name(), ctx.project()?.root(), self.file.folder());
        let script = self.verified_script_path(ctx)?;
        let untrusted = self.untrusted_dirs(ctx);
        let is_refused = |program: &Path| untrusted.may_control(program);
        let declares_packages = packages::skill_packages(ctx).and_then(SkillPackages::request).is_some();
        let found = declares_packages
            .then(|| self.interpreter.locate_allowed(name, &search_path(), is_refused, "").ok());
        let prepared = match found.flatten() {
            Some(found) => packages::prepared_packages(ctx, &found.program)?,
            // It has none, or comes with an interpreter of its own.
            None => None,
        };
        let interpreter = match &prepared {
            Some(prepared) => self.interpreter.with_program(&prepared.executable),
            None => self.interpreter.clone(),
        };
        let environments = match &prepared {
            Some(_) => Vec::new(),
            None => packages::virtual_environments(&interpreter, skill, project),
        };
        let query = InterpreterQuery::new(&interpreter, untrusted).with_dirs_before_path(environments);
        let installation = self.services.interpreter_cache.installation(query, name)?;
        self.check_language(&installation.command.program, ctx)?;
        let user_packages = match &prepared {
            // They are complete.
            Some(_) => None,
            None => UserPackages::granted(ctx, &installation.command.program, || self.untrusted_dirs(ctx)),
        };
        // No other run may see what is created for one run.
        let mut avoided = vec![project, skill];
        avoided.extend(installation.prefix_paths.iter().map(AsRef::<Path>::as_ref));
        avoided.extend(prepared.as_ref().map(|prepared| prepared.folder.as_path()));
        let interpreter =
            self.with_script_arguments(installation.command.clone(), prepared.as_ref(), &avoided)?;
        let temp_dir = RunTempDir::new(&self.services.cleanup, &avoided)
            .map_err(|error| SkillError::io("failed to make a folder for the run", error))?;
        let home = match state {
            Some(lease) => {
                home::require_outside(lease.home(), &avoided)?;
                lease.home().to_owned()
            }
            None => temp_dir.home(),
        };
        let packages = prepared.as_ref().map(|prepared| prepared.folder.as_path());
        if let Some(folder) = packages {
            packages::require_outside(folder, &[project, skill])?;
        }
        let paths = RunPaths {
            project,
            skill,
            temp_dir: &temp_dir,
            home: &home,
            packages,
            user_packages: user_packages.as_ref(),
            installation: &installation,
        };
        let egress = EgressRules::new(ctx.permissions(), self.services.host_lookup())?;
        let configured = ctx.extensions().get::<ConfiguredHosts>();
        let egress = egress.map(|rules| match configured {
            Some(ConfiguredHosts(hosts)) => rules.with_configured_hosts(hosts.clone()),
            None => rules,
        });
        let egress = egress.map(Box::new);
        let sandbox = policy::sandbox_policy(ctx, &paths, egress.as_deref());
        let script_read_count = sandbox.files.read.len();
        let bounds = (ctx.limits(), ctx.redaction());
        let mut request =
            command::build_request(&interpreter, &script, args, &paths, variables, sandbox, bounds)
                .map_err(|error| outcome::start_error(name, project, &ProtectionGaps::default(), error))?;
        if ctx.providers().approver.is_some() {
            // The deadline stands still while an approver is asked, of which the supervisor knows nothing.
            request.timeout_ms = u64::MAX;
        }
        if ctx.worker().is_some_and(|worker| !worker.is_single_run()) {
            // Both count from the start of the process, which does not fit the runs of a worker. The host enforces the deadline
            // of each run.
            request.sandbox.limits.cpu_seconds = None;
            request.timeout_ms = u64::MAX;
        }
        let clients = &self.services.api_clients;
        clients
            .add_to_request(&mut request, || self.server_program(), &avoided)
            .map_err(client_write_error)?;
        if let Some(prepared) = &prepared {
            packages::add_to_request(&mut request, prepared);
        }
        if let Some(user_packages) = &user_packages {
            user_packages.add_to_request(&mut request);
        }
        request.cleanup_dirs.extend(temp_dirs::process_dirs().into_iter().map(Into::into));
        drop(avoided);
        Ok(PreparedLaunch {
            request,
            egress,
            temp_dir,
            home,
            packages: prepared,
            user_packages,
            installation,
            project,
            skill,
            script_read_count,
        })
    }

    /// Runs with all the rights of the user, which the report and the log state.
    fn run_unsandboxed(&self, input: &SkillInput, ctx: &SkillContext) -> Result<SkillOutput> {
        let command =
            self.unsandboxed_command(Self::arguments(input, ctx), &ctx.process_variables()?, ctx)?;
        ctx.report_sandbox(SandboxReport::NONE);
        ctx.warn(format!("{} runs without a sandbox, with all the rights of the user", self.file.name()));
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
        self.run_process(launch, input.value.as_ref(), None, &gaps, ctx)
    }

    fn run_sandboxed(&self, input: &SkillInput, ctx: &SkillContext) -> Result<SkillOutput> {
        self.services.launcher.prepare(&policy::launch_policy(ctx));
        policy::create_granted_folders(ctx);
        let variables = ctx.process_variables()?;
        if let Some(worker) = ctx.worker() {
            self.verified_script_path(ctx)?;
            let state = home::lease_state(ctx)?;
            let start = || self.start_worker(worker, &variables, state.as_ref(), input, ctx);
            // The state is that of one run at a time.
            let value = if worker.is_single_run() || state.is_some() {
                start()?.run_once(input, ctx)
            } else {
                self.workers.run(WorkerKey::new(ctx, &variables)?, input, ctx, start)
            };
            return home::keep_state(state, ctx, value.map(SkillOutput::from));
        }
        let state = home::lease_state(ctx)?;
        let launch = self.prepare_launch(Self::arguments(input, ctx), &variables, state.as_ref(), ctx)?;
        let guard = launch.creation_guard(ctx);
        let gaps = warn_of_protection_gaps(ctx, &launch);
        let PreparedLaunch { request, egress, temp_dir, .. } = launch;
        let launch = Launch::Sandboxed(&self.services.launcher, Box::new(request), egress);
        let result = self.run_process(launch, input.value.as_ref(), state.as_ref(), &gaps, ctx);
        if state.is_none() {
            home::warn_of_lost_files(ctx, self.file.name(), &temp_dir.home());
        }
        drop(temp_dir);
        let result = match guard {
            Some(mut guard) => guard.enforce_on(ctx, self.file.name(), result),
            None => result,
        };
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
        let launch = self.prepare_launch(Self::arguments(input, ctx), variables, state, ctx)?;
        let gaps = warn_of_protection_gaps(ctx, &launch);
        let (fingerprint, creation_guard) = (launch.fingerprint(), launch.creation_guard(ctx));
        let PreparedLaunch { request, egress, temp_dir, .. } = launch;
        let launcher = &self.services.launcher;
        let failed = |error| self.start_error(ctx, &gaps, error);
        let report = probe(launcher, request.sandbox.clone()).map_err(failed)?;
        let session =
            WorkerSession::start(Launch::Sandboxed(launcher, Box::new(request), egress), ctx.limits())
                .map_err(failed)?;
        let cleanup = WorkerCleanup { creation_guard, fingerprint, temp_dir: Some(temp_dir) };
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
        Ok(WorkerProcess::new(session, self.file.name(), project, worker, sandbox, cleanup))
    }

    /// A run that was cancelled during its start did not fail to start.
    fn start_error(&self, ctx: &SkillContext, gaps: &ProtectionGaps, error: io::Error) -> SkillError {
        let failed = || match ctx.project() {
            Ok(project) => outcome::start_error(self.file.name(), project.root(), gaps, error),
            Err(error) => error,
        };
        ctx.cancel().check().err().unwrap_or_else(failed)
    }

    fn run_process(
        &self,
        launch: Launch<'_>,
        input: Option<&Value>,
        state: Option<&StateLease>,
        gaps: &ProtectionGaps,
        ctx: &SkillContext,
    ) -> Result<SkillOutput> {
        let name = self.file.name();
        let handler = RequestHandler::new(ctx, name, input);
        // Where standard input is passed through, the input reaches the script by the client only.
        let stdin = match (ctx.take_stdin(), input) {
            (Some(source), _) => ProcessInput::Stream(source),
            (None, Some(value)) if !ctx.has_stdin_source() => {
                ProcessInput::Bytes(value.to_string().into_bytes())
            }
            _ => ProcessInput::Empty,
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
        let exit = exit.map_err(|error| self.start_error(ctx, gaps, error))?;
        let code = exit.status.code();
        let result =
            outcome::evaluate_exit(ctx, name, exit).map_err(|error| handler.error_for_exit(error, code));
        match excess.filter(|_| ctx.cancel().cause().is_none()) {
            Some(excess) => Err(excess),
            None => result,
        }
    }
}

impl PreparedLaunch<'_> {
    pub(super) fn run_paths(&self) -> RunPaths<'_> {
        RunPaths {
            project: self.project,
            skill: self.skill,
            temp_dir: &self.temp_dir,
            home: &self.home,
            packages: self.packages.as_ref().map(|prepared| prepared.folder.as_path()),
            user_packages: self.user_packages.as_ref(),
            installation: &self.installation,
        }
    }

    fn protected_paths(&self) -> &ProtectedPaths {
        &self.request.sandbox.files.protected_paths
    }

    fn fingerprint(&self) -> Fingerprint {
        Fingerprint::new(self.protected_paths())
    }

    /// Detects what the script creates; `None` if it may not write to the project.
    fn creation_guard(&self, ctx: &SkillContext) -> Option<CreationGuard> {
        let writable = policy::writable_paths(ctx).into_iter().map(|pinned| pinned.path.into()).collect();
        CreationGuard::new(ctx, self.project, writable, self.protected_paths())
    }
}

/// The version that a program reports. A program that an untrusted party may have changed runs in a sandbox.
pub(super) fn query_version(
    program: &Path,
    untrusted: &UntrustedDirs,
    launcher: &Launcher,
) -> Option<String> {
    let sandbox =
        untrusted.may_control(program).then(|| (launcher, policy::strictest_policy_for(program, untrusted)));
    version::query_version(program, sandbox)
}

fn client_write_error(error: io::Error) -> SkillError {
    SkillError::io("failed to write the clients of the host API", error)
}

/// Warns if some protected paths may not have been found, and returns everything that can keep the process from being started.
fn warn_of_protection_gaps(ctx: &SkillContext, launch: &PreparedLaunch<'_>) -> ProtectionGaps {
    let gaps = ProtectionGaps::in_request(&launch.request, launch.project);
    if let Some(reason) = gaps.incomplete_reason() {
        ctx.warn(format!("not all secrets and histories of the project are protected: {reason}"));
    }
    gaps
}
