//! The languages in which skills are written: one folder each, and one row here.

#[cfg(any(feature = "lua-runtime", feature = "rhai-runtime"))]
mod json_boundary;
/// Tests that need a sandbox, compiled on systems that have one.
#[cfg(all(test, unix, feature = "sandboxed", target_os = "linux"))]
macro_rules! sandboxed_tests {
    ($($tests:item)*) => { $($tests)* };
}
#[cfg(all(test, not(all(unix, feature = "sandboxed", target_os = "linux"))))]
macro_rules! sandboxed_tests {
    ($($tests:item)*) => {};
}
mod external;
#[cfg(feature = "lua-runtime")]
mod lua;
#[cfg(feature = "rhai-runtime")]
mod rhai;
mod sequence;
// Without a sandbox implementation, parts of its interface are unused.
#[cfg(any(feature = "lua-runtime", feature = "rhai-runtime", feature = "wasm-runtime"))]
mod pool;
#[cfg(unix)]
#[cfg_attr(not(all(feature = "sandboxed", target_os = "linux")), allow(dead_code, unused_imports))]
pub(crate) mod sandbox;
#[cfg(feature = "wasm-runtime")]
mod wasm;

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::error::{ErrorKind, Result, SkillError};
use crate::executor::{Script, SkillExecutor, SkillInput, SkillRuntime};
use crate::host::{InterpreterReport, LaunchPreview, SandboxSupport, SkillContext};
use crate::plan::Callees;
use crate::policy::{CancelToken, ExecutionMode, Limits, Watchdog};

#[allow(unused_imports, reason = "asked for where there is a sandbox")]
pub(crate) use crate::host::metier_dirs;

/// Compiles a script once; the executor runs it many times. The token is that of the first run that needs it, so that a slow
/// load is stopped with that run: at its deadline or when it is cancelled.
pub(crate) type LoadFn = fn(&Script, &RuntimeServices, &CancelToken) -> Result<Box<dyn SkillExecutor>>;

/// The services that the executors of one engine share.
#[derive(Clone, Default)]
pub(crate) struct RuntimeServices {
    /// Removes what runs leave behind. Dropped before the launcher, whose fork server removes what is left by then.
    #[cfg(unix)]
    cleanup: std::sync::Arc<sandbox::CleanupThreads>,
    /// The idle worker processes.
    #[cfg(unix)]
    embedded_workers: std::sync::Arc<external::EmbeddedWorkerPool>,
    /// Starts processes in sandboxes.
    #[cfg(unix)]
    launcher: std::sync::Arc<sandbox::Launcher>,
    /// The client libraries through which sandboxed scripts call the host API.
    #[cfg(unix)]
    api_clients: std::sync::Arc<external::ApiClients>,
    /// The interpreters that are installed to run them.
    #[cfg(unix)]
    interpreter_cache: std::sync::Arc<external::InterpreterCache>,
    /// The number of external scripts that run or are being cleaned up.
    process_count: std::sync::Arc<AtomicUsize>,
    /// The skills and tools that plans may call, if an engine provides them.
    callees: Option<std::sync::Arc<dyn Callees>>,
    /// The timer of steps that have a timeout of their own.
    watchdog: std::sync::Arc<Watchdog>,
    /// Whether untrusted code may be compiled in this process if no other process can compile it.
    compile_in_process: bool,
    /// Whether loading needs a timeout of its own, because no run with a deadline is waiting for it.
    needs_load_timeout: bool,
}

impl RuntimeServices {
    /// The threads that remove the folders of runs.
    #[cfg(unix)]
    fn cleanup(&self) -> &std::sync::Arc<sandbox::CleanupThreads> {
        &self.cleanup
    }

    /// The idle worker processes.
    #[cfg(unix)]
    fn embedded_workers(&self) -> &external::EmbeddedWorkerPool {
        &self.embedded_workers
    }

    /// Starts processes in sandboxes.
    #[cfg(unix)]
    fn launcher(&self) -> &sandbox::Launcher {
        &self.launcher
    }

    /// The client libraries through which sandboxed scripts call the host API.
    #[cfg(unix)]
    fn api_clients(&self) -> &external::ApiClients {
        &self.api_clients
    }

    /// The interpreters that are installed to run scripts.
    #[cfg(unix)]
    fn interpreter_cache(&self) -> &external::InterpreterCache {
        &self.interpreter_cache
    }

