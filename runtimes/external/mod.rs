//! Scripts run by their interpreter, as processes.
//!
//! A run detects the interpreter, builds the command and its sandbox policy, runs the process, and evaluates its exit.
//! Only detection works outside of Unix.

#[cfg(unix)]
mod command;
#[cfg(unix)]
mod denial_hints;
#[cfg(unix)]
mod embedded_worker;
#[cfg(not(unix))]
#[path = "unsupported.rs"]
mod executor;
#[cfg(unix)]
mod executor;
#[cfg(unix)]
mod explain;
#[cfg(unix)]
mod host_api;
mod interpreter;
#[cfg(unix)]
mod limit_errors;
#[cfg(unix)]
mod outcome;
#[cfg(unix)]
mod policy;
#[cfg(unix)]
mod process;
#[cfg(unix)]
mod protected;
mod script_file;
#[cfg(unix)]
mod stdout;
#[cfg(unix)]
mod system_config;
#[cfg(unix)]
mod worker;

#[cfg(unix)]
pub(super) use self::embedded_worker::{EmbeddedWorkerPool, load as load_embedded_worker, worker_main};
use self::executor::ExternalExecutor;
#[cfg(not(unix))]
pub(super) use self::executor::{interpreters, machine, process_plan};
#[cfg(unix)]
pub(super) use self::explain::{interpreters, machine, process_plan};
#[cfg(unix)]
pub(super) use self::host_api::{ApiClients, client_main};
#[cfg(unix)]
pub(super) use self::interpreter::cache::InterpreterCache;
use self::interpreter::detect::Interpreter;
use super::RuntimeServices;
use crate::error::Result;
use crate::executor::{Script, SkillExecutor};
use crate::policy::CancelToken;

#[cfg(test)]
sandboxed_tests! {
    #[cfg(test)]
    mod tests;
}

/// Detects the script's interpreter; `invalid-skill` if neither its shebang nor its file extension names one, or if it has no
/// folder. Whether the interpreter is installed is checked when the script runs.
pub(super) fn load(
    script: &Script,
    shared: &RuntimeServices,
    _: &CancelToken,
) -> Result<Box<dyn SkillExecutor>> {
    Ok(Box::new(ExternalExecutor::new(script, shared)?))
}

/// Whether a file looks like a script of a known interpreter: by its file extension, or without one by its shebang.
pub(super) fn looks_like_script(path: &str, source: impl FnOnce() -> Option<Vec<u8>>) -> bool {
    let has_ending = path.rsplit('/').next().is_some_and(|name| name.contains('.'));
    let source = if has_ending { None } else { source() };
    Interpreter::detect(path, &source.unwrap_or_default()).is_ok()
}

/// Fails as a run would if no interpreter is detected, or none is installed.
pub(super) fn check_interpreter(path: &str, source: &[u8]) -> Result<()> {
    Interpreter::detect(path, source)?.locate(path, &self::interpreter::detect::search_path()).map(drop)
}

/// Whether a program of that name is on `PATH`.
pub(super) fn is_on_path(name: &str) -> bool {
    self::interpreter::detect::is_on_path(name, &self::interpreter::detect::search_path())
}
