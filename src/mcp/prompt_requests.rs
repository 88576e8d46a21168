//! Answers the request of a prompt: with its messages, or with a form for the inputs that a person left out.

use rmcp::model::{GetPromptRequestParams, GetPromptResponse, JsonObject};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer};
use serde_json::Value;

use super::backlog::json_size;
use super::forms::{Form, ask_forms, forms};
use super::handler::{Handler, request_error, set_size};
use super::postponed_request::{Filled, PostponedRequest};
use super::prompts;
use super::request_state::StateOwner;

impl Handler {
    pub(super) async fn answer_prompt(
        &self,
        request: GetPromptRequestParams,
        context: &RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        let inventory = self.inventory();
        let served = inventory.skill(&request.name).filter(|served| served.is_for_people);
        let forms = served.map(|served| forms(&served.skill)).unwrap_or_default();
        let trust = self.form_trust(&request.name, &forms).await?;
        let values = Value::Object(request.arguments.unwrap_or_default());
        let mut given = values.as_object().cloned().unwrap_or_default();
        // A client sends an argument that its person left out as an empty text.
        given.retain(|_, value| *value != "");
        let name = request.name;
        let arguments = if let Some(states) = self.request_states(context) {
            let owner = StateOwner { name: &name, ..self.state_owner(context, "prompts/get", &values) };
            let (state, responses) = (request.request_state.as_deref(), request.input_responses);
            let postponed = PostponedRequest::open(states, owner, state, responses);
            let mut postponed = postponed.map_err(|error| request_error(&error))?;
            match postponed.fill(&forms, trust, given.clone()) {
                Ok(Filled::Question(question)) => return Ok(GetPromptResponse::InputRequired(*question)),
                Ok(Filled::Arguments(filled)) => filled,
                // No input of a prompt is required: the model asks for what is missing.
                Err(_) => given,
            }
        } else if !trust.is_trusted {
            given
        } else {
            self.ask_for_prompt(&forms, given, context).await
        };
        let result = self
            .read(Some(context), move |engine, inventory, _| {
                prompts::prompt(engine, inventory, &name, &arguments)
                    .map(|prompt| (json_size(&prompt), prompt))
            })
            .await?;
        result
            .map(|(size, prompt)| set_size(context, size, prompt).into())
            .map_err(|error| request_error(&error))
    }

    async fn ask_for_prompt(
        &self,
        forms: &[Form],
        given: JsonObject,
        context: &RequestContext<RoleServer>,
    ) -> JsonObject {
        let Some(elicitor) = self.elicitor(context, None) else { return given };
        let Ok(_waiting) = self.calls().enter(self.caller()) else { return given };
        let cancelled = std::pin::pin!(context.ct.cancelled());
        ask_forms(forms, given.clone(), &elicitor, cancelled).await.unwrap_or(given)
    }
}
