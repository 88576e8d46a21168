//! A worker process that executes one run after the other.

use std::io::PipeReader;
use std::path::PathBuf;

use serde_json::Value;

use crate::home::warn_of_replaced_files;
use crate::home_guard::HomeGuard;
use crate::host_api::RequestHandler;
use crate::limit_errors;
use crate::observation::RunFiles;
use crate::outcome::{self, EndedScript, ProtectionGaps};
use crate::process::pipes::CapturedOutput;
use crate::process::run::ProcessExit;
use crate::process::supervisor_lost::SupervisorLost;
use crate::protected::creation_guard::CreationGuard;
use crate::protected::fingerprint::Fingerprint;
use crate::run_temp_dir::RunTempDir;
use crate::script_command::HomeEntries;
use crate::worker::protocol;
use crate::worker::session::{CallOutcome, WaitOutcome, WorkerCall, WorkerReply, WorkerSession};
use metier_core::error::{ErrorKind, Result, SkillError};
use metier_core::executor::SkillInput;
use metier_core::host::{
    EnforcedLevel, NetworkReport, ProcessOutput, ProcessReport, Redaction, RunMessages, RunReporting,
    SandboxReport, SkillContext, check_value_memory,
};
use metier_core::policy::WorkerOptions;
use metier_sandbox::SupervisorReport;

/// A running worker process.
pub(crate) struct WorkerProcess {
    session: WorkerSession,
    script: String,
    project: PathBuf,
    settings: WorkerOptions,
    /// The enforcement of its sandbox.
    sandbox: SandboxReport,
    /// The secrets of its runs, which may still be in its memory.
    secrets: Redaction,
    runs: u64,
    cleanup: WorkerCleanup,
}

/// What has to be cleaned up when the process is gone.
#[derive(Default)]
pub(crate) struct WorkerCleanup {
    pub(crate) creation_guard: Option<CreationGuard>,
    /// Where it has folders, the process serves one run.
    pub(crate) home_guard: HomeGuard,
    /// The protected paths of its sandbox.
    pub(crate) fingerprint: Fingerprint,
    /// What it may read and change. Where it is watched, the process serves one run.
    pub(crate) files: Option<RunFiles>,
    /// Dropped before the home that they are in.
    pub(crate) home_entries: HomeEntries,
    pub(crate) temp_dir: Option<RunTempDir>,
}

/// The result of one run.
pub(crate) struct WorkerResult {
    pub(super) result: Result<Value>,
    /// Whether the process can execute another run.
    pub(super) is_reusable: bool,
}

impl WorkerResult {
    /// The result of the last run of a process.
    pub(super) fn last(result: Result<Value>) -> Self {
        Self { result, is_reusable: false }
    }
}

impl WorkerProcess {
    pub(crate) fn new(
        session: WorkerSession,
        script: &str,
        project: PathBuf,
        worker: WorkerOptions,
        sandbox: SandboxReport,
        cleanup: WorkerCleanup,
    ) -> Self {
        let (script, secrets) = (script.to_owned(), Redaction::default());
        Self { session, script, project, settings: worker, sandbox, secrets, runs: 0, cleanup }
    }

    /// The protected paths of its sandbox.
    pub(crate) fn fingerprint(&self) -> &Fingerprint {
        &self.cleanup.fingerprint
    }

    /// Executes one run and ends the process. Returns when nothing of the process is left.
    pub(crate) fn run_once(mut self, input: &SkillInput, ctx: &SkillContext) -> Result<Value> {
        let result = self.run(input, ctx).result;
        self.shut_down(ctx, result)
    }

    /// Ends the process after this run, whose result becomes an error if something that it created cannot be quarantined.
    pub(crate) fn shut_down(self, ctx: &SkillContext, result: Result<Value>) -> Result<Value> {
        let Self { session, script, sandbox, cleanup, .. } = self;
        let WorkerCleanup { creation_guard, home_guard, files, home_entries, temp_dir, .. } = cleanup;
        let end = session.end().inspect_err(|error| report_lost_supervisor(error, ctx, &script, sandbox));
        report_refused_accesses(ctx, files.as_ref(), end.ok().and_then(|(_, report)| report).as_ref());
        warn_of_replaced_files(ctx, home_entries.links.as_ref());
        drop((home_entries, temp_dir));
        let result = match creation_guard {
            Some(mut guard) => guard.enforce_on(ctx, &script, result),
            None => result,
        };
        home_guard.enforce_on(ctx, &script, result)
    }

    /// Waits for the next run. Returns whether there is one and the process can execute it.
    pub(crate) fn wait_for_call(&mut self, called: &PipeReader) -> bool {
        self.session.wait_for_call(called, self.settings.idle_timeout) == WaitOutcome::Called
    }

