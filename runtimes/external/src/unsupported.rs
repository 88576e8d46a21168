//! The executor for systems without process groups: a process could not be killed with its children, so none is started.

use std::path::Path;

use crate::interpreter::detect::Interpreter;
use crate::script_file::ScriptFile;
use crate::services::ExternalServices;
use metier_core::error::{ErrorKind, Result, SkillError};
use metier_core::executor::{Script, SkillExecutor, SkillInput, SkillOutput};
use metier_core::host::{InterpreterReport, LaunchPreview, SandboxReport, SandboxSupport, SkillContext};

const REASON: &str = "this system has no way to stop a process with all that it started";

/// A script that cannot run.
struct ExternalExecutor(ScriptFile);

/// Detects the script's interpreter; `invalid-skill` if neither its shebang nor its file extension names one, or if it has no
/// folder.
pub fn load(script: &Script, _: &ExternalServices) -> Result<Box<dyn SkillExecutor>> {
    Ok(Box::new(ExternalExecutor::new(script)?))
}

impl ExternalExecutor {
    fn new(script: &Script) -> Result<Self> {
        Interpreter::detect(&script.path, &script.source)?;
        ScriptFile::new(script).map(Self)
    }

    fn error(&self) -> SkillError {
        let sentence = format!("failed to run {}: {REASON}", self.0.name());
        SkillError::new(ErrorKind::SandboxUnavailable, sentence)
            .with_help("write it in an embedded language, such as Lua")
    }
}

impl SkillExecutor for ExternalExecutor {
    fn execute_with_context(&self, _: SkillInput, _: Option<&SkillContext>) -> Result<SkillOutput> {
        Err(self.error())
    }
}

/// Why the script would not run.
pub fn process_plan(
    script: &Script,
    _: &ExternalServices,
    _: &SkillInput,
    _: &SkillContext,
) -> Result<LaunchPreview> {
    Err(ExternalExecutor::new(script)?.error())
}

/// Nothing is supported.
pub fn sandbox_support(_: &ExternalServices) -> SandboxSupport {
    SandboxSupport {
        landlock_abi: None,
        strongest: SandboxReport::NONE,
        tree_kill: None,
        reason: Some(REASON.to_owned()),
        help: None,
        hint: None,
        helper: None,
    }
}

/// No interpreter would be started.
pub fn interpreters(_: &ExternalServices, _: &Path) -> Vec<InterpreterReport> {
    Vec::new()
}
