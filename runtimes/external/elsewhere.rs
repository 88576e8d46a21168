//! Systems without process groups: nothing could be stopped as a whole, so nothing is started.

use std::path::Path;

use super::super::Shared;
use crate::error::{ErrorKind, Result, SkillError};
use crate::executor::{Script, SkillExecutor, SkillInput, SkillOutput};
use crate::host::{InterpreterReport, Machine, ProcessPlan, SandboxReport, SkillContext};
use crate::runtimes::external::interpreter::detect::Interpreter;
use crate::runtimes::external::script_file::ScriptFile;

const REASON: &str = "this system has no way to stop a process with all that it started";

/// A script that cannot run.
pub(super) struct External(ScriptFile);

impl External {
    pub(super) fn new(script: &Script, _shared: &Shared) -> Result<Self> {
        Interpreter::of(&script.path, &script.source)?;
        ScriptFile::of(script).map(Self)
    }

    fn error(&self) -> SkillError {
        let sentence = format!("failed to run {}: {REASON}", self.0.name());
        SkillError::new(ErrorKind::SandboxUnavailable, sentence)
            .with_help("write it in an embedded language, such as Lua")
    }
}

impl SkillExecutor for External {
    fn execute_with_context(&self, _: SkillInput, _: Option<&SkillContext>) -> Result<SkillOutput> {
        Err(self.error())
    }
}

/// Why the script would not run.
pub(in super::super) fn plan(
    script: &Script,
    shared: &Shared,
    _: &SkillInput,
    _: &SkillContext,
) -> Result<ProcessPlan> {
    Err(External::new(script, shared)?.error())
}

/// Nothing is offered.
pub(in super::super) fn machine(_: &Shared) -> Machine {
    Machine {
        landlock_abi: None,
        sandbox: SandboxReport::NONE,
        tree_kill: None,
        reason: Some(REASON.to_owned()),
        helper: None,
    }
}

/// None of them would be started.
pub(in super::super) fn interpreters(_: &Shared, _: &Path) -> Vec<InterpreterReport> {
    Vec::new()
}

/// Whether the file may be executed.
pub(super) fn is_executable(_path: &Path) -> bool {
    true
}
