//! The `metier` command: parse, call, exit code.

mod cli;

use std::process::ExitCode;

/// Rhai's memory limit is exact where this counts.
#[global_allocator]
static HEAP: metier::alloc_counter::CountingAllocator = metier::alloc_counter::CountingAllocator;

fn main() -> ExitCode {
    // Before anything else: this program is also the helper that starts scripts in their sandboxes.
    metier::helper_main();
    cli::main()
}
