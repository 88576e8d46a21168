//! Ends the command when its work does not end: a thread that waits for a stop, gives the work a grace period, prints the error
//! and ends the process.
//!
//! Work in process ends by itself after its token was stopped if it checks the token. What does not check it, such as a library
//! function, a parser or the kernel, ends only with the process. What the process has started ends with it.

use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use metier::error::{ErrorKind, SkillError};
use metier::host::{Event, EventKind, LogLine, Observer};
use metier::policy::{CancelToken, StopCause};
use metier_core::alloc_counter::can_start_thread;

/// How long work may go on after it was stopped. Without optimization everything takes several times as long.
const GRACE_PERIOD: Duration = Duration::from_millis(if cfg!(debug_assertions) { 500 } else { 80 });

/// How long a command that runs no script may take, and how long a run may take until it begins.
pub const LOADING_TIMEOUT: Duration = Duration::from_mins(1);

/// How long it may take until the reader has taken the last output.
const PRINT_TIMEOUT: Duration = Duration::from_secs(1);

/// How long a cleanup after processes may take before the command ends without it.
const CLEANUP_TIMEOUT: Duration = Duration::from_secs(10);

/// Prints the error of a command that is ended.
type ErrorPrinter = Box<dyn FnOnce(&SkillError) + Send>;
/// Whether a cleanup is going on, which ends by itself.
type CleanupCheck = Box<dyn Fn() -> bool + Send>;

/// The watchdog of one command. Clones share its state.
#[derive(Clone)]
pub struct ExitWatchdog(Arc<Shared>);

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    exit: fn(u8),
}

struct State {
    /// When the process ends, and the error it ends with.
    exit_at: Option<(Instant, SkillError)>,
    phase: Phase,
    error_printer: Option<ErrorPrinter>,
    is_cleaning_up: CleanupCheck,
}

#[derive(PartialEq)]
enum Phase {
    /// No thread watches yet.
    Idle,
    Watching,
    /// The thread prints the error and ends the process.
    Exiting,
    /// The command has its result.
    Finished,
}

impl ExitWatchdog {
    /// A watchdog that prints the error with `printer`; no thread runs before there is something to wait for.
    pub fn new(printer: impl FnOnce(&SkillError) + Send + 'static) -> Self {
        Self::with_exit(printer, |code| {
            super::prompt::restore_terminal();
            std::process::exit(code.into())
        })
    }

    fn with_exit(printer: impl FnOnce(&SkillError) + Send + 'static, exit: fn(u8)) -> Self {
        let state = State {
            exit_at: None,
            phase: Phase::Idle,
            error_printer: Some(Box::new(printer)),
            is_cleaning_up: Box::new(|| false),
        };
        Self(Arc::new(Shared { state: Mutex::new(state), changed: Condvar::new(), exit }))
    }

    /// Ends the command if it is still loading after [`LOADING_TIMEOUT`].
    pub fn start_loading_timeout(&self) {
        let error = SkillError::new(
            ErrorKind::Timeout,
            format!("the command was still loading skills after {} seconds", LOADING_TIMEOUT.as_secs()),
        );
        self.arm(
            Instant::now() + LOADING_TIMEOUT,
            error.with_help("name fewer skills, or look for a file on a slow or hanging disk"),
        );
    }

    /// Replaces the function that prints the error.
    pub fn set_error_printer(&self, printer: impl FnOnce(&SkillError) + Send + 'static) {
        self.0.lock().error_printer = Some(Box::new(printer));
    }

    /// Sets the check whether a cleanup is going on, which the process waits for before it ends.
    pub fn wait_for_cleanup(&self, is_cleaning_up: impl Fn() -> bool + Send + 'static) {
        self.0.lock().is_cleaning_up = Box::new(is_cleaning_up);
    }

    /// Starts the grace period when the token stops.
    pub fn watch_token(&self, token: &CancelToken) -> metier::policy::StopGuard {
        let watch = self.clone();
        token.on_stop(move |cause| watch.start_grace_period(cause))
    }

    /// The work was stopped: the process ends after the grace period.
    pub fn start_grace_period(&self, cause: StopCause) {
        self.arm(Instant::now() + GRACE_PERIOD, cause.error());
    }

