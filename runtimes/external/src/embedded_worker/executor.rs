//! Runs scripts of embedded languages in worker processes.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use serde_json::Value;
use sha2::{Digest, Sha256};

use super::pool::{EmbeddedWorker, EmbeddedWorkerKey, EmbeddedWorkerPool};
use super::protocol;
use crate::host_api::RequestHandler;
use crate::outcome::{self, ProtectionGaps};
use crate::process::launch::Launch;
use crate::process::setup_error;
use crate::worker::session::{CallOutcome, WorkerCall, WorkerSession};
use metier_core::error::{ErrorContext, ErrorKind, Hint, LimitKind, Result, SkillError};
use metier_core::executor::CompiledScript;
use metier_core::executor::json_boundary::output_too_large;
use metier_core::executor::{RuntimeId, Script, ScriptEntry, SkillExecutor, SkillInput, SkillOutput};
use metier_core::host::{
    Files, FolderId, ProcessOutput, RunContext, RunMessages, RunReporting, SandboxReport, SkillContext,
    check_value_memory,
};
use metier_core::policy::{Limits, Permission, RunPermissions, SandboxMode, Watchdog};
use metier_sandbox::{
    EgressSockets, FileRules, LaunchRequest, Launcher, NetworkAccess, PinnedPath, ResourceLimits,
    SandboxPolicy,
};

/// What a dynamically linked program reads when it starts, and the program that probes a sandbox.
const READABLE_PATHS: [&str; 9] = [
    "/lib",
    "/lib32",
    "/lib64",
    "/usr/lib",
    "/usr/lib32",
    "/usr/lib64",
    "/etc/ld.so.cache",
    "/bin/true",
    "/usr/bin/true",
];

/// Bytes of address space besides the memory limit of the script: the program, the copies that conversions make, and the stack
/// that Rhai reserves, up to 4 GiB. Most of it is reserved and never used.
const ADDRESS_SPACE_OVERHEAD: u64 = 6 << 30;
/// Bytes of address space that a compiled script has besides: its engine reserves some 4 GiB for each memory, of which it has up to 17.
const COMPILED_ADDRESS_SPACE: u64 = 128 << 30;
/// Bytes of used memory besides the memory limit of the script.
const MEMORY_OVERHEAD: u64 = 256 << 20;
/// How often machine code is in memory while it is loaded: as received, as a module of its own, and as what is executed.
const MACHINE_CODE_COPIES: u64 = 3;

/// The most bytes of one character in JSON: a control character is written as `\u0000`.
const MAX_ESCAPED_CHAR_BYTES: u64 = 6;

/// Bytes that a response may have besides its value: an error with its location and its traceback.
const RESPONSE_OVERHEAD: u64 = 1 << 20;

/// The kinds of errors that occur in a worker itself. It may report another kind only if the host answered a call with it.
const WORKER_ERROR_KINDS: [ErrorKind; 9] = [
    ErrorKind::Script,
    ErrorKind::InvalidArgument,
    ErrorKind::InvalidInput,
    ErrorKind::InvalidOutput,
    ErrorKind::InvalidSkill,
    ErrorKind::Unavailable,
    ErrorKind::Memory,
    ErrorKind::Operations,
    ErrorKind::Output,
];

/// A script that runs in worker processes.
struct EmbeddedWorkerExecutor {
    runtime: RuntimeId,
    script: Script,
    /// What its workers get in place of its source.
    compiled: Option<Box<dyn CompiledScript>>,
    digest: [u8; 32],
    pool: Arc<EmbeddedWorkerPool>,
    launcher: Arc<Launcher>,
    watchdog: Arc<Watchdog>,
}

/// The executor of a script that runs in worker processes, or of what was compiled from it. It starts no process before the first
/// run.
pub fn load(
    runtime: RuntimeId,
    script: &Script,
    compiled: Option<Box<dyn CompiledScript>>,
    pool: Arc<EmbeddedWorkerPool>,
    launcher: Arc<Launcher>,
    watchdog: Arc<Watchdog>,
) -> Box<dyn SkillExecutor> {
    let digest = Sha256::digest(&script.source).into();
    let script = script.clone();
    Box::new(EmbeddedWorkerExecutor { runtime, script, compiled, digest, pool, launcher, watchdog })
}

impl SkillExecutor for EmbeddedWorkerExecutor {
    fn execute_with_context(&self, input: SkillInput, context: Option<&SkillContext>) -> Result<SkillOutput> {
        if let Some(context) = context {
            return self.run(input, context).map(SkillOutput::from);
        }
        let context = SkillContext::builder(&self.script.skill).build();
        let deadline = Instant::now() + context.limits().timeout;
        let _armed = self.watchdog.arm(deadline, context.cancel());
        self.run(input, &context).map(SkillOutput::from)
    }

