//! The process that compiles, from its own side: a module in, its machine code out, nothing else in reach.

use std::io::{Read, Write};

use super::compilation::compile;
use crate::runtimes::sandbox;
use crate::runtimes::wasm::compiler::protocol;

/// The argument that makes a program the compiler.
pub(super) const COMPILER_ARGUMENT: &str = "__metier-compile-wasm";

/// Bytes of stack for what reads the module: it goes as deep as a module is nested.
const STACK_BYTES: usize = 16 << 20;

/// Makes this program the compiler where it was started for that, and ends it.
pub(crate) fn compiler_main() {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next().is_some_and(|first| first == COMPILER_ARGUMENT) && arguments.next().is_none() {
        std::process::exit(i32::from(serve().is_err()));
    }
}

/// One request from standard input, its answer to standard output.
fn serve() -> std::io::Result<()> {
    // What it takes to start a program is open in this sandbox; from here on nothing is.
    sandbox::deny_all_files()?;
    let mut request = Vec::new();
    std::io::stdin().lock().read_to_end(&mut request)?;
    let work = move || {
        let (script, counts) = protocol::decode_request(&request)?;
        drop(request);
        Some(protocol::encode_response(compile(&script, counts), counts))
    };
    let thread = std::thread::Builder::new().stack_size(STACK_BYTES).spawn(work)?;
    let answer = thread.join().ok().flatten().ok_or(std::io::ErrorKind::InvalidData)?;
    let mut stdout = std::io::stdout().lock();
    answer.iter().try_for_each(|part| stdout.write_all(part))?;
    stdout.flush()
}
