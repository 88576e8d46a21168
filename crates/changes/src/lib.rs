//! What a run changed in a copy of a project: read as a [`ChangeSet`], compared, stored, applied to the project, and undone.
//!
//! ```text
//! changes/                          the store, in the user's data folder
//!         changes.lock              held while anything in the store or in a project changes
//!         0123456789abcdef…/        a change set, by its id
//!             set.json              the change set
//!             state.json            which of its changes are applied, and since when
//!             content/7             what is to be put at the path of the eighth change
//!             content/7.old         what was there before
//!             journal.json          only while changes are applied or undone
//! ```
#![deny(clippy::print_stdout, clippy::print_stderr, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[cfg(unix)]
mod apply;
#[cfg(unix)]
mod beneath;
#[cfg(unix)]
mod content;
mod diff;
#[cfg(unix)]
mod journal;
mod link_target;
mod model;
#[cfg(unix)]
mod operation;
#[cfg(unix)]
mod plan;
#[cfg(unix)]
mod preview_copy;
#[cfg(unix)]
mod private_file;
#[cfg(unix)]
mod reader;
#[cfg(unix)]
mod renames;
#[cfg(unix)]
mod snapshot;
#[cfg(unix)]
mod store;
#[cfg(unix)]
mod store_dir;
#[cfg(unix)]
mod stored_diff;
mod summary;

#[cfg(unix)]
pub use self::apply::ApplyReport;
pub use self::diff::{DiffLine, LineKind, TextDiff};
pub use self::model::{Change, ChangeKind, ChangeSet, Conflict, EntryType, FileIdentity, FileState, Refusal};
#[cfg(unix)]
pub use self::preview_copy::PreviewCopy;
#[cfg(unix)]
pub use self::reader::{ReadLimits, ReadRules, RunFacts};
#[cfg(unix)]
pub use self::store::{ApplyOptions, ChangeStore, StoreLimits, StoredChangeSet};
pub use self::summary::{summary, summary_facts};
