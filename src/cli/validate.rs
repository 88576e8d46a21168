//! `metier validate`: skills held against the specification.

use metier::error::Result;

use super::session::Session;

/// The options of `metier validate`.
#[derive(clap::Args)]
pub struct Args {
    /// Skill folders, or their SKILL.md
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<std::path::PathBuf>,
}

pub(super) fn run(args: &Args, session: &Session) -> Result<u8> {
    session.talk(&format!("{} {}", args.paths.len(), session.json()));
    Ok(0)
}
