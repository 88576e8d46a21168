//! Who is notified of the secrets that a run reads and of the calls that it is refused.

use std::sync::Arc;

use super::context::SkillContext;
use super::secret_origin::SecretOrigin;
use crate::error::{ErrorKind, Result, SkillError};

/// Is notified of what a run reads and is refused. An engine attaches it to a run, and the skills that the run calls have it too.
pub trait AccessListener: Send + Sync {
    /// The run reads the secret of this name. An error keeps it from that.
    fn on_secret(&self, ctx: &SkillContext, name: &str, origin: &SecretOrigin) -> Result<()>;

    /// A call of this host function was refused.
    fn on_refusal(&self, ctx: &SkillContext, function: &'static str, error: &SkillError);
}

/// The listener of a run, among its extensions.
#[derive(Clone)]
pub struct RunListener(pub Arc<dyn AccessListener>);

impl SkillContext {
    /// Notifies the listener of the run, if it has one, that a secret is read.
    pub(super) fn report_secret(&self, name: &str, origin: &SecretOrigin) -> Result<()> {
        match self.extension::<RunListener>() {
            Some(listener) => listener.0.on_secret(self, name, origin),
            None => Ok(()),
        }
    }

    /// Notifies the listener of the run, if it has one, of a call that failed for lack of a permission.
    pub(super) fn report_refusal(&self, function: &'static str, error: &SkillError) {
        if !matches!(error.kind(), ErrorKind::Denied | ErrorKind::Untrusted) {
            return;
        }
        if let Some(listener) = self.extension::<RunListener>() {
            listener.0.on_refusal(self, function, error);
        }
    }
}
