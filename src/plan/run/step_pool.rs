//! Who works on the steps of a run: the thread it is on, and others beside it while more may start than those can take up.
//!
//! Nobody waits for a thread. Where the run has none left, or the system gives none, those at work take up one step after
//! another; so plans within plans come to their end with one thread, too. The thread of the run waits only for steps of its own
//! plan that others have taken up.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, Scope};

use crate::plan::Schedule;
use crate::plan::run::runner::{PlanRunState, PlanRunner, RunProgress};
use crate::plan::run::step_runner::{ErrorWithInput, run_step};

/// Threads that are on their way at a time. Steps that take no time are done before more would come.
const MAX_STARTING_THREADS: usize = 4;

/// Those at work, and what they share.
pub(in crate::plan) struct StepPool<'a> {
    runner: &'a PlanRunner<'a>,
    run: &'a PlanRunState<'a>,
    state: Mutex<PoolState>,
    /// A step has ended.
    step_finished: Condvar,
}

struct PoolState {
    schedule: Schedule,
    progress: RunProgress,
    /// Threads that were called and have not begun.
    starting_threads: usize,
    /// What an observer, or a defect of ours, broke off with.
    panic: Option<Box<dyn Any + Send>>,
}

impl<'a> StepPool<'a> {
    pub(in crate::plan) fn new(
        drive: &'a PlanRunner<'a>,
        under: &'a PlanRunState<'a>,
        schedule: Schedule,
    ) -> Self {
        let state =
            PoolState { schedule, progress: RunProgress::default(), starting_threads: 0, panic: None };
        Self { runner: drive, run: under, state: Mutex::new(state), step_finished: Condvar::new() }
    }

    /// Works until nothing is left to do. The step that ended the run, where one did.
    pub(in crate::plan) fn run_to_end(self) -> Option<(usize, ErrorWithInput)> {
        std::thread::scope(|scope| {
            // Skills that steps call run on this thread's stack, plans within plans too. What there is of the embedder's nobody
            // knows, so that of a thread of ours stands in for it.
            let is_apart = self.runner.ctx.depth() == 0 && self.runner.plan.calls_skills();
            let lead = || {
                Builder::new().name("metier-plan".into()).spawn_scoped(scope, || self.run_main_thread(scope))
            };
            if !is_apart || lead().is_err() {
                self.run_main_thread(scope);
            }
        });
        let state = self.state.into_inner().unwrap_or_else(PoisonError::into_inner);
        if let Some(panic) = state.panic {
            resume_unwind(panic);
        }
        state.progress.failure
    }

    /// Works as the thread of the run does: to the end.
    fn run_main_thread<'scope>(&'scope self, scope: &'scope Scope<'scope, '_>) {
        let mut state = self.lock_state();
        loop {
            if let Some(at) = state.start_next() {
                state = self.execute_step(at, state, scope);
            } else if state.schedule.has_running_steps() {
                state = self.step_finished.wait(state).unwrap_or_else(PoisonError::into_inner);
            } else {
                break;
            }
        }
    }

    /// Works beside others. What may start when nobody is at work any more is left to the thread of the run, which then looks
    /// for it, so that steps that run alone take none but that one.
    fn run_extra_thread<'scope>(&'scope self, scope: &'scope Scope<'scope, '_>) {
        let mut state = self.lock_state();
        state.starting_threads -= 1;
        while state.schedule.has_running_steps()
            && let Some(at) = state.start_next()
        {
            state = self.execute_step(at, state, scope);
        }
    }

    /// Runs a step that was started, and takes down what comes of it.
    fn execute_step<'scope>(
        &'scope self,
        at: usize,
        mut state: MutexGuard<'scope, PoolState>,
        scope: &'scope Scope<'scope, '_>,
    ) -> MutexGuard<'scope, PoolState> {
        self.spawn_extra_threads(&mut state, scope);
        // Whatever happens, the others must hear that the step has ended.
        let told = catch_unwind(AssertUnwindSafe(|| self.runner.notify_start(at)));
        drop(state);
        let done = told.map(|()| run_step(self.runner, self.run, at));
        let mut state = self.lock_state();
        let ended = done.and_then(|tried| {
            catch_unwind(AssertUnwindSafe(|| {
                self.runner.finish_step(at, tried, self.run, &mut state.progress);
            }))
        });
        if let Err(panic) = ended {
            state.progress.is_over = true;
            state.panic.get_or_insert(panic);
            self.run.token.cancel();
        }
        state.schedule.end(at);
        self.step_finished.notify_one();
        state
    }

    /// Calls other threads where more may start at once and the run has threads left.
    fn spawn_extra_threads<'scope>(&'scope self, state: &mut PoolState, scope: &'scope Scope<'scope, '_>) {
        while state.starting_threads < state.startable_count().min(MAX_STARTING_THREADS) {
            let Some(thread) = self.runner.ctx.thread_budget().try_acquire() else { return };
            let help = move || {
                let _thread = thread;
                self.run_extra_thread(scope);
            };
            if Builder::new().name("metier-step".into()).spawn_scoped(scope, help).is_err() {
                // Where the system gives none, those at work do its share.
                return;
            }
            state.starting_threads += 1;
        }
    }

    fn lock_state(&self) -> MutexGuard<'_, PoolState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PoolState {
    fn start_next(&mut self) -> Option<usize> {
        if self.progress.is_over { None } else { self.schedule.start() }
    }

    fn startable_count(&self) -> usize {
        if self.progress.is_over { 0 } else { self.schedule.startable() }
    }
}
