//! `metier mcp` in a build without it.

use metier::error::{ErrorKind, Result, SkillError};

use super::session::Session;

/// The options of `metier mcp`, whatever they are.
#[derive(clap::Args)]
pub struct Args {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
    rest: Vec<String>,
}

pub(super) fn run(args: &Args, session: &Session) -> Result<u8> {
    session.exit_watchdog().finish();
    let _ = &args.rest;
    Err(SkillError::new(ErrorKind::Unavailable, "this build has no server of the Model Context Protocol")
        .with_help("build metier with the Cargo feature `mcp`"))
}
