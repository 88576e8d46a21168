//! Where records go: a sink, and whether nothing may happen without its record.

use std::fmt;
use std::sync::Arc;

use super::record::{AuditClient, AuditFace, AuditRecord};
use metier_core::error::{ErrorKind, Result, SkillError};
use metier_core::host::catch_panic;

/// Where records of an engine go.
pub trait AuditSink: Send + Sync {
    /// Writes a record. It is called on the threads of runs, also on several at a time, and each run waits for it.
    ///
    /// Where records are required, an error refuses what was to be recorded: a run before anything of it has run, the reading of a
    /// secret, a change of the trust store. Otherwise it is a warning. A panic counts as an error.
    fn write(&self, record: &AuditRecord) -> Result<()>;
}

/// A sink, whether it is required, and the client that is recorded where a run does not name one. Cheap to clone.
#[derive(Clone)]
pub struct AuditWriter {
    sink: Arc<dyn AuditSink>,
    is_required: bool,
    client: AuditClient,
}

impl AuditWriter {
    /// Writes to this sink, which is not required, for a program that embeds metier.
    pub fn new(sink: impl AuditSink + 'static) -> Self {
        Self { sink: Arc::new(sink), is_required: false, client: AuditClient::new(AuditFace::Library) }
    }

    /// Whether nothing may happen without its record.
    pub fn required(self, is_required: bool) -> Self {
        Self { is_required, ..self }
    }

    /// The client that is recorded where a run names none.
    pub fn client(self, client: AuditClient) -> Self {
        Self { client, ..self }
    }

    /// The client that is recorded where a run names none.
    pub(crate) fn default_client(&self) -> &AuditClient {
        &self.client
    }

    /// Writes a record; the error says what was not recorded.
    pub(crate) fn write(&self, record: &AuditRecord) -> Result<()> {
        catch_panic("the audit sink", ErrorKind::Unavailable, || self.sink.write(record))
    }

    /// Writes a record of what is about to happen: an error where it must not happen without it, otherwise the warning.
    pub(crate) fn write_before(&self, record: &AuditRecord) -> Result<Option<String>> {
        let Err(error) = self.write(record) else { return Ok(None) };
        let sentence = format!("the audit log was not written: {}", error.message());
        if !self.is_required {
            return Ok(Some(sentence));
        }
        let sentence = format!("{sentence}; it is required, so nothing was done");
        let help = error.help().unwrap_or("make the audit log writable, or do not require it");
        Err(SkillError::new(ErrorKind::Unavailable, sentence).with_help(help))
    }
}

impl fmt::Debug for AuditWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AuditWriter")
            .field("is_required", &self.is_required)
            .field("client", &self.client)
            .finish_non_exhaustive()
    }
}

/// A sink that cannot be used.
pub(crate) struct BrokenSink(pub(crate) SkillError);

impl AuditSink for BrokenSink {
    fn write(&self, _: &AuditRecord) -> Result<()> {
        Err(self.0.clone())
    }
}
