//! The table of runtimes: each is a package, and has one row here.

mod runtime;
mod services;
mod synwire;
mod table;

use metier_core::byte_order_mark::bytes_without_mark;
use metier_core::error::{ErrorKind, Result, SkillError};
use metier_core::executor::{
    CompiledScript, PLUGIN_MANIFEST, RUNTIMES_WITH_WORKERS, RuntimeId, Script, SkillExecutor, SkillInput,
};
use metier_core::host::untrusted::UntrustedDirs;
use metier_core::host::{InterpreterReport, LaunchPreview, SandboxReport, SandboxSupport, SkillContext};
use metier_core::policy::{CancelToken, ExecutionMode, Permission, RuntimeLimit};

use self::runtime::LoadFn;
pub use self::runtime::Runtime;
pub(crate) use self::services::RuntimeServices;
pub use self::table::Runtimes;
pub(crate) use metier_core::executor::is_plugin_manifest;
#[allow(unused_imports, reason = "asked for where there is a sandbox")]
pub(crate) use metier_core::host::metier_dirs;
pub(crate) use metier_external::{InterpreterSearch, LookupCache, ProgramVersion};

impl Runtimes {
    /// The runtimes of this version of metier, built in or not.
    pub fn built_in() -> Self {
        let mut runtimes = Self::default();
        for runtime in built_in_runtimes() {
            let registered = runtimes.register(runtime);
            debug_assert!(registered.is_ok(), "{registered:?}");
        }
        runtimes
    }
}

/// One row for each. docs/limits.md has the table of the limits.
fn built_in_runtimes() -> [Runtime; 6] {
    use RuntimeLimit::{Cpu, FileSize, Memory, OpenFiles, Operations};

    // Luau stops a script by unwinding through the callback that stops it.
    #[cfg(all(feature = "lua-runtime", panic = "unwind"))]
    const LUA: Option<LoadFn> = Some(|script, _, _| metier_lua::load(script));
    #[cfg(not(all(feature = "lua-runtime", panic = "unwind")))]
    const LUA: Option<LoadFn> = None;
    #[cfg(feature = "rhai-runtime")]
    const RHAI: Option<LoadFn> = Some(|script, _, cancel| metier_rhai::load(script, cancel));
    #[cfg(not(feature = "rhai-runtime"))]
    const RHAI: Option<LoadFn> = None;
    #[cfg(feature = "wasm-runtime")]
    const WASM: Option<LoadFn> =
        Some(|script, shared, cancel| metier_wasm::load(script, &plugin_services(shared), cancel));
    #[cfg(not(feature = "wasm-runtime"))]
    const WASM: Option<LoadFn> = None;
    const SEQUENCE: LoadFn =
        |script, shared, _| metier_sequence::load(script, shared.callees(), shared.watchdog().clone());
    const HTTP_CALL: LoadFn = |script, _, _| metier_http_call::load(script);
    const EXTERNAL: LoadFn = |script, shared, _| metier_external::load(script, shared.external());
    // Only Linux can limit a process that already runs.
    const PROCESS_LIMITS: &[RuntimeLimit] =
        if cfg!(target_os = "linux") { &[Memory, Cpu, FileSize, OpenFiles] } else { &[] };

    [
        Runtime::built_in(RuntimeId::LUA, LUA)
            .extensions(&["lua", "luau"])
            .feature("lua-runtime")
            .needs_unwinding(cfg!(feature = "lua-runtime"))
            .enforces(&[Memory, Operations, FileSize]),
        Runtime::built_in(RuntimeId::RHAI, RHAI)
            .extensions(&["rhai"])
            .feature("rhai-runtime")
            .enforces(&[Memory, Operations, FileSize]),
        Runtime::built_in(RuntimeId::WASM, WASM)
            .extensions(&["wasm", "wat"])
            .file_names(&[PLUGIN_MANIFEST])
            .feature("wasm-runtime")
            .enforces(&[Memory, Operations, FileSize]),
        Runtime::built_in(RuntimeId::TOOL_SEQUENCE, Some(SEQUENCE))
            .file_names(&["sequence.json"])
            .enforces(&[Memory, FileSize]),
        Runtime::built_in(RuntimeId::HTTP_CALL, Some(HTTP_CALL)).enforces(&[Memory]),
        Runtime::built_in(RuntimeId::EXTERNAL, Some(EXTERNAL)).enforces(PROCESS_LIMITS),
    ]
}

