//! `metier catalog`: names and descriptions, for a model to choose from.

use metier::error::Result;

use super::output;
use super::session::Session;
use super::terminal::{is_obeyed, visible};

/// The options of `metier catalog`.
#[derive(clap::Args)]
pub struct Args {
    #[arg(long, conflicts_with = "json", help = "As <available_skills> XML")]
    xml: bool,
}

pub(super) fn run(args: &Args, session: &Session) -> Result<u8> {
    let engine = session.engine()?;
    session.last_resort().answered();
    output::talk_of_problems(engine.registry());
    let catalog = engine.registry().catalog();
    if session.json() {
        output::say_json(&catalog.json())?;
    } else if args.xml {
        output::say(referenced(&catalog.xml()).trim_end())?;
    } else {
        output::say(visible(&catalog.list()).trim_end())?;
    }
    Ok(0)
}

/// The same XML, with character references for what a terminal would obey.
fn referenced(xml: &str) -> String {
    let is_safe = |c: char| !is_obeyed(c) || matches!(c, '\n' | '\t');
    xml.chars().map(|c| if is_safe(c) { c.to_string() } else { format!("&#x{:X};", u32::from(c)) }).collect()
}
