//! Accepts connections, as many as the machine has descriptors for; further ones wait in the queue of the system.
//!
//! A connection that has not shown a token yet holds one of few places: when these are taken, the oldest of them is closed, so that
//! nobody without a token keeps others out by connecting. Of the places that are left, some are kept for each caller.

use std::collections::VecDeque;
use std::io;
use std::net::TcpListener;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::{Notify, Semaphore};
use tokio::task::AbortHandle;
use tokio::time::Sleep;

use super::access::CallerIndex;
use super::endpoint::Endpoint;
use metier_core::error::{Result, SkillError};
use metier_core::policy::CancelToken;

/// Connections at a time, however many descriptors there are.
const MAX_CONNECTIONS: usize = 2048;
/// Connections that have not shown a token.
const MAX_UNAUTHENTICATED: usize = 256;
/// How long one of them has at least, before another takes its place.
const MIN_TIME: Duration = Duration::from_secs(1);
/// Connections that wait in the queue of the system.
const MAX_QUEUE: i32 = 4096;
/// How long the head of a request may take, and a connection may be idle.
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);
/// How long a client may read nothing of an answer.
const READ_TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum bytes that are read before they are handled: the head of a request has to fit.
const BUFFER: usize = 64 << 10;
/// After the system had no descriptor for a connection.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Serves connections until `cancel` is cancelled.
pub(super) async fn accept(
    listener: TcpListener,
    endpoint: Arc<Endpoint>,
    cancel: CancelToken,
) -> Result<()> {
    let start_error = |source| SkillError::io("failed to listen for connections", source);
    // What the standard library listens with is 128, of which a burst of clients would notice.
    lengthen_queue(&listener).map_err(start_error)?;
    listener.set_nonblocking(true).map_err(start_error)?;
    let listener = tokio::net::TcpListener::from_std(listener).map_err(start_error)?;
    let places = Arc::new(Semaphore::new(max_connections()));
    let unauthenticated = Arc::new(Unauthenticated::default());
    let shares = Arc::new(CallerShares::new(max_connections(), endpoint.callers()));
    loop {
        let accepted = async {
            let place = places.clone().acquire_owned().await;
            (place, listener.accept().await)
        };
        let (place, accepted) = tokio::select! {
            accepted = accepted => accepted,
            _ = cancel.cancelled() => return Ok(()),
        };
        let Ok((stream, _)) = accepted else {
            tokio::time::sleep(ACCEPT_PAUSE).await;
            continue;
        };
        stream.set_nodelay(true).ok();
        let registered = tokio::select! {
            registered = unauthenticated.register() => registered,
            _ = cancel.cancelled() => return Ok(()),
        };
        let caller_place = ConnectionPlace::new(registered.clone(), shares.clone());
        let connection = serve(stream, endpoint.clone(), caller_place);
        let task = tokio::spawn(async move {
            connection.await;
            drop(place);
        });
        registered.set_task(task.abort_handle());
    }
}

async fn serve(stream: tokio::net::TcpStream, endpoint: Arc<Endpoint>, place: Arc<ConnectionPlace>) {
    place.unauthenticated.begin();
    let stream = TokioIo::new(TimedStream::new(stream, READ_TIMEOUT));
    let service = hyper::service::service_fn(|request| {
        let (endpoint, place) = (endpoint.clone(), place.clone());
        async move {
            Ok::<_, std::convert::Infallible>(endpoint.answer(request, |caller| place.take(caller)).await)
        }
    });
    let mut builder = hyper::server::conn::http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT).max_buf_size(BUFFER);
    // What a client does wrong on its connection ends the connection and nothing else.
    builder.serve_connection(stream, service).await.ok();
    place.unauthenticated.leave();
}

#[cfg(unix)]
fn lengthen_queue(listener: &TcpListener) -> std::io::Result<()> {
    Ok(rustix::net::listen(listener, MAX_QUEUE)?)
}

#[cfg(not(unix))]
fn lengthen_queue(_: &TcpListener) -> std::io::Result<()> {
    Ok(())
}

/// Half of the descriptors, for runs need some, too.
fn max_connections() -> usize {
    (max_descriptors() / 2).clamp(MAX_UNAUTHENTICATED + 16, MAX_CONNECTIONS)
}

#[cfg(unix)]
fn max_descriptors() -> usize {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX))
}

#[cfg(not(unix))]
fn max_descriptors() -> usize {
    usize::MAX
}

