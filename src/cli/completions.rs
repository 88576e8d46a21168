//! `metier completions`: what a shell needs to complete commands.

use clap::CommandFactory;
use metier::error::Result;

/// The options of `metier completions`.
#[derive(clap::Args)]
pub struct Args {
    /// The shell
    shell: clap_complete::Shell,
}

#[allow(clippy::unnecessary_wraps)] // every command answers the same way
pub(super) fn run(args: &Args) -> Result<u8> {
    clap_complete::generate(args.shell, &mut super::Cli::command(), "metier", &mut std::io::stdout());
    Ok(0)
}
