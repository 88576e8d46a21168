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
const GRACE: Duration = Duration::from_millis(if cfg!(debug_assertions) { 500 } else { 80 });

/// How long commands may take that run nothing, and a run until it begins. Nothing honest takes that long.
pub const LOADING: Duration = Duration::from_mins(1);

/// How long it may take until somebody reads the last words.
const WORDS: Duration = Duration::from_secs(1);

/// How long work may take that ends by itself, since it is processes that are killed and cleaned up after.
const CLEANING: Duration = Duration::from_secs(10);

/// Says the error of a command that is ended.
type Words = Box<dyn FnOnce(&SkillError) + Send>;
/// Whether the work that goes on will end by itself.
type EndsItself = Box<dyn Fn() -> bool + Send>;

/// The watch over one command. Clones watch the same.
#[derive(Clone)]
pub struct LastResort(Arc<Shared>);

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    end: fn(u8),
}

struct State {
    /// When the process ends, and the error it ends with.
    due: Option<(Instant, SkillError)>,
    phase: Phase,
    words: Option<Words>,
    ends_itself: EndsItself,
}

#[derive(PartialEq)]
enum Phase {
    /// No thread watches yet.
    Idle,
    Watching,
    /// The thread has the last word.
    Ending,
    /// The command has its answer.
    Answered,
}

impl LastResort {
    /// A watch that says the error in these words; no thread runs before there is something to wait for.
    pub fn new(words: impl FnOnce(&SkillError) + Send + 'static) -> Self {
        Self::ending_by(words, |code| std::process::exit(code.into()))
    }

    fn ending_by(words: impl FnOnce(&SkillError) + Send + 'static, end: fn(u8)) -> Self {
        let state = State {
            due: None,
            phase: Phase::Idle,
            words: Some(Box::new(words)),
            ends_itself: Box::new(|| false),
        };
        Self(Arc::new(Shared { state: Mutex::new(state), changed: Condvar::new(), end }))
    }

    /// Ends the command unless it has loaded what it is about in time.
    pub fn limit_loading(&self) {
        let error = SkillError::new(
            ErrorKind::Deadline,
            format!("this did not end within {} seconds", LOADING.as_secs()),
        );
        self.end_at(
            Instant::now() + LOADING,
            error.with_help("name fewer skills, or find the file that takes so long to read"),
        );
    }

    /// Says in other words.
    pub fn say(&self, words: impl FnOnce(&SkillError) + Send + 'static) {
        self.0.locked().words = Some(Box::new(words));
    }

    /// Asks this before it ends the process: whether what goes on will end by itself.
    pub fn wait_while(&self, ends_itself: impl Fn() -> bool + Send + 'static) {
        self.0.locked().ends_itself = Box::new(ends_itself);
    }

    /// From the moment the token stops the work has its moment left.
    pub fn follow(&self, token: &CancelToken) -> metier::policy::StopGuard {
        let watch = self.clone();
        token.on_stop(move |cause| watch.stop(cause))
    }

    /// The work was told to stop.
    pub fn stop(&self, cause: StopCause) {
        self.end_at(Instant::now() + GRACE, cause.error());
    }

    /// What was told to stop has ended, or is loaded.
    pub fn lift(&self) {
        let mut state = self.0.locked();
        while state.phase == Phase::Ending {
            // The process ends at any moment, and its words are said.
            state = self.0.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.due = None;
    }

    /// The command has its answer, and says it itself.
    pub fn answered(&self) {
        self.lift();
        self.0.locked().phase = Phase::Answered;
        self.0.changed.notify_all();
    }

    /// The command was interrupted as it had its answer: whoever does not read that soon keeps nobody from ending.
    pub fn limit_answer(&self) {
        let end = self.0.end;
        let ended = move || {
            std::thread::sleep(WORDS);
            end(ErrorKind::Cancelled.exit_code());
        };
        if std::thread::Builder::new().spawn(ended).is_err() {
            end(ErrorKind::Cancelled.exit_code());
        }
    }

    fn end_at(&self, time: Instant, error: SkillError) {
        let mut state = self.0.locked();
        if matches!(state.phase, Phase::Ending | Phase::Answered)
            || state.due.as_ref().is_some_and(|(due, _)| *due <= time)
        {
            return;
        }
        state.due = Some((time, error));
        if state.phase == Phase::Idle {
            let watch = self.clone();
            let started = std::thread::Builder::new().name("metier-last-resort".into());
            if started.spawn(move || watch.wait()).is_ok() {
                state.phase = Phase::Watching;
            }
        }
        self.0.changed.notify_all();
    }

    fn wait(&self) {
        let mut state = self.0.locked();
        let mut patience = None;
        while state.phase == Phase::Watching {
            let now = Instant::now();
            state = match &state.due {
                None => {
                    patience = None;
                    self.0.changed.wait(state).unwrap_or_else(PoisonError::into_inner)
                }
                Some((due, _)) if now < *due => {
                    let left = due.saturating_duration_since(now);
                    self.0.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0
                }
                Some(_) if (state.ends_itself)() && now < *patience.get_or_insert(now + CLEANING) => {
                    let (locked, _) = self
                        .0
                        .changed
                        .wait_timeout(state, Duration::from_millis(20))
                        .unwrap_or_else(PoisonError::into_inner);
                    locked
                }
                Some(_) => return self.end(state),
            };
        }
    }

    fn end(&self, mut state: MutexGuard<'_, State>) {
        let Some((_, error)) = state.due.take() else { return };
        state.phase = Phase::Ending;
        let code = error.kind().exit_code();
        let words = state.words.take();
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
                heard.recv_timeout(WORDS);
        }
        (self.0.end)(code);
    }
}

