//! The thread pool of one plan run: the run's own thread, plus extra threads while more steps are ready than it can execute.
//!
//! No thread waits for another thread to start. If the run's thread budget is used up, or the system cannot create a thread,
//! the running threads take one step after another; so nested plans finish with one thread, too. The run's own thread waits
//! only for steps of its own plan that other threads have taken.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, Scope};

use super::progress::{RunProgress, finish_step};
use super::schedule::Schedule;
use super::state::{ErrorWithInput, PlanRunState};
use super::step_runner::run_step;
use metier_core::host::RunContext;

/// The maximum number of threads that are starting at a time. Short steps are done before more would have started.
const MAX_STARTING_THREADS: usize = 4;

/// The threads of the run and the state that they share.
pub(crate) struct StepPool<'a> {
    run: &'a PlanRunState<'a>,
    state: Mutex<PoolState>,
    /// Notified when a step has ended.
    step_finished: Condvar,
}

struct PoolState {
    schedule: Schedule,
    progress: RunProgress,
    /// Threads that were requested and have not begun.
    starting_threads: usize,
    /// The panic of a bug in metier.
    panic: Option<Box<dyn Any + Send>>,
}

impl<'a> StepPool<'a> {
    pub(crate) fn new(run: &'a PlanRunState<'a>, schedule: Schedule) -> Self {
        let state =
            PoolState { schedule, progress: RunProgress::default(), starting_threads: 0, panic: None };
        Self { run, state: Mutex::new(state), step_finished: Condvar::new() }
    }

    /// Executes steps until none are left. Returns the step that ended the run, if one did.
    pub(crate) fn run_to_end(self) -> Option<(usize, ErrorWithInput)> {
        std::thread::scope(|scope| {
            // Skills that steps call run on this thread's stack, nested plans included. The stack size of an embedder's
            // thread is unknown, so a new thread runs the plan in its place.
            let is_apart = self.run.ctx.depth() == 0 && self.run.plan.calls_skills();
            let lead = || {
                let lead = || self.run.ctx.in_span(|| self.run_main_thread(scope));
                Builder::new().name("metier-plan".into()).spawn_scoped(scope, lead)
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

    /// The loop of the run's own thread: it works until the run ends.
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

    /// The loop of an extra thread. A step that becomes ready when no other thread is working is left to the run's own
    /// thread, which then looks for it, so that steps that run alone need no thread but that one.
    fn run_extra_thread<'scope>(&'scope self, scope: &'scope Scope<'scope, '_>) {
        let mut state = self.lock_state();
        state.starting_threads -= 1;
        while state.schedule.has_running_steps()
            && let Some(at) = state.start_next()
        {
            state = self.execute_step(at, state, scope);
        }
    }

    /// Runs a started step and records its result.
    fn execute_step<'scope>(
        &'scope self,
        at: usize,
        mut state: MutexGuard<'scope, PoolState>,
        scope: &'scope Scope<'scope, '_>,
    ) -> MutexGuard<'scope, PoolState> {
        self.spawn_extra_threads(&mut state, scope);
        drop(state);
        // Whatever happens, the other threads must be notified that the step has ended.
        let end = catch_unwind(AssertUnwindSafe(|| {
            self.run.notify_start(at, None);
            let result = run_step(self.run, at);
            let is_after_failure = result.outcome.is_err() && self.lock_state().progress.failure.is_some();
            finish_step(self.run, at, result, is_after_failure)
        }));
        let mut state = self.lock_state();
        let must_stop = match end {
            Ok(end) => state.progress.end_step(at, end),
            Err(panic) => {
                state.progress.is_over = true;
                state.panic.get_or_insert(panic);
                true
            }
        };
        if must_stop {
            // The listeners of the token include observers.
            drop(state);
            self.run.token.cancel();
            state = self.lock_state();
        }
        state.schedule.end(at);
        self.step_finished.notify_one();
        state
    }

    /// Starts extra threads if more steps may start at once and the thread budget allows it.
    fn spawn_extra_threads<'scope>(&'scope self, state: &mut PoolState, scope: &'scope Scope<'scope, '_>) {
        while state.starting_threads < state.startable_count().min(MAX_STARTING_THREADS) {
            let Some(thread) = self.run.ctx.thread_budget().try_acquire() else { return };
            let help = move || {
                let _thread = thread;
                self.run.ctx.in_span(|| self.run_extra_thread(scope));
            };
            if Builder::new().name("metier-step".into()).spawn_scoped(scope, help).is_err() {
                // If the system cannot create a thread, the running threads execute its steps.
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
