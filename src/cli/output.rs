//! Where commands write: data to standard output, talk to standard error.

use std::io::Write;

use anstyle::AnsiColor;
use metier::error::{Result, SkillError};
use metier::registry::Registry;
use metier::skill::Severity;
use serde::Serialize;

use super::terminal::visible;

/// Writes data to standard output. A closed pipe ends the command quietly.
pub fn say(text: &str) -> Result<()> {
    written(writeln!(anstream::stdout(), "{text}"))
}

/// Writes a JSON answer to standard output.
pub fn say_json(answer: &impl Serialize) -> Result<()> {
    let text = serde_json::to_string_pretty(answer)
        .map_err(|error| SkillError::io("failed to write the answer", error.into()))?;
    say(&without_controls(&text))
}

/// Writes talk to standard error: what a person wants to know and a program does not.
pub fn talk(text: &str) {
    // When standard error is gone there is nobody left to tell.
    let _ = writeln!(anstream::stderr(), "{text}");
}

/// Tells a person what went wrong, where, and the way out.
pub fn complain(error: &SkillError) {
    tell("error", AnsiColor::Red, error);
    if let Some(place) = error.location() {
        let line = place.line.map_or(String::new(), |line| format!(":{line}"));
        talk(&format!("  --> {}{line}", visible(&place.file)));
    }
    for frame in error.traceback() {
        talk(&format!("    at {}", visible(frame)));
    }
    if let Some(help) = error.help() {
        talk(&format!("  help: {}", visible(help)));
    }
}

/// Tells a person what is off, and what comes of it.
pub fn warn(error: &SkillError, consequence: &str) {
    tell("warning", AnsiColor::Yellow, error);
    let help = error.help().map_or(String::new(), |help| format!("; {help}"));
    talk(&format!("  {consequence}{help}"));
}

/// Tells which skills did not load, which shadow others, and why.
pub fn talk_of_problems(registry: &Registry) {
    for problem in registry.problems() {
        let (level, color) = match problem.severity {
            Severity::Info => ("note", AnsiColor::Cyan),
            Severity::Warning | Severity::Error => ("warning", AnsiColor::Yellow),
        };
        let style = color.on_default().bold();
        talk(&format!("{style}{level}{style:#}: {}", visible(&problem.to_string())));
    }
}

/// Passes on what a process said.
pub fn talk_of_process(said: &str) {
    if !said.trim().is_empty() {
        talk(visible(said).trim_end());
    }
}

fn tell(level: &str, color: AnsiColor, error: &SkillError) {
    let style = color.on_default().bold();
    talk(&format!("{style}{level}{style:#}: {}", visible(&error.to_string())));
}

/// The same JSON with DEL and C1 controls escaped too: terminals obey them, and `serde_json` leaves them as they are.
fn without_controls(json: &str) -> String {
    let escaped = |c: char| match c {
        '\n' => String::from(c),
        c if c.is_control() => format!("\\u{:04x}", u32::from(c)),
        c => String::from(c),
    };
    if json.contains(|c: char| c.is_control() && c != '\n') {
        json.chars().map(escaped).collect()
    } else {
        json.to_owned()
    }
}

fn written(result: std::io::Result<()>) -> Result<()> {
    match result {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        Err(error) => Err(SkillError::io("failed to write to standard output", error)),
        Ok(()) => Ok(()),
    }
}
