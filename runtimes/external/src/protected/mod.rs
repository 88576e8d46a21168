//! Protected paths of the project: found before a run, looked at again after it, and quarantined where a script created one.

pub(super) mod creation_guard;
pub(super) mod fingerprint;
mod folder_stamp;
pub(super) mod granted_paths;
mod listing;
mod listing_cache;
#[cfg_attr(not(all(feature = "sandboxed", target_os = "linux")), path = "listing_file_unsupported.rs")]
mod listing_file;
mod path_errors;
pub(super) mod path_trace;
pub(super) mod quarantine;
pub(super) mod scan;
pub(super) mod scan_result;
mod top_names;