    fn requested_permissions(&self) -> Vec<Permission> {
        self.compiled.as_ref().map(|compiled| compiled.requested_permissions()).unwrap_or_default()
    }
}

impl EmbeddedWorkerExecutor {
    fn run(&self, input: SkillInput, ctx: &SkillContext) -> Result<Value> {
        ctx.cancel().check()?;
        let input = match &self.compiled {
            Some(compiled) => Some(compiled.prepare_input(input.value_or_empty(), ctx)?),
            None => input.value,
        };
        let key = self.key(ctx);
        let worker = match self.pool.checkout(&key) {
            Some(worker) => worker,
            None => self.start_worker(ctx)?,
        };
        ctx.report_sandbox(worker.sandbox);
        let timeout = self.compiled.as_ref().and_then(|compiled| compiled.timeout());
        let Some(timeout) = timeout else { return self.run_in(worker, key, input.as_ref(), ctx) };
        // As in process, it begins when the script is loaded.
        let token = ctx.cancel().child();
        let _armed = self.watchdog.arm(Instant::now() + timeout, &token);
        self.run_in(worker, key, input.as_ref(), &ctx.with_cancel(token))
    }

    fn run_in(
        &self,
        mut worker: EmbeddedWorker,
        key: EmbeddedWorkerKey,
        input: Option<&Value>,
        ctx: &SkillContext,
    ) -> Result<Value> {
        // Its memory may still contain secrets of earlier runs.
        ctx.learn_secrets(&worker.secrets);
        let script = worker.is_new().then_some((self.runtime, &self.script));
        let id = worker.next_request_id();
        let request = protocol::encode_run(id, script, ctx.limits(), input);
        let handler = RequestHandler::new(ctx, &self.script.path, None).with_full_errors();
        let (result, is_reusable) = self.call(&mut worker, id, request, &handler, ctx)?;
        // What was approved during the run is not in the key.
        if is_reusable && key.permissions == ctx.permissions().frozen() {
            self.pool.checkin(key, worker);
        }
        result
    }

    /// Sends a request to a worker and waits for its response. Returns the result, and whether the worker can be called again. An error
    /// ends the worker before the caller receives it.
    fn call(
        &self,
        worker: &mut EmbeddedWorker,
        id: u64,
        request: Vec<u8>,
        handler: &RequestHandler<'_>,
        ctx: &SkillContext,
    ) -> Result<(Result<Value>, bool)> {
        let call = WorkerCall {
            request,
            limits: &response_limits(ctx.limits()),
            cancel: ctx.cancel(),
            // It runs metier's own program, which writes nothing there.
            observed: ProcessOutput::default(),
            handler,
        };
        let reply = worker.session.call(call).map_err(|error| start_error(&self.script.path, ctx, error))?;
        worker.secrets.learn_from(ctx.redaction());
        if let Some(cause) = ctx.cancel().cause() {
            return Err(cause.error());
        }
        let CallOutcome::Line(line) = reply.outcome else {
            return Err(self.no_response_error(ctx, reply.outcome));
        };
        check_value_memory(&line, ctx.limits())?;
        let result = protocol::decode_response(id, &line).map_err(|reason| {
            script_error(format!("the worker process of {} wrote {reason}", self.script.path))
        })?;
        let sanitize = |error| ctx.redaction().error(self.sanitize_error(error, handler)).into_inner();
        Ok((result.map_err(sanitize), reply.is_reusable))
    }

    fn key(&self, ctx: &SkillContext) -> EmbeddedWorkerKey {
        let counts = |compiled: &dyn CompiledScript| compiled.counts_operations(ctx.limits());
        EmbeddedWorkerKey {
            runtime: self.runtime,
            dialect: ScriptEntry::from_script(&self.script).dialect,
            project: ctx.project().ok().map(|files| files.root().to_owned()),
            project_id: ctx.project().ok().and_then(|files| FolderId::new(files.root()).ok()),
            permissions: ctx.permissions().frozen(),
            skill: self.script.skill.clone(),
            path: self.script.path.clone(),
            folder: self.script.folder.clone(),
            function: self.script.function.clone(),
            digest: self.digest,
            memory: ctx.limits().memory,
            counts_operations: self.compiled.as_deref().is_some_and(counts),
            sandbox_mode: ctx.sandbox_mode(),
        }
    }

