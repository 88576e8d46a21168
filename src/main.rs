//! The `metier` command: parses the arguments, runs the command, and returns the exit code.

mod cli;

use std::process::ExitCode;

/// Installed, since it makes Rhai's memory limit exact.
#[global_allocator]
static HEAP: metier::alloc_counter::CountingAllocator = metier::alloc_counter::CountingAllocator;

fn main() -> ExitCode {
    // Must run first: this program is also the fork server that starts scripts in their sandboxes.
    metier::helper_main();
    cli::main()
}
