//! `metier catalog`: names and descriptions, for a model to choose from.

use metier::error::Result;
use metier::unicode::mark_escapes;

use super::output;
use super::session::Session;
use super::terminal::escape_text;

/// The options of `metier catalog`.
#[derive(clap::Args)]
pub struct Args {
    #[arg(long, conflicts_with = "json", help = "As <available_skills> XML")]
    xml: bool,
}

pub(super) fn run(args: &Args, session: &Session) -> Result<u8> {
    let engine = session.engine()?;
    session.exit_watchdog().finish();
    output::print_problems(engine.registry());
    let catalog = engine.registry().catalog();
    if session.json() {
        output::print_json(&catalog.json())?;
    } else if args.xml {
        output::print(escape_xml(&catalog.xml()).trim_end())?;
    } else {
        output::print(escape_text(&catalog.list()).trim_end())?;
    }
    Ok(0)
}

/// The same XML, with character references for what a terminal would obey.
fn escape_xml(xml: &str) -> String {
    let shown = |(c, is_unseen): (char, bool)| {
        let is_safe = !is_unseen || matches!(c, '\n' | '\t');
        if is_safe { c.to_string() } else { format!("&#x{:X};", u32::from(c)) }
    };
    mark_escapes(xml).map(shown).collect()
}
