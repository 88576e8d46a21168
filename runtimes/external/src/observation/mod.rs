//! What a watched run was refused, derived from the accesses that its sandbox observed and not from what the script printed.
//!
//! The script decides what is observed, and can make it say anything: it is for hints and proposals alone.

mod baseline;
mod evaluation;
mod program_search;
mod refusal;
mod refusal_list;
mod watched_run;

pub(crate) use self::watched_run::WatchedRun;
