//! The `metier` command: parse, call, exit code.

mod cli;

use std::process::ExitCode;

fn main() -> ExitCode {
    // Before anything else: this program is also the helper that starts scripts in their cages.
    metier::helper_main();
    cli::main()
}
