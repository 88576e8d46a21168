//! Scripts of embedded languages in a worker process of their own: the host's side.
//!
//! The process is this same program in a sandbox that opens nothing. It runs the very executor that would run in the host, and
//! sends every call on `ctx` to the host, where it is permitted, answered and recorded as always. So what a worker says is
//! no more than what a script says; and at the deadline the process is killed, whatever it does.

pub(in crate::runtimes::external::embedded_worker) mod pool;
pub(in crate::runtimes::external::embedded_worker) mod protocol;
pub(in crate::runtimes::external::embedded_worker) mod worker_main;

use std::io;
use std::path::{Path, PathBuf};
use std::time::Instant;

use sha2::{Digest, Sha256};

use self::pool::EmbeddedWorker;
pub(in super::super) use self::pool::EmbeddedWorkerPool;
pub(in super::super) use self::worker_main::worker_main;
use super::super::RuntimeServices;
use super::super::sandbox::{self, FileRules, LaunchRequest, PinnedPath, ResourceLimits, SandboxPolicy};
use super::process::{self, CallOutcome, Launch, WorkerCall, WorkerSession};
use crate::error::{ErrorKind, Result, SkillError};
use crate::executor::{Script, SkillExecutor, SkillInput, SkillOutput, SkillRuntime};
use crate::host::{Files, SandboxReport, SkillContext, check_value_memory};
use crate::policy::{Limits, SandboxMode};
use crate::runtimes::external::host_api::RequestHandler;
use crate::runtimes::external::outcome;

/// What a dynamically linked program reads to start, and the program that does nothing, by which a sandbox is tried.
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

/// Bytes of address space beside what the script may have: the program, the copies that conversions make, and the stack that
/// Rhai reserves, up to 4 GiB. Little of it is ever used, and what is used counts as held.
const ADDRESS_SPACE_OVERHEAD: u64 = 6 << 30;
/// The same for what it holds.
const MEMORY_OVERHEAD: u64 = 256 << 20;

/// Bytes of a character in JSON where it takes the most: a control character is written as `\u0000`.
const MAX_ESCAPED_CHAR_BYTES: u64 = 6;

/// Bytes of an answer beside its value: an error, with its place and its traceback.
const RESPONSE_OVERHEAD: u64 = 1 << 20;

/// Kinds of errors that come about in a worker itself. Others it may repeat when the host has answered a call with one.
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
    runtime: SkillRuntime,
    script: Script,
    digest: [u8; 32],
    services: RuntimeServices,
}

/// What all runs of one process have in common. Grants are not among it: the host asks for them at every call.
#[derive(PartialEq, Eq)]
pub(super) struct EmbeddedWorkerKey {
    runtime: SkillRuntime,
    skill: (String, String, Option<PathBuf>),
    function: Option<String>,
    digest: [u8; 32],
    memory: Option<u64>,
    isolation: SandboxMode,
}

/// The executor of a script that runs in worker processes; nothing is compiled here, nor started before the first run.
pub(in super::super) fn load(
    runtime: SkillRuntime,
    script: &Script,
    shared: &RuntimeServices,
) -> Box<dyn SkillExecutor> {
    let (script, shared, digest) = (script.clone(), shared.clone(), Sha256::digest(&script.source).into());
    Box::new(EmbeddedWorkerExecutor { runtime, script, digest, services: shared })
}

impl SkillExecutor for EmbeddedWorkerExecutor {
    fn execute_with_context(&self, input: SkillInput, context: Option<&SkillContext>) -> Result<SkillOutput> {
        if let Some(context) = context {
            return self.run(&input, context).map(SkillOutput::from);
        }
        let context = SkillContext::builder(&self.script.skill).build();
        let deadline = Instant::now() + context.limits().timeout;
        let _armed = self.services.watchdog().arm(deadline, context.cancel());
        self.run(&input, &context).map(SkillOutput::from)
    }
}

impl EmbeddedWorkerExecutor {
    fn run(&self, input: &SkillInput, ctx: &SkillContext) -> Result<serde_json::Value> {
        ctx.cancel().check()?;
        let key = self.key(ctx);
        let mut worker = match self.services.embedded_workers().checkout(&key) {
            Some(worker) => worker,
            None => self.start_worker(ctx)?,
        };
        ctx.report_sandbox(worker.sandbox);
        // What earlier runs were handed its memory may still hold.
        ctx.learn_secrets(&worker.secrets);
        let script = worker.is_new().then_some((self.runtime, &self.script));
        let id = worker.next_run_id();
        let service = RequestHandler::new(ctx, &self.script.path, None).with_full_errors();
        let asked = WorkerCall {
            line: protocol::encode_request(id, script, ctx.limits(), input.value.as_ref()),
            limits: &response_limits(ctx.limits()),
            cancel: ctx.cancel(),
            handler: &service,
        };
        let answered = worker.session.call(asked).map_err(|error| self.start_error(ctx, error))?;
        worker.secrets.learn_from(ctx.redaction());
        if let Some(cause) = ctx.cancel().cause() {
            // The token has the last word; the process is killed here, before the caller hears of it.
            drop(worker);
            return Err(cause.error());
        }
        let CallOutcome::Line(line) = answered.outcome else {
            return Err(self.no_response_error(ctx, answered.outcome));
        };
        check_value_memory(&line, ctx.limits())?;
        let answer = protocol::decode_response(id, &line).map_err(|what| {
            script_error(format!("the worker process of {} wrote {what}", self.script.path))
        })?;
        if answered.is_reusable {
            self.services.embedded_workers().checkin(key, worker);
        }
        answer.map_err(|error| self.sanitize_error(error, &service))
    }

