//! What ends the command when its work does not: a thread that waits for a stop, gives the work a moment, says the error and
//! ends the process.
//!
//! Work in process ends by itself when its token stops, as long as it asks. What does not ask, be it a library function, a parser
//! or the kernel, cannot be ended but with its process. What the process has started dies with it.

use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use metier::error::{ErrorKind, SkillError};
use metier::host::{LogLine, Observer, Progress, StepEvent};
use metier::policy::{CancelToken, StopCause};

/// How long work that was told to stop may go on. Without optimization everything takes several times as long.
const GRACE_PERIOD: Duration = Duration::from_millis(if cfg!(debug_assertions) { 500 } else { 80 });

/// How long commands may take that run nothing, and a run until it begins. Nothing honest takes that long.
pub const LOADING_TIMEOUT: Duration = Duration::from_mins(1);

/// How long it may take until somebody reads the last words.
const PRINT_TIMEOUT: Duration = Duration::from_secs(1);

/// How long work may take that ends by itself, since it is processes that are killed and cleaned up after.
const CLEANUP_TIMEOUT: Duration = Duration::from_secs(10);

/// Says the error of a command that is ended.
type ErrorPrinter = Box<dyn FnOnce(&SkillError) + Send>;
/// Whether the work that goes on will end by itself.
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
    /// The thread has the last word.
    Exiting,
    /// The command has its answer.
    Finished,
}

impl ExitWatchdog {
    /// A watchdog that prints the error with `words`; no thread runs before there is something to wait for.
    pub fn new(words: impl FnOnce(&SkillError) + Send + 'static) -> Self {
        Self::with_exit(words, |code| std::process::exit(code.into()))
    }

    fn with_exit(words: impl FnOnce(&SkillError) + Send + 'static, end: fn(u8)) -> Self {
        let state = State {
            exit_at: None,
            phase: Phase::Idle,
            error_printer: Some(Box::new(words)),
            is_cleaning_up: Box::new(|| false),
        };
        Self(Arc::new(Shared { state: Mutex::new(state), changed: Condvar::new(), exit: end }))
    }

    /// Ends the command unless it has loaded what it is about in time.
    pub fn start_loading_timeout(&self) {
        let error = SkillError::new(
            ErrorKind::Timeout,
            format!("this did not end within {} seconds", LOADING_TIMEOUT.as_secs()),
        );
        self.arm(
            Instant::now() + LOADING_TIMEOUT,
            error.with_help("name fewer skills, or find the file that takes so long to read"),
        );
    }

    /// Says in other words.
    pub fn set_error_printer(&self, words: impl FnOnce(&SkillError) + Send + 'static) {
        self.0.lock().error_printer = Some(Box::new(words));
    }

    /// Asks this before it ends the process: whether what goes on will end by itself.
    pub fn wait_for_cleanup(&self, ends_itself: impl Fn() -> bool + Send + 'static) {
        self.0.lock().is_cleaning_up = Box::new(ends_itself);
    }

    /// From the moment the token stops the work has its moment left.
    pub fn watch_token(&self, token: &CancelToken) -> metier::policy::StopGuard {
        let watch = self.clone();
        token.on_stop(move |cause| watch.start_grace_period(cause))
    }

    /// The work was told to stop.
    pub fn start_grace_period(&self, cause: StopCause) {
        self.arm(Instant::now() + GRACE_PERIOD, cause.error());
    }