    /// The work has ended, or is loaded: nothing ends the process now.
    pub fn disarm(&self) {
        let mut state = self.0.lock();
        while state.phase == Phase::Exiting {
            // The process is about to end, and its error is being finished.
            state = self.0.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.exit_at = None;
    }

    /// The command has its result and prints it itself.
    pub fn finish(&self) {
        self.disarm();
        self.0.lock().phase = Phase::Finished;
        self.0.changed.notify_all();
    }

    /// The command was interrupted when it had its result: it ends soon, even if nobody reads the result.
    pub fn start_print_timeout(&self) {
        let exit = self.0.exit;
        let exit_later = move || {
            std::thread::sleep(PRINT_TIMEOUT);
            exit(ErrorKind::Cancelled.exit_code());
        };
        if std::thread::Builder::new().spawn(exit_later).is_err() {
            exit(ErrorKind::Cancelled.exit_code());
        }
    }

    fn arm(&self, time: Instant, error: SkillError) {
        let mut state = self.0.lock();
        if matches!(state.phase, Phase::Exiting | Phase::Finished)
            || state.exit_at.as_ref().is_some_and(|(due, _)| *due <= time)
        {
            return;
        }
        state.exit_at = Some((time, error));
        if state.phase == Phase::Idle {
            let watch = self.clone();
            let started = std::thread::Builder::new().name("metier-watchdog".into());
            if can_start_thread() && started.spawn(move || watch.run()).is_ok() {
                state.phase = Phase::Watching;
            }
        }
        self.0.changed.notify_all();
    }

    fn run(&self) {
        let mut state = self.0.lock();
        let mut cleanup_deadline = None;
        while state.phase == Phase::Watching {
            let now = Instant::now();
            state = match &state.exit_at {
                None => {
                    cleanup_deadline = None;
                    self.0.changed.wait(state).unwrap_or_else(PoisonError::into_inner)
                }
                Some((due, _)) if now < *due => {
                    let left = due.saturating_duration_since(now);
                    self.0.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0
                }
                Some(_)
                    if (state.is_cleaning_up)()
                        && now < *cleanup_deadline.get_or_insert(now + CLEANUP_TIMEOUT) =>
                {
                    let (locked, _) = self
                        .0
                        .changed
                        .wait_timeout(state, Duration::from_millis(20))
                        .unwrap_or_else(PoisonError::into_inner);
                    locked
                }
                Some(_) => return self.exit(state),
            };
        }
    }

    fn exit(&self, mut state: MutexGuard<'_, State>) {
        let Some((_, error)) = state.exit_at.take() else { return };
        state.phase = Phase::Exiting;
        let code = error.kind().exit_code();
        let printer = state.error_printer.take();
        drop(state);
        // The work that hangs may hold the lock of the stream that the error is printed to.
        let (sender, finished) = channel();
        let print = move || {
            if let Some(printer) = printer {
                printer(&error);
            }
            sender.send(()).ok();
        };
        if std::thread::Builder::new().spawn(print).is_ok() {
            let (Ok(()) | Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected)) =
                finished.recv_timeout(PRINT_TIMEOUT);
        }
        (self.0.exit)(code);
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Starts the grace period when a run is stopped, keeps the log where it is part of the outcome, and passes all events on.
pub struct WatchdogObserver {
    watchdog: ExitWatchdog,
    log: Option<Mutex<Vec<LogLine>>>,
    next: Option<Arc<dyn Observer>>,
}

impl WatchdogObserver {
    /// For a run whose outcome is printed, log included.
    pub fn with_log(watchdog: ExitWatchdog) -> Self {
        Self { watchdog, log: Some(Mutex::default()), next: None }
    }

    /// For a run that `next` observes as well.
    pub fn with_observer(watchdog: ExitWatchdog, next: Arc<dyn Observer>) -> Self {
        Self { watchdog, log: None, next: Some(next) }
    }

    /// For a run without another observer.
    pub fn new(watchdog: ExitWatchdog) -> Self {
        Self { watchdog, log: None, next: None }
    }

    /// What was logged so far.
    pub fn log(&self) -> Vec<LogLine> {
        self.log
            .as_ref()
            .map(|log| std::mem::take(&mut *log.lock().unwrap_or_else(PoisonError::into_inner)))
            .unwrap_or_default()
    }
}

impl Observer for WatchdogObserver {
    fn on_event(&self, event: &Event) {
        match (&event.kind, &self.log) {
            // A run that is called may have to stop earlier than the command.
            (EventKind::Stopping { cause, .. }, _) if event.caller.is_none() => {
                self.watchdog.start_grace_period(*cause);
            }
            (EventKind::Log(line), Some(log)) => {
                log.lock().unwrap_or_else(PoisonError::into_inner).push(line.clone());
            }
            _ => {}
        }
        self.next.iter().for_each(|next| next.on_event(event));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU8, Ordering};

    fn wait_until(condition: impl Fn() -> bool) {
        let deadline = Instant::now() + Duration::from_secs(20);
        while !condition() {
            assert!(Instant::now() < deadline);
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    #[test]
    fn work_that_does_not_end_is_ended_with_its_error() {
        static CODE: AtomicU8 = AtomicU8::new(0);
        let (sender, finished) = channel();
        let printer = move |error: &SkillError| sender.send(error.kind()).unwrap();
        let watch = ExitWatchdog::with_exit(printer, |code| CODE.store(code, Ordering::SeqCst));
        let token = CancelToken::new();
        let _following = watch.watch_token(&token);
        watch.start_loading_timeout();
        watch.start_grace_period(StopCause::Timeout);
        token.cancel();
        wait_until(|| CODE.load(Ordering::SeqCst) == 5);
        assert_eq!(finished.recv().unwrap(), ErrorKind::Timeout, "the first cause stays");
    }

    #[test]
    fn the_process_ends_even_if_printing_hangs() {
        static CODE: AtomicU8 = AtomicU8::new(0);
        let hangs = |_: &SkillError| std::thread::sleep(Duration::from_mins(1));
        let watch = ExitWatchdog::with_exit(hangs, |code| CODE.store(code, Ordering::SeqCst));
        watch.start_grace_period(StopCause::Cancelled);
        wait_until(|| CODE.load(Ordering::SeqCst) == 130);
    }

    #[test]
    fn work_that_ends_in_time_or_by_itself_is_not_interrupted() {
        static ENDED: AtomicU8 = AtomicU8::new(0);
        let watch = ExitWatchdog::with_exit(|_| {}, |_| ENDED.store(1, Ordering::SeqCst));
        watch.start_grace_period(StopCause::Timeout);
        watch.disarm();
        std::thread::sleep(2 * GRACE_PERIOD);
        watch.wait_for_cleanup(|| true);
        watch.start_grace_period(StopCause::Timeout);
        std::thread::sleep(2 * GRACE_PERIOD);
        watch.finish();
        watch.start_grace_period(StopCause::Cancelled);
        std::thread::sleep(2 * GRACE_PERIOD);
        assert_eq!(ENDED.load(Ordering::SeqCst), 0);
    }
}
