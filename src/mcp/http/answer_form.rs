//! Gives an answer the form that its client accepts by the `Accept` header: one message of JSON, or a stream of events. An answer to a call
//! that takes long begins before the response is there, so that no client and no proxy gives up on it.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use http::header::{ACCEPT, CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE};
use http::response::Parts;
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use http_body_util::combinators::{BoxBody, UnsyncBoxBody};
use http_body_util::{BodyExt, Empty, Full};
use hyper::body::{Body, Bytes, Frame};
use serde::Deserialize;
use serde::de::IgnoredAny;
use tokio::time::{Instant, Sleep};

/// What `rmcp` requires of every client, whatever form its answers get afterwards.
pub(super) const BOTH_FORMS: &str = "application/json, text/event-stream";
/// The media type of a stream of events.
const EVENTS: &str = "text/event-stream";
/// What a client leaves out of a stream of events.
const COMMENT: &[u8] = b": at work\n\n";

/// Says of a request that its client reads nothing but the response: it accepts no stream.
#[derive(Clone, Copy)]
pub(super) struct ResponseOnly;

/// The answer in a form that is accepted. A stream whose first message is the response becomes JSON, unless the client speaks of
/// streams; for a client that accepts none, what comes before the response is left out.
pub(super) async fn in_accepted_form(answer: Answer, forms: AcceptedForms) -> Answer {
    match media_type(answer.headers()) {
        "application/json" if !forms.json && answer.status() == StatusCode::OK => as_event(answer).await,
        EVENTS if !forms.names_events => without_stream(answer, forms).await,
        _ => answer,
    }
}

async fn as_event(answer: Answer) -> Answer {
    let (parts, body) = answer.into_parts();
    let Ok(message) = body.collect().await;
    let event = [b"data: ", &message.to_bytes()[..], b"\n\n"].concat();
    response(parts, EVENTS, event.into())
}

async fn without_stream(answer: Answer, forms: AcceptedForms) -> Answer {
    let (mut parts, body) = answer.into_parts();
    let mut events = Events { body, read: Vec::new() };
    while let Some(event) = events.next().await {
        let Some(message) = message_of(&event) else { continue };
        if is_response(&message) && forms.json {
            return response(parts, "application/json", message.into());
        }
        if forms.events {
            let read = [&event[..], &events.read].concat();
            return Response::from_parts(
                parts,
                BodyExt::boxed(Rest { read: Some(read.into()), body: events.body }),
            );
        }
    }
    // Its request was cancelled, or its session has ended: there is nothing to say.
    parts.status = StatusCode::NO_CONTENT;
    parts.headers.remove(CONTENT_TYPE);
    Response::from_parts(parts, Empty::new().boxed())
}

fn response(mut parts: Parts, kind: &'static str, content: Bytes) -> Answer {
    parts.headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    parts.headers.remove(CONTENT_LENGTH);
    Response::from_parts(parts, Full::from(content).boxed())
}

/// The events of a stream, one after another.
struct Events {
    body: BoxBody<Bytes, Infallible>,
    /// What was read and belongs to no event yet.
    read: Vec<u8>,
}

impl Events {
    /// The next event, with the empty line that ends it.
    async fn next(&mut self) -> Option<Vec<u8>> {
        let mut searched = 0;
        loop {
            if let Some(at) = self.read[searched..].windows(2).position(|two| two == b"\n\n") {
                let rest = self.read.split_off(searched + at + 2);
                return Some(std::mem::replace(&mut self.read, rest));
            }
            searched = self.read.len().saturating_sub(1);
            let Ok(frame) = self.body.frame().await?;
            if let Ok(bytes) = frame.into_data() {
                self.read.extend_from_slice(&bytes);
            }
        }
    }
}

/// The message of an event; `None` for a comment.
fn message_of(event: &[u8]) -> Option<Vec<u8>> {
    let lines = event.split(|byte| *byte == b'\n');
    let data: Vec<&[u8]> =
        lines.filter_map(|line| line.strip_prefix(b"data:")).map(<[u8]>::trim_ascii).collect();
    Some(data.join(&b'\n')).filter(|message| !message.is_empty())
}