/// Compiles a script: by the embedder's loader if there is one, for a worker process if the script runs there, or else in this
/// process.
pub(crate) fn load(
    runtimes: &Runtimes,
    runtime: RuntimeId,
    script: &Script,
    mode: ExecutionMode,
    shared: &RuntimeServices,
    cancel: &CancelToken,
) -> Result<Box<dyn SkillExecutor>> {
    let runtime = runtimes.get(runtime)?;
    runtime.check_enabled()?;
    if let Some(load) = runtime.custom_loader() {
        return load(script);
    }
    let load = runtime.built_in_loader()?;
    let script = &*synwire::with_aliases(runtime.id(), script);
    if mode == ExecutionMode::Worker && RUNTIMES_WITH_WORKERS.contains(&runtime.id()) {
        return load_embedded_worker(runtime.id(), script, shared, cancel);
    }
    load(script, shared, cancel)
}

/// What plug-ins share in an engine.
#[cfg(feature = "wasm-runtime")]
fn plugin_services(shared: &RuntimeServices) -> metier_wasm::PluginServices {
    metier_wasm::PluginServices {
        #[cfg(unix)]
        launcher: shared.launcher().clone(),
        watchdog: shared.watchdog().clone(),
        compile_in_process: shared.compiles_in_process(),
        needs_load_timeout: shared.needs_load_timeout(),
    }
}

/// If this program was started as the compiler, compiles a module for the host and exits.
#[cfg(unix)]
pub(crate) fn compiler_main() {
    #[cfg(feature = "wasm-runtime")]
    metier_wasm::compiler_main();
}

/// The executor of a script that runs in a worker process.
fn load_embedded_worker(
    runtime: RuntimeId,
    script: &Script,
    shared: &RuntimeServices,
    cancel: &CancelToken,
) -> Result<Box<dyn SkillExecutor>> {
    #[cfg(unix)]
    return Ok(metier_external::load_embedded_worker(
        runtime,
        script,
        compile_for_workers(runtime, script, shared, cancel)?,
        shared.embedded_workers().clone(),
        shared.launcher().clone(),
        shared.watchdog().clone(),
    ));
    #[cfg(not(unix))]
    {
        let sentence = format!("failed to run {}: there are no worker processes on this system", script.path);
        let _ = (runtime, shared, cancel);
        return Err(SkillError::new(ErrorKind::SandboxUnavailable, sentence)
            .with_help("run it in this process")
            .with_hint(metier_core::error::Hint::InProcess));
    }
}

/// What workers get in place of a script's source, if its language is compiled.
#[cfg(unix)]
#[cfg_attr(not(feature = "wasm-runtime"), allow(clippy::unnecessary_wraps))]
fn compile_for_workers(
    runtime: RuntimeId,
    script: &Script,
    shared: &RuntimeServices,
    cancel: &CancelToken,
) -> Result<Option<Box<dyn CompiledScript>>> {
    #[cfg(feature = "wasm-runtime")]
    if runtime == RuntimeId::WASM {
        return metier_wasm::compile_for_workers(script, &plugin_services(shared), cancel).map(Some);
    }
    let _ = (runtime, script, shared, cancel);
    Ok(None)
}

/// If this program was started as a worker, runs scripts for a host and exits.
#[cfg(unix)]
pub(crate) fn worker_main() {
    metier_external::worker_main(|runtime, script, machine_code| {
        #[cfg(feature = "wasm-runtime")]
        if let Some(code) = machine_code {
            return metier_wasm::load_machine_code(&script.skill, code);
        }
        let _ = machine_code;
        let load = Runtimes::built_in().get(runtime)?.built_in_loader()?;
        load(script, &RuntimeServices::default(), &CancelToken::new())
    });
}

