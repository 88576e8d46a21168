//! Scripts run by their interpreter, as processes.
//!
//! The way of a run: choose the interpreter, build the command, run the process, judge how it ended. A sandbox comes
//! between the command and the process; until it does, a script has the rights of whoever runs it, and the log says so.

mod command;
mod file;
mod interpreter;
#[cfg(not(unix))]
#[path = "elsewhere.rs"]
mod process;
#[cfg(unix)]
mod process;
mod shebang;
#[cfg(test)]
#[cfg(unix)]
mod tests;
mod value;
mod verdict;

use self::file::ScriptFile;
use self::interpreter::Interpreter;
use crate::error::{ErrorKind, Result, SkillError};
use crate::executor::{Script, SkillExecutor, SkillInput, SkillOutput};
use crate::host::{LogLevel, SandboxReport, SkillContext};
use crate::policy::Need;

/// Chooses the script's interpreter; `invalid-skill` when neither its shebang nor its ending tells one, or when it has no
/// folder. Whether the interpreter is installed is asked when the script runs.
pub(super) fn load(script: &Script) -> Result<Box<dyn SkillExecutor>> {
    let named = None; // A contract may name the interpreter once contracts exist.
    let interpreter = Interpreter::of(&script.path, &script.source, named)?;
    Ok(Box::new(External { file: ScriptFile::of(script)?, interpreter }))
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
}

impl SkillExecutor for External {
    fn execute_with_context(&self, input: SkillInput, context: Option<&SkillContext>) -> Result<SkillOutput> {
        let name = self.file.name();
        let ctx = context.ok_or_else(|| {
            let sentence = format!("{name} runs as a process, which takes a project and the permission exec");
            SkillError::new(ErrorKind::Unavailable, sentence)
        })?;
        ctx.permissions().require(&Need::exec(), format_args!("failed to run {name}"))?;
        ctx.cancel().check()?;
        let project = ctx.project()?.root();
        let script = self.file.unchanged()?;
        let interpreter = self.interpreter.found(name, &command::search_path())?;
        let command = command::of(&interpreter, &script, &input.args, self.file.folder(), project);
        report_rights(ctx, name);
        let request = process::Request {
            command,
            stdin: input.value.map(|value| value.to_string().into_bytes()),
            limits: ctx.limits(),
            cancel: ctx.cancel(),
        };
        let ended = process::run(request).map_err(|error| verdict::not_started(name, project, error))?;
        verdict::of(ctx, name, ended)
    }
}

/// Says what holds: nothing does.
fn report_rights(ctx: &SkillContext, name: &str) {
    ctx.report_sandbox(SandboxReport::NONE);
    warn(ctx, format!("{name} runs without a sandbox, with all the rights of the user"));
}

/// Logs a warning of ours. A log too small for it is no reason to fail a run: the reports say the same.
fn warn(ctx: &SkillContext, line: String) {
    ctx.log(LogLevel::Warn, line).ok();
}
