//! Results that were too large for an answer: whole, for a while, for the client that got the link.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use metier_core::error::{ErrorKind, Result, SkillError};

/// How long a result can be read.
const LIFETIME: Duration = Duration::from_hours(1);
/// All results of a client together. The oldest are removed first.
const MAX_BYTES: usize = 64 << 20;
/// What the address of a result begins with.
const SCHEME: &str = "metier://result/";

/// The results of one client. Its links are no use to another one, which has a store of its own.
#[derive(Default)]
pub(super) struct ResultStore(Mutex<VecDeque<StoredResult>>);

struct StoredResult {
    id: String,
    text: Arc<str>,
    mime_type: &'static str,
    expires_at: Instant,
}

impl ResultStore {
    /// Stores a text, and returns its address; `None` if it is larger than all results may be together, or if the system has no
    /// random numbers for its address.
    pub(super) fn add(&self, text: &str, mime_type: &'static str) -> Option<String> {
        self.add_until(text, mime_type, Instant::now() + LIFETIME)
    }

    fn add_until(&self, text: &str, mime_type: &'static str, expires_at: Instant) -> Option<String> {
        if text.len() > MAX_BYTES {
            return None;
        }
        let mut random = [0; 16];
        getrandom::fill(&mut random).ok()?;
        let id = format!("{:032x}", u128::from_be_bytes(random));
        let mut results = self.lock();
        let mut size: usize = results.iter().map(|result| result.text.len()).sum();
        while size + text.len() > MAX_BYTES {
            size -= results.pop_front().map_or(size, |oldest| oldest.text.len());
        }
        results.push_back(StoredResult { id: id.clone(), text: text.into(), mime_type, expires_at });
        Some(format!("{SCHEME}{id}"))
    }

    /// Whether it is the address of a result.
    pub(super) fn is_address(uri: &str) -> bool {
        uri.starts_with(SCHEME)
    }

    /// The text and its type.
    pub(super) fn read(&self, uri: &str) -> Result<(Arc<str>, &'static str)> {
        let id = uri.strip_prefix(SCHEME).unwrap_or_default();
        let results = self.lock();
        let found = results.iter().find(|result| result.id == id);
        found.map(|result| (result.text.clone(), result.mime_type)).ok_or_else(|| {
            SkillError::new(ErrorKind::InvalidArgument, "there is no result at this address")
                .with_help("a result can be read for an hour, and only by the client that received its link; call the tool again")
        })
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<StoredResult>> {
        let mut results = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        results.retain(|result| result.expires_at > now);
        results
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_is_read_by_its_address_and_by_no_other() {
        let (store, other) = (ResultStore::default(), ResultStore::default());
        let address = store.add("whole", "text/plain").unwrap();
        assert_eq!(&*store.read(&address).unwrap().0, "whole");
        assert!(other.read(&address).is_err(), "of another client");
        assert!(store.read(SCHEME).is_err() && store.read(&format!("{address}0")).is_err());
        assert_ne!(store.add("whole", "text/plain"), Some(address));
    }

    #[test]
    fn a_result_ends_after_its_time() {
        let store = ResultStore::default();
        let address = store.add_until("whole", "text/plain", Instant::now()).unwrap();
        assert!(store.read(&address).is_err());
        assert!(store.lock().is_empty());
    }

    #[test]
    fn the_oldest_make_space_and_nothing_grows_beyond_the_bound() {
        let store = ResultStore::default();
        let text = "x".repeat(MAX_BYTES / 2);
        let addresses: Vec<String> = (0..3).map(|_| store.add(&text, "text/plain").unwrap()).collect();
        assert!(store.read(&addresses[0]).is_err());
        assert!(store.read(&addresses[1]).is_ok() && store.read(&addresses[2]).is_ok());
        assert_eq!(store.add(&"x".repeat(MAX_BYTES + 1), "text/plain"), None);
    }
}
