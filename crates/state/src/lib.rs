//! What skills keep from one run to the next: the home folder of a skill in a project, in the user's data folder.
//!
//! ```text
//! skill-state/0123456789abcdef/            a project
//!             notes-0123456789abcdef/      a skill
//!                 about.json               which skill and which project
//!                 lock                     held by the run that works on it
//!                 current/                 what the last run left
//!                 home/                    what the run in progress sees: a copy
//!                 previous/                what was current, while it is replaced
//! ```
#![deny(clippy::print_stdout, clippy::print_stderr, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[cfg_attr(not(unix), path = "folder_unsupported.rs")]
mod folder;
mod record;
mod store;
#[cfg(unix)]
mod tree;

#[cfg(unix)]
pub use self::folder::{StateLease, excess_error};
pub use self::record::{SkillState, StoredFile, StoredState};
pub use self::store::StateStore;
#[cfg(unix)]
pub use self::tree::{TreeError, files_left_in};
