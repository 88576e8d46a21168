//! Requests of revisions without sessions: what has to be asked first is the answer, and the client sends the request again with what a person
//! said. The state of what was asked comes back with it: signed, for one request, once, and for ten minutes.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use rmcp::model::{
    ElicitRequest, ElicitResult, InputRequest, InputRequests, InputRequiredResult, InputResponses,
    JsonObject, RequestStateCodec, SealOptions,
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::elicitation::{APPROVAL, PostponingApprover};
use super::forms::Form;
use super::question::{self, AnswerMemory, Question};
use metier_core::error::{ErrorKind, Result, SkillError};
use metier_core::host::ApprovalRequest;
#[cfg(unix)]
use metier_core::policy::Approval;
use metier_core::strict_json::canonical_text;

/// How long a question can be answered.
const LIFETIME: Duration = Duration::from_mins(10);
/// States of one caller that were opened and are not forgotten yet; while there are as many, no other of it is opened.
const MAX_OPENED: usize = 10_000;

/// A request, with the answers that it brought.
pub(super) struct PostponedRequest<'a> {
    states: &'a RequestStates,
    owner: StateOwner<'a>,
    responses: Option<InputResponses>,
    has_state: bool,
    state: RequestState,
}

/// What the forms of a request came to.
pub(super) enum Filled {
    /// The arguments with what a person entered.
    Arguments(JsonObject),
    /// There is a form to be filled in first.
    Question(Box<InputRequiredResult>),
}

impl<'a> PostponedRequest<'a> {
    /// The request with its state, which has to be of this request, if it has one.
    pub(super) fn open(
        states: &'a RequestStates,
        owner: StateOwner<'a>,
        state: Option<&str>,
        responses: Option<InputResponses>,
    ) -> Result<Self> {
        let has_state = state.is_some();
        let state = state.map(|state| states.open(state, &owner)).transpose()?.unwrap_or_default();
        Ok(Self { states, owner, responses, has_state, state })
    }

    /// Takes the answers to the forms for what the arguments lack, or asks for the first that is left.
    ///
    /// An answer to a form needs no state: it is input, which the client could as well have called with. What was answered in an
    /// earlier round stays as it was.
    ///
    /// What was asked before files of the skill changed is asked again. A skill that is not trusted any more asks for nothing.
    pub(super) fn fill(
        &mut self,
        forms: &[Form],
        trust: FormTrust,
        mut arguments: JsonObject,
    ) -> Result<Filled> {
        if !trust.is_trusted {
            return Ok(Filled::Arguments(arguments));
        }
        if self.has_state && self.state.digest != trust.digest {
            (self.state, self.responses) = (RequestState::default(), None);
        }
        self.state.digest = trust.digest;
        let mut answers = JsonObject::new();
        for form in forms {
            let Some(request) = form.request(&arguments) else { continue };
            if !self.state.answers.contains_key(&form.name) {
                let response = self.responses.as_ref().and_then(|responses| responses.get(&form.name));
                // What has not the form of an answer is none.
                let response = response
                    .and_then(|response| serde_json::from_value::<ElicitResult>(response.clone()).ok());
                let Some(response) = response else {
                    // Whatever else was asked is asked again, about the whole input.
                    self.state.question = None;
                    return Ok(Filled::Question(Box::new(self.input_required(&form.name, request)?)));
                };
                let found = form.answers(&arguments, Some(&response))?;
                self.state.answers.insert(form.name.clone(), found);
            }
            answers.extend(self.state.answers.get(&form.name).into_iter().flatten().map(owned_entry));
        }
        arguments.extend(answers);
        Ok(Filled::Arguments(arguments))
    }

    /// Decides with the answer that the request brought, and keeps what else has to be asked.
    pub(super) fn approver(&mut self, memory: AnswerMemory) -> PostponingApprover {
        match self.state.question.take() {
            Some(question) => PostponingApprover::with_answer(question, self.responses.as_ref(), memory),
            None => PostponingApprover::default(),
        }
    }

    /// The answer that the request brought to exactly this question; `None` if it brought none, or to another one.
    #[cfg(unix)]
    pub(super) fn answer_to(&mut self, question: &question::Question) -> Option<Approval> {
        let asked = self.state.question.take().filter(|asked| asked == question)?;
        let answers = PostponingApprover::with_answer(asked, self.responses.as_ref(), AnswerMemory::Once);
        Some(answers.into_answer())
    }

    /// What the request is answered with to ask this.
    #[cfg(unix)]
    pub(super) fn ask(
        mut self,
        question: question::Question,
        form: ElicitRequest,
    ) -> Result<InputRequiredResult> {
        self.state.question = Some(question);
        self.input_required(APPROVAL, form)
    }

    /// What the request is answered with if this was left to be asked.
    pub(super) fn ask_approval(
        mut self,
        request: &ApprovalRequest,
        memory: AnswerMemory,
    ) -> Option<InputRequiredResult> {
        self.state.question = Some(question::Question::new(request)?);
        self.input_required(APPROVAL, question::elicit_request(request, memory).ok()?).ok()
    }

    fn input_required(&mut self, key: &str, form: ElicitRequest) -> Result<InputRequiredResult> {
        let state = self.states.seal(std::mem::take(&mut self.state), &self.owner).ok_or_else(|| {
            SkillError::new(ErrorKind::Unavailable, "nobody can be asked: the system has no random numbers")
        })?;
        let requests = InputRequests::from([(key.to_owned(), InputRequest::Elicitation(form))]);
        Ok(InputRequiredResult::new(Some(requests), Some(state)))
    }
}

fn owned_entry((name, value): (&String, &serde_json::Value)) -> (String, serde_json::Value) {
    (name.clone(), value.clone())
}

/// What a form is bound to.
#[derive(Default)]
pub(super) struct FormTrust {
    /// Whether its skill is still trusted; the form of another is not shown.
    pub(super) is_trusted: bool,
    /// What its answers are for: the digest of the files of the skill, if it has one, and the forms that are shown.
    pub(super) digest: Option<String>,
}

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
    fn seal(&self, state: RequestState, owner: &StateOwner<'_>) -> Option<String> {
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
