//! The steps of a plan as they run: a live list on a terminal; elsewhere a line for each step that has ended.

use std::collections::HashMap;
use std::io::IsTerminal;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anstyle::{AnsiColor, Style};
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use metier::host::{PlanStep, StepStatus};

use crate::cli::output;
use crate::cli::terminal::shorten_line;

/// The running steps, each with its line.
pub struct StepDisplay {
    lines: Lines,
    screen: MultiProgress,
    running: Mutex<HashMap<usize, ProgressBar>>,
    is_live: bool,
}

/// Lines above bars and steps, held while somebody is asked.
pub struct Lines {
    screen: MultiProgress,
    held: Mutex<Option<Vec<String>>>,
}

/// Lines that are held; of more, nobody could read them.
const MAX_HELD: usize = 1_000;

impl Lines {
    pub fn print(&self, line: String) {
        match self.lock().as_mut() {
            Some(held) if held.len() < MAX_HELD => held.push(line),
            Some(_) => {}
            None => self.screen.suspend(|| output::eprint(&line)),
        }
    }

    pub fn hold(&self) {
        self.lock().get_or_insert_default();
    }

    pub fn release(&self) {
        let mut held = self.lock();
        for line in held.take().into_iter().flatten() {
            self.screen.suspend(|| output::eprint(&line));
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Vec<String>>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl StepDisplay {
    pub fn new(screen: MultiProgress) -> Self {
        let lines = Lines { screen: screen.clone(), held: Mutex::default() };
        Self { lines, screen, running: Mutex::default(), is_live: std::io::stderr().is_terminal() }
    }

    /// Shows that a step started.
    pub fn show_start(&self, step: &PlanStep) {
        if self.is_live {
            let line = self.screen.add(spinner());
            line.set_message(label(step));
            self.running().insert(step.index, line);
        }
    }

    /// Shows that a step ended.
    pub fn show_end(&self, step: &PlanStep, status: StepStatus, duration: Duration) {
        if let Some(line) = self.running().remove(&step.index) {
            line.finish_and_clear();
        }
        self.lines.print(status_line(step, status, duration));
    }

    /// The lines above bars and steps.
    pub fn lines(&self) -> &Lines {
        &self.lines
    }

    /// Removes the running steps from the screen.
    pub fn clear(&self) {
        self.running().drain().for_each(|(_, line)| line.finish_and_clear());
    }

    fn running(&self) -> MutexGuard<'_, HashMap<usize, ProgressBar>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// `step 2/4 install (skill helm-install): ok, 12 ms`.
fn status_line(step: &PlanStep, status: StepStatus, duration: Duration) -> String {
    let style = match status {
        StepStatus::Ok => AnsiColor::Green.on_default(),
        StepStatus::Failed => AnsiColor::Red.on_default(),
        _ => Style::new().dimmed(),
    };
    let time = match status {
        StepStatus::Ok | StepStatus::Failed => format!(", {} ms", duration.as_millis()),
        _ => String::new(),
    };
    format!("{}: {style}{}{style:#}{time}", label(step), status.name())
}

fn label(step: &PlanStep) -> String {
    let call =
        if step.call == step.id { String::new() } else { format!(" ({})", shorten_line(&step.call, 60)) };
    format!("step {}/{} {}{call}", step.index + 1, step.count, shorten_line(&step.id, 40))
}

fn spinner() -> ProgressBar {
    let line = ProgressBar::no_length();
    if let Ok(style) = ProgressStyle::with_template("{spinner} {msg} {elapsed}") {
        line.set_style(style);
    }
    line.enable_steady_tick(Duration::from_millis(120));
    line
}
