//! The audit log: who ran which skill with what, what was asked, refused, read and permitted, in a file that shows what is missing.
//!
//! An engine writes records to an [`AuditSink`]: the [`AuditLog`] of the user, or one of the program.
//!
//! ```
//! use std::sync::{Arc, Mutex};
//!
//! use metier::audit::{AuditKind, AuditRecord, AuditSink};
//! use metier::engine::{Engine, Invocation};
//! use metier::error::Result;
//!
//! #[derive(Clone, Default)]
//! struct Records(Arc<Mutex<Vec<AuditRecord>>>);
//!
//! impl AuditSink for Records {
//!     fn write(&self, record: &AuditRecord) -> Result<()> {
//!         self.0.lock().unwrap().push(record.clone());
//!         Ok(())
//!     }
//! }
//!
//! # fn main() -> Result<()> {
//! let records = Records::default();
//! let engine = Engine::builder(".").audit(records.clone()).build()?;
//! engine.run(Invocation::new("no-such-skill"));
//! let written = records.0.lock().unwrap();
//! assert_eq!(written[0].kind, AuditKind::RunRefused);
//! assert_eq!(written[0].outcome.as_deref(), Some("unknown-skill"));
//! # Ok(())
//! # }
//! ```

mod chain;
#[cfg(unix)]
mod change_set;
mod folder;
mod lines;
mod log;
mod record;
mod sink;

pub use self::chain::AuditHash;
#[cfg(unix)]
pub use self::change_set::ChangeSetDecision;
pub use self::lines::{AuditLine, AuditProblem, AuditReport};
pub use self::log::AuditLog;
pub use self::record::{
    AuditActor, AuditChange, AuditClient, AuditFace, AuditKind, AuditRecord, AuditResources, AuditSecret,
    AuditWho,
};
pub(crate) use self::sink::BrokenSink;
pub use self::sink::{AuditSink, AuditWriter};
