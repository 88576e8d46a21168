//! `metier catalog`: names and descriptions, for a model to choose from.

use metier::error::Result;

use super::output;
use super::session::Session;
use super::terminal::visible;

/// The options of `metier catalog`.
#[derive(clap::Args)]
pub struct Args {
    #[arg(long, help = "As <available_skills> XML")]
    xml: bool,
}

pub(super) fn run(args: &Args, session: &Session) -> Result<u8> {
    let engine = session.engine()?;
    output::talk_of_problems(engine.registry());
    let catalog = engine.registry().catalog();
    if session.json() {
        output::say_json(&catalog.json())?;
    } else if args.xml {
        output::say(catalog.xml().trim_end())?;
    } else {
        output::say(visible(&catalog.list()).trim_end())?;
    }
    Ok(0)
}
