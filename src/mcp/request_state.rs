//! What a client sends back with the answer to a question: signed, for one call, once, and for ten minutes.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use rmcp::model::{RequestStateCodec, SealOptions};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::question::Question;
use metier_core::error::{ErrorKind, Result, SkillError};
use metier_core::strict_json::canonical_text;

/// How long a question can be answered.
const LIFETIME: Duration = Duration::from_mins(10);
/// States of one caller that were opened and are not forgotten yet; while there are as many, no other of it is opened.
const MAX_OPENED: usize = 10_000;

/// The key of a server, and which of its states were opened.
pub(super) struct RequestStates {
    codec: RequestStateCodec,
    /// By the numbers of the callers.
    opened: Mutex<HashMap<usize, HashMap<u128, Instant>>>,
    /// States expire by the time since then: the clock of the system may be set back, and a state that was opened is forgotten.
    started: Instant,
}

#[derive(Serialize, Deserialize)]
struct SealedState {
    /// Different for every state.
    id: u128,
    /// Milliseconds after the start of the server.
    expires: u64,
    state: RequestState,
}

/// What was asked about a request so far.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct RequestState {
    /// The question that the state came with.
    pub(super) question: Option<Question>,
    /// The digest of the skill whose forms were shown.
    pub(super) digest: Option<String>,
    /// What a person entered in earlier rounds, by the names of the forms.
    pub(super) answers: BTreeMap<String, Map<String, Value>>,
}

/// The request that a state belongs to.
pub(super) struct StateOwner<'a> {
    pub(super) caller: usize,
    /// The client that calls.
    pub(super) client: String,
    pub(super) method: &'static str,
    /// The tool or the prompt.
    pub(super) name: &'a str,
    pub(super) arguments: &'a Value,
}

impl StateOwner<'_> {
    fn bytes(&self) -> Vec<u8> {
        let owner = json!([self.caller, self.client, self.method, self.name, self.arguments]);
        canonical_text(&owner).into_bytes()
    }
}

impl RequestStates {
    /// With a key of its own; `None` if the system has no random numbers.
    pub(super) fn new() -> Option<Self> {
        let mut key = [0; RequestStateCodec::MIN_KEY_LENGTH];
        getrandom::fill(&mut key).ok()?;
        Some(Self {
            codec: RequestStateCodec::try_new(key).ok()?,
            opened: Mutex::default(),
            started: Instant::now(),
        })
    }

    /// The state of a question about this request; `None` if the system has no random numbers.
    pub(super) fn seal(&self, state: RequestState, owner: &StateOwner<'_>) -> Option<String> {
        self.seal_for(state, owner, LIFETIME)
    }

    fn seal_for(&self, state: RequestState, owner: &StateOwner<'_>, lifetime: Duration) -> Option<String> {
        let mut id = [0; 16];
        getrandom::fill(&mut id).ok()?;
        let expires = u64::try_from((self.started.elapsed() + lifetime).as_millis()).unwrap_or(u64::MAX);
        let state = SealedState { id: u128::from_be_bytes(id), expires, state };
        let bytes = owner.bytes();
        let options = SealOptions::new().associated_data(&bytes);
        self.codec.seal_json_with(&state, &options).ok()
    }

    /// What was asked, from a state that this server made for this request and that was not opened before.
    pub(super) fn open(&self, sealed: &str, owner: &StateOwner<'_>) -> Result<RequestState> {
        let opened = self.codec.open_json_with(sealed, &owner.bytes());
        let sealed_state: SealedState = opened.map_err(|_| refusal("does not belong to this call"))?;
        if self.started.elapsed() >= Duration::from_millis(sealed_state.expires) {
            return Err(refusal("came after more than ten minutes"));
        }
        let mut opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        let opened = opened.entry(owner.caller).or_default();
        opened.retain(|_, until| *until > now);
        if opened.contains_key(&sealed_state.id) {
            return Err(refusal("was used before"));
        }
        if opened.len() >= MAX_OPENED {
            return Err(refusal("cannot be taken, because too many others came"));
        }
        // A state that has expired need not be remembered.
        opened.insert(sealed_state.id, now + LIFETIME);
        Ok(sealed_state.state)
    }
}

fn refusal(reason: &str) -> SkillError {
    SkillError::new(ErrorKind::Denied, format!("the answer {reason}, so nothing has run"))
        .with_help("send the request again without it")
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWNER: StateOwner<'static> = StateOwner {
        caller: 0,
        client: String::new(),
        method: "tools/call",
        name: "x",
        arguments: &Value::Null,
    };

    fn question() -> RequestState {
        let permissions = vec!["write".into()];
        let question = Question { skill: "x".into(), tool: None, digest: None, permissions };
        let answers = BTreeMap::from([("form".to_owned(), Map::from_iter([("a".to_owned(), json!("b"))]))]);
        RequestState { question: Some(question), digest: None, answers }
    }

    fn reason(result: Result<RequestState>) -> String {
        result.unwrap_err().message().to_owned()
    }

    #[test]
    fn a_state_opens_once_and_for_its_own_call() {
        let states = RequestStates::new().unwrap();
        let sealed = states.seal(question(), &OWNER).unwrap();
        let other = json!({"a": 1});
        for owner in [
            StateOwner { caller: 1, ..OWNER },
            StateOwner { client: "b".to_owned(), ..OWNER },
            StateOwner { method: "prompts/get", ..OWNER },
            StateOwner { name: "y", ..OWNER },
            StateOwner { arguments: &other, ..OWNER },
        ] {
            assert!(reason(states.open(&sealed, &owner)).contains("does not belong"));
        }
        assert_eq!(states.open(&sealed, &OWNER).unwrap(), question());
        assert!(reason(states.open(&sealed, &OWNER)).contains("used before"));
        let of_another_server = RequestStates::new().unwrap().seal(question(), &OWNER).unwrap();
        assert!(reason(states.open(&of_another_server, &OWNER)).contains("does not belong"));
    }

    #[test]
    fn an_altered_or_expired_state_opens_never() {
        let states = RequestStates::new().unwrap();
        let sealed = states.seal(question(), &OWNER).unwrap();
        for at in 0..sealed.len() {
            let mut altered = sealed.clone().into_bytes();
            altered[at] = if altered[at] == b'A' { b'B' } else { b'A' };
            let altered = String::from_utf8(altered).unwrap();
            assert!(states.open(&altered, &OWNER).is_err(), "{at}");
        }
        let expired = states.seal_for(question(), &OWNER, Duration::ZERO).unwrap();
        std::thread::sleep(Duration::from_millis(5));
        assert!(reason(states.open(&expired, &OWNER)).contains("ten minutes"));
        assert!(states.open(&sealed, &OWNER).is_ok());
    }

    #[test]
    fn the_states_that_are_remembered_are_bounded() {
        let states = RequestStates::new().unwrap();
        let until = Instant::now() + LIFETIME;
        let opened = (0..MAX_OPENED as u128).map(|id| (id, until)).collect();
        states.opened.lock().unwrap().insert(OWNER.caller, opened);
        let other = StateOwner { caller: 1, ..OWNER };
        let sealed = states.seal(question(), &other).unwrap();
        assert!(states.open(&sealed, &other).is_ok(), "of another caller");
        let sealed = states.seal(question(), &OWNER).unwrap();
        assert!(reason(states.open(&sealed, &OWNER)).contains("too many"));
    }
}
