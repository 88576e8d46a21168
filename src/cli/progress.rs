//! The progress of a run on standard error: log lines, steps and a progress bar.

pub(in crate::cli::progress) mod steps;

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anstyle::AnsiColor;
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use metier::host::{Event, EventKind, LogLevel, LogLine, Observer, Progress, RunId};

use super::hint::sentence_with_options;
use super::terminal::{escape_sentence, shorten_line};
use steps::StepDisplay;

/// Shows log lines and steps as they come, and a bar while a skill reports progress to a terminal.
pub struct ProgressDisplay {
    screen: MultiProgress,
    /// The bar of the skill itself, and those of the skills that its steps run.
    bars: Mutex<HashMap<Option<usize>, ProgressBar>>,
    /// The step of the invoked plan, if it is one, that a called run belongs to.
    steps_of_runs: Mutex<HashMap<RunId, Option<usize>>>,
    steps: StepDisplay,
    question: Mutex<()>,
}

impl Default for ProgressDisplay {
    fn default() -> Self {
        // Nothing is drawn if standard error is not a terminal.
        let screen = MultiProgress::with_draw_target(ProgressDrawTarget::stderr_with_hz(10));
        Self {
            bars: Mutex::default(),
            steps_of_runs: Mutex::default(),
            steps: StepDisplay::new(screen.clone()),
            screen,
            question: Mutex::default(),
        }
    }
}

const LEVELS: [(LogLevel, &str, AnsiColor); 5] = [
    (LogLevel::Error, "error", AnsiColor::Red),
    (LogLevel::Warn, "warning", AnsiColor::Yellow),
    (LogLevel::Info, "info", AnsiColor::Green),
    (LogLevel::Debug, "debug", AnsiColor::Blue),
    (LogLevel::Trace, "trace", AnsiColor::Magenta),
];

impl ProgressDisplay {
    /// Removes bars and running steps from the screen.
    pub fn clear(&self) {
        self.steps.clear();
        self.bars().drain().for_each(|(_, bar)| bar.finish_and_clear());
    }

    /// Asks something with a clear screen; bars and steps are drawn again afterwards, and lines that come meanwhile are printed
    /// then, so that no run waits for the question of another one and nothing is printed into it.
    pub fn suspend<T>(&self, ask: impl FnOnce() -> T) -> T {
        let _question = self.question.lock().unwrap_or_else(PoisonError::into_inner);
        self.steps.lines().hold();
        self.screen.clear().ok();
        self.screen.set_draw_target(ProgressDrawTarget::hidden());
        let answer = ask();
        self.screen.set_draw_target(ProgressDrawTarget::stderr_with_hz(10));
        self.steps.lines().release();
        answer
    }

    /// Remembers which step of the invoked plan a run belongs to.
    fn add_run(&self, event: &Event, step: Option<usize>) {
        let Some(caller) = event.caller else { return };
        let mut steps = self.steps_of_runs();
        // A caller that is not there is the run that was invoked.
        let step = steps.get(&caller).map_or(step, |step| *step);
        steps.insert(event.run, step);
    }

    fn step_of_run(&self, run: RunId) -> Option<usize> {
        self.steps_of_runs().get(&run).copied().flatten()
    }

    fn steps_of_runs(&self) -> MutexGuard<'_, HashMap<RunId, Option<usize>>> {
        self.steps_of_runs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn show_log_line(&self, line: &LogLine) {
        let (_, name, color) = LEVELS.iter().find(|(level, ..)| *level == line.level).unwrap_or(&LEVELS[2]);
        let style = color.on_default();
        let message = match line.level {
            LogLevel::Warn => sentence_with_options(&line.message),
            _ => line.message.clone(),
        };
        let text = format!("{style}{name}{style:#}: {}", escape_sentence(&message));
        self.steps.lines().print(text);
    }

    fn bars(&self) -> MutexGuard<'_, HashMap<Option<usize>, ProgressBar>> {
        self.bars.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn show_progress(&self, step: Option<usize>, progress: &Progress) {
        let mut bars = self.bars();
        let bar = bars.entry(step).or_insert_with(|| self.screen.add(new_bar()));
        bar.set_message(shorten_line(&progress.message, 60));
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // a bar's length saturates
        if let (Some(done), Some(total)) = (progress.done, progress.total) {
            bar.set_length(total as u64);
            bar.set_position(done as u64);
        }
    }
}

impl Observer for ProgressDisplay {
    fn on_event(&self, event: &Event) {
        let is_invoked = event.caller.is_none();
        match &event.kind {
            EventKind::Started { step, .. } => self.add_run(event, *step),
            EventKind::Finished { .. } => drop(self.steps_of_runs().remove(&event.run)),
            EventKind::Log(line) => self.show_log_line(line),
            EventKind::Progress(progress) => self.show_progress(self.step_of_run(event.run), progress),
            EventKind::StepStarted { step, .. } if is_invoked && step.item.is_none() => {
                self.steps.show_start(step);
            }
            EventKind::StepFinished { step, status, duration, .. } if is_invoked && step.item.is_none() => {
                if let Some(bar) = self.bars().remove(&Some(step.index)) {
                    bar.finish_and_clear();
                }
                self.steps.show_end(step, *status, *duration);
            }
            _ => {}
        }
    }
}

fn new_bar() -> ProgressBar {
    let bar = ProgressBar::no_length();
    if let Ok(style) = ProgressStyle::with_template("{spinner} {msg} {wide_bar} {pos}/{len}") {
        bar.set_style(style);
    }
    bar.enable_steady_tick(Duration::from_millis(120));
    bar
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_line_waits_for_a_question() {
        let display = ProgressDisplay::default();
        let (sender, printed) = std::sync::mpsc::channel();
        std::thread::scope(|scope| {
            let came = display.suspend(|| {
                scope.spawn(|| {
                    display.steps.lines().print("a line".into());
                    sender.send(()).ok();
                });
                printed.recv_timeout(Duration::from_secs(10))
            });
            assert!(came.is_ok(), "the run waits for the person");
        });
    }
}
