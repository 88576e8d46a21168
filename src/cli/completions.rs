//! `metier completions`: the script with which a shell completes commands.

use metier::error::Result;

use super::output;

/// The options of `metier completions`.
#[derive(clap::Args)]
pub struct Args {
    /// The shell that runs the script
    shell: clap_complete::Shell,
}

pub(super) fn run(args: &Args, command: &mut clap::Command) -> Result<u8> {
    // `generate` panics where it cannot write, and it can always write to memory.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, command, "metier", &mut script);
    output::print(String::from_utf8_lossy(&script).trim_end())?;
    Ok(0)
}
