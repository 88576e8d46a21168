//! The executor for systems without process groups: a process could not be killed with its children, so none is started.

use std::path::Path;

use super::super::RuntimeServices;
use crate::error::{ErrorKind, Result, SkillError};
use crate::executor::{Script, SkillExecutor, SkillInput, SkillOutput};
use crate::host::{InterpreterReport, ProcessPlan, SandboxReport, SandboxSupport, SkillContext};
use crate::runtimes::external::interpreter::detect::Interpreter;
use crate::runtimes::external::script_file::ScriptFile;

const REASON: &str = "this system has no way to stop a process with all that it started";

/// A script that cannot run.
pub(super) struct ExternalExecutor(ScriptFile);

impl ExternalExecutor {
    pub(super) fn new(script: &Script, _: &RuntimeServices) -> Result<Self> {
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
pub(in super::super) fn process_plan(
    script: &Script,
    shared: &RuntimeServices,
    _: &SkillInput,
    _: &SkillContext,
) -> Result<ProcessPlan> {
    Err(ExternalExecutor::new(script, shared)?.error())
}

/// Nothing is supported.
pub(in super::super) fn machine(_: &RuntimeServices) -> SandboxSupport {
    SandboxSupport {
        landlock_abi: None,
        sandbox: SandboxReport::NONE,
        tree_kill: None,
        reason: Some(REASON.to_owned()),
        helper: None,
    }
}

/// No interpreter would be started.
pub(in super::super) fn interpreters(_: &RuntimeServices, _: &Path) -> Vec<InterpreterReport> {
    Vec::new()
}

/// Whether the file may be executed.
pub(super) fn is_executable_file(_path: &Path) -> bool {
    true
}
