//! Requests of revisions without sessions: what has to be asked first is the answer, and the client sends the request again with
//! what a person said.

use rmcp::ErrorData;
use rmcp::model::{
    ElicitRequest, ElicitResult, InputRequest, InputRequests, InputRequiredResult, InputResponses, JsonObject,
};
use sha2::{Digest, Sha256};

use super::client::Handler;
use super::elicitation::{APPROVAL, PostponingApprover};
use super::forms::Form;
use super::question::{self, AnswerMemory};
use super::request_state::{RequestState, RequestStates, StateOwner};
use metier_core::error::{ErrorKind, Result, SkillError};
use metier_core::host::ApprovalRequest;
#[cfg(unix)]
use metier_core::policy::Approval;
use metier_core::policy::SkillDigest;

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

impl Handler {
    /// Reads the files of the skill, if it has forms.
    pub(super) async fn form_trust(&self, skill: &str, forms: &[Form]) -> Result<FormTrust, ErrorData> {
        if forms.is_empty() {
            return Ok(FormTrust { is_trusted: true, digest: None });
        }
        let (name, shown) = (skill.to_owned(), SkillDigest::new(Sha256::digest(format!("{forms:?}")).into()));
        self.read(None, move |engine, inventory, _| {
            let Some(served) = inventory.skill(&name) else { return FormTrust::default() };
            match engine.trusted_files(&served.skill) {
                Ok(trusted) => {
                    FormTrust { is_trusted: true, digest: Some(format!("{} {shown}", trusted.digest)) }
                }
                // A skill may have no digest, because of what else lies in its folder.
                Err(_) => FormTrust {
                    is_trusted: engine.trust_state(&served.skill).is_trusted(),
                    digest: Some(shown.to_string()),
                },
            }
        })
        .await
    }
}
