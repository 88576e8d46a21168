//! The model of a client, which answers what a skill asks with `ctx.sample`.
//!
//! In revisions with sessions the server sends the request and waits. In later ones it sends none, so only a task can ask. What
//! comes back is a text that the client chose, and no more than that: it grants nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rmcp::RoleServer;
use rmcp::model::{InputRequest, RequestId, ServerRequest};
use rmcp::service::{OriginatingRequestId, Peer, PeerRequestOptions, RequestContext};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::runtime::Handle;
use tokio::sync::Semaphore;

use super::skill_content::shown_line;
use super::task::Task;
use super::task_messages::related;
use crate::engine::Engine;
use metier_core::error::{ErrorKind, Result, SkillError};
use metier_core::excerpt::shorten;
use metier_core::host::{SampleRequest, SampleResponse, SamplingProvider, SkillContext, StopReason};

/// Requests of one call, with all skills that it calls.
const MAX_REQUESTS: usize = 64;
/// Requests of one call that wait for their answer at a time; further ones wait in turn.
const MAX_OPEN: usize = 4;
/// Bytes of one request as JSON.
const MAX_REQUEST_BYTES: usize = 1 << 20;
/// Bytes of the text of an answer.
const MAX_ANSWER_BYTES: usize = 1 << 20;
/// Tokens that an answer may have if the script names no number, and the highest number that is passed on.
const DEFAULT_TOKENS: u64 = 4_096;
const MAX_TOKENS: u64 = 32_768;
/// Characters of the name of a model, and of an error of the client.
const MAX_NAME: usize = 200;

/// The model for the skills of a call; `None` if the program around the server has one.
pub(super) fn for_call(
    engine: &Engine,
    context: &RequestContext<RoleServer>,
    task: Option<&Arc<Task>>,
) -> Option<Arc<dyn SamplingProvider>> {
    if engine.has_model() {
        return None;
    }
    let is_offered = context.client_capabilities().is_some_and(|offered| offered.sampling.is_some());
    let has_session = context.protocol_version().is_none_or(|version| version.has_initialize());
    let route = match (is_offered, has_session, task) {
        (false, ..) => ModelRoute::Closed("the client of this server offers no model"),
        (true, true, task) => ModelRoute::Session(context.peer.clone(), context.id.clone(), task.cloned()),
        (true, false, Some(task)) => ModelRoute::Task(task.clone()),
        (true, false, None) => ModelRoute::Closed(
            "in this revision of the protocol, the model of a client is asked only inside a task, and the client does not support \
             tasks",
        ),
    };
    Some(Arc::new(ClientModel::new(route)))
}

/// How the client is asked.
enum ModelRoute {
    /// By a request of the server, which belongs to a call and perhaps to a task.
    Session(Peer<RoleServer>, RequestId, Option<Arc<Task>>),
    /// By a question of the task.
    Task(Arc<Task>),
    /// Not at all, for this reason.
    Closed(&'static str),
}

/// The model of the client of one call.
struct ClientModel {
    route: ModelRoute,
    executor: Handle,
    requests: AtomicUsize,
    places: Semaphore,
}

impl ClientModel {
    /// To be made on the executor of the server.
    fn new(route: ModelRoute) -> Self {
        Self {
            route,
            executor: Handle::current(),
            requests: AtomicUsize::new(0),
            places: Semaphore::new(MAX_OPEN),
        }
    }

