//! `metier try`: one run in a copy of the project in which everything is watched, and the grants that it would have needed.

use metier::error::Result;

use super::run::Args as RunArgs;
use super::session::Session;

/// The options of `metier try`.
#[derive(clap::Args)]
#[group(id = "try")]
pub struct Args {
    #[command(flatten)]
    run: RunArgs,
    /// Open this host to it, such as example.com or example.com:8443 (may be repeated)
    #[arg(long, value_name = "HOST")]
    net: Vec<String>,
    /// Apply what it changed in the copy to the project
    #[arg(long)]
    apply: bool,
}

impl Args {
    /// The skill's name, as the caller wrote it.
    pub(super) fn name(&self) -> &str {
        self.run.name()
    }
}

pub(super) fn run(args: Args, session: &Session) -> Result<u8> {
    super::run::run(&args.run.watched_in_copy(&args.net, args.apply), session)
}
