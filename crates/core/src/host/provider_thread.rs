//! Threads on which providers are called, so that one that blocks cannot hold a run beyond its end.

use std::cell::RefCell;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::Builder;
use std::time::Duration;

use super::run_id::RunThreadGuard;
use crate::error::{ErrorKind, Result, SkillError};
use crate::policy::{CancelToken, ProviderPermit};

type Job = Box<dyn FnOnce() + Send>;

/// A thread that makes one call at a time. It ends with the last sender.
struct ProviderThread(Sender<Job>);

thread_local! {
    /// The idle provider thread of this thread, which makes its calls one after the other.
    static IDLE: RefCell<Option<ProviderThread>> = const { RefCell::new(None) };
}

/// Why the wait for a provider ended.
enum Event<T> {
    Answered(Result<T>),
    Stopped,
}

/// Does work of a provider on another thread and returns its result; `unavailable` if too many calls of the run are still under
/// way, some of which it may no longer wait for. If the token stops first, returns the error of the stop; if
/// the work takes longer than the limit, `unavailable`. The thread is left alone then, and ends when the work does.
pub(super) fn run_on_provider_thread<T: Send + 'static>(
    token: &CancelToken,
    permit: Option<ProviderPermit>,
    limit: Duration,
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    let Some(permit) = permit else {
        let sentence = "too many calls of providers are still under way in this run";
        return Err(SkillError::new(ErrorKind::Unavailable, sentence));
    };
    let (sender, events) = channel();
    let stopped = sender.clone();
    // Receiving fails only in a run that has ended.
    let _guard = token.on_stop_after_work(move |_| drop(stopped.send(Event::Stopped)));
    let span = tracing::Span::current();
    let job = move || {
        let for_run = RunThreadGuard::enter();
        let answer = span.in_scope(work);
        drop(for_run);
        drop(permit);
        drop(sender.send(Event::Answered(answer)));
    };
    let thread = IDLE.take().map_or_else(ProviderThread::start, Ok)?;
    thread.0.send(Box::new(job)).map_err(|_| unavailable())?;
    match events.recv_timeout(limit) {
        Ok(Event::Answered(answer)) => {
            IDLE.set(Some(thread));
            answer
        }
        Ok(Event::Stopped) | Err(_) => token.check().and_then(|()| {
            let sentence = format!("a provider did not answer within {} s", limit.as_secs());
            Err(SkillError::new(ErrorKind::Unavailable, sentence))
        }),
    }
}

impl ProviderThread {
    fn start() -> Result<Self> {
        let (sender, jobs): (Sender<Job>, Receiver<Job>) = channel();
        Builder::new()
            .name("metier-provider".into())
            .spawn(move || jobs.into_iter().for_each(|job| job()))
            .map_err(|source| unavailable().with_source(source))?;
        Ok(Self(sender))
    }
}

fn unavailable() -> SkillError {
    SkillError::new(ErrorKind::Unavailable, "no thread could be started to call a provider on")
}
