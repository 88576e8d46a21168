//! A script that the host compiles for its workers.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use crate::error::Result;
use crate::host::SkillContext;
use crate::policy::{CancelToken, Limits, Permission};

/// A script whose workers get machine code in place of its source.
pub trait CompiledScript: Send + Sync {
    /// The machine code for runs with these limits, in a form that only its own runtime reads.
    fn machine_code(&self, limits: &Limits, cancel: &CancelToken) -> Result<Arc<[u8]>>;

    /// Whether the machine code for these limits counts operations. A worker has either code.
    fn counts_operations(&self, limits: &Limits) -> bool;

    /// Checks the permissions of a run, and returns its input as the script expects it.
    fn prepare_input(&self, input: Value, context: &SkillContext) -> Result<Value>;

    /// The script's own timeout.
    fn timeout(&self) -> Option<Duration>;

    /// Permissions that the script itself requests.
    fn requested_permissions(&self) -> Vec<Permission>;
}
