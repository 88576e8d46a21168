//! A worker process: run after run, what each one receives and what is remembered for the next.

use std::io::PipeReader;
use std::path::PathBuf;

use serde_json::Value;

use crate::error::{Result, SkillError};
use crate::executor::SkillInput;
use crate::host::{ProcessReport, ProcessUsage, Redaction, SandboxReport, SkillContext, check_value_memory};
use crate::policy::WorkerOptions;
use crate::runtimes::external::host_api::RequestHandler;
use crate::runtimes::external::process::{
    CallOutcome, CapturedOutput, ProcessExit, WaitOutcome, WorkerCall, WorkerSession,
};
use crate::runtimes::external::protected::creation_guard::CreationGuard;
use crate::runtimes::external::protected::scan::Fingerprint;
use crate::runtimes::external::worker::protocol;
use crate::runtimes::external::{limit_errors, outcome};
use crate::runtimes::sandbox::RunTempDir;

/// A process, and what is its own.
pub(in crate::runtimes::external) struct WorkerProcess {
    session: WorkerSession,
    script: String,
    project: PathBuf,
    settings: WorkerOptions,
    /// The enforcement of its sandbox.
    sandbox: SandboxReport,
    /// Secrets of earlier runs, which its memory may still hold.
    secrets: Redaction,
    runs: u64,
    cleanup: WorkerCleanup,
}

/// What a process leaves behind, which is looked after when it is gone.
#[derive(Default)]
pub(in crate::runtimes::external) struct WorkerCleanup {
    pub(in crate::runtimes::external) creation_guard: Option<CreationGuard>,
    /// The protected paths of its sandbox.
    pub(in crate::runtimes::external) fingerprint: Fingerprint,
    pub(in crate::runtimes::external) temp_dir: Option<RunTempDir>,
}

impl WorkerProcess {
    pub(in crate::runtimes::external) fn new(
        session: WorkerSession,
        script: &str,
        project: PathBuf,
        worker: WorkerOptions,
        sandbox: SandboxReport,
        own: WorkerCleanup,
    ) -> Self {
        let (script, secrets) = (script.to_owned(), Redaction::default());
        Self { session, script, project, settings: worker, sandbox, secrets, runs: 0, cleanup: own }
    }

    /// The protected paths of its sandbox.
    pub(in crate::runtimes::external) fn fingerprint(&self) -> &Fingerprint {
        &self.cleanup.fingerprint
    }

    /// The value of the only run, when nothing of the process is left.
    pub(in crate::runtimes::external) fn run_once(
        mut self,
        input: &SkillInput,
        ctx: &SkillContext,
    ) -> Result<Value> {
        let result = self.run(input, ctx).0;
        self.shut_down(ctx, result)
    }

    /// Ends it. What it has made by then is this run's.
    pub(in crate::runtimes::external) fn shut_down(
        self,
        ctx: &SkillContext,
        result: Result<Value>,
    ) -> Result<Value> {
        let Self {
            session,
            script,
            cleanup: WorkerCleanup { creation_guard: before, temp_dir: scratch, .. },
            ..
        } = self;
        drop((session, scratch));
        match before {
            Some(mut before) => before.enforce_on(ctx, &script, result),
            None => result,
        }
    }

    /// Waits for the next run: whether there is one, and the process is fit for it.
    pub(in crate::runtimes::external) fn wait_for_call(&mut self, called: &PipeReader) -> bool {
        self.session.wait_for_call(called, self.settings.idle_timeout) == WaitOutcome::Called
    }

    /// The value of one run, and whether the process is as good as new but for what it remembers.
    pub(in crate::runtimes::external) fn run(
        &mut self,
        input: &SkillInput,
        ctx: &SkillContext,
    ) -> (Result<Value>, bool) {
        self.runs += 1;
        ctx.report_sandbox(self.sandbox);
        ctx.learn_secrets(&self.secrets);
        let service = RequestHandler::new(ctx, &self.script, input.value.as_ref());
        let asked = WorkerCall {
            line: protocol::encode_request(self.runs, input),
            limits: ctx.limits(),
            cancel: ctx.cancel(),
            handler: &service,
        };
        let answered = match self.session.call(asked) {
            Ok(answered) => answered,
            Err(error) => return (Err(outcome::start_error(&self.script, &self.project, error)), false),
        };
        self.secrets.learn_from(ctx.redaction());
        let status = match &answered.outcome {
            CallOutcome::Exited(Ok((status, _))) => Some(*status),
            _ => None,
        };
        let (result, kept_to_it) = self.evaluate_call(ctx, answered.outcome, &answered.stderr);
        // By a number that says nothing else: the process goes on, and ends for nothing.
        let result = result.map_err(|error| service.error_for_exit(error, Some(1)));
        ctx.report_process(process_report(status, answered.stderr, answered.stdout_bytes));
        let has_made = self
            .cleanup
            .creation_guard
            .as_mut()
            .map_or(Ok(false), |before| before.enforce(ctx, &self.script));
        let is_kept = kept_to_it
            && answered.is_reusable
            && self.runs < self.settings.runs
            && has_made.as_ref().is_ok_and(|has_made| !has_made);
        let result = result.and_then(|value| has_made.map(|_| value));
        match ctx.cancel().cause() {
            // The token has the last word.
            Some(cause) => (Err(cause.error()), false),
            None => (result, is_kept),
        }
    }

    fn evaluate_call(
        &self,
        ctx: &SkillContext,
        end: CallOutcome,
        stderr: &CapturedOutput,
    ) -> (Result<Value>, bool) {
        let error = match end {
            CallOutcome::Line(line) => match check_value_memory(&line, ctx.limits()) {
                Ok(()) => return protocol::decode_response(self.runs, &line).into_result(&self.script),
                Err(error) => error,
            },
            CallOutcome::Stopped => {
                ctx.cancel().check().err().unwrap_or_else(|| self.no_response_error("was stopped"))
            }
            CallOutcome::OutputLimit(stream) => {
                limit_errors::output_limit_error(ctx.limits(), &self.script, stream)
            }
            CallOutcome::Exited(Err(error)) => outcome::start_error(&self.script, &self.project, error),
            CallOutcome::Exited(Ok((status, report))) => {
                let ended = ProcessExit::without_stdout(status, report, stderr);
                // What several runs used together is the fault of none.
                let single = self.settings.is_single_run();
                let stopped =
                    || limit_errors::limit_error(ctx.limits(), &self.script, &ended).filter(|_| single);
                stopped()
                    .or_else(|| outcome::exit_error(ctx, &self.script, &ended))
                    .unwrap_or_else(|| self.no_response_error("ended"))
            }
        };
        (Err(error), false)
    }

    fn no_response_error(&self, what: &str) -> SkillError {
        let sentence = format!("{} {what} before it answered", self.script);
        SkillError::new(crate::error::ErrorKind::Script, sentence)
            .with_help("a worker reads requests until standard input ends, and answers each one by a line")
    }
}

fn process_report(
    status: Option<std::process::ExitStatus>,
    stderr: CapturedOutput,
    came: u64,
) -> ProcessReport {
    use std::os::unix::process::ExitStatusExt;
    ProcessReport {
        exit_code: status.and_then(|status| status.code()),
        signal: status.and_then(|status| status.signal()),
        stdout: String::new(),
        stdout_truncated: false,
        stderr_truncated: stderr.truncated,
        usage: ProcessUsage {
            stdout_bytes: came,
            stderr_bytes: stderr.total_bytes,
            ..ProcessUsage::default()
        },
        stderr: outcome::lossy_utf8(stderr.bytes),
    }
}
