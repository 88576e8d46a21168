//! The thread of one caller, which reads its messages and makes its answers: however large they are, they take no time of the others.
//!
//! Only connections are left to the thread of the server: it passes on the bytes of an answer as they come.

use std::convert::Infallible;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use http::Response;
use http_body_util::BodyExt;
use hyper::body::{Body, Bytes, Frame, SizeHint};
use tokio::runtime::{Builder, Handle};
use tokio::sync::{mpsc, oneshot};

/// Threads for callers; further callers share them.
const MAX_THREADS: usize = 64;
/// Threads that read files for the requests of one caller, and measure its answers.
const MAX_BLOCKING: usize = 4;

/// A thread that starts with the first request, and ends when this is dropped.
#[derive(Default)]
pub(super) struct CallerThread(Mutex<Option<Executor>>);

struct Executor {
    handle: Handle,
    /// Ends the thread when it is dropped.
    #[expect(dead_code, reason = "held as long as the thread is needed")]
    end: oneshot::Sender<()>,
}

/// A body that is made on the thread of its caller.
pub(super) struct RelayedBody {
    frames: mpsc::Receiver<Frame<Bytes>>,
    size: SizeHint,
}

impl CallerThread {
    /// A thread for each of so many callers.
    pub(super) fn for_callers(callers: usize) -> Vec<Arc<Self>> {
        let threads: Vec<Arc<Self>> = (0..callers.min(MAX_THREADS)).map(|_| Arc::default()).collect();
        threads.iter().cycle().take(callers).cloned().collect()
    }

    /// The answer, and its body, both made on the thread; `None` if the thread cannot be started or ends before. Whoever drops this
    /// or the body drops the answer.
    pub(super) async fn answer<B>(
        &self,
        answer: impl Future<Output = Response<B>> + Send + 'static,
    ) -> Option<Response<RelayedBody>>
    where
        B: Body<Data = Bytes, Error = Infallible> + Send + Unpin + 'static,
    {
        let (head, response) = oneshot::channel();
        self.handle().ok()?.spawn(relay(answer, head));
        response.await.ok()
    }

    fn handle(&self) -> io::Result<Handle> {
        let mut executor = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(executor) = &*executor {
            return Ok(executor.handle.clone());
        }
        let started = start()?;
        Ok(executor.insert(started).handle.clone())
    }
}

fn start() -> io::Result<Executor> {
    let runtime = Builder::new_current_thread()
        .enable_time()
        .max_blocking_threads(MAX_BLOCKING)
        .thread_name("metier-mcp-read")
        .build()?;
    let (handle, (end, ended)) = (runtime.handle().clone(), oneshot::channel());
    std::thread::Builder::new().name("metier-mcp-call".to_owned()).spawn(move || {
        runtime.block_on(ended).ok();
        // A file that hangs must not hang the end.
        runtime.shutdown_background();
    })?;
    Ok(Executor { handle, end })
}

async fn relay<B>(answer: impl Future<Output = Response<B>>, mut head: oneshot::Sender<Response<RelayedBody>>)
where
    B: Body<Data = Bytes, Error = Infallible> + Unpin,
{
    let response = tokio::select! {
        response = answer => response,
        () = head.closed() => return,
    };
    let (parts, mut body) = response.into_parts();
    let (sender, frames) = mpsc::channel(1);
    let relayed = RelayedBody { frames, size: body.size_hint() };
    if head.send(Response::from_parts(parts, relayed)).is_err() {
        return;
    }
    loop {
        let frame = tokio::select! {
            frame = body.frame() => frame,
            () = sender.closed() => return,
        };
        let Some(Ok(frame)) = frame else { return };
        if sender.send(frame).await.is_err() {
            return;
        }
    }
}

impl Body for RelayedBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.frames.poll_recv(cx).map(|frame| frame.map(Ok))
    }

    fn size_hint(&self) -> SizeHint {
        self.size
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, channel};
    use std::thread::{ThreadId, current};
    use std::time::Duration;

    use http_body_util::Full;

    use super::*;

    /// A body that notes on which threads it is made.
    struct Noted(Full<Bytes>, Arc<Mutex<Vec<ThreadId>>>);

    impl Body for Noted {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            cx: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            self.1.lock().unwrap().push(current().id());
            Pin::new(&mut self.0).poll_frame(cx)
        }

        fn size_hint(&self) -> SizeHint {
            self.0.size_hint()
        }
    }

    fn full(text: &str) -> Response<Full<Bytes>> {
        Response::new(Full::from(text.to_owned()))
    }

    #[tokio::test]
    async fn an_answer_that_takes_its_thread_keeps_no_other_caller_waiting() {
        let threads = CallerThread::for_callers(2);
        let (done, other_is_answered): (_, Receiver<()>) = channel();
        let thread = threads[0].clone();
        let long = tokio::spawn(async move {
            let work = async move {
                other_is_answered.recv_timeout(Duration::from_secs(30)).unwrap();
                full("long")
            };
            thread.answer(work).await.unwrap().into_body().collect().await.unwrap().to_bytes()
        });
        tokio::task::yield_now().await;
        let short = threads[1].answer(async { full("short") }).await.unwrap();
        assert_eq!(short.body().size_hint().exact(), Some(5));
        assert_eq!(short.into_body().collect().await.unwrap().to_bytes(), "short");
        done.send(()).unwrap();
        assert_eq!(long.await.unwrap(), "long");
    }

    #[tokio::test]
    async fn an_answer_and_its_body_are_made_on_the_thread_of_the_caller() {
        let thread = CallerThread::default();
        let made = Arc::<Mutex<Vec<ThreadId>>>::default();
        let noted = made.clone();
        let answer = async move {
            noted.lock().unwrap().push(current().id());
            Response::new(Noted(Full::from("text"), noted))
        };
        let body = thread.answer(answer).await.unwrap().into_body();
        assert_eq!(body.collect().await.unwrap().to_bytes(), "text");
        let made = made.lock().unwrap();
        assert!(made.len() > 1 && made.iter().all(|thread| *thread == made[0] && *thread != current().id()));
    }

    #[tokio::test]
    async fn who_leaves_drops_the_answer_and_the_end_drops_all() {
        let thread = CallerThread::default();
        let endless = |dropped: oneshot::Sender<()>| async move {
            let _dropped = dropped;
            std::future::pending::<Response<Full<Bytes>>>().await
        };
        let (sender, dropped) = oneshot::channel();
        let left = tokio::time::timeout(Duration::from_millis(20), thread.answer(endless(sender))).await;
        assert!(left.is_err() && dropped.await.is_err());
        let ((sender, dropped), (head, _response)) = (oneshot::channel(), oneshot::channel());
        thread.handle().unwrap().spawn(relay(endless(sender), head));
        drop(thread);
        assert!(dropped.await.is_err());
    }

    #[test]
    fn many_callers_share_threads() {
        let threads = CallerThread::for_callers(MAX_THREADS + 2);
        assert!(
            Arc::ptr_eq(&threads[1], &threads[MAX_THREADS + 1]) && !Arc::ptr_eq(&threads[0], &threads[1])
        );
    }
}
