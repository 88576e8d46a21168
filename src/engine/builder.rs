//! Builds an engine from its roots, limits, policies and providers.

use std::path::PathBuf;
use std::sync::Arc;

use super::{Engine, EngineInner};
use crate::engine::builtin::UnpackedSkills;
use crate::engine::callee_resolver::CalleeResolver;
use crate::engine::script_cache::{CustomLoader, ScriptCache};
use crate::engine::skill_provider::EngineSkillProvider;
use crate::engine::tool_validation::ValidatedTools;
use crate::error::{Result, SkillError};
use crate::executor::{Script, SkillExecutor, SkillRuntime};
use crate::host::files::SecretLinks;
use crate::host::temp_dirs::TempDirLease;
use crate::host::{
    ConfigProvider, DEFAULT_HTTP_CLIENT, HttpClient, Providers, SamplingProvider, SecretProvider,
    SkillProvider, ToolProvider, check_memory_reserve,
};
use crate::policy::{ExecutionMode, Limits, SandboxLevel, SandboxMode, ThreadBudget, Watchdog};
use crate::registry::{Registry, Roots};
use crate::runtimes::RuntimeServices;

/// Builds an [`Engine`]; see [`Engine::builder`].
///
/// ```
/// use std::time::Duration;
///
/// use metier::engine::Engine;
/// use metier::policy::{Limits, SandboxMode};
/// use metier::registry::Roots;
///
/// # fn main() -> metier::error::Result<()> {
/// let engine = Engine::builder(".")
///     .roots(Roots::standard("acme", ".".as_ref()))
///     .limits(Limits::default().timeout(Duration::from_secs(5)))
///     .sandbox_mode(SandboxMode::Required)
///     .build()?;
/// assert!(engine.registry().find("word-count").is_ok());
/// # Ok(())
/// # }
/// ```
pub struct EngineBuilder {
    project: PathBuf,
    roots: Option<Roots>,
    limits: Limits,
    sandbox_mode: SandboxMode,
    execution_mode: ExecutionMode,
    sandbox_level: SandboxLevel,
    max_threads: usize,
    helper: Option<PathBuf>,
    compile_in_process: bool,
    loaders: Vec<(SkillRuntime, CustomLoader)>,
    providers: Providers,
}

impl EngineBuilder {
    pub(super) fn new(project: PathBuf) -> Self {
        Self {
            project,
            roots: None,
            limits: Limits::default(),
            sandbox_mode: SandboxMode::default(),
            execution_mode: ExecutionMode::default(),
            sandbox_level: SandboxLevel::default(),
            max_threads: ThreadBudget::DEFAULT_MAX,
            helper: None,
            compile_in_process: false,
            loaders: Vec::new(),
            providers: Providers { http: DEFAULT_HTTP_CLIENT.map(|client| client()), ..Providers::default() },
        }
    }

    /// Where skills are looked for. Default: the standard roots of the product `metier`.
    pub fn roots(mut self, roots: Roots) -> Self {
        self.roots = Some(roots);
        self
    }

    /// The limits of runs whose invocation names none.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// How strictly the sandbox of a process is required before it may start, for runs whose invocation does not set it.
    /// Default: `required`.
    pub fn sandbox_mode(mut self, isolation: SandboxMode) -> Self {
        self.sandbox_mode = isolation;
        self
    }

    /// Where Lua and Rhai scripts run, for runs whose invocation does not set it. Default: in this process. In a worker process
    /// a script is killed at its deadline whatever it does.
    pub fn execution_mode(mut self, mode: ExecutionMode) -> Self {
        self.execution_mode = mode;
        self
    }

    /// The strongest sandbox level to set up for external scripts. Default: with namespaces.
    pub fn sandbox_level(mut self, tier: SandboxLevel) -> Self {
        self.sandbox_level = tier;
        self
    }

    /// The maximum number of threads of one run, including those of all the skills it calls. Default:
    /// [`ThreadBudget::DEFAULT_MAX`].
    ///
    /// Work that finds no free thread continues on the thread it has, so a plan gives the same result with any number of
    /// threads, only later. The exception is a script that calls a skill: it always takes a thread, up to the maximum call
    /// depth.
    pub fn max_threads(mut self, most: usize) -> Self {
        self.max_threads = most;
        self
    }

    /// The helper program that starts external scripts: `metier` itself, or a program whose `main` begins with
    /// [`helper_main`](crate::helper_main). Default: this program if its `main` begins so, else a copy of this process, which
    /// takes longer to create the more memory the process has.
    pub fn helper(mut self, program: impl Into<PathBuf>) -> Self {
        self.helper = Some(program.into());
        self
    }

