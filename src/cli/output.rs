//! Where commands write: data to standard output, talk to standard error.

use std::io::Write;

use anstyle::AnsiColor;
use metier::error::{Result, SkillError};
use metier::registry::Registry;
use metier::skill::Severity;
use metier::unicode::mark_escapes;
use serde::Serialize;

use super::terminal::{escape_line, escape_sentence, escape_text};

/// Writes data to standard output. A closed pipe ends the command quietly.
pub fn print(text: &str) -> Result<()> {
    ignore_broken_pipe(writeln!(anstream::stdout(), "{text}"))
}

/// Writes a JSON answer to standard output.
pub fn print_json(answer: &impl Serialize) -> Result<()> {
    let text = serde_json::to_string_pretty(answer)
        .map_err(|error| SkillError::io("failed to write the answer", error.into()))?;
    print(&escape_json(&text))
}

/// Writes talk to standard error: what a person wants to know and a program does not.
pub fn eprint(text: &str) {
    // When standard error is gone there is nobody left to tell.
    let _ = writeln!(anstream::stderr(), "{text}");
}

/// Tells a person what went wrong, where, and the way out.
pub fn print_error(error: &SkillError) {
    print_headline("error", AnsiColor::Red, error);
    if let Some(place) = error.location() {
        let line = place.line.map_or(String::new(), |line| format!(":{line}"));
        eprint(&format!("  --> {}{line}", escape_line(&place.file)));
    }
    // A single frame is the place again.
    for frame in error.traceback().iter().filter(|_| error.traceback().len() > 1) {
        eprint(&format!("    at {}", escape_line(frame)));
    }
    let is_said = |help: &str| {
        let message = error.message();
        message.ends_with(help) || message.contains(&format!("; {help};"))
    };
    if let Some(help) = error.help().filter(|help| !is_said(help)) {
        eprint(&format!("  help: {}", escape_sentence(help)));
    }
}

/// Tells a person what is off, and what comes of it.
pub fn print_error_as_warning(error: &SkillError, consequence: &str) {
    print_headline("warning", AnsiColor::Yellow, error);
    let help = error.help().map_or(String::new(), |help| format!("; {}", escape_sentence(help)));
    eprint(&format!("  {consequence}{help}"));
}

/// Tells a person in one line what they may not have meant.
pub fn print_warning(sentence: &str) {
    let style = AnsiColor::Yellow.on_default().bold();
    eprint(&format!("{style}warning{style:#}: {}", escape_line(sentence)));
}

/// Tells which skills did not load and why. Shadowing is no news here: the answers themselves show it.
pub fn print_problems(registry: &Registry) {
    for problem in registry.problems().iter().filter(|problem| problem.severity > Severity::Info) {
        print_warning(&problem.to_string());
        if let Some(help) = &problem.help {
            eprint(&format!("  help: {}", escape_line(help)));
        }
    }
}

/// Passes on what a process said.
pub fn print_process_output(said: &str) {
    if !said.trim().is_empty() {
        eprint(escape_text(said).trim_end());
    }
}

fn print_headline(level: &str, color: AnsiColor, error: &SkillError) {
    let style = color.on_default().bold();
    eprint(&format!("{style}{level}{style:#}: {}", escape_sentence(&error.to_string())));
}

/// The same JSON, with escapes for what `serde_json` leaves as it is and a terminal obeys or does not show: DEL, C1 controls,
/// directions, what nobody sees. Whoever reads the JSON gets every character.
fn escape_json(json: &str) -> String {
    let mut safe = String::with_capacity(json.len());
    for (c, is_unseen) in mark_escapes(json) {
        if c == '\n' || !is_unseen {
            safe.push(c);
        } else {
            safe.extend(c.encode_utf16(&mut [0; 2]).iter().map(|unit| format!("\\u{unit:04x}")));
        }
    }
    safe
}

fn ignore_broken_pipe(result: std::io::Result<()>) -> Result<()> {
    match result {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        Err(error) => Err(SkillError::io("failed to write to standard output", error)),
        Ok(()) => Ok(()),
    }
}
