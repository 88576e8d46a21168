//! Converts the end of a plug-in into an error for people: a message for each trap, and the plug-in's own functions as
//! traceback.

use std::fmt;

use wasmtime::{Error, FrameInfo, Trap, WasmBacktrace};

use super::wasi::I32Exit;
use metier_core::error::{ErrorKind, Location, SkillError};

/// Traps with a message and an error kind of their own.
const TRAPS: &[(Trap, ErrorKind, &str)] = &[
    (Trap::StackOverflow, ErrorKind::Script, "the plug-in's calls are nested too deep"),
    (Trap::UnreachableCodeReached, ErrorKind::Script, "the plug-in gave up: it reached `unreachable`"),
    (Trap::MemoryOutOfBounds, ErrorKind::Script, "the plug-in reached outside of its memory"),
    (Trap::TableOutOfBounds, ErrorKind::Script, "the plug-in reached outside of a table"),
    (Trap::IndirectCallToNull, ErrorKind::Script, "the plug-in called a function that is not there"),
    (
        Trap::BadSignature,
        ErrorKind::Script,
        "the plug-in called a function with a type that it does not have",
    ),
    (Trap::IntegerDivisionByZero, ErrorKind::Script, "the plug-in divided by zero"),
    (Trap::IntegerOverflow, ErrorKind::Script, "an integer of the plug-in became too large"),
    (
        Trap::BadConversionToInteger,
        ErrorKind::Script,
        "the plug-in converted a number to an integer that is not one",
    ),
    (Trap::OutOfFuel, ErrorKind::Operations, "the plug-in executed more operations than it may"),
];

/// The module that could not be instantiated, by its label: no function of it is on the call stack.
#[derive(Debug)]
pub(super) struct FailedModule(pub(super) String);

impl fmt::Display for FailedModule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "failed to instantiate {}", self.0)
    }
}

/// The error for a call that did not return.
pub(super) fn call_error(error: &Error) -> SkillError {
    let known = error.downcast_ref::<Trap>().and_then(|trap| TRAPS.iter().find(|(known, ..)| known == trap));
    if let Some((_, kind, sentence)) = known {
        return SkillError::new(*kind, *sentence);
    }
    match error.downcast_ref::<I32Exit>() {
        Some(exit) => exit_code_error(exit.0),
        None => SkillError::new(ErrorKind::Script, format!("the plug-in failed: {}", error.root_cause())),
    }
}

/// The error for a code that is not 0.
pub(super) fn exit_code_error(code: impl std::fmt::Display) -> SkillError {
    SkillError::new(ErrorKind::Script, format!("the plug-in ended with code {code} and did not say why"))
}

/// The error, with the plug-in's file and the functions on its call stack, innermost first; `frame_name` gives the line of a
/// frame, if it has one.
pub(super) fn with_traceback(
    error: SkillError,
    file: &str,
    call: Option<&Error>,
    frame_name: impl Fn(&FrameInfo) -> Option<String>,
) -> SkillError {
    const MAX_FRAMES: usize = 12;
    let trace = call.and_then(|error| error.downcast_ref::<WasmBacktrace>());
    let frames = trace.map(WasmBacktrace::frames).unwrap_or_default();
    let location = Location::new(file, None, None);
    let failed = call.and_then(|error| error.downcast_ref::<FailedModule>()).map(|module| module.0.clone());
    let traceback = failed.into_iter().chain(frames.iter().filter_map(frame_name)).take(MAX_FRAMES).collect();
    error.with_location(location).with_traceback(traceback)
}
