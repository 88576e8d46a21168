//! Builds an engine from its roots, limits, policies and providers.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::{Engine, EngineFuture, EngineInner};
use crate::audit::{AuditClient, AuditSink, AuditWriter};
#[cfg(unix)]
use crate::changes::ChangeStore;
use crate::config::{Configuration, ResolvedConfiguration, with_configuration};
use crate::engine::approval_memory::ApprovalMemory;
use crate::engine::audit::AuditOptions;
use crate::engine::callee_resolver::CalleeResolver;
use crate::engine::project_folders::ProjectFolders;
use crate::engine::result_cache::ResultCache;
use crate::engine::run_queue::RunQueue;
use crate::engine::script_cache::ScriptCache;
use crate::engine::skill_digests::SkillDigests;
use crate::engine::skill_provider::EngineSkillProvider;
use crate::engine::skill_set::CurrentSkills;
use crate::engine::tool_validation::ValidatedTools;
use crate::engine::unpacked_skills::UnpackedSkills;
use crate::pending::PendingStore;
use crate::registry::{Registry, Roots};
use crate::runtimes::{self, Runtime, RuntimeServices, Runtimes};
use crate::trust::{LockFileCache, TrustStore};
use metier_core::error::Result;
use metier_core::executor::{RuntimeId, Script, SkillExecutor};
use metier_core::host::temp_dirs::TempDirLease;
use metier_core::host::{
    Approver, Authorizer, ConfigProvider, DEFAULT_HTTP_CLIENT, FileProvider, HttpClient, Providers,
    SamplingProvider, SecretProvider, SkillProvider, StoreProvider, ToolProvider, check_memory_reserve,
};
use metier_core::host::{HostLookup, RootCertificates, SecretHostOptions};
use metier_core::policy::{
    CancelToken, ExecutionMode, Limits, SandboxLevel, SandboxMode, ThreadBudget, Watchdog,
};
use metier_packages::PackageStore;
use metier_state::StateStore;

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
    folders: Vec<PathBuf>,
    roots: Option<Roots>,
    registry: Option<Arc<Registry>>,
    limits: Limits,
    sandbox_mode: SandboxMode,
    execution_mode: ExecutionMode,
    sandbox_level: SandboxLevel,
    max_threads: usize,
    max_runs: Option<usize>,
    autonomy: Option<u8>,
    authorizer: Option<Arc<dyn Authorizer>>,
    helper: Option<PathBuf>,
    forks_host: bool,
    interpreters: Vec<(String, PathBuf)>,
    host_lookup: HostLookup,
    secret_hosts: SecretHostOptions,
    compile_in_process: bool,
    caches_results: bool,
    runtimes: Vec<Runtime>,
    providers: Providers,
    trust: Option<TrustStore>,
    state: Option<StateStore>,
    #[cfg(unix)]
    changes: Option<ChangeStore>,
    packages: Option<PackageStore>,
    pending: Option<PendingStore>,
    services: Option<RuntimeServices>,
    configuration: Option<Configuration>,
    audit: AuditOptions,
}

impl Engine {
    /// An engine for the project in this folder.
    ///
    /// The folder is not checked: if it is a home folder, the whole home becomes the project, and scripts may be granted access
    /// to it. The command accepts a home folder only with `--project`.
    pub fn builder(project: impl Into<PathBuf>) -> EngineBuilder {
        EngineBuilder::new(project.into())
    }
}

impl EngineBuilder {
    pub(super) fn new(project: PathBuf) -> Self {
        Self {
            project,
            folders: Vec::new(),
            roots: None,
            registry: None,
            limits: Limits::default(),
            sandbox_mode: SandboxMode::default(),
            execution_mode: ExecutionMode::default(),
            sandbox_level: SandboxLevel::default(),
            max_threads: ThreadBudget::DEFAULT_MAX,
            max_runs: None,
            autonomy: None,
            authorizer: None,
            helper: None,
            forks_host: false,
            interpreters: Vec::new(),
            host_lookup: HostLookup::default(),
            secret_hosts: SecretHostOptions::default(),
            compile_in_process: false,
            caches_results: false,
            runtimes: Vec::new(),
            providers: default_providers(),
            trust: None,
            state: None,
            #[cfg(unix)]
            changes: None,
            packages: None,
            pending: None,
            services: None,
            configuration: None,
            audit: AuditOptions::default(),
        }
    }

