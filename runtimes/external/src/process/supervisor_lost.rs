//! The end of a process of whose supervisor there is no report.

use std::fmt;
use std::io;

use metier_core::host::{RunMessages, SkillContext};

/// That the supervisor was killed: by somebody else, or because it did not end the process in time.
#[derive(Debug)]
pub(crate) struct SupervisorLost;

impl SupervisorLost {
    /// Warns if that is the error, also of a run that was stopped before: nobody has seen its processes end.
    pub(crate) fn warn_if_it_is(error: &io::Error, ctx: &SkillContext, name: &str) -> bool {
        let is_lost = error.get_ref().and_then(|inner| inner.downcast_ref::<Self>()).is_some();
        if is_lost {
            ctx.warn(format!(
                "the process that watches {name} was killed, so it is not known whether all of its processes have ended"
            ));
        }
        is_lost
    }
}

impl fmt::Display for SupervisorLost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the process that watches it was killed")
    }
}

impl std::error::Error for SupervisorLost {}