/// The connections of the callers. Half of its equal part is kept for each; the rest is for whoever comes first.
struct CallerShares {
    max: usize,
    /// The connections that are kept for each.
    kept: usize,
    open: Mutex<Vec<usize>>,
}

impl CallerShares {
    /// One caller alone shares with nobody: its further connections wait.
    fn new(max: usize, callers: usize) -> Self {
        let max = if callers < 2 { max } else { max - MAX_UNAUTHENTICATED };
        let kept = (max / callers.max(1) / 2).max(1);
        Self { max, kept, open: Mutex::new(vec![0; callers]) }
    }

    /// A place of this caller, if it has one: it leaves to each other one what is kept for it.
    fn take(self: &Arc<Self>, caller: CallerIndex) -> Option<CallerPlace> {
        let mut open = self.lock();
        let own = *open.get(caller)?;
        let kept_for = |open: usize| self.kept.saturating_sub(open);
        let kept: usize = open.iter().map(|open| kept_for(*open)).sum::<usize>() - kept_for(own);
        if own >= self.kept && open.iter().sum::<usize>() + kept >= self.max {
            return None;
        }
        open[caller] += 1;
        Some(CallerPlace { shares: self.clone(), caller })
    }

    fn lock(&self) -> MutexGuard<'_, Vec<usize>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The place of one connection of a caller.
struct CallerPlace {
    shares: Arc<CallerShares>,
    caller: CallerIndex,
}

impl Drop for CallerPlace {
    fn drop(&mut self) {
        self.shares.lock()[self.caller] -= 1;
    }
}

/// What a connection takes: a place of those without a token, or one of the caller of its last request.
struct ConnectionPlace {
    unauthenticated: UnauthenticatedConnection,
    shares: Arc<CallerShares>,
    caller: Mutex<Option<CallerPlace>>,
}

impl ConnectionPlace {
    fn new(unauthenticated: UnauthenticatedConnection, shares: Arc<CallerShares>) -> Arc<Self> {
        Arc::new(Self { unauthenticated, shares, caller: Mutex::default() })
    }

    /// Takes a place of this caller, which may be another one than before: a proxy passes on requests of many. False if it has none.
    fn take(&self, caller: CallerIndex) -> bool {
        let mut current = self.caller.lock().unwrap_or_else(PoisonError::into_inner);
        if current.as_ref().is_some_and(|known| known.caller == caller) {
            return true;
        }
        let Some(place) = self.shares.take(caller) else { return false };
        *current = Some(place);
        self.unauthenticated.leave();
        true
    }
}

/// The connections that have not shown a token, the oldest first.
#[derive(Default)]
struct Unauthenticated {
    waiting: Mutex<Waiting>,
    is_smaller: Notify,
}

#[derive(Default)]
struct Waiting {
    next_number: u64,
    connections: VecDeque<Waiter>,
}

struct Waiter {
    number: u64,
    /// When the server began to read from it; a server that had no time for it does not close it for that.
    since: Option<Instant>,
    task: Option<AbortHandle>,
}

/// One of them, as long as it is one.
#[derive(Clone)]
struct UnauthenticatedConnection {
    number: u64,
    all: Arc<Unauthenticated>,
}

impl Unauthenticated {
    /// Waits for a place, and takes it from the oldest if that has had its time.
    async fn register(self: &Arc<Self>) -> UnauthenticatedConnection {
        loop {
            let smaller = self.is_smaller.notified();
            let oldest = match self.try_register() {
                Ok(registered) => return registered,
                Err(oldest) => oldest,
            };
            tokio::time::timeout_at((oldest + MIN_TIME).into(), smaller).await.ok();
        }
    }