    /// Starts a worker, and loads the script there if it is compiled.
    fn start_worker(&self, ctx: &SkillContext) -> Result<EmbeddedWorker> {
        let (launcher, path) = (&*self.launcher, self.script.path.as_str());
        let program = worker_program(launcher, path)?;
        let machine_code = |compiled: &dyn CompiledScript| compiled.machine_code(ctx.limits(), ctx.cancel());
        let machine_code = self.compiled.as_deref().map(machine_code).transpose()?;
        let request = launch_request(&program, ctx, machine_code.as_ref().map(|code| code.len()));
        let sandbox = probe_sandbox(&self.pool, launcher, &request, path, ctx)?;
        let started = WorkerSession::start(
            Launch::Sandboxed(launcher, Box::new(request), None),
            &response_limits(ctx.limits()),
        );
        let session = started.map_err(|error| start_error(path, ctx, error))?;
        let mut worker = EmbeddedWorker::new(session, sandbox);
        if let Some(code) = machine_code {
            self.load_in(&mut worker, &code, ctx)?;
        }
        Ok(worker)
    }

    /// Loads the machine code in a new worker.
    fn load_in(&self, worker: &mut EmbeddedWorker, code: &[u8], ctx: &SkillContext) -> Result<()> {
        let id = worker.next_request_id();
        let request = protocol::encode_load(id, self.runtime, &self.script, code);
        let handler = RequestHandler::new(ctx, &self.script.path, None).with_full_errors();
        let (result, is_reusable) = self.call(worker, id, request, &handler, ctx)?;
        result?;
        if is_reusable {
            return Ok(());
        }
        Err(script_error(format!("the worker process of {} wrote more than its answer", self.script.path)))
    }

    /// The error of a run whose process did not respond.
    fn no_response_error(&self, ctx: &SkillContext, end: CallOutcome) -> SkillError {
        let path = &self.script.path;
        match end {
            CallOutcome::OutputLimit(_) => output_too_large("the value", ctx.limits().output),
            CallOutcome::Exited(Err(error)) => start_error(path, ctx, error),
            CallOutcome::Exited(Ok((status, report))) => {
                let sentence = format!("the worker process of {path} ended before it answered ({status})");
                let kind = match report {
                    Some(report) if report.exceeded_tree_memory => ErrorKind::Memory,
                    _ => ErrorKind::Script,
                };
                SkillError::new(kind, sentence)
                    .with_help("if it needs more memory, raise the limit")
                    .with_hint(Hint::Limit(LimitKind::Memory))
            }
            CallOutcome::Line(_) | CallOutcome::Stopped => {
                script_error(format!("{path} was stopped before it answered"))
            }
        }
    }

    /// The error without what a worker cannot know: another kind than its own or those that the host answered with, and a
    /// location outside of its script.
    fn sanitize_error(&self, error: SkillError, handler: &RequestHandler<'_>) -> SkillError {
        let error = without_unknown_hints(error, handler);
        let kind = error.kind();
        let is_known = WORKER_ERROR_KINDS.contains(&kind) || handler.has_answered_error(kind);
        let is_own = |file: &str| file == self.script.path;
        if is_known && error.location().is_none_or(|place| is_own(&place.file)) {
            return error;
        }
        let sanitized = SkillError::new(if is_known { kind } else { ErrorKind::Script }, error.message());
        match error.help() {
            Some(help) => sanitized.with_help(help).with_hint(error.hint().cloned()),
            None => sanitized,
        }
    }
}

/// The error without a hint or a missing permission that is neither of the worker's own limits nor of an error that the host
/// answered with: a program may offer the user what a hint says, such as a run without a sandbox.
fn without_unknown_hints(error: SkillError, handler: &RequestHandler<'_>) -> SkillError {
    let is_known = |hint: &&Hint| {
        matches!(hint, Hint::Limit(_) | Hint::ListFunctions) || handler.has_answered_hint(hint)
    };
    let hint = error.hint().filter(is_known).cloned();
    let missing = error.missing_permission().filter(|name| handler.has_answered_missing(name));
    let missing = missing.map(str::to_owned);
    error.with_hint(hint).with_missing_permission(missing)
}

fn script_error(sentence: String) -> SkillError {
    SkillError::new(ErrorKind::Script, sentence)
}

/// What the sandbox of a worker enforces; fails as a run would before its worker starts.
pub fn worker_sandbox(
    script: &str,
    pool: &EmbeddedWorkerPool,
    launcher: &Launcher,
    ctx: &SkillContext,
) -> Result<SandboxReport> {
    let program = worker_program(launcher, script)?;
    probe_sandbox(pool, launcher, &launch_request(&program, ctx, None), script, ctx)
}

fn worker_program(launcher: &Launcher, script: &str) -> Result<PathBuf> {
    launcher.server_program().ok_or_else(|| {
        let sentence = format!("failed to run {script}: there is no program to run it in a worker process");
        SkillError::new(ErrorKind::SandboxUnavailable, sentence).with_help(
            "begin the program's main with metier::helper_main(), or name a program that does with EngineBuilder::helper",
        )
    })
}