    /// Sends the request, and waits for the answer or for the end of the run.
    async fn ask(&self, ctx: &SkillContext, mut request: Value) -> Result<Value> {
        let stopped = || ctx.cancel().check().err().unwrap_or_else(|| failure("did not answer"));
        let place = tokio::select! {
            place = self.places.acquire() => place,
            _ = ctx.cancel().cancelled() => return Err(stopped()),
        };
        let _place = place.map_err(|_| stopped())?;
        match &self.route {
            ModelRoute::Closed(reason) => Err(SkillError::new(ErrorKind::Unavailable, *reason)),
            ModelRoute::Task(task) => {
                let Ok(request) = serde_json::from_value::<InputRequest>(request) else {
                    return Err(failure("cannot be asked this"));
                };
                let answer = tokio::select! {
                    answer = task.ask("sample", request) => answer,
                    _ = ctx.cancel().cancelled() => return Err(stopped()),
                };
                answer.ok_or_else(|| {
                    let busy = "the model of the client cannot be asked, because there are too many tasks";
                    ctx.cancel().check().err().unwrap_or_else(|| {
                        SkillError::new(ErrorKind::Unavailable, busy).with_help("call the tool again later")
                    })
                })
            }
            ModelRoute::Session(peer, call, task) => {
                let _waiting = task.as_ref().map(|task| {
                    request["params"]["_meta"] = related(task.id()).into();
                    task.wait_for_client()
                });
                let Ok(mut request) = serde_json::from_value::<ServerRequest>(request) else {
                    return Err(failure("cannot be asked this"));
                };
                if let ServerRequest::CreateMessageRequest(request) = &mut request {
                    // Over HTTP it belongs to the answer of its call.
                    request.extensions.insert(OriginatingRequestId(call.clone()));
                }
                let sent = peer.send_cancellable_request(request, PeerRequestOptions::no_options()).await;
                let mut sent = sent.map_err(|_| failure("cannot be reached"))?;
                let answer = tokio::select! {
                    answer = &mut sent.rx => answer,
                    _ = ctx.cancel().cancelled() => {
                        sent.cancel(Some("the skill does not wait for it any more".to_owned())).await.ok();
                        return Err(stopped());
                    }
                };
                match answer {
                    Ok(Ok(answer)) => serde_json::to_value(answer).map_err(|_| failure("gave no answer")),
                    Ok(Err(error)) => {
                        let reason = shorten(&shown_line(&error.to_string()), MAX_NAME);
                        Err(failure(&format!("refused: {reason}")))
                    }
                    Err(_) => Err(failure("is gone")),
                }
            }
        }
    }
}

impl SamplingProvider for ClientModel {
    fn sample(&self, ctx: &SkillContext, request: &SampleRequest) -> Result<SampleResponse> {
        if let ModelRoute::Closed(reason) = &self.route {
            return Err(SkillError::new(ErrorKind::Unavailable, *reason));
        }
        if self.requests.fetch_add(1, Ordering::AcqRel) >= MAX_REQUESTS {
            let sentence = format!("a call can ask the model of the client at most {MAX_REQUESTS} times");
            return Err(SkillError::new(ErrorKind::Unavailable, sentence));
        }
        let request = create_message(request)?;
        response(&self.executor.block_on(self.ask(ctx, request))?)
    }
}

/// The request as the protocol has it.
fn create_message(request: &SampleRequest) -> Result<Value> {
    let messages: Vec<Value> = request
        .messages
        .iter()
        .map(|message| json!({"role": message.role, "content": {"type": "text", "text": message.content}}))
        .collect();
    let tokens = request.max_tokens.unwrap_or(DEFAULT_TOKENS).min(MAX_TOKENS);
    let mut params = json!({"messages": messages, "maxTokens": tokens, "includeContext": "none"});
    if let Some(system) = &request.system {
        params["systemPrompt"] = json!(system);
    }
    if let Some(temperature) = request.temperature {
        params["temperature"] = json!(temperature);
    }
    if !request.stop.is_empty() {
        params["stopSequences"] = json!(request.stop);
    }
    if let Some(model) = &request.model {
        params["modelPreferences"] = json!({"hints": [{"name": model}]});
    }
    let request = json!({"method": "sampling/createMessage", "params": params});
    let size = request.to_string().len();
    if size > MAX_REQUEST_BYTES {
        let sentence =
            format!("a request to the model has at most {MAX_REQUEST_BYTES} bytes, this one has {size}");
        return Err(SkillError::new(ErrorKind::InvalidArgument, sentence));
    }
    Ok(request)
}

/// What a client answers, as far as it is used.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Answer {
    role: String,
    content: Value,
    #[serde(default)]
    model: Option<String>,
    #[serde(default)]
    stop_reason: Option<String>,
}

