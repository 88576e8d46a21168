//! What a watched run was refused, derived from the accesses that its sandbox observed and not from what the script printed.
//!
//! The script decides what is observed, and can make it say anything: it is for hints and proposals alone.

mod baseline;
mod evaluation;
mod path_check;
mod program_search;
mod refusal;
mod refusal_list;
mod run_files;

pub(crate) use self::path_check::PathCheck;
pub(crate) use self::refusal::{Refusal, changes};
pub(crate) use self::run_files::RunFiles;