impl Shared {
    fn locked(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Hears of a run when it is told to stop, keeps what it logs where that is part of the answer, and passes everything on.
pub struct Heard {
    watch: LastResort,
    log: Option<Mutex<Vec<LogLine>>>,
    next: Option<Arc<dyn Observer>>,
}

impl Heard {
    /// For a run whose outcome is printed, log included.
    pub fn with_log(watch: LastResort) -> Self {
        Self { watch, log: Some(Mutex::default()), next: None }
    }

    /// For a run that this one observes.
    pub fn with_observer(watch: LastResort, next: Arc<dyn Observer>) -> Self {
        Self { watch, log: None, next: Some(next) }
    }

    /// For a run nobody observes.
    pub fn new(watch: LastResort) -> Self {
        Self { watch, log: None, next: None }
    }

    /// What was logged so far.
    pub fn log(&self) -> Vec<LogLine> {
        self.log
            .as_ref()
            .map(|log| std::mem::take(&mut *log.lock().unwrap_or_else(PoisonError::into_inner)))
            .unwrap_or_default()
    }
}

impl Observer for Heard {
    fn logged(&self, line: &LogLine) {
        if let Some(log) = &self.log {
            log.lock().unwrap_or_else(PoisonError::into_inner).push(line.clone());
        }
        self.next.iter().for_each(|next| next.logged(line));
    }

    fn progressed(&self, progress: &Progress) {
        self.next.iter().for_each(|next| next.progressed(progress));
    }

    fn progressed_in(&self, step: usize, progress: &Progress) {
        self.next.iter().for_each(|next| next.progressed_in(step, progress));
    }

    fn stepped(&self, step: &StepEvent) {
        self.next.iter().for_each(|next| next.stepped(step));
    }

    fn stopped(&self, cause: StopCause) {
        self.watch.stop(cause);
        self.next.iter().for_each(|next| next.stopped(cause));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU8, Ordering};

    fn until(holds: impl Fn() -> bool) {
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
        let watch = LastResort::ending_by(words, |code| CODE.store(code, Ordering::SeqCst));
        let token = CancelToken::new();
        let _following = watch.follow(&token);
        watch.limit_loading();
        watch.stop(StopCause::Deadline);
        token.cancel();
        until(|| CODE.load(Ordering::SeqCst) == 5);
        assert_eq!(heard.recv().unwrap(), ErrorKind::Deadline, "the first cause stays");
    }

    #[test]
    fn nobody_needs_to_hear_the_last_words() {
        static CODE: AtomicU8 = AtomicU8::new(0);
        let deaf = |_: &SkillError| std::thread::sleep(Duration::from_mins(1));
        let watch = LastResort::ending_by(deaf, |code| CODE.store(code, Ordering::SeqCst));
        watch.stop(StopCause::Cancelled);
        until(|| CODE.load(Ordering::SeqCst) == 130);
    }

    #[test]
    fn work_that_ends_in_time_or_ends_by_itself_is_let_be() {
        static ENDED: AtomicU8 = AtomicU8::new(0);
        let watch = LastResort::ending_by(|_| {}, |_| ENDED.store(1, Ordering::SeqCst));
        watch.stop(StopCause::Deadline);
        watch.lift();
        std::thread::sleep(2 * GRACE);
        watch.wait_while(|| true);
        watch.stop(StopCause::Deadline);
        std::thread::sleep(2 * GRACE);
        watch.answered();
        watch.stop(StopCause::Cancelled);
        std::thread::sleep(2 * GRACE);
        assert_eq!(ENDED.load(Ordering::SeqCst), 0);
    }
}