/// Whether the message answers a request: questions and notifications have a method.
fn is_response(message: &[u8]) -> bool {
    #[derive(Deserialize)]
    struct Head {
        method: Option<IgnoredAny>,
    }
    serde_json::from_slice::<Head>(message).is_ok_and(|head| head.method.is_none())
}

/// What was read of a body, and the rest of it.
struct Rest {
    read: Option<Bytes>,
    body: BoxBody<Bytes, Infallible>,
}

impl Body for Rest {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match self.read.take() {
            Some(read) => Poll::Ready(Some(Ok(Frame::data(read)))),
            None => Pin::new(&mut self.body).poll_frame(cx),
        }
    }
}

/// The forms that one client accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct AcceptedForms {
    /// One message of JSON.
    pub(super) json: bool,
    /// A stream of events.
    pub(super) events: bool,
    /// Whether the client speaks of streams of events, and does not merely accept everything.
    pub(super) names_events: bool,
}

/// A range of media types that a client accepts, or does not.
struct MediaRange<'a> {
    kind: &'a str,
    subtype: &'a str,
    is_accepted: bool,
}

impl AcceptedForms {
    /// Without the header, everything is accepted.
    pub(super) fn new(headers: &HeaderMap) -> Self {
        let values = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
        let ranges: Vec<MediaRange<'_>> =
            values.flat_map(|value| value.split(',')).filter_map(MediaRange::parse).collect();
        if ranges.is_empty() {
            // A header that is there and cannot be read is no consent.
            let is_absent =
                headers.get_all(ACCEPT).iter().all(|value| value.as_bytes().trim_ascii().is_empty());
            return Self { json: is_absent, events: is_absent, names_events: false };
        }
        let events = is_accepted(&ranges, "text", "event-stream");
        let names = |range: &MediaRange<'_>| {
            range.is_accepted
                && range.exactness("text", "event-stream").is_some_and(|exactness| exactness > 0)
        };
        Self {
            json: is_accepted(&ranges, "application", "json"),
            events,
            names_events: events && ranges.iter().any(names),
        }
    }
}

impl<'a> MediaRange<'a> {
    fn parse(text: &'a str) -> Option<Self> {
        let mut parts = text.split(';');
        let (kind, subtype) = parts.next()?.trim().split_once('/')?;
        let is_excluded = |parameter: &str| {
            let (name, value) = parameter.split_once('=').unwrap_or_default();
            let quality = value.trim().parse::<f32>();
            name.trim().eq_ignore_ascii_case("q") && quality.is_ok_and(|quality| quality <= 0.0)
        };
        Some(Self { kind, subtype, is_accepted: !parts.any(is_excluded) })
    }

    /// How exactly the range names this type; `None` if it does not have it.
    fn exactness(&self, kind: &str, subtype: &str) -> Option<u8> {
        match (self.kind, self.subtype) {
            (own, exact) if own.eq_ignore_ascii_case(kind) && exact.eq_ignore_ascii_case(subtype) => Some(2),
            (own, "*") if own.eq_ignore_ascii_case(kind) => Some(1),
            ("*", "*") => Some(0),
            _ => None,
        }
    }
}

/// Whether the range that names the type most exactly accepts it.
fn is_accepted(ranges: &[MediaRange<'_>], kind: &str, subtype: &str) -> bool {
    let fitting =
        ranges.iter().filter_map(|range| Some((range.exactness(kind, subtype)?, range.is_accepted)));
    fitting.max().is_some_and(|(_, is_accepted)| is_accepted)
}

/// An answer as `rmcp` makes it.
pub(super) type Answer = Response<BoxBody<Bytes, Infallible>>;
type AnswerFuture = Pin<Box<dyn Future<Output = Answer> + Send>>;

/// The answer; or a stream of events that begins without it, if it is not there after this time. Dropping the stream drops the future.
pub(super) async fn begin_within(
    limit: Duration,
    answer: impl Future<Output = Answer> + Send + 'static,
) -> Response<UnsyncBoxBody<Bytes, Infallible>> {
    let mut answer: AnswerFuture = Box::pin(answer);
    if let Ok(answer) = tokio::time::timeout(limit, &mut answer).await {
        return answer.map(BodyExt::boxed_unsync);
    }
    let body = SlowBody {
        part: Part::Waiting(answer),
        comment: Box::pin(tokio::time::sleep(Duration::ZERO)),
        limit,
    };
    let mut response = Response::new(body.boxed_unsync());
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(EVENTS));
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    response
}

