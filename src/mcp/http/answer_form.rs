//! Gives an answer the form that its client accepts: one message of JSON, or a stream of events.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use http::response::Parts;
use http::{HeaderValue, Response, StatusCode};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Empty, Full};
use hyper::body::{Body, Bytes, Frame};
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::accept::AcceptedForms;
use super::slow_answer::{Answer, EVENTS, media_type};

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

#[cfg(test)]
mod tests {
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
}
