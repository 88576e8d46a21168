//! What a failed script wrote, without secrets.

use metier_core::host::Redacted;

/// Both streams of a run. What is on standard error says why a script failed, or what is on standard output if that is blank.
pub(crate) struct RunOutput {
    stdout: Redacted<String>,
    stderr: Redacted<String>,
}

impl RunOutput {
    pub(crate) fn new(stdout: Redacted<String>, stderr: Redacted<String>) -> Self {
        Self { stdout, stderr }
    }

    pub(crate) fn stdout(&self) -> &str {
        self.stdout.as_inner()
    }

    pub(crate) fn stderr(&self) -> &str {
        self.stderr.as_inner()
    }

    /// Whether only standard output can say why the script failed.
    pub(crate) fn is_printed_only(&self) -> bool {
        self.stderr().trim().is_empty()
    }

    /// The stream that says why the script failed.
    pub(crate) fn error_text(&self) -> &Redacted<String> {
        if self.is_printed_only() { &self.stdout } else { &self.stderr }
    }

    /// Standard output, if standard error says why the script failed.
    pub(crate) fn printed(&self) -> Option<&str> {
        (!self.is_printed_only()).then(|| self.stdout())
    }
}