struct SlowBody {
    part: Part,
    /// When the next comment is due.
    comment: Pin<Box<Sleep>>,
    limit: Duration,
}

enum Part {
    Waiting(AnswerFuture),
    /// The events of the answer as they are.
    Events(BoxBody<Bytes, Infallible>),
    /// Its message, which becomes an event.
    Message(BoxBody<Bytes, Infallible>),
    End,
}

impl Part {
    fn new(answer: Answer) -> Self {
        let (parts, body) = answer.into_parts();
        match (parts.status, media_type(&parts.headers)) {
            (StatusCode::OK, EVENTS) => Self::Events(body),
            (_, "application/json") => Self::Message(body),
            // There is nothing in it that a client could read as a message.
            _ => Self::End,
        }
    }
}

/// The media type of an answer; empty if it has none.
fn media_type(headers: &HeaderMap) -> &str {
    headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

impl Body for SlowBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        loop {
            match &mut self.part {
                Part::Waiting(answer) => match answer.as_mut().poll(cx) {
                    Poll::Ready(answer) => self.part = Part::new(answer),
                    Poll::Pending => {
                        std::task::ready!(self.comment.as_mut().poll(cx));
                        let next = Instant::now() + self.limit;
                        self.comment.as_mut().reset(next);
                        return Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(COMMENT)))));
                    }
                },
                Part::Events(body) => return Pin::new(body).poll_frame(cx),
                Part::Message(body) => {
                    let frame = std::task::ready!(Pin::new(body).poll_frame(cx));
                    let Some(Ok(Ok(message))) = frame.map(|frame| frame.map(Frame::into_data)) else {
                        self.part = Part::End;
                        continue;
                    };
                    let event = [b"data: ", &message[..], b"\n\n"].concat();
                    return Poll::Ready(Some(Ok(Frame::data(event.into()))));
                }
                Part::End => return Poll::Ready(None),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    const JSON: AcceptedForms = AcceptedForms { json: true, events: false, names_events: false };
    const STREAM: AcceptedForms = AcceptedForms { json: false, events: true, names_events: true };
    const ANY: AcceptedForms = AcceptedForms { json: true, events: true, names_events: false };
    const BOTH: AcceptedForms = AcceptedForms { json: true, events: true, names_events: true };

    fn answer(status: u16, kind: &'static str, text: &'static str) -> Answer {
        let response =
            Response::builder().status(status).header(CONTENT_TYPE, kind).header("mcp-session-id", "x");
        response.body(Full::from(text).boxed()).unwrap()
    }

    #[tokio::test]
    async fn an_answer_gets_a_form_that_is_accepted() {
        const RESPONSE: &str = "data: {\"id\":1,\"result\":{}}\n\n";
        const PROGRESS: &str = ": ping\n\ndata: {\"method\":\"n\"}\n\ndata: {\"id\":1,\"result\":{}}\n\n";
        const RESULT: &str = "{\"id\":1,\"result\":{}}";
        for (forms, (status, kind, text), expected) in [
            (JSON, (200, EVENTS, RESPONSE), (200, "application/json", RESULT)),
            (JSON, (200, EVENTS, PROGRESS), (200, "application/json", RESULT)),
            (JSON, (200, EVENTS, ": ping\n\n"), (204, "", "")),
            (JSON, (200, "application/json", RESULT), (200, "application/json", RESULT)),
            (ANY, (200, EVENTS, RESPONSE), (200, "application/json", RESULT)),
            (ANY, (200, EVENTS, PROGRESS), (200, EVENTS, &PROGRESS[": ping\n\n".len()..])),
            (BOTH, (200, EVENTS, RESPONSE), (200, EVENTS, RESPONSE)),
            (STREAM, (200, EVENTS, PROGRESS), (200, EVENTS, PROGRESS)),
            (STREAM, (200, "application/json", RESULT), (200, EVENTS, RESPONSE)),
            (STREAM, (400, "application/json", RESULT), (400, "application/json", RESULT)),
            (JSON, (404, "text/plain", "x"), (404, "text/plain", "x")),
        ] {
            let answer = in_accepted_form(answer(status, kind, text), forms).await;
            assert_eq!(answer.headers()["mcp-session-id"], "x");
            let (status, kind) = (answer.status().as_u16(), media_type(answer.headers()).to_owned());
            let Ok(body) = answer.into_body().collect().await;
            let body = String::from_utf8(body.to_bytes().to_vec()).unwrap();
            assert_eq!((status, kind.as_str(), body.as_str()), expected, "{forms:?} {text}");
        }
    }

    /// Which of JSON, events, and events by name a client with these headers accepts.
    fn accepted(values: &[&str]) -> (bool, bool, bool) {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(ACCEPT, HeaderValue::from_str(value).unwrap());
        }
        let forms = AcceptedForms::new(&headers);
        (forms.json, forms.events, forms.names_events)
    }

    #[test]
    fn the_header_says_which_forms_a_client_accepts() {
        for (values, expected) in [
            (&[][..], (true, true, false)),
            (&[""], (true, true, false)),
            (&["*/*"], (true, true, false)),
            (&["application/*"], (true, false, false)),
            (&["application/json"], (true, false, false)),
            (&["Application/JSON; charset=utf-8"], (true, false, false)),
            (&["text/event-stream"], (false, true, true)),
            (&["text/*"], (false, true, true)),
            (&["application/json, text/event-stream"], (true, true, true)),
            (&["application/json", "text/event-stream"], (true, true, true)),
            (&["application/json;q=0.9,text/event-stream;q=0.1"], (true, true, true)),
            (&["*/*;q=0.1, application/json;q=0"], (false, true, false)),
            (&["*/*, text/event-stream;Q=0.0"], (true, false, false)),
            (&["text/html, */*;q=0.8"], (true, true, false)),
            (&["*/*;q=0"], (false, false, false)),
            (&["text/html"], (false, false, false)),
            (&["image/*, application/xml"], (false, false, false)),
            (&["json"], (false, false, false)),
            (&[",;,/;q"], (false, false, false)),
        ] {
            assert_eq!(accepted(values), expected, "{values:?}");
        }
    }

    const LIMIT: Duration = Duration::from_millis(20);

    async fn text(response: Response<UnsyncBoxBody<Bytes, Infallible>>) -> String {
        String::from_utf8(response.into_body().collect().await.unwrap().to_bytes().to_vec()).unwrap()
    }

    #[tokio::test]
    async fn an_answer_in_time_is_as_it_was() {
        let response = begin_within(LIMIT, async { answer(404, "application/json", "{}") }).await;
        assert_eq!((response.status().as_u16(), text(response).await.as_str()), (404, "{}"));
    }

    #[tokio::test]
    async fn a_late_answer_is_an_event_after_comments() {
        for (status, kind, body, expected) in [
            (200, "application/json", "{\"a\":1}", "data: {\"a\":1}\n\n"),
            (200, EVENTS, "data: {}\n\n", "data: {}\n\n"),
            (500, "text/plain", "no message", ""),
        ] {
            let late = async move {
                tokio::time::sleep(LIMIT * 4).await;
                answer(status, kind, body)
            };
            let response = begin_within(LIMIT, late).await;
            assert_eq!(response.status(), StatusCode::OK);
            assert_eq!(response.headers()[CONTENT_TYPE], EVENTS);
            let text = text(response).await;
            let comment = std::str::from_utf8(COMMENT).unwrap();
            assert!(text.starts_with(comment) && text.replace(comment, "") == expected, "{text}");
        }
    }

    #[tokio::test]
    async fn who_leaves_drops_the_work() {
        let (sender, mut receiver) = tokio::sync::oneshot::channel::<()>();
        let endless = async move {
            let _sender = sender;
            std::future::pending::<Answer>().await
        };
        drop(begin_within(LIMIT, endless).await);
        assert!(matches!(receiver.try_recv(), Err(tokio::sync::oneshot::error::TryRecvError::Closed)));
    }
}