fn probe_sandbox(
    pool: &EmbeddedWorkerPool,
    launcher: &Launcher,
    request: &LaunchRequest,
    script: &str,
    ctx: &SkillContext,
) -> Result<SandboxReport> {
    let probe = || {
        let report = setup_error::probe(launcher, request.sandbox.clone())?;
        Ok(outcome::sandbox_report(&report))
    };
    // A required sandbox enforces all of its rules or does not start, so one probe holds for all processes.
    let report = match ctx.sandbox_mode() {
        SandboxMode::Required => pool.sandbox_report(probe),
        _ => probe(),
    };
    report.map_err(|error| start_error(script, ctx, error))
}

fn start_error(script: &str, ctx: &SkillContext, error: io::Error) -> SkillError {
    if let Err(stopped) = ctx.cancel().check() {
        return stopped;
    }
    let project = ctx.project().map_or(Path::new("/"), Files::root);
    let error = outcome::start_error(script, project, &ProtectionGaps::default(), error);
    if error.kind() == ErrorKind::SandboxUnavailable {
        return error.with_help("run it in this process").with_hint(Hint::InProcess);
    }
    error
}

/// The launch request for a worker: this program, with access to nothing else.
fn launch_request(program: &Path, ctx: &SkillContext, machine_code_bytes: Option<usize>) -> LaunchRequest {
    let memory = ctx.limits().memory.unwrap_or(Limits::DEFAULT_MEMORY_IN_PROCESS);
    let (address_space, code_memory) = match machine_code_bytes {
        Some(bytes) => (COMPILED_ADDRESS_SPACE, MACHINE_CODE_COPIES * bytes as u64),
        None => (0, 0),
    };
    let memory = memory.saturating_add(code_memory);
    let read = READABLE_PATHS.iter().map(Into::into).chain([program.into()]).collect();
    LaunchRequest {
        program: program.into(),
        args: vec![protocol::WORKER_ARG.into()],
        environment: Vec::new(),
        folder: "/".into(),
        sandbox: SandboxPolicy {
            files: FileRules { read, write: vec![PinnedPath::from("/dev/null")], ..FileRules::default() },
            network: NetworkAccess::Blocked,
            egress: EgressSockets::default(),
            allow_flock: false,
            allow_local_sockets: false,
            required: ctx.sandbox_mode() == SandboxMode::Required,
            limits: ResourceLimits {
                memory: Some(memory.saturating_add(ADDRESS_SPACE_OVERHEAD).saturating_add(address_space)),
                tree_memory: Some(memory.saturating_add(MEMORY_OVERHEAD)),
                processes: Some(16),
                cpu_seconds: None,
                file_size: Some(0),
                open_files: Some(64),
            },
            watch: None,
        },
        cleanup_dirs: Vec::new(),
        // The host enforces the deadline of each run.
        timeout_ms: u64::MAX,
    }
}

/// The limits of a response. They fit every value within the output limit, so that a larger value fails with the error that it
/// has without a worker.
fn response_limits(limits: &Limits) -> Limits {
    let output = limits.output.saturating_mul(MAX_ESCAPED_CHAR_BYTES).saturating_add(RESPONSE_OVERHEAD);
    limits.clone().output(output)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_passes_on_no_hint_that_the_host_did_not_give() {
        let ctx = SkillContext::builder("x").build();
        let handler = RequestHandler::new(&ctx, "scripts/main.lua", None);
        let error = |hint: Hint, missing: Option<&str>| {
            let error = SkillError::new(ErrorKind::Script, "no").with_help("do").with_hint(hint);
            error.with_missing_permission(missing.map(str::to_owned))
        };
        let passed = |hint: &Hint, missing| {
            let passed = without_unknown_hints(error(hint.clone(), missing), &handler);
            (passed.hint().cloned(), passed.missing_permission().map(str::to_owned))
        };
        let (limit, grant) = (Hint::Limit(LimitKind::Memory), Hint::Grant("write".into()));
        for forged in [Hint::NoSandbox, Hint::InProcess, Hint::Secret("KEY".into()), grant.clone()] {
            assert_eq!(passed(&forged, Some("write")), (None, None), "{forged:?}");
        }
        for own in [limit, Hint::ListFunctions] {
            assert_eq!(passed(&own, None), (Some(own.clone()), None));
        }
        handler.remember_answer(&error(grant.clone(), Some("write:a")));
        assert_eq!(passed(&grant, Some("write:a")), (Some(grant.clone()), Some("write:a".into())));
        assert_eq!(passed(&Hint::Grant("exec".into()), Some("write")), (None, None));
    }
}
