//! Scripts of embedded languages in a worker process of their own: the host's side.
//!
//! The process is this same program in a sandbox that opens nothing. It runs the very executor that would run in the host, and
//! sends every call on `ctx` to the host, where it is permitted, answered and recorded as always. So what a worker says is
//! no more than what a script says; and at the deadline the process is killed, whatever it does.

mod guest;
mod pool;
mod protocol;

use std::io;
use std::path::{Path, PathBuf};
use std::time::Instant;

use sha2::{Digest, Sha256};

pub(in super::super) use self::guest::worker_main;
pub(in super::super) use self::pool::Pool;
use self::pool::Worker;
use super::super::Shared;
use super::super::sandbox::{self, Cage, Ceilings, Exactly, FileRules, Order};
use super::api::Service;
use super::process::{self, Asked, End, Session, Start};
use super::verdict;
use crate::error::{ErrorKind, Result, SkillError};
use crate::executor::{Script, SkillExecutor, SkillInput, SkillOutput, SkillRuntime};
use crate::host::{Files, SandboxReport, SkillContext, may_be_made};
use crate::policy::{Isolation, Limits};

/// What a dynamically linked program reads to start, and the program that does nothing, by which a sandbox is tried.
const READ: [&str; 9] = [
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
const SLACK: u64 = 6 << 30;
/// The same for what it holds.
const HELD: u64 = 256 << 20;

/// Bytes of a character in JSON where it takes the most: a control character is written as `\u0000`.
const LONGEST_ESCAPE: u64 = 6;

/// Bytes of an answer beside its value: an error, with its place and its traceback.
const ENVELOPE: u64 = 1 << 20;

/// Kinds of errors that come about in a worker itself. Others it may repeat when the host has answered a call with one.
const OWN_KINDS: [ErrorKind; 9] = [
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
struct Isolated {
    runtime: SkillRuntime,
    script: Script,
    digest: [u8; 32],
    shared: Shared,
}

/// What all runs of one process have in common. Grants are not among it: the host asks for them at every call.
#[derive(PartialEq, Eq)]
pub(super) struct Key {
    runtime: SkillRuntime,
    skill: (String, String, Option<PathBuf>),
    function: Option<String>,
    digest: [u8; 32],
    memory: Option<u64>,
    isolation: Isolation,
}

/// The executor of a script that runs in worker processes; nothing is compiled here, nor started before the first run.
pub(in super::super) fn load(
    runtime: SkillRuntime,
    script: &Script,
    shared: &Shared,
) -> Box<dyn SkillExecutor> {
    let (script, shared, digest) = (script.clone(), shared.clone(), Sha256::digest(&script.source).into());
    Box::new(Isolated { runtime, script, digest, shared })
}

impl SkillExecutor for Isolated {
    fn execute_with_context(&self, input: SkillInput, context: Option<&SkillContext>) -> Result<SkillOutput> {
        if let Some(context) = context {
            return self.run(&input, context).map(SkillOutput::from);
        }
        let context = SkillContext::builder(&self.script.skill).build();
        let deadline = Instant::now() + context.limits().deadline;
        let _armed = self.shared.watchdog().arm(deadline, context.cancel());
        self.run(&input, &context).map(SkillOutput::from)
    }
}

impl Isolated {
    fn run(&self, input: &SkillInput, ctx: &SkillContext) -> Result<serde_json::Value> {
        ctx.cancel().check()?;
        let key = self.key(ctx);
        let mut worker = match self.shared.isolated().taken(&key) {
            Some(worker) => worker,
            None => self.started(ctx)?,
        };
        ctx.report_sandbox(worker.sandbox);
        // What earlier runs were handed its memory may still hold.
        ctx.learn_secrets(&worker.secrets);
        let script = worker.is_new().then_some((self.runtime, &self.script));
        let id = worker.next();
        let service = Service::new(ctx, &self.script.path, None).with_whole_errors();
        let asked = Asked {
            line: protocol::request(id, script, ctx.limits(), input.value.as_ref()),
            limits: &of_answers(ctx.limits()),
            cancel: ctx.cancel(),
            service: &service,
        };
        let answered = worker.session.ask(asked).map_err(|error| self.not_started(ctx, error))?;
        worker.secrets.learn_from(ctx.redaction());
        if let Some(cause) = ctx.cancel().cause() {
            // The token has the last word; the process is killed here, before the caller hears of it.
            drop(worker);
            return Err(cause.error());
        }
        let End::Line(line) = answered.end else { return Err(self.ended(ctx, answered.end)) };
        may_be_made(&line, ctx.limits())?;
        let answer = protocol::read_answer(id, &line)
            .map_err(|what| failure(format!("the worker process of {} wrote {what}", self.script.path)))?;
        if answered.is_quiet {
            self.shared.isolated().keep(key, worker);
        }
        answer.map_err(|error| self.believed(error, &service))
    }

    fn key(&self, ctx: &SkillContext) -> Key {
        Key {
            runtime: self.runtime,
            skill: (self.script.skill.clone(), self.script.path.clone(), self.script.folder.clone()),
            function: self.script.function.clone(),
            digest: self.digest,
            memory: ctx.limits().memory,
            isolation: ctx.isolation(),
        }
    }

    fn started(&self, ctx: &SkillContext) -> Result<Worker> {
        let launcher = self.shared.launcher();
        let program = launcher.program().ok_or_else(|| {
            let sentence = format!("failed to run {}: there is no program to run it in a worker process", self.script.path);
            SkillError::new(ErrorKind::SandboxUnavailable, sentence).with_help(
                "begin the program's main with metier::helper_main(), or name a program that does with EngineBuilder::helper",
            )
        })?;
        let order = order(&program, ctx);
        let probed = || sandbox::probe(launcher, order.cage.clone()).and_then(process::checked);
        // What holds of a required sandbox holds of every one like it, or it does not start.
        let held = match ctx.isolation() {
            Isolation::Required => {
                self.shared.isolated().held(|| probed().map(|report| verdict::held(&report)))
            }
            _ => probed().map(|report| verdict::held(&report)),
        };
        let sandbox: SandboxReport = held.map_err(|error| self.not_started(ctx, error))?;
        let started = Session::start(Start::Caged(launcher, Box::new(order)), &of_answers(ctx.limits()));
        let session = started.map_err(|error| self.not_started(ctx, error))?;
        Ok(Worker::new(session, sandbox))
    }

    fn not_started(&self, ctx: &SkillContext, error: io::Error) -> SkillError {
        if let Err(stopped) = ctx.cancel().check() {
            return stopped;
        }
        let project = ctx.project().map_or(Path::new("/"), Files::root);
        let error = verdict::not_started(&self.script.path, project, error);
        if error.kind() == ErrorKind::SandboxUnavailable {
            return error.with_help("run it in this process, by --execution in-process");
        }
        error
    }

    /// The error of a run whose process did not answer.
    fn ended(&self, ctx: &SkillContext, end: End) -> SkillError {
        let path = &self.script.path;
        match end {
            End::TooMuch(_) => {
                let sentence =
                    format!("the value is larger than the {} bytes a run may put out", ctx.limits().output);
                SkillError::new(ErrorKind::Output, sentence)
            }
            End::Exited(Err(error)) => self.not_started(ctx, error),
            End::Exited(Ok((status, report))) => {
                let sentence = format!("the worker process of {path} ended before it answered ({status})");
                let kind = match report {
                    Some(report) if report.over_memory => ErrorKind::Memory,
                    _ => ErrorKind::Script,
                };
                SkillError::new(kind, sentence)
                    .with_help("if it needs more memory, raise the limit with --memory")
            }
            End::Line(_) | End::Stopped => failure(format!("{path} was stopped before it answered")),
        }
    }

    /// What may be believed of an error that a worker says: a kind that comes about there or that the host has answered, at a
    /// place in its script.
    fn believed(&self, error: SkillError, service: &Service<'_>) -> SkillError {
        let kind = error.kind();
        let is_known = OWN_KINDS.contains(&kind) || service.has_refused(kind);
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

fn failure(sentence: String) -> SkillError {
    SkillError::new(ErrorKind::Script, sentence)
}

/// The order for a worker: this program, and nothing else.
fn order(program: &Path, ctx: &SkillContext) -> Order {
    let memory = ctx.limits().memory.unwrap_or(Limits::MEMORY_IN_PROCESS);
    let read = READ.iter().map(Into::into).chain([program.into()]).collect();
    Order {
        program: program.into(),
        args: vec![protocol::WORKER.into()],
        environment: Vec::new(),
        folder: "/".into(),
        cage: Cage {
            files: Some(FileRules { read, write: vec![Exactly::from("/dev/null")], ..FileRules::default() }),
            shut_network: true,
            may_lock: false,
            guard_calls: true,
            required: ctx.isolation() == Isolation::Required,
            ceilings: Ceilings {
                memory: Some(memory.saturating_add(SLACK)),
                tree_memory: Some(memory.saturating_add(HELD)),
                processes: Some(16),
                cpu_seconds: None,
                file_size: Some(0),
                open_files: Some(64),
            },
        },
        leftovers: Vec::new(),
        // The host holds the deadline of each run.
        deadline_ms: u64::MAX,
    }
}

/// The cap of an answer's line: what is larger as a value is refused in the words of a run in process.
fn of_answers(limits: &Limits) -> Limits {
    let output = limits.output.saturating_mul(LONGEST_ESCAPE).saturating_add(ENVELOPE);
    limits.clone().output(output)
}
