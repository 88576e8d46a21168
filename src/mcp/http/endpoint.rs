//! Answers one request over HTTP: who may send it, what it says, and the part of the server that its caller has.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::header::{ALLOW, CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};
use rmcp::model::{ErrorData, ServerJsonRpcMessage};
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use serde_json::Value;
use tokio::sync::Semaphore;

use super::access::{AccessRules, Refusal};
use super::sessions::Sessions;
use super::slow_answer;
use crate::mcp::backlog::Backlog;
use crate::mcp::handler::Handler;
use crate::mcp::task_messages::keep_task_parts;
use crate::strict_json;

/// Maximum bytes of a message that a client sends.
const MAX_BODY: usize = 16 << 20;
/// All messages together that are being read.
const MAX_BODIES: usize = 128 << 20;
/// How long a message may take to arrive.
const BODY_TIMEOUT: Duration = Duration::from_secs(30);
/// After so long an answer begins without its response.
const FIRST_BYTES: Duration = Duration::from_secs(15);

type ResponseBody = UnsyncBoxBody<Bytes, Infallible>;

/// The server as its connections see it.
pub(super) struct Endpoint {
    access: AccessRules,
    callers: Vec<CallerService>,
    backlog: Arc<Backlog>,
    /// Kibibytes of messages that may still be read.
    bodies: Arc<Semaphore>,
}

/// The part of the server that one caller has.
pub(super) struct CallerService {
    service: StreamableHttpService<Handler, Sessions>,
    sessions: Arc<Sessions>,
}

impl CallerService {
    /// `handler` makes what handles the requests of a session, or one request where there are no sessions.
    pub(super) fn new(handler: impl Fn() -> Handler + Send + Sync + 'static, is_identified: bool) -> Self {
        let sessions = Arc::new(Sessions::new(is_identified));
        let config = StreamableHttpServerConfig::default()
            // The access rules cover both, and knows which names are meant.
            .disable_allowed_hosts()
            .disable_allowed_origins()
            .with_max_request_body_bytes(MAX_BODY)
            .with_json_response(true)
            // No message has an id to go on from.
            .with_sse_retry(None);
        let service = StreamableHttpService::new(move || Ok(handler()), sessions.clone(), config);
        Self { service, sessions }
    }
}

impl Endpoint {
    /// With the parts of the callers in the order of their tokens.
    pub(super) fn new(access: AccessRules, callers: Vec<CallerService>, backlog: Arc<Backlog>) -> Self {
        Self { access, callers, backlog, bodies: Arc::new(Semaphore::new(MAX_BODIES >> 10)) }
    }

    /// Ends all sessions and answers.
    pub(super) fn close(&self) {
        for caller in &self.callers {
            caller.service.config.cancellation_token.cancel();
        }
    }

    /// Answers a request; `authenticated` is called when its caller is known.
    pub(super) async fn answer(
        &self,
        request: Request<Incoming>,
        authenticated: impl FnOnce(),
    ) -> Response<ResponseBody> {
        let caller = match self.access.check(&request) {
            Ok(index) => self.callers.get(index),
            Err(refusal) => return refuse(&refusal),
        };
        let Some(caller) = caller else { return sentence(StatusCode::FORBIDDEN, "there is no such caller") };
        authenticated();
        let is_end = *request.method() == Method::DELETE;
        let response = if *request.method() == Method::POST {
            self.answer_message(caller, request).await
        } else {
            let request = request.map(|_| Full::new(Bytes::new()));
            caller.service.handle(request).await.map(BodyExt::boxed_unsync)
        };
        let (mut parts, body) = response.into_parts();
        // An ended session has ended, not only been asked to: official clients complain of a 202.
        if is_end && parts.status == StatusCode::ACCEPTED {
            parts.status = StatusCode::NO_CONTENT;
        }
        Response::from_parts(parts, CountedBody::new(body, self.backlog.clone()).boxed_unsync())
    }

