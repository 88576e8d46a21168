//! Change sets: what runs wrote into a copy of a project, stored until somebody applies or discards it, and undone.
//!
//! ```no_run
//! use std::os::fd::AsFd;
//!
//! use metier::changes::{ApplyOptions, ChangeStore};
//!
//! # fn main() -> metier::error::Result<()> {
//! let store = ChangeStore::user()?;
//! for stored in store.list()? {
//!     let project = store.open_project(&stored.set)?;
//!     let options = ApplyOptions { keep_old: true, ..ApplyOptions::default() };
//!     let report = store.apply(&stored.set.id, project.as_fd(), &options)?;
//!     if !report.conflicts.is_empty() {
//!         store.undo(&stored.set.id, project.as_fd())?;
//!     }
//! }
//! # Ok(())
//! # }
//! ```

#[doc(inline)]
pub use metier_changes::{
    ApplyOptions, ApplyReport, Change, ChangeKind, ChangeSet, ChangeStore, Conflict, DiffLine, EntryType,
    FileIdentity, FileState, LineKind, ReadLimits, ReadRules, Refusal, RunFacts, StoreLimits,
    StoredChangeSet, TextDiff, summary,
};
