//! The standard streams that an invocation connects with the process of an external script.

use std::io::{Read, Write};
use std::sync::{Arc, Mutex, PoisonError};

use super::context::SkillContext;

/// Where standard input comes from. It can be read once.
pub struct StdinSource {
    source: Mutex<Option<Box<dyn Read + Send>>>,
    /// All of it, if it is a text that was there from the beginning.
    text: Option<Arc<str>>,
}

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
        Self { source: Mutex::new(Some(Box::new(source))), text: None }
    }

    /// The same with a text, which somebody can be shown before.
    pub fn text(text: impl Into<Arc<str>>) -> Self {
        let text = text.into();
        Self { text: Some(text.clone()), ..Self::new(std::io::Cursor::new(Arc::<[u8]>::from(text))) }
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

    /// All of its standard input, if that is a text that was there from the beginning.
    pub fn stdin_text(&self) -> Option<&str> {
        self.stdin_source()?.text.as_deref()
    }

    /// What its standard input is read from, for the first process that takes it.
    pub fn take_stdin(&self) -> Option<Box<dyn Read + Send>> {
        self.stdin_source()?.source.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Where its output goes, in place of the outcome.
    pub fn output_sinks(&self) -> Option<&OutputSinks> {
        self.extensions().get::<OutputSinks>().filter(|_| self.caller().is_none())
    }
}