/// The text of an answer, which is anything that a client may send.
fn response(answer: &Value) -> Result<SampleResponse> {
    let Ok(answer) = Answer::deserialize(answer) else {
        return Err(failure("gave an answer that is not a message of a model"));
    };
    if answer.role != "assistant" {
        return Err(failure("gave an answer that is not from a model"));
    }
    let blocks = match &answer.content {
        Value::Array(blocks) => blocks.as_slice(),
        block => std::slice::from_ref(block),
    };
    let mut text = String::new();
    for block in blocks {
        let part = block["text"].as_str().filter(|_| block["type"] == "text");
        let Some(part) = part else { return Err(failure("gave an answer that is not only text")) };
        if text.len() + part.len() > MAX_ANSWER_BYTES {
            return Err(failure(&format!("gave an answer of more than {MAX_ANSWER_BYTES} bytes")));
        }
        text.push_str(part);
    }
    let mut response = SampleResponse::new(text);
    if let Some(model) = answer.model.filter(|model| !model.is_empty()) {
        response = response.model(shorten(&shown_line(&model), MAX_NAME));
    }
    Ok(match answer.stop_reason.as_deref() {
        None => response,
        Some("endTurn") => response.stop_reason(StopReason::EndTurn),
        Some("maxTokens") => response.stop_reason(StopReason::MaxTokens),
        Some("stopSequence") => response.stop_reason(StopReason::StopSequence),
        Some(_) => response.stop_reason(StopReason::Other),
    })
}

fn failure(what: &str) -> SkillError {
    SkillError::new(ErrorKind::Unavailable, format!("the model of the client {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use metier_core::host::{SampleMessage, SampleRole};

    fn request(content: String) -> SampleRequest {
        let mut request = SampleRequest::default();
        request.messages.push(SampleMessage::new(SampleRole::User, content));
        request
    }

    #[test]
    fn a_request_has_what_the_script_asks_for_within_bounds() {
        let mut asked = request("why".to_owned());
        asked.system = Some("be short".to_owned());
        asked.max_tokens = Some(u64::MAX);
        asked.stop = vec!["end".to_owned()];
        asked.model = Some("small".to_owned());
        let message = create_message(&asked).unwrap();
        let params = &message["params"];
        assert_eq!(
            params["messages"][0],
            json!({"role": "user", "content": {"type": "text", "text": "why"}})
        );
        assert_eq!((&params["maxTokens"], &params["systemPrompt"]), (&json!(MAX_TOKENS), &json!("be short")));
        assert_eq!(params["modelPreferences"]["hints"][0]["name"], "small");
        assert!(serde_json::from_value::<InputRequest>(message.clone()).is_ok());
        assert!(matches!(
            serde_json::from_value::<ServerRequest>(message),
            Ok(ServerRequest::CreateMessageRequest(_))
        ));
        let default = create_message(&request("x".to_owned())).unwrap();
        assert_eq!(default["params"]["maxTokens"], DEFAULT_TOKENS);
        let large = create_message(&request("x".repeat(MAX_REQUEST_BYTES))).unwrap_err();
        assert!(large.message().contains("at most 1048576 bytes"), "{large}");
    }

    #[test]
    fn an_answer_is_a_text_and_nothing_else() {
        let text = |text: &str| json!({"type": "text", "text": text});
        let answer = |content: Value| json!({"role": "assistant", "model": "m\u{202e}", "content": content});
        let plain = response(&answer(text("yes"))).unwrap();
        assert_eq!((plain.text.as_str(), plain.model.as_deref()), ("yes", Some("m\\u{202e}")));
        assert_eq!(response(&answer(json!([text("a"), text("b")]))).unwrap().text, "ab");
        for wrong in [
            Value::Null,
            json!("yes"),
            json!({}),
            json!({"role": "user", "content": text("yes"), "model": "m"}),
            answer(json!({"type": "image", "data": "AAAA", "mimeType": "image/png"})),
            answer(json!([text("a"), {"type": "tool_use", "id": "1", "name": "n", "input": {}}])),
            answer(json!({"type": "text", "text": 1})),
            answer(text(&"x".repeat(MAX_ANSWER_BYTES + 1))),
        ] {
            assert_eq!(response(&wrong).unwrap_err().kind(), ErrorKind::Unavailable, "{wrong:.100}");
        }
    }
}