/// The script with all that it names in other files of its skill, so that one digest covers what runs: the manifest of a
/// plug-in with its modules in it. `read` reads such a file.
#[cfg_attr(not(feature = "wasm-runtime"), allow(clippy::unnecessary_wraps))]
pub(crate) fn inline_files(
    runtime: RuntimeId,
    path: &str,
    source: Vec<u8>,
    read: impl Fn(&str) -> Result<Vec<u8>>,
) -> Result<Vec<u8>> {
    #[cfg(feature = "wasm-runtime")]
    if runtime == RuntimeId::WASM {
        return metier_wasm::inline_modules(path, source, read);
    }
    let _ = (runtime, path, read);
    Ok(source)
}

/// Whether a runtime is detected for a file of this name; `source` reads the file if the name is not enough.
pub(crate) fn looks_like_script(
    runtimes: &Runtimes,
    path: &str,
    source: impl FnOnce() -> Option<Vec<u8>>,
) -> bool {
    if is_plugin_manifest(path) {
        return source().is_some_and(|source| names_modules(&source));
    }
    runtimes.for_path(path) != RuntimeId::EXTERNAL || metier_external::looks_like_script(path, source)
}

/// Whether a file is a JSON object with a list `wasm`, as the manifest of a plug-in.
fn names_modules(source: &[u8]) -> bool {
    // Of what is ignored nothing is kept, however much there is.
    #[derive(serde::Deserialize)]
    struct Manifest {
        #[serde(rename = "wasm")]
        _wasm: Vec<serde::de::IgnoredAny>,
    }
    serde_json::from_slice::<Manifest>(bytes_without_mark(source)).is_ok()
}

/// The hosts that the manifest of a plug-in asks for, as permissions; a manifest with one that is none does not run.
pub(crate) fn plugin_manifest_hosts(source: &[u8]) -> Vec<Permission> {
    #[derive(serde::Deserialize)]
    struct Manifest {
        #[serde(default)]
        allowed_hosts: Option<Vec<String>>,
    }
    let manifest: Option<Manifest> = serde_json::from_slice(bytes_without_mark(source)).ok();
    let hosts = manifest.and_then(|manifest| manifest.allowed_hosts).unwrap_or_default();
    let permission = |host: &String| match host.as_str() {
        "*" => Some(Permission::NET),
        host => format!("net:{host}").parse().ok(),
    };
    hosts.iter().filter_map(permission).collect()
}

/// The files and other resources that an external script would reach; fails as its run would before its process starts.
pub(crate) fn plan(
    script: &Script,
    shared: &RuntimeServices,
    input: &SkillInput,
    ctx: &SkillContext,
) -> Result<LaunchPreview> {
    metier_external::process_plan(script, shared.external(), input, ctx)
}

/// What encloses a script that is no process of its own: its worker, or the language itself. Fails as its run would before its worker
/// starts.
pub(crate) fn embedded_sandbox(
    runtime: RuntimeId,
    mode: ExecutionMode,
    script: &str,
    shared: &RuntimeServices,
    ctx: &SkillContext,
) -> Result<SandboxReport> {
    #[cfg(unix)]
    if mode == ExecutionMode::Worker && RUNTIMES_WITH_WORKERS.contains(&runtime) {
        return metier_external::worker_sandbox(script, shared.embedded_workers(), shared.launcher(), ctx);
    }
    let _ = (runtime, mode, script, shared, ctx);
    Ok(SandboxReport::IN_PROCESS)
}

/// The sandbox support of this machine for external scripts.
pub(crate) fn sandbox_support(shared: &RuntimeServices) -> SandboxSupport {
    metier_external::sandbox_support(shared.external())
}

/// The commands that run external scripts, installed or not. Programs of the project are untrusted and are not started.
pub(crate) fn interpreters(shared: &RuntimeServices, project: &std::path::Path) -> Vec<InterpreterReport> {
    metier_external::interpreters(shared.external(), project)
}

