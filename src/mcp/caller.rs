//! Who calls: what belongs to one caller, in all of its sessions.

use std::sync::Arc;

use tokio::sync::Semaphore;

use super::backlog::Backlog;
#[cfg(unix)]
use super::change_sets::ChangeSets;
use super::question::AnswerMemory;
use super::results::ResultStore;
use super::task::TaskStore;

/// Requests of one caller for which files are read at a time.
const MAX_READERS: usize = 2;

/// One caller of a server: the one client over standard streams, or who has one of the tokens over HTTP.
pub(super) struct Caller {
    /// Differs for each caller of a server.
    pub(super) number: usize,
    /// Whether nobody else may be taken for it.
    pub(super) is_identified: bool,
    /// What it is known by to a later server; `None` if others may be taken for it.
    pub(super) identity: Option<String>,
    /// Whether its answers hold for later calls, too.
    pub(super) answers: AnswerMemory,
    pub(super) results: ResultStore,
    #[cfg(unix)]
    pub(super) change_sets: ChangeSets,
    pub(super) tasks: TaskStore,
    pub(super) backlog: Arc<Backlog>,
    pub(super) readers: Semaphore,
}

impl Caller {
    /// The client over standard streams, which the user started.
    pub(super) fn user() -> Self {
        Self::new(0, Some("user".to_owned()), AnswerMemory::Remembered)
    }

    pub(super) fn new(number: usize, identity: Option<String>, answers: AnswerMemory) -> Self {
        Self {
            number,
            is_identified: identity.is_some(),
            identity,
            answers,
            results: ResultStore::default(),
            #[cfg(unix)]
            change_sets: ChangeSets::default(),
            tasks: TaskStore::default(),
            backlog: Arc::default(),
            readers: Semaphore::new(MAX_READERS),
        }
    }
}
