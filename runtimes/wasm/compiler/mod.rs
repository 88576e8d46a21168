//! Compiles modules in a sandboxed process that does nothing else and has limits of its own, so that compilation takes
//! neither time nor memory from the host. The host itself compiles only if an embedder allows that and there is no such
//! process.

#[cfg(unix)]
#[cfg(unix)]
mod client;
mod compilation;
mod protocol;
#[cfg(unix)]
mod server;
#[cfg(not(unix))]
mod client {
    //! For systems on which no process can be started in a sandbox.
    use super::CompileError;
    use crate::executor::Script;
    use crate::policy::CancelToken;
    use crate::runtimes::RuntimeServices;

    pub(super) fn send_request(
        _: &RuntimeServices,
        _: &Script,
        _: &[u8],
        _: &CancelToken,
    ) -> Result<Vec<u8>, CompileError> {
        Err(CompileError::no_sandbox())
    }
}

#[cfg(unix)]
pub(crate) use self::server::compiler_main;

use crate::error::{ErrorKind, Result, SkillError};
use crate::executor::Script;
use crate::policy::CancelToken;
use crate::runtimes::RuntimeServices;
use crate::runtimes::wasm::metadata::ModuleMetadata;

/// The metadata of a module, and its machine code from `Engine::precompile_module`.
pub(super) type CompiledModule = (ModuleMetadata, Vec<u8>);

/// Why the compiler process compiled nothing.
enum CompileError {
    /// There is no compiler process.
    NoCompiler(SkillError),
    /// The process was started and failed.
    Failed(SkillError),
}

/// Compiles a module, which counts operations on request.
pub(super) fn compile(
    script: &Script,
    counts: bool,
    shared: &RuntimeServices,
    cancel: &CancelToken,
) -> Result<CompiledModule> {
    cancel.check()?;
    let (cancel, _armed) = shared.load_token(cancel);
    let request = self::protocol::encode_request(script, counts);
    let answer = match self::client::send_request(shared, script, &request, &cancel) {
        Ok(answer) => answer,
        Err(CompileError::NoCompiler(_)) if shared.compiles_in_process() => {
            let compiled = compilation::compile(script, counts);
            cancel.check()?;
            return compiled;
        }
        Err(CompileError::NoCompiler(error) | CompileError::Failed(error)) => return Err(error),
    };
    self::protocol::decode_response(&answer, script, counts)
}

impl CompileError {
    /// No process can be started in a sandbox here.
    fn no_sandbox() -> Self {
        let sentence = "WebAssembly modules are compiled in a sandbox, and this build or system has none";
        let help = "run it on Linux with the Cargo feature `sandboxed`; --sandbox off, or \
                    EngineBuilder::compile_in_process, compiles in the host's own process, without a limit";
        Self::NoCompiler(SkillError::new(ErrorKind::SandboxUnavailable, sentence).with_help(help))
    }

    /// This program cannot be started again to compile, and a copy of it must not be.
    #[cfg_attr(not(unix), allow(dead_code))]
    fn no_program() -> Self {
        let sentence =
            "WebAssembly modules are compiled in a process of the helper program, and this program has none";
        let help = "begin its `main` with metier::helper_main(), or name a helper with EngineBuilder::helper; \
                    EngineBuilder::compile_in_process compiles in this process, without a limit";
        Self::NoCompiler(SkillError::new(ErrorKind::Unavailable, sentence).with_help(help))
    }
}