    /// Adds a folder on which runs may work besides the project's, such as those of an editor's workspace.
    ///
    /// Each run works on exactly one folder and reaches no file of the others: by default the folder in whose root its skill was
    /// found, otherwise the project's; [`Invocation::folder`](super::Invocation::folder) chooses. The skills that it calls work on
    /// the same one. Without [`EngineBuilder::roots`], the standard roots of each folder are searched in the order of the folders;
    /// of two skills with one name the first counts.
    pub fn folder(mut self, path: impl Into<PathBuf>) -> Self {
        self.folders.push(path.into());
        self
    }

    /// Where skills are looked for. Default: the standard roots of the product `metier` for each folder. For other roots, add
    /// those of each folder with [`Roots::with_project`].
    pub fn roots(mut self, roots: Roots) -> Self {
        self.roots = Some(roots);
        self
    }

    /// The skills in the roots, which were discovered already. Those that were edited since are read again when they are used.
    pub(crate) fn registry(mut self, registry: Arc<Registry>) -> Self {
        self.registry = Some(registry);
        self
    }

    /// The configuration: limits, sandbox, where scripts run and the number of runs, in place of what the builder says about a key
    /// that it sets; and, without
    /// [`EngineBuilder::roots`], where skills are looked for. Runtimes that it switches off are unavailable, permissions that it denies
    /// are in no run, and what it says about single skills holds for their runs. Its settings and secrets of skills are behind
    /// those of the providers.
    ///
    /// Nothing is read from the disk or the environment.
    pub fn configuration(mut self, configuration: Configuration) -> Self {
        self.configuration = Some(configuration);
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

    /// Where Lua, Rhai and WebAssembly run, for runs whose invocation does not set it. Default: in this process. In a worker
    /// process a script is killed at its deadline whatever it does. All other runtimes, and a replaced loader of these three, run
    /// where they always do.
    pub fn execution_mode(mut self, mode: ExecutionMode) -> Self {
        self.execution_mode = mode;
        self
    }

    /// The strongest sandbox level to set up for external scripts. Default: with namespaces.
    pub fn sandbox_level(mut self, level: SandboxLevel) -> Self {
        self.sandbox_level = level;
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

    /// The maximum number of runs in progress at a time, at least 1. Default: no maximum.
    ///
    /// Further runs wait in the order of their arrival, without a thread of their own where they are futures or streams. Their
    /// deadlines start when they start; a run that is cancelled while it waits does not start. The skills that a run calls
    /// belong to it and never wait. So do runs that a provider, an observer or an approver starts on the thread on which it is
    /// called: they take no place, which the run that waits for them may hold.
    pub fn max_runs(mut self, max: usize) -> Self {
        self.max_runs = Some(max);
        self
    }

    /// Whether to answer a run with the value of an equal one, where the contract of its skill says `cacheable: true`, `idempotent: true`
    /// and, as `cache_ttl`, for how long. Default: no.
    ///
    /// Equal are runs of the same script, with the same files of the skill, input, project and effective permissions, in which the calls
    /// that read through the host API have the same answers now. The files that an external script reads are not compared: that they do
    /// not matter for so long is what its author says. `Outcome::cached` and the log of a run say that its value comes from the cache.
    ///
    /// Never cached are errors, runs that may do more than read or about which an approver may decide, skills with settings or state,
    /// external scripts unless a sandbox is required, runtimes of the embedder, and runs with standard input or a journal.
    pub fn cache_results(mut self, yes: bool) -> Self {
        self.caches_results = yes;
        self
    }

    /// The helper program that starts external scripts: `metier` itself, or a program whose `main` begins with
    /// [`helper_main`](crate::helper_main). Default: this program if its `main` begins so, else a copy of this process, which
    /// takes longer to create the more memory the process has.
    pub fn helper(mut self, program: impl Into<PathBuf>) -> Self {
        self.helper = Some(program.into());
        self
    }

    /// Whether external scripts are started by a copy of this process although its `main` begins with
    /// [`helper_main`](crate::helper_main), unless there is another [`helper`](Self::helper) program. Default: no.
    ///
    /// A copy is there 2 ms sooner than a new start of a large program, for the first script only. It is made when that script runs, and
    /// has all that is in the memory of this process then. So it is for small programs that run a script and end, like `metier run`.
    pub fn fork_host(mut self, yes: bool) -> Self {
        self.forks_host = yes;
        self
    }

    /// The program that runs external scripts of one language, in place of those on `PATH`: `("python3", "<venv>/bin/python")`
    /// for all Python scripts, whatever their first line calls it. No other program is tried for them.
    ///
    /// The name is that of a command such as `python3`, `node` or `bash`; the path must be absolute. The program is trusted like
    /// one on `PATH`: its installation or virtual environment is readable in the sandbox, and one that lies in the project or in
    /// the skill, where scripts may change it, runs in a sandbox only.
    pub fn interpreter(mut self, name: impl Into<String>, program: impl Into<PathBuf>) -> Self {
        self.interpreters.push((name.into(), program.into()));
        self
    }

    /// Looks up, with this function, the hosts that external scripts connect to by grants such as `net:api.example.com`, in place of
    /// the system's resolver: by name and port, to addresses with ports. It may block, and is called on several threads.
    ///
    /// What it returns is judged like any other address: loopback, private and other special addresses are refused unless a grant
    /// names them. `ctx.http` has [a resolver of its own](metier_core::host::WebClient::resolver).
    pub fn host_lookup(
        mut self,
        lookup: impl Fn(&str, u16) -> std::io::Result<Vec<SocketAddr>> + Send + Sync + 'static,
    ) -> Self {
        self.host_lookup = HostLookup::from_fn(lookup);
        self
    }

    /// Trusts the authorities in this PEM text, and no others, where the engine itself connects for an external script: to the hosts of
    /// [secrets that are put into requests](crate::policy::Permission::secret). Default: those that Mozilla trusts. `ctx.http` has
    /// [authorities of its own](metier_core::host::WebClient::root_certificates).
    pub fn root_certificates(mut self, pem: &str) -> Self {
        self.secret_hosts.roots = RootCertificates::from_pem(pem);
        self
    }

    /// Whether the engine opens the TLS connections that external scripts make to the hosts of
    /// [secrets that are put into requests](crate::policy::Permission::secret), to put the secrets in: with an authority of each run
    /// alone, which the programs of that run are told to trust. Connections to other hosts stay closed. Default: no.
    pub fn tls_broker(mut self, yes: bool) -> Self {
        self.secret_hosts.opens_tls = yes;
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

    /// Adds a runtime: skills choose it by `runtime: NAME`, or by scripts with one of these extensions. The name of a built-in
    /// runtime replaces its loader. See [`Runtime`] for the rules and for more options.
    pub fn runtime(
        self,
        name: impl Into<RuntimeId>,
        extensions: &[&'static str],
        load: impl Fn(&Script) -> Result<Box<dyn SkillExecutor>> + Send + Sync + 'static,
    ) -> Self {
        self.runtime_with(Runtime::new(name, load).extensions(extensions))
    }

    /// Adds a runtime, as [`EngineBuilder::runtime`] does.
    pub fn runtime_with(mut self, runtime: Runtime) -> Self {
        self.runtimes.push(runtime);
        self
    }

    /// Tools that skills may call, each with the permission `tool:NAME`. [`ClosureTools`](metier_core::host::ClosureTools) makes
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

    /// The HTTP client of skills, each host with the permission `net:HOST`. Default: [`WebClient`](metier_core::host::WebClient), in
    /// builds with the Cargo feature `http`.
    pub fn http(mut self, client: impl HttpClient + 'static) -> Self {
        self.providers.http = Some(Arc::new(client));
        self
    }

    /// The store of values of skills, with the permissions `state` and `store:NAME`. Default: the folder of [`Self::state`]. With a store
    /// and without that folder, the home folder of a process with the permission `state` is not kept.
    pub fn store(mut self, store: impl StoreProvider + 'static) -> Self {
        self.providers.store = Some(Arc::new(store));
        self
    }

    /// Who decides about permissions that a skill requests and nobody granted; without an approver they are refused.
    pub fn approver(mut self, approver: impl Approver + 'static) -> Self {
        self.providers.approver = Some(Arc::new(approver));
        self
    }

    /// The rules of the program itself: it may refuse any run that has all it needs, and grants nothing.
    pub fn authorizer(mut self, authorizer: impl Authorizer + 'static) -> Self {
        self.authorizer = Some(Arc::new(authorizer));
        self
    }

    /// How far models act on their own, from 0 to 100; the lower one of this and of the configuration's `autonomy` counts. A run that a
    /// model chose fails with `autonomy` if the risk of its skill takes more. Without a number, every run passes that is granted what
    /// it needs. A larger number counts as 100.
    pub fn autonomy(mut self, score: u8) -> Self {
        self.autonomy = Some(score.min(100));
        self
    }

    /// The view of an editor over the files of the project: its unsaved contents, and its say in changes.
    pub fn files(mut self, editor: impl FileProvider + 'static) -> Self {
        self.providers.files = Some(Arc::new(editor));
        self
    }

    /// Sets all providers at once, replacing those set before. If they contain no skill provider, the engine's own skills are
    /// called.
    pub fn providers(mut self, providers: Providers) -> Self {
        self.providers = providers;
        self
    }

    /// Where skills that were granted `state` keep their home folders and values, and skills that were granted `store:NAME` the values
    /// that they share. Without one and without a [store](Self::store), a process with the permission `state` fails, and no values are
    /// kept.
    pub fn state(mut self, store: StateStore) -> Self {
        self.state = Some(store);
        self
    }

    /// Where runs [in a copy](super::Invocation::preview) of their project store what they would change; what a run changes is in the folder
    /// `previews` beside it until then. Default: the store of the user.
    #[cfg(unix)]
    pub fn changes(mut self, store: ChangeStore) -> Self {
        self.changes = Some(store);
        self
    }

    /// Where calls wait for a person whose invocation [allows it](super::Invocation::park).
    pub fn pending(mut self, store: PendingStore) -> Self {
        self.pending = Some(store);
        self
    }

    /// Where packages of scripts are [prepared](super::Engine::prepare), and found by later runs. Without a store, scripts find only
    /// the packages of their interpreter.
    pub fn packages(mut self, store: PackageStore) -> Self {
        self.packages = Some(store);
        self
    }

    /// Starts processes as another engine does.
    pub(super) fn services(mut self, services: RuntimeServices) -> Self {
        self.services = Some(services);
        self
    }

    /// The user's trust store: from then on runs [for a model](super::Invocation::for_model) and the
    /// [catalog](super::Engine::catalog) are without the skills of the project that the user does not trust, and grants of earlier
    /// runs apply. Without a store the engine trusts every skill, remembers nothing and computes no digests.
    pub fn trust(mut self, store: TrustStore) -> Self {
        self.trust = Some(store);
        self
    }

    /// Where runs, questions to approvers, refusals, secrets that runs read and changes of the trust store are recorded. Default: nowhere,
    /// unless the [configuration](EngineBuilder::configuration) switches the audit log on; then in that of the user.
    pub fn audit(mut self, sink: impl AuditSink + 'static) -> Self {
        self.audit.writer = Some(AuditWriter::new(sink));
        self
    }

    /// Whether nothing may happen that is not recorded: a run whose first record cannot be written is refused (`unavailable`) before
    /// anything of it has run. Default: no, so the run goes on with a warning in its log. The configuration may require it, too.
    pub fn require_audit(mut self, yes: bool) -> Self {
        self.audit.is_required = yes;
        self
    }

    /// What is recorded as the client of runs whose invocation does not [name one](AuditClient). Default: the library.
    pub fn audit_client(mut self, client: AuditClient) -> Self {
        self.audit.client = Some(client);
        self
    }

    /// The same as [`EngineBuilder::build`], on a thread of its own: discovery reads the disk.
    pub fn build_async(self) -> EngineFuture<Engine> {
        EngineFuture::new(CancelToken::new(), move || self.build())
    }

    /// Discovers the skills and opens the project; `io` when a folder cannot be opened, `usage` when a runtime cannot
    /// be registered, an interpreter cannot be set, or the trust store lies in a folder on which runs work.
    pub fn build(mut self) -> Result<Engine> {
        if let Some(configuration) = &self.configuration {
            self.limits = configuration.limits_over(self.limits);
            self.sandbox_mode = configuration.word("sandbox.mode").unwrap_or(self.sandbox_mode);
            self.sandbox_level = configuration.word("sandbox.level").unwrap_or(self.sandbox_level);
            self.execution_mode = configuration.word("execution").unwrap_or(self.execution_mode);
            self.max_runs = configuration.max_runs().or(self.max_runs);
            let configured = configuration.autonomy();
            self.autonomy =
                configured.map_or(self.autonomy, |score| Some(score.min(self.autonomy.unwrap_or(score))));
        }
        // Reserve memory before threads and caches use up the address space; each run checks that the reserve exists.
        check_memory_reserve().ok();
        let mut runtimes = Runtimes::built_in();
        self.runtimes.into_iter().try_for_each(|runtime| runtimes.register(runtime))?;
        for (name, origin) in self.configuration.iter().flat_map(Configuration::disabled_runtimes) {
            if let Err(error) = runtimes.disable(name, &origin.to_string()) {
                tracing::warn!(%origin, "a runtime that does not exist is switched off: {}", error.message());
            }
        }
        for (name, program) in &self.interpreters {
            runtimes::check_interpreter_override(name, program)?;
        }
        let folders = ProjectFolders::open(&self.project, &self.folders)?;
        let paths = folders.paths();
        let resolved = self.configuration.as_ref().map(ResolvedConfiguration::new).map(Arc::new);
        let providers = with_store(self.providers, self.state.as_ref());
        let providers = match &resolved {
            Some(resolved) => with_configuration(providers, resolved),
            None => providers,
        };
        let configured_roots = self.configuration.as_ref().map(|configuration| configuration.roots(&paths));
        let roots = self.roots.or(configured_roots).unwrap_or_else(|| {
            let standard = Roots::standard("metier", &folders.first().path);
            paths[1..].iter().fold(standard, |roots, folder| roots.with_project("metier", folder))
        });
        if let Some(store) = &self.trust {
            store.require_outside(&paths)?;
        }
        let audit = self.audit.into_writer(self.configuration.as_ref());
        let trust = match (self.trust, &audit) {
            (Some(store), Some(audit)) => Some(store.with_audit(audit.clone())),
            (store, _) => store,
        };
        let temp_places = TempDirLease::acquire();
        Ok(Engine(Arc::new_cyclic(|parts| {
            let approval_memory = Arc::new(ApprovalMemory::new(
                trust.clone(),
                Arc::new(EngineSkillProvider::new(parts.clone())),
                audit.clone(),
            ));
            let providers = approval_memory.for_providers(providers);
            EngineInner {
                approval_memory,
                skills: CurrentSkills::new(roots, self.registry, paths.clone()),
                runtimes,
                limits: self.limits,
                sandbox_mode: self.sandbox_mode,
                execution_mode: self.execution_mode,
                configuration: resolved,
                script_cache: ScriptCache::new(
                    self.services
                        .unwrap_or_else(|| {
                            RuntimeServices::new(self.helper, self.forks_host, self.sandbox_level)
                                .with_compile_in_process(self.compile_in_process)
                                .with_interpreters(self.interpreters)
                                .with_host_lookup(self.host_lookup)
                                .with_secret_hosts(self.secret_hosts)
                        })
                        .with_folders(paths)
                        .with_callees(Arc::new(CalleeResolver::new(parts.clone(), &providers))),
                ),
                unpacked_skills: UnpackedSkills::default(),
                watchdog: Watchdog::new(),
                has_warned: AtomicBool::new(false),
                max_threads: self.max_threads,
                run_queue: self.max_runs.map(RunQueue::new),
                autonomy: self.autonomy,
                authorizer: self.authorizer,
                _temp_dir_lease: temp_places,
                trust,
                audit,
                state: self.state,
                #[cfg(unix)]
                changes: self.changes,
                packages: self.packages,
                pending: self.pending,
                lock_files: LockFileCache::default(),
                digests: SkillDigests::default(),
                results: self.caches_results.then(ResultCache::default),
                folders,
                providers: with_validated_tools(with_skill_provider(providers, || {
                    Arc::new(EngineSkillProvider::new(parts.clone()))
                })),
            }
        })))
    }
}

/// Wraps the tools so that each is called only with arguments that match its schema.
pub(super) fn with_validated_tools(mut providers: Providers) -> Providers {
    providers.tools = providers.tools.map(ValidatedTools::wrap);
    providers
}

fn default_providers() -> Providers {
    let mut providers = Providers::default();
    providers.http = DEFAULT_HTTP_CLIENT.map(|client| client());
    providers
}

fn with_store(mut providers: Providers, state: Option<&StateStore>) -> Providers {
    let own = state.map(|state| Arc::new(state.clone()) as Arc<dyn StoreProvider>);
    providers.store = providers.store.or(own);
    providers
}

fn with_skill_provider(mut providers: Providers, own: impl FnOnce() -> Arc<dyn SkillProvider>) -> Providers {
    providers.skills.get_or_insert_with(own);
    providers
}
