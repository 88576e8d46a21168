//! `metier completions`: what a shell needs to complete commands.

use clap::CommandFactory;
use metier::error::Result;

use super::output;

/// The options of `metier completions`.
#[derive(clap::Args)]
pub struct Args {
    /// The shell
    shell: clap_complete::Shell,
}

pub(super) fn run(args: &Args) -> Result<u8> {
    // `generate` panics where it cannot write, and it can always write to memory.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut super::Cli::command(), "metier", &mut script);
    output::print(String::from_utf8_lossy(&script).trim_end())?;
    Ok(0)
}
