//! Scripts run by their interpreter, as processes.
//!
//! The way of a run: choose the interpreter, build the command and the cage it runs in, run the process, judge how it ended.

mod api;
mod command;
mod denial;
mod file;
mod guarded;
mod interpreter;
#[cfg(not(unix))]
#[path = "elsewhere.rs"]
mod process;
#[cfg(unix)]
mod process;
mod reach;
mod shebang;
#[cfg(test)]
#[cfg(unix)]
mod tests;
mod value;
mod verdict;

use serde_json::Value;

use self::api::Service;
pub(super) use self::api::{Clients, client_main};
use self::file::ScriptFile;
use self::interpreter::Interpreter;
use self::process::Start;
use self::reach::Places;
use super::Shared;
use super::sandbox::Scratch;
use crate::error::{ErrorKind, Result, SkillError};
use crate::executor::{Script, SkillExecutor, SkillInput, SkillOutput};
use crate::host::{LogLevel, SandboxReport, SkillContext};
use crate::policy::{Isolation, Need};

/// Chooses the script's interpreter; `invalid-skill` when neither its shebang nor its ending tells one, or when it has no
/// folder. Whether the interpreter is installed is asked when the script runs.
pub(super) fn load(script: &Script, shared: &Shared) -> Result<Box<dyn SkillExecutor>> {
    let named = None; // A contract may name the interpreter once contracts exist.
    let interpreter = Interpreter::of(&script.path, &script.source, named)?;
    Ok(Box::new(External { file: ScriptFile::of(script)?, interpreter, shared: shared.clone() }))
}

/// Whether a file looks like a script some interpreter runs: by its ending, or without one by its shebang.
pub(super) fn runs(path: &str, source: impl FnOnce() -> Option<Vec<u8>>) -> bool {
    let has_ending = path.rsplit('/').next().is_some_and(|name| name.contains('.'));
    let source = if has_ending { None } else { source() };
    Interpreter::of(path, &source.unwrap_or_default(), None).is_ok()
}

/// Fails as a run would when no interpreter is told, or none is installed.
pub(super) fn is_installed(path: &str, source: &[u8]) -> Result<()> {
    Interpreter::of(path, source, None)?.found(path, &command::search_path()).map(drop)
}

struct External {
    file: ScriptFile,
    interpreter: Interpreter,
    shared: Shared,
}

impl SkillExecutor for External {
    fn execute_with_context(&self, input: SkillInput, context: Option<&SkillContext>) -> Result<SkillOutput> {
        let name = self.file.name();
        let ctx = context.ok_or_else(|| {
            let sentence = format!("{name} runs as a process, which takes a project");
            SkillError::new(ErrorKind::Unavailable, sentence)
        })?;
        ctx.cancel().check()?;
        let is_plain = ctx.isolation() == Isolation::Off || ctx.permissions().grants(&Need::unsandboxed());
        if is_plain {
            return self.run_plainly(&input, ctx);
        }
        match self.run_caged(&input, ctx) {
            Err(error) if is_missing_cage(&error) && ctx.isolation() == Isolation::BestEffort => {
                self.run_plainly(&input, ctx)
            }
            outcome => outcome,
        }
    }
}

impl External {
    /// With all the rights of the user, which the report and the log say.
    fn run_plainly(&self, input: &SkillInput, ctx: &SkillContext) -> Result<SkillOutput> {
        let (name, project) = (self.file.name(), ctx.project()?.root());
        let script = self.file.unchanged()?;
        let interpreter = self.interpreter.found(name, &command::search_path())?;
        let mut command = command::of(&interpreter, &script, &input.args, self.file.folder(), project);
        self.shared.clients().excuse(&mut command, self.shared.launcher().program());
        ctx.report_sandbox(SandboxReport::NONE);
        warn(ctx, format!("{name} runs without a sandbox, with all the rights of the user"));
        self.run(Start::Plain(Box::new(command)), input.value.as_ref(), ctx)
    }

    fn run_caged(&self, input: &SkillInput, ctx: &SkillContext) -> Result<SkillOutput> {
        let (name, project) = (self.file.name(), ctx.project()?.root());
        let script = self.file.unchanged()?;
        let interpreter = self.interpreter.found(name, &command::search_path())?;
        // Removed with everything in it when the run is over.
        let scratch =
            Scratch::new().map_err(|error| SkillError::io("failed to make a folder for the run", error))?;
        let places = Places {
            project,
            skill: self.file.folder(),
            scratch: scratch.path(),
            interpreter: &interpreter.program,
        };
        let cage = reach::cage(ctx, &places);
        let mut order = command::order(&interpreter, &script, &input.args, &places, cage, ctx.limits())
            .map_err(|error| verdict::not_started(name, project, error))?;
        let launcher = self.shared.launcher();
        let offered = self.shared.clients().offer(&mut order, launcher.program());
        offered.map_err(|error| SkillError::io("failed to write the clients of the host API", error))?;
        self.run(Start::Caged(launcher, Box::new(order)), input.value.as_ref(), ctx)
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

fn is_missing_cage(error: &SkillError) -> bool {
    error.kind() == ErrorKind::SandboxUnavailable
}

/// Logs a warning of ours. A log too small for it is no reason to fail a run: the reports say the same.
fn warn(ctx: &SkillContext, line: String) {
    ctx.log(LogLevel::Warn, line).ok();
}
