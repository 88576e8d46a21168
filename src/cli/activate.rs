//! `metier activate`: what a model becomes with a skill.

use metier::engine::{Activation, Delegate};
use metier::error::Result;

use super::output;
use super::session::Session;
use super::terminal::{escape_line, escape_text};

/// The options of `metier activate`.
#[derive(clap::Args)]
pub struct Args {
    /// The skills, by their names; several become one
    #[arg(required = true, value_name = "NAME")]
    names: Vec<String>,
}

pub(super) fn run(args: &Args, session: &Session) -> Result<u8> {
    let engine = session.engine()?;
    let names: Vec<&str> = args.names.iter().map(String::as_str).collect();
    let activation = engine.activate(&names)?;
    session.exit_watchdog().finish();
    if session.json() {
        output::print_json(&activation)?;
    } else {
        output::print(escape_text(&page(&activation)).trim_end())?;
    }
    for problem in &activation.problems {
        output::print_warning(&escape_line(problem));
    }
    Ok(0)
}

fn page(activation: &Activation) -> String {
    let mut lines = vec![format!("{}: {}", activation.name, activation.description)];
    lines.extend(activation.tools.iter().map(|tool| format!("tool {}: {}", tool.name, tool.description)));
    for delegate in &activation.delegates {
        add_delegate(delegate, 0, &mut lines);
    }
    format!("{}\n\n{}", lines.join("\n"), activation.instructions)
}

fn add_delegate(delegate: &Delegate, depth: usize, lines: &mut Vec<String>) {
    let indent = "  ".repeat(depth);
    let mark = if delegate.is_in_circle { " (leads back here)" } else { "" };
    lines.push(format!("{indent}may hand over to {}: {}{mark}", delegate.name, delegate.description));
    for next in &delegate.delegates {
        add_delegate(next, depth + 1, lines);
    }
}
