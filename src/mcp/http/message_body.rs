//! Reads the messages of one caller. A short one takes no space; a long one takes space when its bytes come, not when its head
//! promises them, and keeps it until it was answered.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::BodyExt;
use hyper::body::{Body, Bytes};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use crate::mcp::message::{SentId, request_id};

/// Maximum bytes of a message that a client sends.
pub(super) const MAX_BODY: usize = 16 << 20;
/// Long messages of one caller together that were not answered yet.
const MAX_BODIES: usize = 128 << 20;
/// A message with more bytes is a long one.
const SHORT_BODY: usize = 64 << 10;
/// How long a message may take to arrive, and a long one may wait for space.
const BODY_TIMEOUT: Duration = Duration::from_secs(30);
/// How long the beginning of a message may take that is refused anyway.
const HEAD_TIMEOUT: Duration = Duration::from_secs(1);

/// The messages of one caller that were not answered yet.
pub(super) struct MessageBodies {
    /// Kibibytes that are left.
    space: Arc<Semaphore>,
}

/// Why a message is not read.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum BodyRefusal {
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