    /// Whether WebAssembly modules may be compiled in this process where no helper program can compile them in a sandbox: in a
    /// build without the feature `sandboxed`, on systems other than Linux, on a machine without what a sandbox needs, and in a
    /// program that has no helper program. Default: off, so a module that is not compiled yet is refused there.
    ///
    /// This gives up the protection of the helper program: a few kilobytes can keep a compiler busy for minutes and use
    /// gigabytes of memory, and no deadline, limit or cancel stops it in this process. Use it only for modules that you trust
    /// with that.
    pub fn compile_in_process(mut self, allowed: bool) -> Self {
        self.compile_in_process = allowed;
        self
    }

    /// Loads scripts of `runtime` with a custom loader, in place of the built-in one.
    pub fn runtime(
        mut self,
        runtime: SkillRuntime,
        load: impl Fn(&Script) -> Result<Box<dyn SkillExecutor>> + Send + Sync + 'static,
    ) -> Self {
        self.loaders.push((runtime, Box::new(load)));
        self
    }

    /// Tools that skills may call, each with the permission `tool:NAME`. [`ClosureTools`](crate::host::ClosureTools) makes
    /// tools from closures.
    pub fn tools(mut self, tools: impl ToolProvider + 'static) -> Self {
        self.providers.tools = Some(Arc::new(tools));
        self
    }

    /// The model that skills may sample with the permission `sample`.
    pub fn sampling(mut self, model: impl SamplingProvider + 'static) -> Self {
        self.providers.sampling = Some(Arc::new(model));
        self
    }

    /// The settings of skills.
    pub fn config(mut self, settings: impl ConfigProvider + 'static) -> Self {
        self.providers.config = Some(Arc::new(settings));
        self
    }

    /// The secrets of skills, each with the permission `secret:NAME`.
    pub fn secrets(mut self, secrets: impl SecretProvider + 'static) -> Self {
        self.providers.secrets = Some(Arc::new(secrets));
        self
    }

    /// The HTTP client of skills, each host with the permission `net:HOST`. Default: [`WebClient`](crate::host::WebClient), in
    /// builds with the Cargo feature `http`.
    pub fn http(mut self, client: impl HttpClient + 'static) -> Self {
        self.providers.http = Some(Arc::new(client));
        self
    }

    /// Sets all providers at once, replacing those set before. If they contain no skill provider, the engine's own skills are
    /// called.
    pub fn providers(mut self, providers: Providers) -> Self {
        self.providers = providers;
        self
    }

    /// Discovers the skills and opens the project; `io` when the project's folder cannot be opened.
    pub fn build(self) -> Result<Engine> {
        // Reserve memory before threads and caches use up the address space; each run checks that the reserve exists.
        check_memory_reserve().ok();
        let unreadable =
            |source| SkillError::io(format_args!("failed to open {}", self.project.display()), source);
        let project = std::fs::canonicalize(&self.project).map_err(unreadable)?;
        let roots = self.roots.unwrap_or_else(|| Roots::standard("metier", &project));
        let registry = Registry::discover(&roots);
        let mut protected = roots.protected_folders(&project);
        protected.extend(registry.linked_folders(&project));
        let temp_places = TempDirLease::acquire();
        Ok(Engine(Arc::new_cyclic(|parts| EngineInner {
            roots,
            registry,
            protected_folders: protected,
            limits: self.limits,
            sandbox_mode: self.sandbox_mode,
            execution_mode: self.execution_mode,
            script_cache: ScriptCache::new(
                self.loaders,
                RuntimeServices::new(self.helper, self.sandbox_level)
                    .with_compile_in_process(self.compile_in_process)
                    .with_callees(Arc::new(CalleeResolver::new(parts.clone(), &self.providers))),
            ),
            builtin_folders: UnpackedSkills::default(),
            watchdog: Watchdog::new(),
            max_threads: self.max_threads,
            _temp_dir_lease: temp_places,
            secret_links: SecretLinks::default(),
            project,
            providers: with_validated_tools(with_skill_provider(self.providers, || {
                Arc::new(EngineSkillProvider::new(parts.clone()))
            })),
        })))
    }
}

/// Wraps the tools so that each is called only with arguments that match its schema.
pub(super) fn with_validated_tools(providers: Providers) -> Providers {
    let tools = providers.tools.map(ValidatedTools::wrap);
    Providers { tools, ..providers }
}

fn with_skill_provider(providers: Providers, own: impl FnOnce() -> Arc<dyn SkillProvider>) -> Providers {
    Providers { skills: Some(providers.skills.unwrap_or_else(own)), ..providers }
}