    /// Executes one run.
    pub(super) fn run(&mut self, input: &SkillInput, ctx: &SkillContext) -> WorkerResult {
        self.runs += 1;
        ctx.report_sandbox(self.sandbox);
        ctx.learn_secrets(&self.secrets);
        let handler = RequestHandler::new(ctx, &self.script, input.value.as_ref());
        let call = WorkerCall {
            request: protocol::encode_request(self.runs, input),
            limits: ctx.limits(),
            cancel: ctx.cancel(),
            observed: ProcessOutput::without_stdout(ctx),
            handler: &handler,
        };
        let reply = match self.session.call(call) {
            Ok(reply) => self.with_own_network(reply),
            Err(error) => return WorkerResult::last(Err(self.start_error(error))),
        };
        self.secrets.learn_from(ctx.redaction());
        if let CallOutcome::Exited(Ok((_, report))) = &reply.outcome {
            report_refused_accesses(ctx, self.cleanup.files.as_ref(), report.as_ref());
        }
        let status = match &reply.outcome {
            CallOutcome::Exited(Ok((status, _))) => Some(*status),
            _ => None,
        };
        outcome::warn_of_refusals(ctx, &self.script, reply.network.as_ref(), "");
        let (result, is_valid) =
            self.evaluate_call(ctx, reply.outcome, &reply.stderr, reply.network.as_ref());
        // The process does not exit, so clients report the code 1.
        let result = result.map_err(|error| handler.error_for_exit(error, Some(1)));
        ctx.report_process(process_report(status, reply.stderr, reply.stdout_bytes, reply.network));
        let has_created =
            self.cleanup.creation_guard.as_mut().map_or(Ok(false), |guard| guard.enforce(ctx, &self.script));
        self.cleanup.fingerprint.report_replaced(ctx, &self.script, &self.project);
        let is_reusable = is_valid
            && reply.is_reusable
            && self.runs < self.settings.runs
            && has_created.as_ref().is_ok_and(|has_created| !has_created);
        let result = result.and_then(|value| has_created.map(|_| value));
        match ctx.cancel().cause() {
            // A cancellation takes precedence over any result.
            Some(cause) => WorkerResult::last(Err(cause.error())),
            None => WorkerResult { result, is_reusable },
        }
    }

    /// Without namespaces there is no network, in which nothing was observed then.
    fn with_own_network(&self, reply: WorkerReply) -> WorkerReply {
        let had_network = |network: &NetworkReport| {
            !network.hosts.is_empty() || self.sandbox.level == EnforcedLevel::Namespaces
        };
        WorkerReply { network: reply.network.filter(had_network), ..reply }
    }

    /// The value or the error of a call, and whether the process kept to the protocol.
    fn evaluate_call(
        &self,
        ctx: &SkillContext,
        end: CallOutcome,
        stderr: &CapturedOutput,
        network: Option<&NetworkReport>,
    ) -> (Result<Value>, bool) {
        let error = match end {
            CallOutcome::Line(line) => match check_value_memory(&line, ctx.limits()) {
                Ok(()) => {
                    let (result, is_valid) =
                        protocol::decode_response(self.runs, &line).into_result(&self.script);
                    let placed = |error| outcome::with_written_place(ctx, error, &self.script, stderr);
                    return (result.map_err(placed), is_valid);
                }
                Err(error) => error,
            },
            CallOutcome::Stopped => {
                ctx.cancel().check().err().unwrap_or_else(|| self.no_response_error("was stopped"))
            }
            CallOutcome::OutputLimit(stream) => {
                limit_errors::output_limit_error(ctx.limits(), &self.script, stream)
            }
            CallOutcome::Exited(Err(error)) => {
                report_lost_supervisor(&error, ctx, &self.script, self.sandbox);
                self.start_error(error)
            }
            CallOutcome::Exited(Ok((status, report))) => {
                let ended = ProcessExit::without_stdout(status, report, stderr, network.cloned());
                // If the process had several runs, none of them is responsible for what they used together.
                let single = self.settings.is_single_run();
                let limit_error =
                    || limit_errors::limit_error(ctx.limits(), &self.script, &ended).filter(|_| single);
                limit_error()
                    .or_else(|| {
                        outcome::exit_error(
                            ctx,
                            &EndedScript::of_worker(&self.script, self.cleanup.files.as_ref()),
                            &ended,
                        )
                    })
                    .unwrap_or_else(|| self.no_response_error("ended"))
            }
        };
        (Err(error), false)
    }

    fn start_error(&self, error: std::io::Error) -> SkillError {
        outcome::start_error(&self.script, &self.project, &ProtectionGaps::default(), error)
    }

    fn no_response_error(&self, what: &str) -> SkillError {
        let sentence = format!("{} {what} before it answered", self.script);
        SkillError::new(ErrorKind::Script, sentence)
            .with_help("a worker reads requests until standard input ends, and answers each one by a line")
    }
}

/// Reports what a watched process was refused.
fn report_refused_accesses(ctx: &SkillContext, files: Option<&RunFiles>, report: Option<&SupervisorReport>) {
    if let (Some(files), Some(report)) = (files, report) {
        ctx.report_refused_accesses(files.refused_accesses(ctx, report));
    }
}

/// Reports what cannot be known of a process with this sandbox if that is the error at its end.
fn report_lost_supervisor(error: &std::io::Error, ctx: &SkillContext, script: &str, sandbox: SandboxReport) {
    if SupervisorLost::warn_if_it_is(error, ctx, script) {
        let mut report = sandbox;
        report.tree_kill = false;
        ctx.report_sandbox(report);
    }
}

fn process_report(
    status: Option<std::process::ExitStatus>,
    stderr: CapturedOutput,
    stdout_bytes: u64,
    network: Option<NetworkReport>,
) -> ProcessReport {
    use std::os::unix::process::ExitStatusExt;
    let mut report = ProcessReport::default();
    report.exit_code = status.and_then(|status| status.code());
    report.signal = status.and_then(|status| status.signal());
    report.usage.stdout_bytes = stdout_bytes;
    report.usage.stderr_bytes = stderr.total_bytes;
    report.stderr_truncated = stderr.truncated;
    report.stderr = outcome::lossy_utf8(stderr.bytes);
    report.network = network;
    report
}
