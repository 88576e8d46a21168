//! What the calls of a plan's step had when they were made. A value that they returned is only for runs that may make them again.

use std::collections::{BTreeMap, HashSet};
use std::fmt::Write;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::run_id::RunId;

/// What one call had: of a skill or of its tool, or of the plan's own skill where no skill is named.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub struct CallAccess {
    /// The qualified name of the called skill.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skill: Option<String>,
    /// The called tool of the skill.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// Its effective permissions when it ended, beyond reading the project.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub permissions: Vec<String>,
    /// What the configuration denied it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub denied: Vec<String>,
    /// How its sandbox was required, where it ran as a process and a sandbox was not required.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<String>,
    /// The secrets that it was given: salted digests by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub secrets: BTreeMap<String, Vec<String>>,
    /// The input, without secrets, of a call to which a person had agreed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confirmed: Option<Value>,
    /// The calls that it made.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<CallAccess>,
}

/// Collects what the calls of one step have, as they end.
#[derive(Default)]
pub struct CallRecorder(Mutex<RecordedCalls>);

#[derive(Default)]
struct RecordedCalls {
    /// Each with the run that made it. Calls that are equal are recorded once.
    calls: Vec<(RunId, CallAccess)>,
    known_calls: HashSet<(RunId, CallAccess)>,
    secrets: Vec<(RunId, String, String)>,
}

impl CallRecorder {
    /// Records a call that this run made.
    pub(crate) fn add_call(&self, caller: RunId, call: CallAccess) {
        let mut recorded = self.lock();
        let call = (caller, call);
        if recorded.known_calls.insert(call.clone()) {
            recorded.calls.push(call);
        }
    }

    /// Records a secret that this run was given.
    pub(super) fn add_secret(&self, run: RunId, name: &str, value: &str) {
        let mut recorded = self.lock();
        let is_known =
            |known: &(RunId, String, String)| known.0 == run && known.1 == name && known.2 == value;
        if !value.trim().is_empty() && !recorded.secrets.iter().any(is_known) {
            recorded.secrets.push((run, name.to_owned(), value.to_owned()));
        }
    }

    /// Whether a call of this run is recorded.
    pub(super) fn has_calls(&self, caller: RunId) -> bool {
        self.lock().calls.iter().any(|(by, _)| *by == caller)
    }

    /// Takes the calls that this run made.
    pub fn take_calls(&self, caller: RunId) -> Vec<CallAccess> {
        let mut recorded = self.lock();
        let (own, others) =
            std::mem::take(&mut recorded.calls).into_iter().partition(|(by, _)| *by == caller);
        recorded.calls = others;
        recorded.known_calls.retain(|(by, _)| *by != caller);
        let own: Vec<(RunId, CallAccess)> = own;
        own.into_iter().map(|(_, call)| call).collect()
    }

    /// The secrets of this name that this run was given.
    pub(super) fn secret_values(&self, run: RunId, name: &str) -> Vec<String> {
        let recorded = self.lock();
        let own = recorded.secrets.iter().filter(|(by, known, _)| *by == run && known == name);
        own.map(|(.., value)| value.clone()).collect()
    }

    /// Takes the secrets that this run was given.
    pub(crate) fn take_secrets(&self, run: RunId) -> BTreeMap<String, Vec<String>> {
        let (own, others) =
            std::mem::take(&mut self.lock().secrets).into_iter().partition(|(by, ..)| *by == run);
        self.lock().secrets.extend::<Vec<_>>(others);
        let own: Vec<(RunId, String, String)> = own;
        let mut digests: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (_, name, value) in own {
            digests.entry(name).or_default().push(secret_digest(&value));
        }
        digests
    }

    fn lock(&self) -> MutexGuard<'_, RecordedCalls> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How often a digest of a secret is repeated, so that a short one is not guessed at once.
const ROUNDS: usize = 1_000;

/// A digest by which a changed secret is noticed, with a salt of its own.
fn secret_digest(value: &str) -> String {
    let random = || RandomState::new().build_hasher().finish();
    salted_digest(&format!("{:016x}{:016x}", random(), random()), value)
}

fn salted_digest(salt: &str, value: &str) -> String {
    let first = Sha256::new().chain_update(salt).chain_update([0]).chain_update(value).finalize();
    let last =
        (1..ROUNDS).fold(first, |digest, _| Sha256::new().chain_update(salt).chain_update(digest).finalize());
    last.iter().fold(format!("{salt}:"), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Whether the digest is that of this secret.
pub(super) fn is_digest_of(digest: &str, value: &str) -> bool {
    digest.split_once(':').is_some_and(|(salt, _)| salted_digest(salt, value) == digest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::next_run_id;

    fn call(skill: &str) -> CallAccess {
        CallAccess { skill: Some(skill.into()), ..CallAccess::default() }
    }

    #[test]
    fn equal_calls_of_one_run_are_recorded_once_and_taken_by_it_alone() {
        let (recorder, one, two) = (CallRecorder::default(), next_run_id(), next_run_id());
        for (run, skill) in [(one, "a"), (two, "a"), (one, "a"), (one, "b")] {
            recorder.add_call(run, call(skill));
        }
        assert_eq!(recorder.take_calls(one), [call("a"), call("b")]);
        assert!(recorder.take_calls(one).is_empty());
        assert_eq!(recorder.take_calls(two), [call("a")]);
    }

    #[test]
    fn a_secret_is_recognized_by_a_digest_that_does_not_hold_it() {
        let (recorder, one, two) = (CallRecorder::default(), next_run_id(), next_run_id());
        for (run, value) in [(one, "hunter2"), (one, "hunter2"), (two, "other"), (one, " ")] {
            recorder.add_secret(run, "key", value);
        }
        let secrets = recorder.take_secrets(one);
        let [digest] = &secrets["key"][..] else { panic!("{secrets:?}") };
        assert!(is_digest_of(digest, "hunter2") && !is_digest_of(digest, "hunter3"));
        assert!(!digest.contains("hunter2") && *digest != secret_digest("hunter2"));
        assert!(recorder.take_secrets(one).is_empty());
        assert_eq!(recorder.take_secrets(two)["key"].len(), 1);
    }
}
