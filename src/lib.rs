//! metier runs **agent skills**: folders with a `SKILL.md` that a model reads, and scripts that do the work.
//!
//! An [`engine::Engine`] knows the skills of one project. An [`engine::Invocation`] names one, its input, grants and
//! limits; an [`engine::Outcome`] says what came of it:
//!
//! ```
//! use metier::engine::{Engine, Invocation};
//! use serde_json::json;
//!
//! # fn main() -> metier::error::Result<()> {
//! let engine = Engine::builder(".").build()?;
//! let outcome = engine.run(Invocation::new("word-count").input(json!({"text": "one two three"})));
//! # if metier::supports(metier::executor::RuntimeId::LUA).is_ok() {
//! assert_eq!(outcome.result?["total"]["words"], 3);
//! # }
//! # Ok(())
//! # }
//! ```
//!
//! For an editor or an agent there are:
//!
//! - [`Engine::run_async`](engine::Engine::run_async) and [`Engine::run_streamed`](engine::Engine::run_streamed): a future, and a
//!   stream of [`host::Event`], on every async runtime; dropped, they cancel the run.
//! - [`host::ToolProvider`], [`host::SamplingProvider`] and the other providers: what scripts reach, sync or by [`host::Async`].
//! - [`host::Approver`]: asked, while a run waits, about what nobody granted.
//! - [`engine::Runtime`]: a language of the program's own. [`registry::EmbeddedSkill`]: a skill inside the program.
//! - [`helper_main`]: the first line of `main`, which starts processes fast.
//!
//! The modules, from the bottom up:
//!
//! - [`error`]: the error type, [`error::SkillError`], with a kind for programs and a sentence for people.
//! - [`policy`]: requested permissions and grants, limits, and the token that stops a run.
//! - [`unicode`]: spells out invisible characters before a person or a model gets a text.
//! - [`alloc_counter`]: a counting allocator, which a program installs to enforce Rhai's memory limit exactly.
//! - [`host`]: the host API that a script calls on `ctx`: one table of functions and one scoped directory handle.
//! - [`skill`]: parses `SKILL.md` text to a manifest, diagnostics and two verdicts, without accessing the disk.
//! - [`formats`]: reads the definitions of other systems, and writes them.
//! - [`plan`]: parses and checks plans, and lists and reads their journals.
//! - [`executor`]: the trait a language implements; [`ScriptLoader`] compiles a script without an engine around it.
//! - [`registry`]: finds skills, resolves which skill a name means, and lists the catalog.
//! - [`trust`]: what the user trusts and has granted: the trust store, and the lock file of a project.
//! - [`state`] and [`packages`]: what skills keep in a project, and the packages that were prepared for scripts.
//! - [`pending`]: calls that wait for a person's decision.
//! - `changes`, on Unix: what runs wrote into a copy of a project: stored, applied and undone.
//! - [`config`]: values for limits, permissions and skills, with their origins, from a program or from files.
//! - [`engine`]: the pipeline that combines them, with a blocking and an async API.
//! - [`cases`]: runs the test cases of skills and judges the results.
//! - `mcp`, with the feature of that name: serves skills as tools of the Model Context Protocol.
//!
//! Items that this documentation does not show are for the command `metier`, its tests and its fuzzers; they may change in any
//! release.
//!
//! The core is synchronous, keeps no global state and prints nothing; it logs through `tracing`. Tested on Linux; on other
//! systems embedded languages are meant to work; external scripts need Linux, or a Unix and `exec:unsandboxed`.
#![deny(clippy::print_stdout, clippy::print_stderr, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

pub mod alloc_counter;
pub mod audit;
pub mod cases;
#[cfg(unix)]
pub mod changes;
pub mod config;
pub mod engine;
pub mod error;
pub mod executor;
pub mod formats;
pub mod host;
#[cfg(feature = "mcp")]
pub mod mcp;
pub mod packages;
pub mod pending;
pub mod plan;
pub mod policy;
pub mod registry;
mod runtimes;
pub mod skill;
pub mod state;
mod store_folder;
pub mod trust;
pub mod unicode;