    async fn answer_message(
        &self,
        caller: &CallerService,
        request: Request<Incoming>,
    ) -> Response<ResponseBody> {
        let size = request
            .headers()
            .get(CONTENT_LENGTH)
            .and_then(|length| length.to_str().ok()?.parse::<usize>().ok())
            .unwrap_or(MAX_BODY);
        if size > MAX_BODY {
            return too_large();
        }
        // Held until the answer begins: what waits for others to be read is not read itself.
        let kibibytes = u32::try_from(size.div_ceil(1 << 10)).unwrap_or(u32::MAX);
        let Ok(mut place) = self.bodies.acquire_many(kibibytes).await else {
            return sentence(StatusCode::SERVICE_UNAVAILABLE, "the server has ended");
        };
        let (mut parts, body) = request.into_parts();
        let body = match tokio::time::timeout(BODY_TIMEOUT, Limited::new(body, MAX_BODY).collect()).await {
            Ok(Ok(body)) => body.to_bytes(),
            Ok(Err(error)) if error.is::<LengthLimitError>() => return too_large(),
            Ok(Err(_)) => return sentence(StatusCode::BAD_REQUEST, "the message did not arrive whole"),
            Err(_) => return sentence(StatusCode::REQUEST_TIMEOUT, "the message took too long to arrive"),
        };
        // A body of unknown length is mostly a short one.
        let unused = size.saturating_sub(body.len()) >> 10;
        drop(place.split(unused));
        let (message, is_changed) = match parse(&body) {
            Ok(parsed) => parsed,
            Err(error) => return json_error(StatusCode::BAD_REQUEST, error),
        };
        if message.get("method").is_some_and(|method| method == "initialize") && caller.sessions.is_full() {
            let mut response = sentence(
                StatusCode::SERVICE_UNAVAILABLE,
                "too many sessions are in use; end one with DELETE",
            );
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("10"));
            return response;
        }
        let body = if is_changed { Bytes::from(message.to_string()) } else { body };
        parts.headers.insert(CONTENT_LENGTH, HeaderValue::from(body.len()));
        drop(message);
        let (service, request) = (caller.service.clone(), Request::from_parts(parts, Full::new(body)));
        slow_answer::begin_within(FIRST_BYTES, async move { service.handle(request).await }).await
    }
}

/// The message of a body, and whether it has changed on the way. Numbers that would be rounded and keys that stand twice are
/// refused, as everywhere in metier.
fn parse(body: &[u8]) -> Result<(Value, bool), ErrorData> {
    let text = std::str::from_utf8(body)
        .map_err(|_| ErrorData::parse_error("not a message: it is not UTF-8", None))?;
    let mut value = strict_json::parse(text)
        .map_err(|reason| ErrorData::parse_error(format!("not a message: {reason}"), None))?;
    if !value.is_object() {
        return Err(ErrorData::invalid_request("a message is an object; there are no batches", None));
    }
    let is_changed = keep_task_parts(&mut value);
    serde_json::from_value::<rmcp::model::ClientJsonRpcMessage>(value.clone())
        .map(|_| (value, is_changed))
        .map_err(|_| ErrorData::invalid_request("this is not a message of JSON-RPC 2.0", None))
}

fn too_large() -> Response<ResponseBody> {
    let sentence = format!("a message has at most {} MiB", MAX_BODY >> 20);
    let mut response = json_error(StatusCode::PAYLOAD_TOO_LARGE, ErrorData::invalid_request(sentence, None));
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    response
}

fn json_error(status: StatusCode, error: ErrorData) -> Response<ResponseBody> {
    let body = serde_json::to_vec(&ServerJsonRpcMessage::error(error, None)).unwrap_or_default();
    let mut response = Response::new(Full::from(body).boxed_unsync());
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

fn sentence(status: StatusCode, text: &'static str) -> Response<ResponseBody> {
    let mut response = Response::new(Full::from(text).boxed_unsync());
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    // What follows of the request is not read.
    headers.insert(CONNECTION, HeaderValue::from_static("close"));
    response
}

fn refuse(refusal: &Refusal) -> Response<ResponseBody> {
    let mut response = sentence(refusal.status, refusal.reason);
    match refusal.status {
        StatusCode::UNAUTHORIZED => {
            response
                .headers_mut()
                .insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer realm=\"metier\""));
        }
        StatusCode::METHOD_NOT_ALLOWED => {
            response.headers_mut().insert(ALLOW, HeaderValue::from_static("POST, GET, DELETE"));
        }
        _ => {}
    }
    response
}

/// A body whose parts count as waiting until the next one is asked for.
struct CountedBody {
    body: ResponseBody,
    backlog: Arc<Backlog>,
    waiting: usize,
}

impl CountedBody {
    fn new(body: ResponseBody, backlog: Arc<Backlog>) -> Self {
        Self { body, backlog, waiting: 0 }
    }

    fn settle(&mut self) {
        self.backlog.remove(std::mem::take(&mut self.waiting));
    }
}

impl Body for CountedBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.settle();
        let frame = Pin::new(&mut self.body).poll_frame(cx);
        if let Poll::Ready(Some(Ok(frame))) = &frame
            && let Some(data) = frame.data_ref()
        {
            self.waiting = data.len();
            self.backlog.add(data.len());
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for CountedBody {
    fn drop(&mut self) {
        self.settle();
    }
}
