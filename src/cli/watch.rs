//! A run as a person watches it: log lines, steps and a progress bar on standard error.

mod steps;

use std::sync::{Mutex, PoisonError};
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
    bar: Mutex<Option<ProgressBar>>,
    steps: Steps,
}

impl Default for Watch {
    fn default() -> Self {
        // Nothing is drawn where standard error is no terminal.
        let screen = MultiProgress::with_draw_target(ProgressDrawTarget::stderr_with_hz(10));
        Self { bar: Mutex::default(), steps: Steps::new(screen.clone()), screen }
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
        if let Some(bar) = self.bar.lock().unwrap_or_else(PoisonError::into_inner).take() {
            bar.finish_and_clear();
        }
    }

    fn with_bar(&self, change: impl FnOnce(&ProgressBar)) {
        let mut bar = self.bar.lock().unwrap_or_else(PoisonError::into_inner);
        change(bar.get_or_insert_with(|| self.screen.add(new_bar())));
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
        self.steps.take(step);
    }

    fn progressed(&self, progress: &Progress) {
        let message = brief(&progress.message, 60);
        self.with_bar(|bar| {
            bar.set_message(message);
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // a bar's length saturates
            if let (Some(done), Some(total)) = (progress.done, progress.total) {
                bar.set_length(total as u64);
                bar.set_position(done as u64);
            }
        });
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