/// Cargo features that add something to skills, and whether this build has them.
pub(crate) const FEATURES: &[(&str, bool)] = &[
    ("cli", cfg!(feature = "cli")),
    ("config", cfg!(feature = "config")),
    ("http", cfg!(feature = "http")),
    ("json-schema", cfg!(feature = "json-schema")),
    ("lua-runtime", cfg!(feature = "lua-runtime")),
    ("mcp", cfg!(feature = "mcp")),
    ("rhai-runtime", cfg!(feature = "rhai-runtime")),
    ("sandboxed", cfg!(feature = "sandboxed")),
    ("wasm-runtime", cfg!(feature = "wasm-runtime")),
];

/// The folder in which compiled modules are cached on disk, in builds that cache them.
pub(crate) fn cache_folder() -> Option<std::path::PathBuf> {
    #[cfg(feature = "wasm-runtime")]
    return metier_wasm::cache_folder();
    #[cfg(not(feature = "wasm-runtime"))]
    None
}

/// Whether this build has a sandbox for external scripts on this system; otherwise `sandbox-unavailable`.
pub(crate) fn check_sandbox_built_in() -> Result<()> {
    if cfg!(all(feature = "sandboxed", target_os = "linux")) {
        return Ok(());
    }
    let sentence = "this build has no sandbox for processes on this system";
    Err(SkillError::new(ErrorKind::SandboxUnavailable, sentence)
        .with_help("build metier for Linux with the Cargo feature `sandboxed`"))
}

/// Whether external scripts are started by a copy of this process, as its `main` does not begin with the hook and no helper
/// program is set.
pub(crate) fn starts_from_copy(shared: &RuntimeServices) -> bool {
    #[cfg(unix)]
    return check_sandbox_built_in().is_ok() && !shared.launcher().has_server_program();
    #[cfg(not(unix))]
    {
        let _ = shared;
        false
    }
}

/// The command that runs an external script, where one is known.
pub(crate) fn interpreter_name(shared: &RuntimeServices, path: &str, source: &[u8]) -> Option<String> {
    metier_external::interpreter_name(path, source, shared.external().interpreters())
}

/// The program that would run an external script in a sandbox, as its run finds it.
pub(crate) fn find_interpreter(
    shared: &RuntimeServices,
    script: &InterpreterSearch<'_>,
    has_packages: bool,
) -> Result<std::path::PathBuf> {
    script.find(has_packages, shared.external())
}

/// The program on `PATH` that would run an external script without a sandbox: one that untrusted folders do not control. `reason` says of
/// another one why it is refused.
pub(crate) fn find_trusted_interpreter(
    shared: &RuntimeServices,
    script: &InterpreterSearch<'_>,
    reason: &str,
) -> Result<std::path::PathBuf> {
    script.find_trusted(reason, shared.external())
}

/// Whether a program can be set for this command; `usage` if not.
pub(crate) fn check_interpreter_override(name: &str, program: &std::path::Path) -> Result<()> {
    metier_external::check_override(name, program)
}

/// The version of the program of that name on `PATH`, which is started for it where this engine has not asked it before. With arguments
/// it is asked with these.
pub(crate) fn program_version(
    shared: &RuntimeServices,
    project: &std::path::Path,
    name: &str,
    arguments: &[String],
) -> ProgramVersion {
    #[cfg(unix)]
    return metier_external::program_version(shared.external(), project, name, arguments);
    #[cfg(not(unix))]
    {
        let _ = (shared, project, arguments);
        if has_program(name) { ProgramVersion::Unreadable } else { ProgramVersion::Absent }
    }
}

/// The first program of that name on `PATH` that untrusted folders do not control.
pub(crate) fn find_program(name: &str, untrusted: &UntrustedDirs) -> Option<std::path::PathBuf> {
    metier_external::find_trusted(name, untrusted)
}

/// Whether a program of that name is on `PATH`. It is not started.
pub(crate) fn has_program(name: &str) -> bool {
    metier_external::is_on_path(name)
}
