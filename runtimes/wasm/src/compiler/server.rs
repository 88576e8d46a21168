//! The compiler process itself: it reads a module, writes its machine code, and has access to nothing else.

use std::io::{Read, Write};

use super::compilation::compile;
use crate::compiler::protocol;

/// The argument that starts a program as the compiler.
pub(super) const COMPILER_ARGUMENT: &str = "__metier-compile-wasm";

/// The stack size in bytes for parsing a module, which recurses as deep as the module is nested.
const STACK_BYTES: usize = 16 << 20;

/// If this program was started as the compiler, compiles a module and exits.
pub fn compiler_main() {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next().is_some_and(|first| first == COMPILER_ARGUMENT) && arguments.next().is_none() {
        std::process::exit(i32::from(serve().is_err()));
    }
}

/// Reads one request from standard input and writes its response to standard output.
fn serve() -> std::io::Result<()> {
    // The files that a program needs to start are accessible in this sandbox; from here on no file is. Where Landlock cannot see to
    // that, a filter of system calls does, which also keeps signals inside.
    metier_sandbox::deny_all_files().or_else(|_| metier_sandbox::restrict_to_computing())?;
    let mut request = Vec::new();
    std::io::stdin().lock().read_to_end(&mut request)?;
    let work = move || {
        let (source, counts) = protocol::decode_request(&request)?;
        drop(request);
        Some(protocol::encode_response(compile(&source, counts), counts))
    };
    let thread = std::thread::Builder::new().stack_size(STACK_BYTES).spawn(work)?;
    let answer = thread.join().ok().flatten().ok_or(std::io::ErrorKind::InvalidData)?;
    let mut stdout = std::io::stdout().lock();
    answer.iter().try_for_each(|part| stdout.write_all(part))?;
    stdout.flush()
}
