//! What the audit log says of a decision about a change set.

use crate::audit::record::{AuditActor, AuditClient, AuditFace, AuditKind, AuditRecord, AuditWho};
use crate::audit::sink::AuditWriter;
use crate::changes::ChangeSet;
use metier_core::error::Result;

/// What was decided about a change set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ChangeSetDecision {
    /// It is applied to its project, all of it or some paths.
    Applied,
    /// What was applied of it is taken back.
    Undone,
    /// Somebody was asked and did not agree.
    Denied,
}

impl ChangeSetDecision {
    fn outcome(self) -> &'static str {
        match self {
            Self::Applied => "applied",
            Self::Undone => "undone",
            Self::Denied => "denied",
        }
    }
}

impl AuditWriter {
    /// Records a decision about a change set before it has an effect, with the client through which it came if that is not the writer's own.
    /// Returns the warning where the record was not written; fails where it is required.
    pub fn record_change_set(
        &self,
        set: &ChangeSet,
        decision: ChangeSetDecision,
        client: Option<AuditClient>,
    ) -> Result<Option<String>> {
        let client = client.unwrap_or_else(|| self.default_client().clone());
        let actor = if client.face == AuditFace::Library { AuditActor::Program } else { AuditActor::Person };
        let mut record = AuditRecord::new(AuditKind::ChangesDecided, AuditWho::new(actor, client));
        record.skill = Some(set.skill.clone());
        record.project = Some(set.project_path());
        record.target = Some(set.id.clone());
        record.change_set = Some(set.digest());
        record.outcome = Some(decision.outcome().to_owned());
        self.write_before(&record)
    }
}