    /// `helper` is the program that starts processes, if the embedder named one; `tier` is the highest sandbox level to set
    /// up.
    #[cfg_attr(not(unix), allow(unused_variables))]
    pub(crate) fn new(helper: Option<std::path::PathBuf>, tier: crate::policy::SandboxLevel) -> Self {
        Self {
            #[cfg(unix)]
            cleanup: std::sync::Arc::default(),
            #[cfg(unix)]
            embedded_workers: std::sync::Arc::default(),
            #[cfg(unix)]
            launcher: std::sync::Arc::new(sandbox::Launcher::new(
                helper.map(sandbox::ForkServerSource::Program).unwrap_or_default(),
                tier,
            )),
            #[cfg(unix)]
            api_clients: std::sync::Arc::default(),
            #[cfg(unix)]
            interpreter_cache: std::sync::Arc::default(),
            process_count: std::sync::Arc::default(),
            callees: None,
            watchdog: std::sync::Arc::default(),
            compile_in_process: false,
            needs_load_timeout: false,
        }
    }

    /// Whether external scripts run or are being cleaned up.
    pub(crate) fn runs_processes(&self) -> bool {
        self.process_count.load(Ordering::Acquire) > 0
    }

    /// Counts an external script until the guard is dropped.
    #[cfg(unix)]
    fn count_process(&self) -> impl Drop + use<> {
        self.process_count.fetch_add(1, Ordering::AcqRel);
        ProcessCountGuard(self.process_count.clone())
    }

    /// Sets whether untrusted code may be compiled in this process if no other process can compile it.
    pub(crate) fn with_compile_in_process(self, in_process: bool) -> Self {
        Self { compile_in_process: in_process, ..self }
    }

    /// For loading without a waiting run: a slow load gets the default deadline of a run.
    pub(crate) fn with_load_timeout(self) -> Self {
        Self { needs_load_timeout: true, ..self }
    }

    /// The token that stops a slow load, with a deadline if no run has one; it holds until the guard is dropped.
    #[cfg_attr(not(feature = "wasm-runtime"), allow(dead_code))]
    fn load_token(&self, cancel: &CancelToken) -> (CancelToken, Option<crate::policy::DeadlineGuard>) {
        let token = cancel.child();
        let until = std::time::Instant::now() + Limits::default().timeout;
        let armed = self.needs_load_timeout.then(|| self.watchdog.arm(until, &token));
        (token, armed)
    }

    /// Whether untrusted code may be compiled in this process if no other process can compile it.
    #[cfg_attr(not(feature = "wasm-runtime"), allow(dead_code))]
    fn compiles_in_process(&self) -> bool {
        self.compile_in_process
    }

    /// The skills and tools that plans may call.
    pub(crate) fn callees(&self) -> Option<std::sync::Arc<dyn Callees>> {
        self.callees.clone()
    }

    /// The timer of steps that have a timeout of their own.
    fn watchdog(&self) -> &std::sync::Arc<Watchdog> {
        &self.watchdog
    }

    /// Sets the skills and tools that plans may call.
    pub(crate) fn with_callees(self, callees: std::sync::Arc<dyn Callees>) -> Self {
        Self { callees: Some(callees), ..self }
    }
}

#[cfg(unix)]
struct ProcessCountGuard(std::sync::Arc<AtomicUsize>);

