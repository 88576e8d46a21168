//! The engine: an [`Invocation`] goes in, an [`Outcome`] comes out. The command line and every embedder end here.

mod availability;
mod builder;
mod builtin;
mod callee_resolver;
mod contract_validation;
mod dependencies;
mod doctor;
mod explain;
mod invocation;
mod limit_support;
mod outcome;
mod output_cap;
mod pipeline;
mod requested_permissions;
mod run_future;
mod script_cache;
mod script_selection;
mod skill_provider;
mod tool_validation;
mod worker;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::Result;
use crate::host::files::SecretLinks;
use crate::host::temp_dirs::TempDirLease;
use crate::host::{Providers, SandboxSupport};
use crate::policy::{ExecutionMode, Limits, SandboxMode, Watchdog};
use crate::registry::{Registry, Roots, Skill};
use crate::runtimes;

pub use self::callee_resolver::requested_permissions;
pub use self::requested_permissions::{declared_permissions, permissions_from_allowed_tools};
pub use self::run_future::RunFuture;
pub use availability::Availability;
pub use builder::EngineBuilder;
pub use doctor::{
    CacheReport, Diagnosis, Feature, Finding, RootReport, SandboxLevelReport, ShadowedSkill, System,
};
pub use explain::{CalleeExplanation, Explanation, FunctionAvailability};
pub use invocation::Invocation;
pub use outcome::{LimitsReport, Outcome};

/// Runs the skills of one project. Cheap to clone; clones share compiled scripts and the clock.
///
/// It holds no global state, prints nothing and needs no async runtime.
#[derive(Clone)]
pub struct Engine(Arc<EngineInner>);

struct EngineInner {
    project: PathBuf,
    roots: Roots,
    registry: Registry,
    protected_folders: Vec<String>,
    secret_links: SecretLinks,
    limits: Limits,
    sandbox_mode: SandboxMode,
    execution_mode: ExecutionMode,
    script_cache: self::script_cache::ScriptCache,
    builtin_folders: self::builtin::UnpackedSkills,
    watchdog: Watchdog,
    /// The most threads of one run.
    max_threads: usize,
    providers: Providers,
    /// What was made for a while is gone before.
    _temp_dir_lease: TempDirLease,
}

impl Engine {
    /// An engine for the project at this folder.
    ///
    /// The folder is taken as it is: whoever hands over a home makes all of the home the project, which scripts may then be
    /// granted. The command does so only where `--project` names it.
    pub fn builder(project: impl Into<PathBuf>) -> EngineBuilder {
        EngineBuilder::new(project.into())
    }

    /// Runs a skill to its end on this thread.
    ///
    /// Failures are part of the outcome, so that log, process report and limits survive them.
    pub fn run(&self, invocation: Invocation) -> Outcome {
        self.0.run(invocation)
    }

    /// Runs a skill on a thread of its own; the future works on every executor, current-thread tokio included.
    ///
    /// Nothing starts before the first poll, and dropping the future cancels the run.
    pub fn run_async(&self, invocation: Invocation) -> RunFuture {
        RunFuture::new(self.clone(), invocation)
    }

    /// What a run would reach, without running it: its sandbox is put up around a program that does nothing, and its interpreter
    /// is asked its version. Fails as the run would before it starts.
    pub fn explain(&self, invocation: &Invocation) -> Result<Explanation> {
        self.0.explain(invocation)
    }

    /// What this machine, this build and these skills offer. Starts a sandbox around a program that does nothing, and every
    /// interpreter for its version; no skill.
    pub fn diagnosis(&self) -> Diagnosis {
        self.0.diagnosis()
    }

    /// Whether a skill could run now, in which runtime, and if not, why.
    pub fn availability(&self, skill: &Skill) -> Availability {
        self.0.availability(skill)
    }

    /// What this machine offers to external scripts: what held of the strictest sandbox around a program that does nothing.
    pub fn sandbox_support(&self) -> SandboxSupport {
        runtimes::sandbox_support(self.0.script_cache.services())
    }

    /// Whether external scripts run, or are cleaned up after. Told to stop, they are killed and end by themselves; a host that
    /// ends while they do leaves behind what they made.
    pub fn runs_processes(&self) -> bool {
        self.0.script_cache.services().runs_processes()
    }

    /// The skills this engine knows.
    pub fn registry(&self) -> &Registry {
        &self.0.registry
    }

    /// The project's root.
    pub fn project(&self) -> &Path {
        &self.0.project
    }
}
