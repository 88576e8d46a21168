//! Who works on the steps of a run: the thread it is on, and others beside it while more may start than those can take up.
//!
//! Nobody waits for a thread. Where the run has none left, or the system gives none, those at work take up one step after
//! another; so plans within plans come to their end with one thread, too. The thread of the run waits only for steps of its own
//! plan that others have taken up.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, Scope};

use super::Schedule;
use super::attempt::{Failed, tried};
use super::drive::{Drive, Progress, Under};

/// Threads that are on their way at a time. Steps that take no time are done before more would come.
const MOST_CALLED: usize = 4;

/// Those at work, and what they share.
pub(super) struct Hands<'a> {
    drive: &'a Drive<'a>,
    under: &'a Under<'a>,
    state: Mutex<State>,
    /// A step has ended.
    ended: Condvar,
}

struct State {
    schedule: Schedule,
    progress: Progress,
    /// Threads that were called and have not begun.
    called: usize,
    /// What an observer, or a defect of ours, broke off with.
    panic: Option<Box<dyn Any + Send>>,
}

impl<'a> Hands<'a> {
    pub(super) fn new(drive: &'a Drive<'a>, under: &'a Under<'a>, schedule: Schedule) -> Self {
        let state = State { schedule, progress: Progress::default(), called: 0, panic: None };
        Self { drive, under, state: Mutex::new(state), ended: Condvar::new() }
    }

    /// Works until nothing is left to do. The step that ended the run, where one did.
    pub(super) fn work(self) -> Option<(usize, Failed)> {
        std::thread::scope(|scope| {
            // Skills that steps call run on this thread's stack, plans within plans too. What there is of the embedder's nobody
            // knows, so that of a thread of ours stands in for it.
            let is_apart = self.drive.ctx.depth() == 0 && self.drive.plan.calls_skills();
            let lead = || Builder::new().name("metier-plan".into()).spawn_scoped(scope, || self.lead(scope));
            if !is_apart || lead().is_err() {
                self.lead(scope);
            }
        });
        let state = self.state.into_inner().unwrap_or_else(PoisonError::into_inner);
        if let Some(panic) = state.panic {
            resume_unwind(panic);
        }
        state.progress.failed
    }

    /// Works as the thread of the run does: to the end.
    fn lead<'scope>(&'scope self, scope: &'scope Scope<'scope, '_>) {
        let mut state = self.state();
        loop {
            if let Some(at) = state.start() {
                state = self.take_up(at, state, scope);
            } else if state.schedule.is_under_way() {
                state = self.ended.wait(state).unwrap_or_else(PoisonError::into_inner);
            } else {
                break;
            }
        }
    }

    /// Works beside others. What may start when nobody is at work any more is left to the thread of the run, which then looks
    /// for it, so that steps that run alone take none but that one.
    fn help<'scope>(&'scope self, scope: &'scope Scope<'scope, '_>) {
        let mut state = self.state();
        state.called -= 1;
        while state.schedule.is_under_way()
            && let Some(at) = state.start()
        {
            state = self.take_up(at, state, scope);
        }
    }

    /// Runs a step that was started, and takes down what comes of it.
    fn take_up<'scope>(
        &'scope self,
        at: usize,
        mut state: MutexGuard<'scope, State>,
        scope: &'scope Scope<'scope, '_>,
    ) -> MutexGuard<'scope, State> {
        self.call_help(&mut state, scope);
        // Whatever happens, the others must hear that the step has ended.
        let told = catch_unwind(AssertUnwindSafe(|| self.drive.tell_start(at)));
        drop(state);
        let done = told.map(|()| tried(self.drive, self.under, at));
        let mut state = self.state();
        let ended = done.and_then(|tried| {
            catch_unwind(AssertUnwindSafe(|| self.drive.end(at, tried, self.under, &mut state.progress)))
        });
        if let Err(panic) = ended {
            state.progress.is_over = true;
            state.panic.get_or_insert(panic);
            self.under.token.cancel();
        }
        state.schedule.end(at);
        self.ended.notify_one();
        state
    }

    /// Calls other threads where more may start at once and the run has threads left.
    fn call_help<'scope>(&'scope self, state: &mut State, scope: &'scope Scope<'scope, '_>) {
        while state.called < state.startable().min(MOST_CALLED) {
            let Some(thread) = self.drive.ctx.threads().take() else { return };
            let help = move || {
                let _thread = thread;
                self.help(scope);
            };
            if Builder::new().name("metier-step".into()).spawn_scoped(scope, help).is_err() {
                // Where the system gives none, those at work do its share.
                return;
            }
            state.called += 1;
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn start(&mut self) -> Option<usize> {
        if self.progress.is_over { None } else { self.schedule.start() }
    }

    fn startable(&self) -> usize {
        if self.progress.is_over { 0 } else { self.schedule.startable() }
    }
}
