//! The change sets that the calls of one caller made in copies of the project: the only ones that it can name.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::{Map, Value};

use super::skill_content::shown_line;
use crate::engine::ChangesReport;
use metier_core::error::{ErrorKind, Result, SkillError};

/// Change sets of one caller that it can still name.
const MAX_CHANGE_SETS: usize = 1_000;

/// The change sets that the calls of one caller made: the only ones that it can apply or discard.
#[derive(Default)]
pub(super) struct ChangeSets(Mutex<VecDeque<ChangeSetRef>>);

/// A change set, and the digest that was returned with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ChangeSetRef {
    pub(super) id: String,
    pub(super) digest: String,
}

impl ChangeSets {
    /// Notes what a call made.
    pub(super) fn add(&self, report: &ChangesReport) {
        if !report.is_stored {
            return;
        }
        let mut made = self.lock();
        if made.len() >= MAX_CHANGE_SETS {
            made.pop_front();
        }
        made.push_back(ChangeSetRef { id: report.id().to_owned(), digest: report.digest.clone() });
    }

    /// The change set that a call means by these arguments, if a call of the same caller made it and it has that digest.
    pub(super) fn find(&self, arguments: &Map<String, Value>) -> Result<ChangeSetRef> {
        let text = |name: &str| {
            arguments.get(name).and_then(Value::as_str).ok_or_else(|| {
                let sentence = format!("the argument {name} is missing, or is not text");
                SkillError::new(ErrorKind::InvalidInput, sentence)
            })
        };
        let (id, digest) = (text("id")?, text("digest")?);
        let made = self.lock().iter().find(|made| made.id == id).cloned();
        let made = made.ok_or_else(|| {
            let shown = metier_core::excerpt::shorten(&shown_line(id), 80);
            let sentence = format!("no call of this client made the change set {shown}");
            SkillError::new(ErrorKind::Denied, sentence)
                .with_help("name the id and the digest of a result; a person can apply any other change set")
        })?;
        if made.digest == digest {
            return Ok(made);
        }
        let sentence = format!("the change set {id} has another digest, so these are not its changes");
        Err(SkillError::new(ErrorKind::Denied, sentence)
            .with_help("name the digest that came with the change set"))
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<ChangeSetRef>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn report(id: &str, digest: &str, is_stored: bool) -> ChangesReport {
        let mut report = ChangesReport::new(json!({"id": id}), digest.to_owned());
        report.is_stored = is_stored;
        report
    }

    #[test]
    fn a_change_set_is_found_by_its_own_caller_and_its_digest_alone() {
        let (own, other) = (ChangeSets::default(), ChangeSets::default());
        own.add(&report("a", "1", true));
        own.add(&report("b", "2", true));
        own.add(&report("c", "3", false));
        let find = |sets: &ChangeSets, id: &str, digest: &str| {
            let arguments = json!({"id": id, "digest": digest});
            sets.find(arguments.as_object().unwrap()).map_err(|error| error.kind())
        };
        assert!(find(&own, "a", "1").is_ok() && find(&own, "b", "2").is_ok());
        for (sets, id, digest) in
            [(&own, "a", "2"), (&own, "a", ""), (&own, "c", "3"), (&own, "", "1"), (&other, "a", "1")]
        {
            assert_eq!(find(sets, id, digest), Err(ErrorKind::Denied), "{id} {digest}");
        }
        assert_eq!(own.find(&Map::new()).unwrap_err().kind(), ErrorKind::InvalidInput);
    }

    #[test]
    fn the_oldest_change_sets_make_space() {
        let sets = ChangeSets::default();
        for n in 0..=MAX_CHANGE_SETS {
            sets.add(&report(&n.to_string(), "d", true));
        }
        assert_eq!(sets.lock().len(), MAX_CHANGE_SETS);
        assert_eq!(sets.lock().front().unwrap().id, "1");
    }
}