    fn key(&self, ctx: &SkillContext) -> EmbeddedWorkerKey {
        EmbeddedWorkerKey {
            runtime: self.runtime,
            skill: (self.script.skill.clone(), self.script.path.clone(), self.script.folder.clone()),
            function: self.script.function.clone(),
            digest: self.digest,
            memory: ctx.limits().memory,
            isolation: ctx.sandbox_mode(),
        }
    }

    fn start_worker(&self, ctx: &SkillContext) -> Result<EmbeddedWorker> {
        let launcher = self.services.launcher();
        let program = launcher.server_program().ok_or_else(|| {
            let sentence = format!("failed to run {}: there is no program to run it in a worker process", self.script.path);
            SkillError::new(ErrorKind::SandboxUnavailable, sentence).with_help(
                "begin the program's main with metier::helper_main(), or name a program that does with EngineBuilder::helper",
            )
        })?;
        let order = launch_request(&program, ctx);
        let probed = || sandbox::probe(launcher, order.sandbox.clone()).and_then(process::check_setup);
        // What holds of a required sandbox holds of every one like it, or it does not start.
        let held = match ctx.sandbox_mode() {
            SandboxMode::Required => self
                .services
                .embedded_workers()
                .sandbox_report(|| probed().map(|report| outcome::sandbox_report(&report))),
            _ => probed().map(|report| outcome::sandbox_report(&report)),
        };
        let sandbox: SandboxReport = held.map_err(|error| self.start_error(ctx, error))?;
        let started = WorkerSession::start(
            Launch::Sandboxed(launcher, Box::new(order)),
            &response_limits(ctx.limits()),
        );
        let session = started.map_err(|error| self.start_error(ctx, error))?;
        Ok(EmbeddedWorker::new(session, sandbox))
    }

    fn start_error(&self, ctx: &SkillContext, error: io::Error) -> SkillError {
        if let Err(stopped) = ctx.cancel().check() {
            return stopped;
        }
        let project = ctx.project().map_or(Path::new("/"), Files::root);
        let error = outcome::start_error(&self.script.path, project, error);
        if error.kind() == ErrorKind::SandboxUnavailable {
            return error.with_help("run it in this process, by --execution in-process");
        }
        error
    }

    /// The error of a run whose process did not answer.
    fn no_response_error(&self, ctx: &SkillContext, end: CallOutcome) -> SkillError {
        let path = &self.script.path;
        match end {
            CallOutcome::OutputLimit(_) => {
                let sentence =
                    format!("the value is larger than the {} bytes a run may put out", ctx.limits().output);
                SkillError::new(ErrorKind::Output, sentence)
            }
            CallOutcome::Exited(Err(error)) => self.start_error(ctx, error),
            CallOutcome::Exited(Ok((status, report))) => {
                let sentence = format!("the worker process of {path} ended before it answered ({status})");
                let kind = match report {
                    Some(report) if report.exceeded_tree_memory => ErrorKind::Memory,
                    _ => ErrorKind::Script,
                };
                SkillError::new(kind, sentence)
                    .with_help("if it needs more memory, raise the limit with --memory")
            }
            CallOutcome::Line(_) | CallOutcome::Stopped => {
                script_error(format!("{path} was stopped before it answered"))
            }
        }
    }

    /// What may be believed of an error that a worker says: a kind that comes about there or that the host has answered, at a
    /// place in its script.
    fn sanitize_error(&self, error: SkillError, service: &RequestHandler<'_>) -> SkillError {
        let kind = error.kind();
        let is_known = WORKER_ERROR_KINDS.contains(&kind) || service.has_answered_error(kind);
        let is_own = |file: &str| file == self.script.path;
        if is_known && error.location().is_none_or(|place| is_own(&place.file)) {
            return error;
        }
        let believed = SkillError::new(if is_known { kind } else { ErrorKind::Script }, error.message());
        match error.help() {
            Some(help) => believed.with_help(help),
            None => believed,
        }
    }
}

fn script_error(sentence: String) -> SkillError {
    SkillError::new(ErrorKind::Script, sentence)
}

/// The order for a worker: this program, and nothing else.
fn launch_request(program: &Path, ctx: &SkillContext) -> LaunchRequest {
    let memory = ctx.limits().memory.unwrap_or(Limits::DEFAULT_MEMORY_IN_PROCESS);
    let read = READABLE_PATHS.iter().map(Into::into).chain([program.into()]).collect();
    LaunchRequest {
        program: program.into(),
        args: vec![protocol::WORKER_ARG.into()],
        environment: Vec::new(),
        folder: "/".into(),
        sandbox: SandboxPolicy {
            files: Some(FileRules {
                read,
                write: vec![PinnedPath::from("/dev/null")],
                ..FileRules::default()
            }),
            block_network: true,
            allow_flock: false,
            filter_syscalls: true,
            required: ctx.sandbox_mode() == SandboxMode::Required,
            limits: ResourceLimits {
                memory: Some(memory.saturating_add(ADDRESS_SPACE_OVERHEAD)),
                tree_memory: Some(memory.saturating_add(MEMORY_OVERHEAD)),
                processes: Some(16),
                cpu_seconds: None,
                file_size: Some(0),
                open_files: Some(64),
            },
        },
        cleanup_dirs: Vec::new(),
        // The host holds the deadline of each run.
        timeout_ms: u64::MAX,
    }
}

/// The cap of an answer's line: what is larger as a value is refused in the words of a run in process.
fn response_limits(limits: &Limits) -> Limits {
    let output = limits.output.saturating_mul(MAX_ESCAPED_CHAR_BYTES).saturating_add(RESPONSE_OVERHEAD);
    limits.clone().output(output)
}