    /// What was told to stop has ended, or is loaded.
    pub fn disarm(&self) {
        let mut state = self.0.lock();
        while state.phase == Phase::Exiting {
            // The process ends at any moment, and its words are said.
            state = self.0.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.exit_at = None;
    }

    /// The command has its answer, and says it itself.
    pub fn finish(&self) {
        self.disarm();
        self.0.lock().phase = Phase::Finished;
        self.0.changed.notify_all();
    }

    /// The command was interrupted as it had its answer: whoever does not read that soon keeps nobody from ending.
    pub fn start_print_timeout(&self) {
        let end = self.0.exit;
        let ended = move || {
            std::thread::sleep(PRINT_TIMEOUT);
            end(ErrorKind::Cancelled.exit_code());
        };
        if std::thread::Builder::new().spawn(ended).is_err() {
            end(ErrorKind::Cancelled.exit_code());
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
            let started = std::thread::Builder::new().name("metier-last-resort".into());
            if started.spawn(move || watch.run()).is_ok() {
                state.phase = Phase::Watching;
            }
        }
        self.0.changed.notify_all();
    }

    fn run(&self) {
        let mut state = self.0.lock();
        let mut patience = None;
        while state.phase == Phase::Watching {
            let now = Instant::now();
            state = match &state.exit_at {
                None => {
                    patience = None;
                    self.0.changed.wait(state).unwrap_or_else(PoisonError::into_inner)
                }
                Some((due, _)) if now < *due => {
                    let left = due.saturating_duration_since(now);
                    self.0.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0
                }
                Some(_)
                    if (state.is_cleaning_up)() && now < *patience.get_or_insert(now + CLEANUP_TIMEOUT) =>
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
        let words = state.error_printer.take();
        drop(state);
        // Whoever hangs may hold the very stream that the words go to.
        let (said, heard) = channel();
        let speak = move || {
            if let Some(words) = words {
                words(&error);
            }
            said.send(()).ok();
        };
        if std::thread::Builder::new().spawn(speak).is_ok() {
            let (Ok(()) | Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected)) =
                heard.recv_timeout(PRINT_TIMEOUT);
        }
        (self.0.exit)(code);
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Hears of a run when it is told to stop, keeps what it logs where that is part of the answer, and passes everything on.
pub struct WatchdogObserver {
    watchdog: ExitWatchdog,
    log: Option<Mutex<Vec<LogLine>>>,
    next: Option<Arc<dyn Observer>>,
}

impl WatchdogObserver {
    /// For a run whose outcome is printed, log included.
    pub fn with_log(watch: ExitWatchdog) -> Self {
        Self { watchdog: watch, log: Some(Mutex::default()), next: None }
    }

    /// For a run that this one observes.
    pub fn with_observer(watch: ExitWatchdog, next: Arc<dyn Observer>) -> Self {
        Self { watchdog: watch, log: None, next: Some(next) }
    }

    /// For a run nobody observes.
    pub fn new(watch: ExitWatchdog) -> Self {
        Self { watchdog: watch, log: None, next: None }
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
    fn on_log(&self, line: &LogLine) {
        if let Some(log) = &self.log {
            log.lock().unwrap_or_else(PoisonError::into_inner).push(line.clone());
        }
        self.next.iter().for_each(|next| next.on_log(line));
    }

    fn on_progress(&self, progress: &Progress) {
        self.next.iter().for_each(|next| next.on_progress(progress));
    }

    fn on_step_progress(&self, step: usize, progress: &Progress) {
        self.next.iter().for_each(|next| next.on_step_progress(step, progress));
    }

    fn on_step(&self, step: &StepEvent) {
        self.next.iter().for_each(|next| next.on_step(step));
    }

    fn on_stop(&self, cause: StopCause) {
        self.watchdog.start_grace_period(cause);
        self.next.iter().for_each(|next| next.on_stop(cause));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU8, Ordering};

    fn wait_until(holds: impl Fn() -> bool) {
        let patience = Instant::now() + Duration::from_secs(20);
        while !holds() {
            assert!(Instant::now() < patience);
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    #[test]
    fn work_that_does_not_end_is_ended_with_its_error() {
        static CODE: AtomicU8 = AtomicU8::new(0);
        let (said, heard) = channel();
        let words = move |error: &SkillError| said.send(error.kind()).unwrap();
        let watch = ExitWatchdog::with_exit(words, |code| CODE.store(code, Ordering::SeqCst));
        let token = CancelToken::new();
        let _following = watch.watch_token(&token);
        watch.start_loading_timeout();
        watch.start_grace_period(StopCause::Deadline);
        token.cancel();
        wait_until(|| CODE.load(Ordering::SeqCst) == 5);
        assert_eq!(heard.recv().unwrap(), ErrorKind::Timeout, "the first cause stays");
    }

    #[test]
    fn nobody_needs_to_hear_the_last_words() {
        static CODE: AtomicU8 = AtomicU8::new(0);
        let deaf = |_: &SkillError| std::thread::sleep(Duration::from_mins(1));
        let watch = ExitWatchdog::with_exit(deaf, |code| CODE.store(code, Ordering::SeqCst));
        watch.start_grace_period(StopCause::Cancelled);
        wait_until(|| CODE.load(Ordering::SeqCst) == 130);
    }

    #[test]
    fn work_that_ends_in_time_or_ends_by_itself_is_let_be() {
        static ENDED: AtomicU8 = AtomicU8::new(0);
        let watch = ExitWatchdog::with_exit(|_| {}, |_| ENDED.store(1, Ordering::SeqCst));
        watch.start_grace_period(StopCause::Deadline);
        watch.disarm();
        std::thread::sleep(2 * GRACE_PERIOD);
        watch.wait_for_cleanup(|| true);
        watch.start_grace_period(StopCause::Deadline);
        std::thread::sleep(2 * GRACE_PERIOD);
        watch.finish();
        watch.start_grace_period(StopCause::Cancelled);
        std::thread::sleep(2 * GRACE_PERIOD);
        assert_eq!(ENDED.load(Ordering::SeqCst), 0);
    }
}
