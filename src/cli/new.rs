//! `metier new`: a skill that runs, to start from.

use metier::error::Result;

use super::session::Session;

/// The options of `metier new`.
#[derive(clap::Args)]
pub struct Args {
    /// The skill's name
    name: String,
}

pub(super) fn run(args: &Args, session: &Session) -> Result<u8> {
    session.say_json(&(&args.name, session.product(), session.project()))?;
    Ok(0)
}
