//! Who calls: what belongs to one caller, in all of its sessions.

use super::result_store::ResultStore;

/// One caller of a server: the one client over standard streams, or who has one of the tokens over HTTP.
#[derive(Default)]
pub(super) struct Caller {
    /// Differs for each caller of a server.
    pub(super) number: usize,
    /// Whether nobody else may be taken for it.
    pub(super) is_identified: bool,
    pub(super) results: ResultStore,
}

impl Caller {
    pub(super) fn new(number: usize, is_identified: bool) -> Self {
        Self { number, is_identified, results: ResultStore::default() }
    }
}
