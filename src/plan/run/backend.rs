//! The seam between a plan and whatever runs its steps: this process today, and any machine that keeps these words.

use serde_json::{Map, Value};

use crate::error::Result;
use crate::host::SkillContext;
use crate::plan::CallTarget;

/// Where steps run.
pub trait StepBackend: Sync {
    /// Whether a call can do no more than read, under the permissions of this run. Such calls run side by side.
    fn is_read_only(&self, ctx: &SkillContext, call: &CallTarget) -> bool;

    /// Whether nothing comes of making a call once more. What is not is warned of when it has to be.
    fn is_repeatable(&self, ctx: &SkillContext, call: &CallTarget) -> bool {
        self.is_read_only(ctx, call)
    }

    /// Makes the call and answers with its value. The context's token stops it.
    fn call(&self, ctx: &SkillContext, call: &CallTarget, arguments: Map<String, Value>) -> Result<Value>;
}
