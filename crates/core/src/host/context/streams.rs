//! The standard streams that a run has from its invocation, if no skill calls it.

use std::io::Read;

use super::SkillContext;
use crate::host::streams::{OutputSinks, StdinSource};

#[cfg_attr(not(unix), allow(dead_code, reason = "no process is started there"))]
impl SkillContext {
    fn stdin_source(&self) -> Option<&StdinSource> {
        self.facts().stdin.as_deref().filter(|_| self.caller().is_none())
    }
}

/// For the other packages of metier; may change in any release.
#[doc(hidden)]
impl SkillContext {
    /// Whether its standard input is passed through. A skill that another one calls has none of the streams of the invocation.
    pub fn has_stdin_source(&self) -> bool {
        self.stdin_source().is_some()
    }

    /// All of its standard input, if that is a text that was there from the beginning.
    pub fn stdin_text(&self) -> Option<&str> {
        self.stdin_source()?.as_text()
    }

    /// What its standard input is read from, for the first process that takes it.
    pub fn take_stdin(&self) -> Option<Box<dyn Read + Send>> {
        self.stdin_source()?.take()
    }

    /// Where its output goes, in place of the outcome.
    pub fn output_sinks(&self) -> Option<&OutputSinks> {
        self.facts().output_sinks.as_ref().filter(|_| self.caller().is_none())
    }
}
