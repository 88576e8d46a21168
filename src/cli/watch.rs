//! A run as a person watches it: log lines, steps and a progress bar on standard error.

mod steps;

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anstyle::AnsiColor;
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use metier::host::{LogLevel, LogLine, Observer, Progress, StepEvent};

use super::output;
use super::terminal::{brief, visible_sentence};
use steps::Steps;

/// Shows log lines and steps as they come, and a bar while a skill reports progress to a terminal.
pub struct Watch {
    screen: MultiProgress,
    /// Of the skill itself, and of those that steps run.
    bars: Mutex<HashMap<Option<usize>, ProgressBar>>,
    steps: Steps,
}

impl Default for Watch {
    fn default() -> Self {
        // Nothing is drawn where standard error is no terminal.
        let screen = MultiProgress::with_draw_target(ProgressDrawTarget::stderr_with_hz(10));
        Self { bars: Mutex::default(), steps: Steps::new(screen.clone()), screen }
    }
}

const LEVELS: [(LogLevel, &str, AnsiColor); 5] = [
    (LogLevel::Error, "error", AnsiColor::Red),
    (LogLevel::Warn, "warning", AnsiColor::Yellow),
    (LogLevel::Info, "info", AnsiColor::Green),
    (LogLevel::Debug, "debug", AnsiColor::Blue),
    (LogLevel::Trace, "trace", AnsiColor::Magenta),
];

impl Watch {
    /// Takes what moves off the screen.
    pub fn end(&self) {
        self.steps.end();
        self.bars().drain().for_each(|(_, bar)| bar.finish_and_clear());
    }

    fn bars(&self) -> MutexGuard<'_, HashMap<Option<usize>, ProgressBar>> {
        self.bars.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn show(&self, step: Option<usize>, progress: &Progress) {
        let mut bars = self.bars();
        let bar = bars.entry(step).or_insert_with(|| self.screen.add(new_bar()));
        bar.set_message(brief(&progress.message, 60));
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // a bar's length saturates
        if let (Some(done), Some(total)) = (progress.done, progress.total) {
            bar.set_length(total as u64);
            bar.set_position(done as u64);
        }
    }
}

impl Observer for Watch {
    fn logged(&self, line: &LogLine) {
        let (_, name, color) = LEVELS.iter().find(|(level, ..)| *level == line.level).unwrap_or(&LEVELS[2]);
        let style = color.on_default();
        let text = format!("{style}{name}{style:#}: {}", visible_sentence(&line.message));
        self.screen.suspend(|| output::talk(&text));
    }

    fn stepped(&self, step: &StepEvent) {
        if step.ended.is_some()
            && let Some(bar) = self.bars().remove(&Some(step.index))
        {
            bar.finish_and_clear();
        }
        self.steps.take(step);
    }

    fn progressed(&self, progress: &Progress) {
        self.show(None, progress);
    }

    fn progressed_in(&self, step: usize, progress: &Progress) {
        self.show(Some(step), progress);
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
