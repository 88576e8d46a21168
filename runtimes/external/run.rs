//! One run of a script: as a plain process, or in a cage.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::super::Shared;
use super::super::sandbox::Order;
use super::api::Service;
use super::file::ScriptFile;
use super::interpreter::{Found, Interpreter, search_path};
use super::process::{self, Start};
use super::reach::{self, Places};
use super::scratch::Scratch;
use super::{command, verdict};
use crate::error::{ErrorKind, Result, SkillError};
use crate::executor::{Script, SkillExecutor, SkillInput, SkillOutput};
use crate::host::{LogLevel, SandboxReport, SkillContext};
use crate::policy::{Isolation, Need};

pub(super) use super::process::is_executable;

/// A script and the interpreter that runs it.
pub(super) struct External {
    pub(super) file: ScriptFile,
    interpreter: Interpreter,
    pub(super) shared: Shared,
}

/// What a run in a cage starts with.
pub(super) struct Caged<'a> {
    pub(super) order: Order,
    /// Removed with everything in it when this is dropped.
    scratch: Scratch,
    interpreter: Found,
    pub(super) project: &'a Path,
    skill: &'a Path,
    /// How many of the order's places to read are the script's own; those after them are the clients'.
    pub(super) own_reads: usize,
}

impl SkillExecutor for External {
    fn execute_with_context(&self, input: SkillInput, context: Option<&SkillContext>) -> Result<SkillOutput> {
        let name = self.file.name();
        let ctx = context.ok_or_else(|| {
            let sentence = format!("{name} runs as a process, which takes a project");
            SkillError::new(ErrorKind::Unavailable, sentence)
        })?;
        ctx.cancel().check()?;
        if Self::is_plain(ctx) {
            return self.run_plainly(&input, ctx);
        }
        match self.run_caged(&input, ctx) {
            Err(error) if Self::may_do_without(ctx, &error) => self.run_plainly(&input, ctx),
            outcome => outcome,
        }
    }
}

impl External {
    pub(super) fn new(script: &Script, shared: &Shared) -> Result<Self> {
        let named = None; // A contract may name the interpreter once contracts exist.
        let interpreter = Interpreter::of(&script.path, &script.source, named)?;
        Ok(Self { file: ScriptFile::of(script)?, interpreter, shared: shared.clone() })
    }

    /// Whether the caller wants no cage.
    pub(super) fn is_plain(ctx: &SkillContext) -> bool {
        ctx.isolation() == Isolation::Off || ctx.permissions().grants(&Need::unsandboxed())
    }

    /// Whether a run whose cage cannot be put up may go on without.
    pub(super) fn may_do_without(ctx: &SkillContext, error: &SkillError) -> bool {
        error.kind() == ErrorKind::SandboxUnavailable && ctx.isolation() == Isolation::BestEffort
    }

    /// The command of a plain process.
    pub(super) fn plain(&self, args: &[String], ctx: &SkillContext) -> Result<Command> {
        let script = self.file.unchanged()?;
        let interpreter = self.interpreter.found(self.file.name(), &search_path())?;
        let project = ctx.project()?.root();
        let mut command = command::of(&interpreter, &script, args, self.file.folder(), project);
        self.shared.clients().excuse(&mut command, self.shared.launcher().program());
        Ok(command)
    }

    /// The order for a process in a cage.
    pub(super) fn caged<'a>(&'a self, args: &[String], ctx: &'a SkillContext) -> Result<Caged<'a>> {
        let (name, project, skill) = (self.file.name(), ctx.project()?.root(), self.file.folder());
        let script = self.file.unchanged()?;
        let interpreter = self.interpreter.found(name, &search_path())?;
        let scratch =
            Scratch::new().map_err(|error| SkillError::io("failed to make a folder for the run", error))?;
        let places = Places { project, skill, scratch: scratch.path(), interpreter: &interpreter.program };
        let cage = reach::cage(ctx, &places);
        let own_reads = cage.files.as_ref().map_or(0, |rules| rules.read.len());
        let mut order = command::order(&interpreter, &script, args, &places, cage, ctx.limits())
            .map_err(|error| verdict::not_started(name, project, error))?;
        let offered = self.shared.clients().offer(&mut order, self.shared.launcher().program());
        offered.map_err(|error| SkillError::io("failed to write the clients of the host API", error))?;
        Ok(Caged { order, scratch, interpreter, project, skill, own_reads })
    }

    /// With all the rights of the user, which the report and the log say.
    fn run_plainly(&self, input: &SkillInput, ctx: &SkillContext) -> Result<SkillOutput> {
        let command = self.plain(&input.args, ctx)?;
        ctx.report_sandbox(SandboxReport::NONE);
        warn(ctx, format!("{} runs without a sandbox, with all the rights of the user", self.file.name()));
        self.run(Start::Plain(Box::new(command)), input.value.as_ref(), ctx)
    }

    fn run_caged(&self, input: &SkillInput, ctx: &SkillContext) -> Result<SkillOutput> {
        let Caged { order, scratch, .. } = self.caged(&input.args, ctx)?;
        let outcome =
            self.run(Start::Caged(self.shared.launcher(), Box::new(order)), input.value.as_ref(), ctx);
        drop(scratch);
        outcome
    }

    fn run(&self, start: Start<'_>, input: Option<&Value>, ctx: &SkillContext) -> Result<SkillOutput> {
        let name = self.file.name();
        let service = Service::new(ctx, name, input);
        let request = process::Request {
            start,
            stdin: input.map(|value| value.to_string().into_bytes()),
            limits: ctx.limits(),
            cancel: ctx.cancel(),
            service: &service,
        };
        let project = ctx.project()?.root();
        let ended = process::run(request).map_err(|error| {
            // What was stopped on its way in did not fail to start.
            ctx.cancel().check().err().unwrap_or_else(|| verdict::not_started(name, project, error))
        })?;
        let code = ended.status.code();
        verdict::of(ctx, name, ended).map_err(|error| service.explained(error, code))
    }
}

impl Caged<'_> {
    pub(super) fn places(&self) -> Places<'_> {
        Places {
            project: self.project,
            skill: self.skill,
            scratch: self.scratch.path(),
            interpreter: &self.interpreter.program,
        }
    }
}

/// Logs a warning of ours. A log too small for it is no reason to fail a run: the reports say the same.
pub(super) fn warn(ctx: &SkillContext, line: String) {
    ctx.log(LogLevel::Warn, line).ok();
}
