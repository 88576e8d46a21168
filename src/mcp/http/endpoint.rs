//! Answers one request over HTTP: who may send it, what it says, and the part of the server that its caller has.

use std::convert::Infallible;
use std::error::Error;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::header::{ACCEPT, ALLOW, CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use http::request::Parts;
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::combinators::{BoxBody, UnsyncBoxBody};
use http_body_util::{BodyExt, Full};
use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use super::access::{AccessRules, CallerIndex, Refusal};
use super::answer_form::{AcceptedForms, BOTH_FORMS, ResponseOnly, begin_within, in_accepted_form};
use super::caller_thread::CallerThread;
use super::sessions::Sessions;
use crate::mcp::backlog::{Answer, Backlog, CountedBytes};
use crate::mcp::client::{Caller, Handler};
use crate::mcp::message::{MessageText, RefusedMessage, SentId, read_message, request_id, typed_message};

/// After so long an answer begins without its response.
const FIRST_BYTES: Duration = Duration::from_secs(15);
/// Maximum bytes of a message that a client sends.
const MAX_BODY: usize = 16 << 20;
/// Long messages of one caller together that were not answered yet.
const MAX_BODIES: usize = 128 << 20;
/// A message with more bytes is a long one.
const SHORT_BODY: usize = 64 << 10;
/// How long a message may take to arrive, and a long one may wait for space.
const BODY_TIMEOUT: Duration = Duration::from_secs(30);
/// How long the beginning of a message may take that is refused anyway.
const HEAD_TIMEOUT: Duration = Duration::from_secs(1);

type ResponseBody = UnsyncBoxBody<Bytes, Infallible>;

/// The server as its connections see it.
pub(super) struct Endpoint {
    access: AccessRules,
    callers: Vec<Arc<CallerService>>,
}

/// The part of the server that one caller has.
pub(super) struct CallerService {
    thread: Arc<CallerThread>,
    service: StreamableHttpService<Handler, Sessions>,
    sessions: Arc<Sessions>,
    backlog: Arc<Backlog>,
    bodies: MessageBodies,
}

impl CallerService {
    /// `handler` makes what handles the requests of a session, or one request where there are no sessions.
    pub(super) fn new(
        handler: impl Fn() -> Handler + Send + Sync + 'static,
        caller: &Caller,
        thread: Arc<CallerThread>,
    ) -> Self {
        let sessions = Arc::new(Sessions::new(caller.is_identified));
        let config = StreamableHttpServerConfig::default()
            // The access rules cover both, and know which names are meant.
            .disable_allowed_hosts()
            .disable_allowed_origins()
            .with_max_request_body_bytes(MAX_BODY)
            .with_json_response(true)
            // No message has an id to go on from.
            .with_sse_retry(None);
        let service = StreamableHttpService::new(move || Ok(handler()), sessions.clone(), config);
        Self { thread, service, sessions, backlog: caller.backlog.clone(), bodies: MessageBodies::default() }
    }
}

impl Endpoint {
    /// With the parts of the callers in the order of their tokens.
    pub(super) fn new(access: AccessRules, callers: impl Iterator<Item = CallerService>) -> Self {
        Self { access, callers: callers.map(Arc::new).collect() }
    }

    /// Ends all sessions and answers.
    pub(super) fn close(&self) {
        for caller in &self.callers {
            caller.service.config.cancellation_token.cancel();
        }
    }

    /// How many callers there are.
    pub(super) fn callers(&self) -> usize {
        self.callers.len()
    }

    /// Answers a request; `authenticate` is called when its caller is known, and says whether that may have the connection.
    pub(super) async fn answer(
        &self,
        request: Request<Incoming>,
        authenticate: impl FnOnce(CallerIndex) -> bool,
    ) -> Response<ResponseBody> {
        let index = match self.access.check(&request) {
            Ok(index) => index,
            Err(refusal) => return refuse(&refusal),
        };
        let Some(caller) = self.callers.get(index) else {
            return sentence(StatusCode::FORBIDDEN, "there is no such caller");
        };
        if !authenticate(index) {
            return unavailable("too many connections of this token are open; close some", "1");
        }
        let answer = caller.thread.answer(caller.clone().answer(request)).await;
        answer.map_or_else(
            || unavailable("the server ends, or has no thread for this token", "10"),
            |answer| answer.map(BodyExt::boxed_unsync),
        )
    }
}

impl CallerService {
    async fn answer(self: Arc<Self>, request: Request<Incoming>) -> Response<ResponseBody> {
        if *request.method() == Method::POST {
            return self.answer_message(request).await;
        }
        let is_end = *request.method() == Method::DELETE;
        if !is_end && !AcceptedForms::new(request.headers()).events {
            return sentence(
                StatusCode::NOT_ACCEPTABLE,
                "what GET opens is a stream; accept text/event-stream",
            );
        }
        let answer = Answer::on_stream(self.backlog.clone(), None);
        let mut request = request.map(|_| Full::new(Bytes::new()));
        request.headers_mut().insert(ACCEPT, HeaderValue::from_static(BOTH_FORMS));
        let (mut parts, body) = self.service.handle(request).await.into_parts();
        // An ended session has ended, not only been asked to: official clients complain of a 202.
        if is_end && parts.status == StatusCode::ACCEPTED {
            parts.status = StatusCode::NO_CONTENT;
        }
        Response::from_parts(parts, CountedBody { body: body.boxed_unsync(), answer }.boxed_unsync())
    }

    async fn answer_message(&self, request: Request<Incoming>) -> Response<ResponseBody> {
        let forms = AcceptedForms::new(request.headers());
        if !forms.json && !forms.events {
            return sentence(
                StatusCode::NOT_ACCEPTABLE,
                "answers are application/json or text/event-stream; accept one of them",
            );
        }
        let size = request
            .headers()
            .get(CONTENT_LENGTH)
            .and_then(|length| length.to_str().ok()?.parse::<usize>().ok())
            .unwrap_or(MAX_BODY);
        let (mut parts, body) = request.into_parts();
        let (body, space) = match self.bodies.read(body, size).await {
            Ok(read) => read,
            Err(BodyRefusal::TooLarge(id)) => return too_large(id),
            Err(BodyRefusal::Broken) => {
                return sentence(StatusCode::BAD_REQUEST, "the message did not arrive whole");
            }
            Err(BodyRefusal::Slow) => {
                return sentence(StatusCode::REQUEST_TIMEOUT, "the message took too long to arrive");
            }
            Err(BodyRefusal::NoSpace) => {
                return unavailable("too many large messages of this token were not answered yet", "10");
            }
        };
        let MessageText { value: message, is_changed } = match read_message(&body) {
            Ok(text) => text,
            Err(refused) => return json_error(StatusCode::BAD_REQUEST, &refused).map(BodyExt::boxed_unsync),
        };
        let is_of = |method: &str| message.get("method").is_some_and(|own| own == method);
        if is_of("subscriptions/listen") && !forms.events {
            let text = "the answer to subscriptions/listen is a stream; accept text/event-stream";
            return sentence(StatusCode::NOT_ACCEPTABLE, text);
        }
        if is_of("initialize") && self.sessions.is_full() {
            return unavailable("too many sessions are in use; end one with DELETE", "10");
        }
        let body = if is_changed { Bytes::from(message.to_string()) } else { body };
        parts.headers.insert(CONTENT_LENGTH, HeaderValue::from(body.len()));
        parts.headers.insert(ACCEPT, HeaderValue::from_static(BOTH_FORMS));
        drop(message);
        let answer = Answer::on_stream(self.backlog.clone(), space);
        parts.extensions.insert(answer.clone());
        if !forms.events {
            parts.extensions.insert(ResponseOnly);
        }
        let service = self.service.clone();
        let in_form = async move { in_accepted_form(handle(service, parts, body).await, forms).await };
        let response = if forms.events {
            begin_within(FIRST_BYTES, in_form).await
        } else {
            in_form.await.map(BodyExt::boxed_unsync)
        };
        response.map(|body| CountedBody { body, answer }.boxed_unsync())
    }
}

/// What `rmcp` answers to a message, whose text it reads once more, because rmcp accepts only bytes. What it has no type for is refused with the
/// id of its request.
async fn handle(
    service: StreamableHttpService<Handler, Sessions>,
    parts: Parts,
    body: Bytes,
) -> Response<BoxBody<Bytes, Infallible>> {
    let mut handled = pin!(service.handle(Request::from_parts(parts, Full::new(body.clone()))));
    let answer = tokio::select! {
        biased;
        answer = &mut handled => answer,
        // It has read the text when it waits for the first time, so that the text takes no memory while a call runs.
        () = std::future::ready(()) => {
            drop(body);
            return handled.await;
        }
    };
    if answer.status() != StatusCode::UNSUPPORTED_MEDIA_TYPE {
        return answer;
    }
    match read_message(&body).and_then(|text| typed_message(text.value, &body)) {
        // It is not the message that is refused.
        Ok(_) => answer,
        Err(refused) => json_error(StatusCode::BAD_REQUEST, &refused),
    }
}

fn too_large(id: Option<SentId>) -> Response<ResponseBody> {
    let refused = RefusedMessage::too_large(MAX_BODY, id);
    let mut response = json_error(StatusCode::PAYLOAD_TOO_LARGE, &refused).map(BodyExt::boxed_unsync);
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    response
}

fn json_error(status: StatusCode, refused: &RefusedMessage) -> Response<BoxBody<Bytes, Infallible>> {
    let mut response = Response::new(Full::from(refused.answer()).boxed());
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

fn unavailable(text: &'static str, seconds: &'static str) -> Response<ResponseBody> {
    let mut response = sentence(StatusCode::SERVICE_UNAVAILABLE, text);
    response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static(seconds));
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

/// A body whose parts count until they were written, however long the connection keeps them.
struct CountedBody {
    body: ResponseBody,
    answer: Arc<Answer>,
}

struct CountedPart {
    bytes: Bytes,
    #[expect(dead_code, reason = "held until the part was written")]
    counted: CountedBytes,
}

impl AsRef<[u8]> for CountedPart {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Body for CountedBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let frame = std::task::ready!(Pin::new(&mut self.body).poll_frame(cx));
        let count = |bytes: Bytes| {
            Bytes::from_owner(CountedPart { counted: self.answer.hand_on(bytes.len()), bytes })
        };
        Poll::Ready(frame.map(|frame| frame.map(|frame| frame.map_data(count))))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// The messages of one caller that were not answered yet.
struct MessageBodies {
    /// Kibibytes that are left.
    space: Arc<Semaphore>,
}

/// Why a message is not read.
#[derive(Debug, PartialEq, Eq)]
enum BodyRefusal {
    /// With the id of its request, if that stands in what was read.
    TooLarge(Option<SentId>),
    /// It ended before its end.
    Broken,
    Slow,
    NoSpace,
}

impl Default for MessageBodies {
    fn default() -> Self {
        Self { space: Arc::new(Semaphore::new(MAX_BODIES >> 10)) }
    }
}

impl MessageBodies {
    /// A message of at most so many bytes, and its space if it is a long one.
    pub(super) async fn read<B: Body<Data = Bytes, Error: Error> + Unpin>(
        &self,
        mut body: B,
        max: usize,
    ) -> Result<(Bytes, Option<OwnedSemaphorePermit>), BodyRefusal> {
        let mut read = Vec::new();
        if max > MAX_BODY {
            // Only for the id: whoever sends slowly is refused without.
            timeout(HEAD_TIMEOUT, append(&mut body, &mut read, SHORT_BODY)).await.ok();
            return Err(BodyRefusal::TooLarge(request_id(&read)));
        }
        let short = timeout(BODY_TIMEOUT, append(&mut body, &mut read, SHORT_BODY)).await;
        if short.map_err(|_| BodyRefusal::Slow)?? {
            return Ok((read.into(), None));
        }
        let kibibytes = u32::try_from(max.div_ceil(1 << 10)).unwrap_or(u32::MAX);
        let space = timeout(BODY_TIMEOUT, self.space.clone().acquire_many_owned(kibibytes)).await;
        let mut space = space.ok().and_then(Result::ok).ok_or(BodyRefusal::NoSpace)?;
        let long = timeout(BODY_TIMEOUT, append(&mut body, &mut read, MAX_BODY)).await;
        if !long.map_err(|_| BodyRefusal::Slow)?? {
            return Err(BodyRefusal::TooLarge(request_id(&read)));
        }
        // A body of unknown length is mostly shorter than the longest.
        drop(space.split(max.saturating_sub(read.len()) >> 10));
        Ok((read.into(), Some(space)))
    }
}

/// Appends what comes until there are more bytes than this. Whether the body has ended before.
async fn append<B: Body<Data = Bytes, Error: Error> + Unpin>(
    body: &mut B,
    read: &mut Vec<u8>,
    max: usize,
) -> Result<bool, BodyRefusal> {
    while read.len() <= max {
        let Some(frame) = body.frame().await else { return Ok(true) };
        if let Ok(bytes) = frame.map_err(|_| BodyRefusal::Broken)?.into_data() {
            read.extend_from_slice(&bytes);
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::convert::Infallible;
    use std::pin::Pin;
    use std::task::{Context, Poll};

    use hyper::body::Frame;

    use super::*;

    /// Parts that come at once, and then the end or nothing more.
    struct Parts(VecDeque<Bytes>, bool);

    impl Body for Parts {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            match self.0.pop_front() {
                Some(part) => Poll::Ready(Some(Ok(Frame::data(part)))),
                None if self.1 => Poll::Ready(None),
                None => Poll::Pending,
            }
        }
    }

    fn parts(sizes: &[usize], ends: bool) -> Parts {
        Parts(sizes.iter().map(|size| Bytes::from(vec![b'x'; *size])).collect(), ends)
    }

    #[tokio::test]
    async fn what_is_promised_takes_no_space_and_what_came_does_until_it_is_answered() {
        let bodies = Arc::new(MessageBodies::default());
        let free = || bodies.space.available_permits();
        let all = free();
        let started = |body: Parts| {
            let bodies = bodies.clone();
            tokio::spawn(async move { bodies.read(body, MAX_BODY).await.map(drop) })
        };
        let promised: Vec<_> = (0..100).map(|_| started(parts(&[1, 1], false))).collect();
        tokio::task::yield_now().await;
        assert_eq!(free(), all);
        let (short, space) = bodies.read(parts(&[5, 5], true), MAX_BODY).await.unwrap();
        assert!(short.len() == 10 && space.is_none());
        let (long, space) = bodies.read(parts(&[SHORT_BODY, 1024], true), MAX_BODY).await.unwrap();
        assert_eq!((long.len() >> 10, free()), (65, all - 65));
        drop(space);
        assert_eq!(free(), all);
        promised.iter().for_each(tokio::task::JoinHandle::abort);
    }

    #[tokio::test]
    async fn a_message_has_its_bound_whatever_its_head_says() {
        let bodies = MessageBodies::default();
        let refused = bodies.read(parts(&[MAX_BODY, 1], true), MAX_BODY).await.map(drop);
        assert_eq!(refused, Err(BodyRefusal::TooLarge(None)));
        assert_eq!(
            bodies.read(parts(&[], false), MAX_BODY + 1).await.map(drop),
            Err(BodyRefusal::TooLarge(None))
        );
        assert_eq!(bodies.read(parts(&[MAX_BODY], true), MAX_BODY).await.unwrap().0.len(), MAX_BODY);
        let head = Bytes::from_static(b"{\"id\":7,\"method\":\"x\",");
        for max in [MAX_BODY, MAX_BODY + 1] {
            let body = Parts([head.clone(), vec![b' '; MAX_BODY].into()].into(), true);
            let Err(BodyRefusal::TooLarge(Some(id))) = bodies.read(body, max).await else {
                panic!("the message has an id")
            };
            assert_eq!(id.json(), "7");
        }
    }
}
