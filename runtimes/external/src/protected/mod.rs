//! Protected paths of the project: found before a run, looked at again after it, and quarantined where a script created one.

pub(super) mod creation_guard;
pub(super) mod fingerprint;
pub(super) mod granted_paths;
mod listing;
mod path_errors;
pub(super) mod path_trace;
pub(super) mod quarantine;
pub(super) mod scan;
pub(super) mod scan_result;
