//! Why the compiler process compiled nothing.

use metier_core::error::{ErrorKind, Hint, SkillError};

pub(super) enum CompileError {
    /// There is no compiler process.
    NoCompiler(SkillError),
    /// The process was started and failed.
    Failed(SkillError),
}

impl CompileError {
    /// No process can be started in a sandbox here.
    pub(super) fn no_sandbox() -> Self {
        let sentence = "WebAssembly modules are compiled in a sandbox, and this build or system has none";
        let help = "run it on Linux with the Cargo feature `sandboxed`, or without a sandbox in the host's own process, \
                    where no limit holds (EngineBuilder::compile_in_process)";
        let error = SkillError::new(ErrorKind::SandboxUnavailable, sentence).with_help(help);
        Self::NoCompiler(error.with_hint(Hint::NoSandbox))
    }

    /// This program cannot be started again to compile, and a copy of it must not be.
    #[cfg_attr(not(unix), allow(dead_code))]
    pub(super) fn no_program() -> Self {
        let sentence =
            "WebAssembly modules are compiled in a process of the helper program, and this program has none";
        let help = "begin its `main` with metier::helper_main(), or name a helper with EngineBuilder::helper; \
                    EngineBuilder::compile_in_process compiles in this process, without a limit";
        Self::NoCompiler(SkillError::new(ErrorKind::Unavailable, sentence).with_help(help))
    }
}
