//! Where commands write: data to standard output, messages to standard error.

use std::io::Write;

use anstyle::AnsiColor;
use metier::error::{Result, SkillError};
use metier::registry::Registry;
use metier::skill::Severity;
use metier::unicode::mark_escapes;
use serde::Serialize;

use super::hint::{error_help, error_message};
use super::terminal::{escape_line, escape_sentence, escape_text};

/// Writes data to standard output. A closed pipe is not an error.
pub fn print(text: &str) -> Result<()> {
    ignore_broken_pipe(writeln!(anstream::stdout(), "{text}"))
}

/// A number with its noun.
pub fn plural(count: usize, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}

/// Writes a JSON answer to standard output.
pub fn print_json(answer: &impl Serialize) -> Result<()> {
    let text = serde_json::to_string_pretty(answer)
        .map_err(|error| SkillError::io("failed to write the answer", error.into()))?;
    print(&escape_json(&text))
}

/// Writes a message for a person to standard error.
pub fn eprint(text: &str) {
    // If standard error is closed, there is no other place to report to.
    let _ = writeln!(anstream::stderr(), "{text}");
}

/// Prints an error with its location, traceback and help.
pub fn print_error(error: &SkillError) {
    print_error_with_message(error, &error_message(error));
}

/// The same without what the error repeats at its end, which was printed just before.
pub fn print_error_without(error: &SkillError, quoted: &str) {
    let message = error_message(error);
    let short = message.strip_suffix(quoted).and_then(|message| message.strip_suffix(": "));
    print_error_with_message(error, short.unwrap_or(&message));
}

fn print_error_with_message(error: &SkillError, message: &str) {
    print_headline("error", AnsiColor::Red, message);
    if let Some(location) = error.location() {
        let line = location.line.map_or(String::new(), |line| format!(":{line}"));
        eprint(&format!("  --> {}{line}", escape_line(&location.file)));
    }
    // A single frame is the same as the location.
    for frame in error.traceback().iter().filter(|_| error.traceback().len() > 1) {
        eprint(&format!("    at {}", escape_line(frame)));
    }
    let is_in_message = |help: &String| message.ends_with(help) || message.contains(&format!("; {help};"));
    if let Some(help) = error_help(error).filter(|help| !is_in_message(help)) {
        eprint(&format!("  help: {}", escape_sentence(&help)));
    }
}

/// Prints an error that does not stop the command as a warning, with its consequence.
pub fn print_error_as_warning(error: &SkillError, consequence: &str) {
    print_headline("warning", AnsiColor::Yellow, &error_message(error));
    let help = error_help(error).map_or(String::new(), |help| format!("; {}", escape_sentence(&help)));
    eprint(&format!("  {consequence}{help}"));
}

/// Prints a warning on one line.
pub fn print_warning(sentence: &str) {
    let style = AnsiColor::Yellow.on_default().bold();
    eprint(&format!("{style}warning{style:#}: {}", escape_line(sentence)));
}

/// Prints which skills did not load, and why. The commands themselves show which are shadowed.
pub fn print_problems(registry: &Registry) {
    for problem in registry.problems().iter().filter(|problem| problem.severity > Severity::Info) {
        print_warning(&problem.to_string());
        if let Some(help) = &problem.help {
            eprint(&format!("  help: {}", escape_line(help)));
        }
    }
}

/// Prints the output of a process to standard error.
pub fn print_process_output(text: &str) {
    if !text.trim().is_empty() {
        eprint(escape_text(text).trim_end());
    }
}

fn print_headline(level: &str, color: AnsiColor, message: &str) {
    let style = color.on_default().bold();
    eprint(&format!("{style}{level}{style:#}: {}", escape_sentence(message)));
}

/// The same JSON, with escapes for the characters that `serde_json` leaves as they are and that a terminal obeys or does not show:
/// DEL, C1 controls, direction marks, invisible characters. A JSON parser reads every character as it was.
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
