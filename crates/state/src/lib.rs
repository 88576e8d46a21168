//! What skills keep from one run to the next, in the user's data folder: the home folder of a skill in a project, and values under keys.
//!
//! ```text
//! skill-state/0123456789abcdef/            a project
//!             notes-0123456789abcdef/      a skill
//!                 about.json               which skill and which project
//!                 lock                     held by the run that works on its home
//!                 current/                 what the last run left
//!                 home/                    what the run in progress sees: a copy
//!                 previous/                what was current, while it is replaced
//!                 values/                  a file for each value, by the digest of its key
//!                 values.lock              held while a value changes
//!             shared.team-0123456789abcdef/
//!                                          a store that skills share: a record and values
//! ```
#![deny(clippy::print_stdout, clippy::print_stderr, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[cfg_attr(not(unix), path = "folder_unsupported.rs")]
mod folder;
#[cfg(unix)]
mod private_dir;
mod record;
#[cfg(unix)]
mod record_file;
mod store;
#[cfg(unix)]
mod tree;
#[cfg_attr(not(unix), path = "values_unsupported.rs")]
mod values;

#[cfg(unix)]
pub use self::folder::{StateLease, excess_error};
pub use self::record::{SkillState, StoredFile, StoredState, StoredValue};
pub use self::store::{StateStore, skill_state};
#[cfg(unix)]
pub use self::tree::{TreeError, files_left_in};
