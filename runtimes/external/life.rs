//! The life of a kept process: run after run, what each one is told and what is remembered for the next.

use std::io::PipeReader;
use std::path::PathBuf;

use serde_json::Value;

use super::super::sandbox::Scratch;
use super::api::Service;
use super::guarded::Marks;
use super::made::Before;
use super::process::{Asked, End, Ended, Kept, Session, Waited};
use super::{answer, exceeded, verdict};
use crate::error::{Result, SkillError};
use crate::executor::SkillInput;
use crate::host::{ProcessReport, Redaction, SandboxReport, SkillContext, Usage, may_be_made};
use crate::policy::Worker;

/// A process, and what is its own.
pub(super) struct Life {
    session: Session,
    script: String,
    project: PathBuf,
    worker: Worker,
    /// What holds of its cage.
    sandbox: SandboxReport,
    /// What earlier runs were handed: it knows them still.
    secrets: Redaction,
    runs: u64,
    own: Own,
}

/// What a process leaves behind, which is looked after when it is gone.
#[derive(Default)]
pub(super) struct Own {
    pub(super) before: Option<Before>,
    /// What its cage guards.
    pub(super) marks: Marks,
    pub(super) scratch: Option<Scratch>,
}

impl Life {
    pub(super) fn new(
        session: Session,
        script: &str,
        project: PathBuf,
        worker: Worker,
        sandbox: SandboxReport,
        own: Own,
    ) -> Self {
        let (script, secrets) = (script.to_owned(), Redaction::default());
        Self { session, script, project, worker, sandbox, secrets, runs: 0, own }
    }

    /// What its cage guards.
    pub(super) fn marks(&self) -> &Marks {
        &self.own.marks
    }

    /// The value of the only run, when nothing of the process is left.
    pub(super) fn last_run(mut self, input: &SkillInput, ctx: &SkillContext) -> Result<Value> {
        let result = self.run(input, ctx).0;
        self.end(ctx, result)
    }

    /// Ends it. What it has made by then is this run's.
    pub(super) fn end(self, ctx: &SkillContext, result: Result<Value>) -> Result<Value> {
        let Self { session, script, own: Own { before, scratch, .. }, .. } = self;
        drop((session, scratch));
        match before {
            Some(mut before) => before.settled(ctx, &script, result),
            None => result,
        }
    }

    /// Waits for the next run: whether there is one, and the process is fit for it.
    pub(super) fn waits(&mut self, called: &PipeReader) -> bool {
        self.session.wait(called, self.worker.idle) == Waited::Called
    }

    /// The value of one run, and whether the process is as good as new but for what it remembers.
    pub(super) fn run(&mut self, input: &SkillInput, ctx: &SkillContext) -> (Result<Value>, bool) {
        self.runs += 1;
        ctx.report_sandbox(self.sandbox);
        ctx.learn_secrets(&self.secrets);
        let service = Service::new(ctx, &self.script, input.value.as_ref());
        let asked = Asked {
            line: answer::request(self.runs, input),
            limits: ctx.limits(),
            cancel: ctx.cancel(),
            service: &service,
        };
        let answered = match self.session.ask(asked) {
            Ok(answered) => answered,
            Err(error) => return (Err(verdict::not_started(&self.script, &self.project, error)), false),
        };
        self.secrets.learn_from(ctx.redaction());
        let status = match &answered.end {
            End::Exited(Ok((status, _))) => Some(*status),
            _ => None,
        };
        let (result, kept_to_it) = self.judged(ctx, answered.end, &answered.stderr);
        // By a number that says nothing else: the process goes on, and ends for nothing.
        let result = result.map_err(|error| service.explained(error, Some(1)));
        ctx.report_process(report(status, answered.stderr, answered.came));
        let has_made = self.own.before.as_mut().map_or(Ok(false), |before| before.settle(ctx, &self.script));
        let is_kept = kept_to_it
            && answered.is_quiet
            && self.runs < self.worker.runs
            && has_made.as_ref().is_ok_and(|has_made| !has_made);
        let result = result.and_then(|value| has_made.map(|_| value));
        match ctx.cancel().cause() {
            // The token has the last word.
            Some(cause) => (Err(cause.error()), false),
            None => (result, is_kept),
        }
    }

    fn judged(&self, ctx: &SkillContext, end: End, stderr: &Kept) -> (Result<Value>, bool) {
        let error = match end {
            End::Line(line) => match may_be_made(&line, ctx.limits()) {
                Ok(()) => return answer::read(self.runs, &line).of(&self.script),
                Err(error) => error,
            },
            End::Stopped => ctx.cancel().check().err().unwrap_or_else(|| self.silent("was stopped")),
            End::TooMuch(stream) => exceeded::too_much_said(ctx.limits(), &self.script, stream),
            End::Exited(Err(error)) => verdict::not_started(&self.script, &self.project, error),
            End::Exited(Ok((status, report))) => {
                let ended = Ended::silently(status, report, stderr);
                // What several runs used together is the fault of none.
                let single = self.worker.is_single();
                let stopped = || exceeded::stopped(ctx.limits(), &self.script, &ended).filter(|_| single);
                stopped()
                    .or_else(|| verdict::failed(ctx, &self.script, &ended))
                    .unwrap_or_else(|| self.silent("ended"))
            }
        };
        (Err(error), false)
    }

    fn silent(&self, what: &str) -> SkillError {
        let sentence = format!("{} {what} before it answered", self.script);
        SkillError::new(crate::error::ErrorKind::Script, sentence)
            .with_help("a worker reads requests until standard input ends, and answers each one by a line")
    }
}

fn report(status: Option<std::process::ExitStatus>, stderr: Kept, came: u64) -> ProcessReport {
    use std::os::unix::process::ExitStatusExt;
    ProcessReport {
        exit_code: status.and_then(|status| status.code()),
        signal: status.and_then(|status| status.signal()),
        stdout: String::new(),
        stdout_truncated: false,
        stderr_truncated: stderr.truncated,
        usage: Usage { stdout_bytes: came, stderr_bytes: stderr.came, ..Usage::default() },
        stderr: verdict::text(stderr.bytes),
    }
}
