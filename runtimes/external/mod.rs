//! Scripts run by their interpreter, as processes.

use crate::error::Result;
use crate::executor::{Script, SkillExecutor, SkillInput, SkillOutput};
use crate::host::SkillContext;

/// Finds the script's interpreter.
pub(super) fn load(script: &Script) -> Result<Box<dyn SkillExecutor>> {
    Ok(Box::new(Process { script: script.clone() }))
}

struct Process {
    script: Script,
}

impl SkillExecutor for Process {
    fn execute_with_context(
        &self,
        _input: SkillInput,
        _context: Option<&SkillContext>,
    ) -> Result<SkillOutput> {
        Err(crate::error::SkillError::new(crate::error::ErrorKind::Unavailable, self.script.path.clone()))
    }
}
