//! `metier catalog`: names and descriptions, for a model to choose from.

use metier::error::Result;

use super::session::Session;
use super::terminal::visible;

/// The options of `metier catalog`.
#[derive(clap::Args)]
pub struct Args {
    /// As <available_skills> XML
    #[arg(long)]
    xml: bool,
}

pub(super) fn run(args: &Args, session: &Session) -> Result<u8> {
    let engine = session.engine()?;
    session.talk_of_problems(engine.registry());
    let catalog = engine.registry().catalog();
    if session.json() {
        session.say_json(&catalog.json())?;
    } else if args.xml {
        session.say(catalog.xml().trim_end())?;
    } else {
        session.say(visible(&catalog.list()).trim_end())?;
    }
    Ok(0)
}
