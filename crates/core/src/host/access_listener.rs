//! Notifies the listener of a run of the secrets that it reads and of the calls that it is refused.

use super::context::SkillContext;
use super::secret_origin::SecretOrigin;
use crate::error::{ErrorKind, Result, SkillError};
use crate::host::RunContext;

impl SkillContext {
    /// Notifies the listener of the run, if it has one, that a secret is read.
    pub(super) fn report_secret(&self, name: &str, origin: &SecretOrigin) -> Result<()> {
        match &self.facts().listener {
            Some(listener) => listener.on_secret(self, name, origin),
            None => Ok(()),
        }
    }

    /// Notifies the listener of the run, if it has one, of a call that failed for lack of a permission.
    pub(super) fn report_refusal(&self, function: &'static str, error: &SkillError) {
        if !matches!(error.kind(), ErrorKind::Denied | ErrorKind::Untrusted) {
            return;
        }
        if let Some(listener) = &self.facts().listener {
            listener.on_refusal(self, function, error);
        }
    }
}
