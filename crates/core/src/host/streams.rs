//! The standard streams that an invocation connects with the process of an external script.

use std::io::{Read, Write};
use std::sync::{Arc, Mutex, PoisonError};

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

    /// All of it, if that is a text that was there from the beginning.
    pub(super) fn as_text(&self) -> Option<&str> {
        self.text.as_deref()
    }

    /// What it is read from, for the first who takes it.
    pub(super) fn take(&self) -> Option<Box<dyn Read + Send>> {
        self.source.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl OutputSinks {
    /// These two, without a limit.
    pub fn new(stdout: impl Write + Send + 'static, stderr: impl Write + Send + 'static) -> Self {
        Self { stdout: Arc::new(Mutex::new(stdout)), stderr: Arc::new(Mutex::new(stderr)), is_limited: false }
    }
}
