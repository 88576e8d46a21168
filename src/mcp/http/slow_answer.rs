//! An answer to a call that takes long: it begins before the response is there, as a stream of events, so that no client and no
//! proxy gives up on it.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use http_body_util::BodyExt;
use http_body_util::combinators::{BoxBody, UnsyncBoxBody};
use hyper::body::{Body, Bytes, Frame};
use tokio::time::{Instant, Sleep};

/// The media type of a stream of events.
pub(super) const EVENTS: &str = "text/event-stream";
/// What a client leaves out of a stream of events.
const COMMENT: &[u8] = b": at work\n\n";

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
pub(super) fn media_type(headers: &HeaderMap) -> &str {
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
    use super::*;
    use http_body_util::Full;

    const LIMIT: Duration = Duration::from_millis(20);

    fn answer(status: u16, kind: &'static str, text: &'static str) -> Answer {
        let response = Response::builder().status(status).header(CONTENT_TYPE, kind);
        response.body(Full::from(text).boxed()).unwrap()
    }

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
