//! Changes of the trust store on their way to the audit log.

use crate::audit::{AuditActor, AuditChange, AuditFace, AuditKind, AuditRecord, AuditWho, AuditWriter};
use metier_core::error::Result;

/// The records of changes that are about to be made.
pub(super) struct TrustChanges<'a> {
    writer: Option<&'a AuditWriter>,
    kind: AuditKind,
    change: AuditChange,
    records: Vec<AuditRecord>,
}

impl<'a> TrustChanges<'a> {
    /// None yet.
    pub(super) fn new(writer: Option<&'a AuditWriter>, kind: AuditKind, change: AuditChange) -> Self {
        Self { writer, kind, change, records: Vec::new() }
    }

    /// Adds one, if changes are recorded.
    pub(super) fn add(&mut self, describe: impl FnOnce(&mut AuditRecord)) {
        let Some(writer) = self.writer else { return };
        let client = writer.default_client().clone();
        let actor = match client.face {
            AuditFace::Library => AuditActor::Program,
            _ => AuditActor::Person,
        };
        let mut record = AuditRecord::new(self.kind, AuditWho::new(actor, client));
        record.change = Some(self.change);
        describe(&mut record);
        self.records.push(record);
    }

    /// Writes them. Fails where they are required and cannot be written.
    pub(super) fn write(self) -> Result<()> {
        let Some(writer) = self.writer else { return Ok(()) };
        for record in &self.records {
            if let Some(warning) = writer.write_before(record)? {
                tracing::warn!("{warning}");
            }
        }
        Ok(())
    }
}
