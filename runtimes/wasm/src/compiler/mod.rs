//! Compiles modules in a sandboxed process that does nothing else and has limits of its own, so that compilation takes
//! neither time nor memory from the host. The host itself compiles only if an embedder allows that and there is no such
//! process.

#[cfg(unix)]
mod client;
mod compilation;
mod protocol;
#[cfg(unix)]
mod server;
#[cfg(not(unix))]
mod client {
    //! For systems on which no process can be started in a sandbox.
    use super::compilation::CompileError;
    use crate::module_source::ModuleSource;
    use crate::services::PluginServices;
    use metier_core::policy::CancelToken;

    pub(super) fn send_request(
        _: &PluginServices,
        _: &ModuleSource,
        _: &[u8],
        _: &CancelToken,
    ) -> Result<Vec<u8>, CompileError> {
        Err(CompileError::no_sandbox())
    }
}

#[cfg(unix)]
pub use self::server::compiler_main;

use self::compilation::{CompileError, CompiledModule};
use crate::module_source::ModuleSource;
use crate::services::PluginServices;
use metier_core::error::Result;
use metier_core::policy::CancelToken;

/// Compiles a module, which counts operations on request.
pub(super) fn compile(
    source: &ModuleSource,
    counts: bool,
    shared: &PluginServices,
    cancel: &CancelToken,
) -> Result<CompiledModule> {
    cancel.check()?;
    let request = protocol::encode_request(source, counts);
    let answer = match client::send_request(shared, source, &request, cancel) {
        Ok(answer) => answer,
        Err(CompileError::NoCompiler(_)) if shared.compile_in_process => {
            let compiled = compilation::compile(source, counts);
            cancel.check()?;
            return compiled;
        }
        Err(CompileError::NoCompiler(error) | CompileError::Failed(error)) => return Err(error),
    };
    protocol::decode_response(&answer, source, counts)
}
