//! The interface between a plan and what executes its steps: this process today, or any other implementation of the trait.

use serde_json::{Map, Value};

use crate::CallTarget;
use metier_core::error::Result;
use metier_core::host::SkillContext;

/// Executes the steps of a plan.
pub trait StepBackend: Sync {
    /// Whether a call can only read, under the permissions of this run. Such calls run in parallel.
    fn is_read_only(&self, ctx: &SkillContext, call: &CallTarget) -> bool;

    /// Whether a call can be repeated without side effects. If it cannot, a warning is reported when it has to be repeated.
    fn is_repeatable(&self, ctx: &SkillContext, call: &CallTarget) -> bool {
        self.is_read_only(ctx, call)
    }

    /// Makes the call and returns its value. The context's token stops it.
    fn call(&self, ctx: &SkillContext, call: &CallTarget, arguments: Map<String, Value>) -> Result<Value>;
}