/// Compiles a script without an engine around it, with the options that an engine would set.
///
/// The executor applies the limits and permissions of its context; nothing else of the engine's pipeline applies. WebAssembly
/// modules are compiled by a helper program, as in an engine, unless [`ScriptLoader::compile_in_process`] allows otherwise.
///
/// ```
/// use metier::ScriptLoader;
/// use metier::executor::{Script, SkillInput, RuntimeId};
/// use serde_json::json;
///
/// # fn main() -> metier::error::Result<()> {
/// # if metier::supports(RuntimeId::LUA).is_err() { return Ok(()); }
/// let script = Script::new("double", "double.lua", "return input.n * 2".as_bytes());
/// let executor = ScriptLoader::new().load(RuntimeId::LUA, &script)?;
/// assert_eq!(executor.execute(SkillInput::from(json!({"n": 21})))?.value, 42);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
pub struct ScriptLoader {
    helper: Option<std::path::PathBuf>,
    compile_in_process: bool,
    mode: policy::ExecutionMode,
    cancel: policy::CancelToken,
}

impl ScriptLoader {
    /// No helper program, in this process, never cancelled.
    pub fn new() -> Self {
        Self::default()
    }

    /// The helper program; see [`EngineBuilder::helper`](engine::EngineBuilder::helper).
    pub fn helper(mut self, program: impl Into<std::path::PathBuf>) -> Self {
        self.helper = Some(program.into());
        self
    }

    /// Whether modules may be compiled in this process, without a limit, if no helper program can do it in a sandbox; see
    /// [`EngineBuilder::compile_in_process`](engine::EngineBuilder::compile_in_process).
    pub fn compile_in_process(mut self, allowed: bool) -> Self {
        self.compile_in_process = allowed;
        self
    }

    /// Where the script runs: in this process (the default), or in a worker process.
    pub fn execution_mode(mut self, mode: policy::ExecutionMode) -> Self {
        self.mode = mode;
        self
    }

    /// The token that stops loading. Compiling a module also stops after the default deadline of a run.
    pub fn cancel(mut self, token: policy::CancelToken) -> Self {
        self.cancel = token;
        self
    }

    /// Loads a script of a built-in runtime; `unavailable` where this build lacks it.
    pub fn load(
        self,
        runtime: executor::RuntimeId,
        script: &executor::Script,
    ) -> error::Result<Box<dyn executor::SkillExecutor>> {
        let shared = runtimes::RuntimeServices::new(self.helper, false, policy::SandboxLevel::default())
            .with_compile_in_process(self.compile_in_process)
            .with_load_timeout();
        let built_in = runtimes::Runtimes::built_in();
        runtimes::load(&built_in, runtime, script, self.mode, &shared, &self.cancel)
    }
}

/// Whether this build can run scripts of a built-in runtime; otherwise `unavailable`, with the Cargo feature that adds it.
pub fn supports(runtime: executor::RuntimeId) -> error::Result<()> {
    runtimes::Runtimes::built_in().get(runtime)?.check_available()
}

/// Makes this program its own helper program. Must be the first line of `main`.
///
/// External scripts are started by a fork server, a small process that runs this same program. If a program does not begin with
/// this line, the fork server is a copy of the host instead, which takes longer the more memory the host has. With the same line
/// the program also compiles WebAssembly modules, each in a sandboxed process of its own, which a copy cannot do, and acts as the
/// command `metier ctx` of shell scripts, which find it under that name.
pub fn helper_main() {
    #[cfg(unix)]
    {
        metier_sandbox::fork_server_main(metier_external::remove_of_killed_host);
        runtimes::compiler_main();
        runtimes::worker_main();
        metier_external::client_main();
    }
}

/// Counts what scripts allocate, as in the command.
#[cfg(test)]
#[global_allocator]
static HEAP: metier_core::alloc_counter::CountingAllocator = metier_core::alloc_counter::CountingAllocator;