#[cfg(unix)]
impl Drop for ProcessCountGuard {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// One language.
pub(crate) struct Runtime {
    /// The runtime that it implements.
    pub(crate) name: SkillRuntime,
    /// The Cargo feature that enables it; `None` if it is always built in.
    pub(crate) feature: Option<&'static str>,
    /// Loads a script, if this build supports the language.
    pub(crate) load: Option<LoadFn>,
}

/// Every language this version knows, built in or not.
pub(crate) const RUNTIMES: &[Runtime] = &[
    Runtime {
        name: SkillRuntime::Lua,
        feature: Some("lua-runtime"),
        #[cfg(feature = "lua-runtime")]
        load: Some(|script, _, _| lua::load(script)),
        #[cfg(not(feature = "lua-runtime"))]
        load: None,
    },
    Runtime {
        name: SkillRuntime::Rhai,
        feature: Some("rhai-runtime"),
        #[cfg(feature = "rhai-runtime")]
        load: Some(|script, _, cancel| rhai::load(script, cancel)),
        #[cfg(not(feature = "rhai-runtime"))]
        load: None,
    },
    Runtime {
        name: SkillRuntime::Wasm,
        feature: Some("wasm-runtime"),
        #[cfg(feature = "wasm-runtime")]
        load: Some(wasm::load),
        #[cfg(not(feature = "wasm-runtime"))]
        load: None,
    },
    Runtime { name: SkillRuntime::ToolSequence, feature: None, load: Some(sequence::load) },
    Runtime { name: SkillRuntime::External, feature: None, load: Some(external::load) },
];

/// The loader of a language; fails with `unavailable`, naming the Cargo feature, if this build does not have it.
pub(crate) fn loader(runtime: SkillRuntime) -> Result<LoadFn> {
    let row = RUNTIMES.iter().find(|row| row.name == runtime);
    if let Some(load) = row.and_then(|row| row.load) {
        return Ok(load);
    }
    let error = SkillError::new(ErrorKind::Unavailable, format!("this build cannot run {runtime} scripts"));
    Err(match row.and_then(|row| row.feature) {
        Some(feature) => error.with_help(format!("build metier with the Cargo feature `{feature}`")),
        None => error.with_help(format!("this version of metier has no {runtime} runtime")),
    })
}

/// If this program was started as the compiler, compiles a module for the host and exits.
#[cfg(unix)]
pub(crate) fn compiler_main() {
    #[cfg(feature = "wasm-runtime")]
    wasm::compiler_main();
}

/// The executor of a script that runs in a worker process in this mode; `None` for scripts that do not run there.
pub(crate) fn load_embedded_worker(
    mode: ExecutionMode,
    runtime: SkillRuntime,
    script: &Script,
    shared: &RuntimeServices,
) -> Option<Result<Box<dyn SkillExecutor>>> {
    let is_asked = mode == ExecutionMode::Worker && matches!(runtime, SkillRuntime::Lua | SkillRuntime::Rhai);
    is_asked.then(|| {
        loader(runtime)?;
        #[cfg(unix)]
        return Ok(external::load_embedded_worker(runtime, script, shared));
        #[cfg(not(unix))]
        {
            let sentence =
                format!("failed to run {}: there are no worker processes on this system", script.path);
            let _ = shared;
            return Err(SkillError::new(ErrorKind::SandboxUnavailable, sentence)
                .with_help("run it in this process, by --execution in-process"));
        }
    })
}

/// If this program was started as a worker, runs scripts for a host and exits.
#[cfg(unix)]
pub(crate) fn worker_main() {
    external::worker_main();
}

/// If this program was started as a client of a shell script, calls the host for it and exits.
#[cfg(unix)]
pub(crate) fn client_main() {
    external::client_main();
}

/// Whether a runtime is detected for a file of this name; `source` reads the file if the name is not enough.
pub(crate) fn looks_like_script(path: &str, source: impl FnOnce() -> Option<Vec<u8>>) -> bool {
    SkillRuntime::from_path(path) != SkillRuntime::External || external::looks_like_script(path, source)
}

/// The files and other resources that an external script would reach; fails as its run would before its process starts.
pub(crate) fn plan(
    script: &Script,
    shared: &RuntimeServices,
    input: &SkillInput,
    ctx: &SkillContext,
) -> Result<LaunchPreview> {
    external::process_plan(script, shared, input, ctx)
}

/// The sandbox support of this machine for external scripts.
pub(crate) fn sandbox_support(shared: &RuntimeServices) -> SandboxSupport {
    external::machine(shared)
}

/// The commands that run external scripts, installed or not. Programs of the project are untrusted and are not started.
pub(crate) fn interpreters(shared: &RuntimeServices, project: &std::path::Path) -> Vec<InterpreterReport> {
    external::interpreters(shared, project)
}

/// Cargo features that add something to skills, and whether this build has them.
pub(crate) const FEATURES: &[(&str, bool)] = &[
    ("cli", cfg!(feature = "cli")),
    ("lua-runtime", cfg!(feature = "lua-runtime")),
    ("rhai-runtime", cfg!(feature = "rhai-runtime")),
    ("sandboxed", cfg!(feature = "sandboxed")),
    ("wasm-runtime", cfg!(feature = "wasm-runtime")),
];

/// The folder in which compiled modules are cached on disk, in builds that cache them.
pub(crate) fn cache_folder() -> Option<std::path::PathBuf> {
    #[cfg(feature = "wasm-runtime")]
    return wasm::cache_folder();
    #[cfg(not(feature = "wasm-runtime"))]
    None
}

/// The error for an external script whose interpreter is unknown or missing.
pub(crate) fn check_interpreter(path: &str, source: &[u8]) -> Result<()> {
    external::check_interpreter(path, source)
}

/// Whether a program of that name is on `PATH`. It is not started.
pub(crate) fn has_program(name: &str) -> bool {
    external::is_on_path(name)
}
