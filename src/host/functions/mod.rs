//! The functions of the host API, one file a subject. A new function is a row here and a function in its file.

mod talk;

use super::table::HostFunction;

/// The table, in the order of the documentation.
pub(super) const TABLE: &[&HostFunction] = &[&talk::LOG, &talk::PROGRESS];
