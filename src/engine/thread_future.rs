//! Work on a thread of its own, as a future that any executor can poll.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use crate::engine::run_threads;
use metier_core::error::{ErrorKind, Result, SkillError};
use metier_core::host::catch_panic;
use metier_core::policy::CancelToken;

/// The result of work on another thread.
pub(super) struct ThreadResult<T>(Arc<Mutex<ResultState<T>>>);

struct ResultState<T> {
    result: Option<T>,
    waker: Option<Waker>,
}

impl<T> Default for ThreadResult<T> {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(ResultState { result: None, waker: None })))
    }
}

impl<T: Send + 'static> ThreadResult<T> {
    /// Starts the work. If it panics, the result is what `failed` makes of the error.
    pub(super) fn start(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
        failed: impl FnOnce(SkillError) -> T + Send + 'static,
    ) -> io::Result<()> {
        let shared = self.0.clone();
        let work = move || {
            let result = catch_panic("the engine", ErrorKind::Unavailable, || Ok(work()));
            let result = result.unwrap_or_else(failed);
            let waker = {
                let mut state = lock(&shared);
                state.result = Some(result);
                state.waker.take()
            };
            // A waker may poll immediately, on this thread.
            if let Some(waker) = waker {
                waker.wake();
            }
        };
        run_threads::start(work)
    }

    /// The result, once it is there. The waker is called when it is.
    pub(super) fn poll(&self, waker: &Waker) -> Poll<T> {
        let mut state = lock(&self.0);
        let replaced = state.waker.replace(waker.clone());
        let result = state.result.take();
        drop(state);
        drop(replaced);
        result.map_or(Poll::Pending, Poll::Ready)
    }
}

/// Work of an engine besides runs, such as [`Engine::explain_async`](super::Engine::explain_async).
///
/// Nothing starts before the first poll. It works on every executor; dropping it cancels the work as far as it can be cancelled,
/// and its result is dropped.
#[must_use = "a future runs when it is polled"]
pub struct EngineFuture<T> {
    work: Option<Box<dyn FnOnce() -> Result<T> + Send>>,
    cancel: CancelToken,
    result: ThreadResult<Result<T>>,
}

impl<T: Send + 'static> EngineFuture<T> {
    pub(super) fn new(cancel: CancelToken, work: impl FnOnce() -> Result<T> + Send + 'static) -> Self {
        Self { work: Some(Box::new(work)), cancel, result: ThreadResult::default() }
    }
}

impl<T: Send + 'static> Future for EngineFuture<T> {
    type Output = Result<T>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<T>> {
        if let Some(work) = self.work.take()
            && let Err(source) = self.result.start(work, Err)
        {
            return Poll::Ready(Err(thread_error("the work of the engine", source)));
        }
        self.result.poll(context.waker())
    }
}

impl<T> Drop for EngineFuture<T> {
    fn drop(&mut self) {
        self.cancel.cancel();
    }
}

/// `unavailable`: the system starts no further thread.
pub(super) fn thread_error(purpose: &str, source: io::Error) -> SkillError {
    let error = SkillError::new(ErrorKind::Unavailable, format!("no thread could be started for {purpose}"));
    error.with_source(source)
}

fn lock<T>(state: &Mutex<ResultState<T>>) -> MutexGuard<'_, ResultState<T>> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::task::Wake;
    use std::time::Duration;

    use super::*;

    struct Notice(std::sync::mpsc::Sender<()>);

    impl Wake for Notice {
        fn wake(self: Arc<Self>) {
            let _ = self.0.send(());
        }
    }

    #[test]
    fn work_that_panics_ends_its_future() {
        let (sender, notices) = channel();
        let waker = Waker::from(Arc::new(Notice(sender)));
        let (go, waits) = channel::<()>();
        let result = ThreadResult::<Result<()>>::default();
        let work = move || {
            let _ = waits.recv();
            panic!("a defect")
        };
        result.start(work, Err).unwrap();
        assert!(result.poll(&waker).is_pending());
        go.send(()).unwrap();
        notices.recv_timeout(Duration::from_secs(10)).unwrap();
        let Poll::Ready(ended) = result.poll(&waker) else { panic!("it is still pending") };
        let error = ended.unwrap_err();
        assert_eq!(
            (error.kind(), error.message()),
            (ErrorKind::Unavailable, "the engine panicked: a defect")
        );
    }
}