    /// A place; or else since when the oldest has its own.
    fn try_register(self: &Arc<Self>) -> std::result::Result<UnauthenticatedConnection, Instant> {
        let mut waiting = self.lock();
        if waiting.connections.len() >= MAX_UNAUTHENTICATED
            && let Some(oldest) = waiting.connections.pop_front()
        {
            let since = oldest.since.unwrap_or_else(Instant::now);
            if since.elapsed() < MIN_TIME {
                waiting.connections.push_front(oldest);
                return Err(since);
            }
            if let Some(task) = oldest.task {
                task.abort();
            }
        }
        let number = waiting.next_number;
        waiting.next_number += 1;
        waiting.connections.push_back(Waiter { number, since: None, task: None });
        Ok(UnauthenticatedConnection { number, all: self.clone() })
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl UnauthenticatedConnection {
    fn set_task(&self, task: AbortHandle) {
        self.change(|own| own.task = Some(task));
    }

    fn begin(&self) {
        self.change(|own| own.since = Some(Instant::now()));
    }

    fn change(&self, change: impl FnOnce(&mut Waiter)) {
        let mut waiting = self.all.lock();
        if let Some(own) = waiting.connections.iter_mut().find(|waiter| waiter.number == self.number) {
            change(own);
        }
    }

    /// It has shown its token, or is gone: its place is free.
    fn leave(&self) {
        let mut waiting = self.all.lock();
        if let Some(at) = waiting.connections.iter().position(|waiter| waiter.number == self.number) {
            waiting.connections.remove(at);
            self.all.is_smaller.notify_one();
        }
    }
}

/// A connection that fails when a write makes no progress for a while: who reads nothing holds memory here.
pub(super) struct TimedStream {
    stream: TcpStream,
    limit: Duration,
    /// When the write that waits has to go on.
    deadline: Pin<Box<Sleep>>,
    is_waiting: bool,
}

impl TimedStream {
    pub(super) fn new(stream: TcpStream, limit: Duration) -> Self {
        Self { stream, limit, deadline: Box::pin(tokio::time::sleep(limit)), is_waiting: false }
    }

    fn timed<T>(
        &mut self,
        cx: &mut Context<'_>,
        write: impl FnOnce(Pin<&mut TcpStream>, &mut Context<'_>) -> Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if let Poll::Ready(result) = write(Pin::new(&mut self.stream), cx) {
            self.is_waiting = false;
            return Poll::Ready(result);
        }
        if !self.is_waiting {
            self.is_waiting = true;
            self.deadline.as_mut().reset(tokio::time::Instant::now() + self.limit);
        }
        self.deadline.as_mut().poll(cx).map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl AsyncRead for TimedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl AsyncWrite for TimedStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.timed(cx, |stream, cx| stream.poll_write(cx, bytes))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.timed(cx, |stream, cx| stream.poll_write_vectored(cx, parts))
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.timed(cx, AsyncWrite::poll_flush)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.timed(cx, AsyncWrite::poll_shutdown)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt;

    use super::*;

    #[test]
    fn connections_are_divided_among_the_callers() {
        for (max, callers, alone, kept) in [
            (2048, 1, 2048, 1024),
            (2048, 4, 1120, 224),
            (512, 10, 148, 12),
            (272, 3, 12, 2),
            (272, 16, 1, 1),
        ] {
            let shares = Arc::new(CallerShares::new(max, callers));
            let take = |caller| std::iter::from_fn(|| shares.take(caller)).collect::<Vec<_>>();
            let first = take(0);
            assert_eq!(first.len(), alone, "{max} {callers}");
            let others: Vec<_> = (1..callers).map(take).collect();
            assert!(others.iter().all(|places| places.len() == kept), "{max} {callers}");
            drop(first);
            // What is given back is for whoever comes first.
            let more = if callers > 1 { take(1).len() } else { kept };
            assert!(more >= alone - kept, "{max} {callers}: {more}");
        }
    }

    #[test]
    fn a_connection_is_one_of_the_caller_of_its_last_request() {
        let shares = Arc::new(CallerShares::new(272, 16));
        let unauthenticated = Arc::new(Unauthenticated::default());
        let place = || ConnectionPlace::new(unauthenticated.try_register().unwrap(), shares.clone());
        let (first, second) = (place(), place());
        assert!(first.take(3) && first.take(3) && !second.take(3) && second.take(4));
        assert!(unauthenticated.lock().connections.is_empty());
        // A connection that goes on with the token of another caller is one of that caller.
        drop(second);
        assert!(first.take(4) && place().take(3) && !place().take(4));
    }

    #[tokio::test]
    async fn who_reads_nothing_is_given_up_and_who_reads_is_not() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let _silent = TcpStream::connect(address).await.unwrap();
        let (stream, _) = listener.accept().await.unwrap();
        let mut timed = TimedStream::new(stream, Duration::from_millis(50));
        let error = timed.write_all(&vec![0; 64 << 20]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);

        let mut reader = TcpStream::connect(address).await.unwrap();
        let (stream, _) = listener.accept().await.unwrap();
        let mut timed = TimedStream::new(stream, Duration::from_secs(5));
        let reading = tokio::spawn(async move { tokio::io::copy(&mut reader, &mut tokio::io::sink()).await });
        timed.write_all(&vec![0; 16 << 20]).await.unwrap();
        timed.shutdown().await.unwrap();
        assert_eq!(reading.await.unwrap().unwrap(), 16 << 20);
    }
}
