//! The helper: a small process with one thread that splits off a stub for every order, and ends with its host.
//!
//! A process that is split must copy the tables of its memory; here there is next to none, however much the host has.

use std::os::fd::AsFd;

use rustix::process::{DumpableBehavior, set_dumpable_behavior, setsid};

use super::system::{self, Side};
use super::{stub, wire};

/// Serves orders from the socket that is standard input until the host hangs up.
pub(super) fn until_the_host_is_gone() -> ! {
    serve(&std::io::stdin())
}

/// Serves orders from this socket, the one thing the process keeps.
pub(super) fn serve(socket: &impl AsFd) -> ! {
    let Ok(socket) = system::keep_only(socket) else { system::exit(1) };
    // A key pressed in the host's terminal is not meant for the helper, and nobody may look into it.
    setsid().ok();
    set_dumpable_behavior(DumpableBehavior::NotDumpable).ok();
    system::reset_signals();
    system::reap_automatically(true);
    while let Ok(Some((order, ends))) = wire::receive(&socket) {
        // From here on the order is this process's matter, and must not be given to another one.
        if rustix::io::write(&socket, b"taken").is_err() {
            break;
        }
        match system::fork() {
            Ok(Side::Child) => {
                // As long as anybody holds this end, the host takes the helper to be alive.
                drop(socket);
                system::exit(stub::watch(&order, ends));
            }
            // Without a report the pipe for it hangs up, which the host understands.
            Ok(Side::Parent(_)) | Err(_) => drop(ends),
        }
    }
    system::exit(0)
}
