//! The standard streams that an invocation connects with the process of an external script.

use std::io::{Read, Write};
use std::sync::{Arc, Mutex, PoisonError};

use super::context::SkillContext;

/// Where standard input comes from. It can be read once.
pub struct StdinSource(Mutex<Option<Box<dyn Read + Send>>>);

/// Where the output goes as it comes.
#[derive(Clone)]
#[cfg_attr(not(unix), allow(dead_code, reason = "no process is started there"))]
pub struct OutputSinks {
    /// Where standard output goes.
    pub stdout: OutputSink,
    /// Where standard error goes.
    pub stderr: OutputSink,
    /// Whether the output limit of the run applies to each of them.
    pub is_limited: bool,
}

/// Where one stream goes.
pub type OutputSink = Arc<Mutex<dyn Write + Send>>;

impl StdinSource {
    /// Read once, by the run's process.
    pub fn new(source: impl Read + Send + 'static) -> Self {
        Self(Mutex::new(Some(Box::new(source))))
    }
}

impl OutputSinks {
    /// These two, without a limit.
    pub fn new(stdout: impl Write + Send + 'static, stderr: impl Write + Send + 'static) -> Self {
        Self { stdout: Arc::new(Mutex::new(stdout)), stderr: Arc::new(Mutex::new(stderr)), is_limited: false }
    }
}

#[cfg_attr(not(unix), allow(dead_code, reason = "no process is started there"))]
impl SkillContext {
    fn stdin_source(&self) -> Option<&StdinSource> {
        self.extensions().get::<StdinSource>().filter(|_| self.caller().is_none())
    }
}

/// For the other packages of metier; may change in any release.
#[doc(hidden)]
impl SkillContext {
    /// Whether its standard input is passed through. A skill that another one calls has none of the streams of the invocation.
    pub fn has_stdin_source(&self) -> bool {
        self.stdin_source().is_some()
    }

    /// What its standard input is read from, for the first process that takes it.
    pub fn take_stdin(&self) -> Option<Box<dyn Read + Send>> {
        self.stdin_source()?.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Where its output goes, in place of the outcome.
    pub fn output_sinks(&self) -> Option<&OutputSinks> {
        self.extensions().get::<OutputSinks>().filter(|_| self.caller().is_none())
    }
}
