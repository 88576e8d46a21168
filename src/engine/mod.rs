//! The engine: runs an [`Invocation`] and returns an [`Outcome`]. The command line and every embedder use it.
//!
//! The outcome has the value, or why there is none:
//!
//! ```
//! use metier::engine::{Engine, Invocation};
//! use metier::error::ErrorKind;
//!
//! # fn main() -> metier::error::Result<()> {
//! let outcome = Engine::builder(".").build()?.run(Invocation::new("no-such-skill"));
//! match &outcome.result {
//!     Ok(value) => println!("{value}"),
//!     Err(error) if error.kind() == ErrorKind::UnknownSkill => println!("{error}"),
//!     Err(error) => println!("it failed: {error}"),
//! }
//! # assert_eq!(outcome.result.unwrap_err().kind(), ErrorKind::UnknownSkill);
//! # Ok(())
//! # }
//! ```
//!
//! The value as a type of the program:
//!
//! ```
//! use metier::engine::{Engine, Invocation};
//! use metier::registry::{EmbeddedSkill, Roots};
//!
//! #[derive(serde::Deserialize)]
//! struct Count {
//!     words: u64,
//! }
//!
//! static SKILLS: &[EmbeddedSkill] = &[EmbeddedSkill::new(
//!     "count",
//!     &[
//!         ("SKILL.md", b"---\nname: count\ndescription: Counts words.\n---\n"),
//!         ("scripts/main.lua", b"return {words = 2}"),
//!     ],
//! )];
//!
//! # fn main() -> metier::error::Result<()> {
//! let engine = Engine::builder(".").roots(Roots::empty().with_embedded("acme", SKILLS)).build()?;
//! # if metier::supports(metier::executor::RuntimeId::LUA).is_ok() {
//! let count: Count = engine.run(Invocation::new("count")).json()?;
//! assert_eq!(count.words, 2);
//! # }
//! # Ok(())
//! # }
//! ```

mod activation;
mod approval_memory;
mod audit;
mod availability;
mod base_url_hosts;
mod builder;
mod callee_resolver;
mod changed_files;
mod configured_run;
mod contract_validation;
mod doctor;
mod event_stream;
mod explain;
mod folder_lock;
mod gates;
mod invocation;
mod limits;
mod model_texts;
mod named_scripts;
#[cfg(unix)]
mod new_files;
mod output_cap;
mod package_installer;
mod packages;
mod permission_requests;
#[cfg(unix)]
mod plan_review;
mod prepare_request;
#[cfg_attr(not(unix), path = "preview_unsupported.rs")]
mod preview;
mod process_folders;
mod project_folders;
mod requested_permissions;
mod result_cache;
mod run;
mod run_audit;
mod run_future;
mod run_permissions;
mod run_queue;
mod run_target;
mod run_terms;
mod run_threads;
mod script_cache;
mod script_candidates;
mod script_inference;
mod script_reader;
mod script_selection;
mod skill_digests;
mod skill_files;
mod skill_provider;
mod skill_set;
mod thread_future;
mod tool_selection;
mod tool_validation;
mod trust;
#[cfg(unix)]
mod undoable_run;
mod unpacked_skills;
mod worker;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::audit::AuditWriter;
use crate::config::ResolvedConfiguration;
use crate::pending::PendingStore;
use crate::registry::{Registry, Roots, Skill};
use crate::runtimes;
use crate::trust::TrustStore;
use metier_core::error::{Result, SkillError};
use metier_core::host::temp_dirs::TempDirLease;
use metier_core::host::{Authorizer, Providers, SandboxSupport, works_for_run};
use metier_core::policy::{ExecutionMode, Limits, SandboxMode, Watchdog};
use metier_packages::PackageStore;
use metier_state::StateStore;

pub(crate) use self::callee_resolver::requested_permissions;
pub use self::event_stream::EventStream;
pub use self::run_future::RunFuture;
#[cfg_attr(not(feature = "mcp"), allow(unused_imports, reason = "only a server has tools"))]
pub(crate) use self::script_selection::ScriptChoice;
pub use self::script_selection::main_script_runtime;
pub use self::thread_future::EngineFuture;
pub use self::trust::{TrustReason, TrustState};
pub use activation::{Activation, Delegate};
pub use availability::{
    Availability, CategoryProblem, Requirement, RequirementKind, RequirementState, SettingsReport,
    SkillContent, UnconfiguredSkill,
};
pub use builder::EngineBuilder;
pub use doctor::{
    CacheReport, Diagnosis, Feature, Finding, PackagesReport, PreviewReport, RootReport, RuntimeReport,
    SandboxLevelReport, ShadowedSkill, System,
};
pub use explain::{CalleeExplanation, Explanation, FunctionAvailability};
pub use gates::{AutonomyReport, GateReport};
pub use invocation::{Invocation, Preview};
#[doc(inline)]
pub use metier_core::host::outcome::{ChangesReport, LimitsReport, Outcome, RunWarning};
pub use named_scripts::NamedScript;
pub use packages::PreparedPackages;
pub use permission_requests::{RequestSource, RequestedPermission};
pub use prepare_request::PrepareRequest;

pub use crate::runtimes::{Runtime, Runtimes};

/// Runs the skills of one project. Cheap to clone; clones share compiled scripts and the clock.
///
/// It holds no global state, prints nothing and needs no async runtime.
///
/// ```
/// use metier::engine::{Engine, Invocation};
///
/// # fn main() -> metier::error::Result<()> {
/// let engine = Engine::builder(".").build()?;
/// for skill in engine.registry().skills() {
///     println!("{}: {}", skill.name(), engine.availability(skill).is_runnable());
/// }
/// match engine.run(Invocation::new("no-such-skill")).result {
///     Ok(value) => println!("{value}"),
///     Err(error) => println!("{error}"), // a sentence for a person; `error.kind()` is for programs
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Engine(Arc<EngineInner>);

struct EngineInner {
    folders: self::project_folders::ProjectFolders,
    skills: self::skill_set::CurrentSkills,
    runtimes: Runtimes,
    limits: Limits,
    sandbox_mode: SandboxMode,
    execution_mode: ExecutionMode,
    /// What the configuration says about single skills, if there is one.
    configuration: Option<Arc<ResolvedConfiguration>>,
    script_cache: self::script_cache::ScriptCache,
    unpacked_skills: self::unpacked_skills::UnpackedSkills,
    watchdog: Watchdog,
    /// Whether the log has the warning about the missing helper program.
    has_warned: AtomicBool,
    /// The maximum number of threads of one run.
    max_threads: usize,
    /// Where runs wait, if their number is bounded.
    run_queue: Option<self::run_queue::RunQueue>,
    /// How far models act on their own, if somebody says so.
    autonomy: Option<u8>,
    authorizer: Option<Arc<dyn Authorizer>>,
    providers: Providers,
    approval_memory: Arc<self::approval_memory::ApprovalMemory>,
    trust: Option<TrustStore>,
    audit: Option<AuditWriter>,
    lock_files: crate::trust::LockFileCache,
    state: Option<StateStore>,
    /// In the place of the user's.
    #[cfg(unix)]
    changes: Option<crate::changes::ChangeStore>,
    packages: Option<PackageStore>,
    pending: Option<PendingStore>,
    digests: self::skill_digests::SkillDigests,
    /// Values of skills that permit to cache them, if the embedder asks for it.
    results: Option<self::result_cache::ResultCache>,
    /// The last field, so that it is dropped after the fields above have removed their temporary folders.
    _temp_dir_lease: TempDirLease,
}

impl Engine {
    /// Runs a skill to its end on this thread.
    ///
    /// Failures are part of the outcome, so that log, process report and limits survive them. It waits if as many runs are in
    /// progress as [`EngineBuilder::max_runs`] allows, unless this thread works for a run.
    pub fn run(&self, invocation: Invocation) -> Outcome {
        let Some(queue) = self.0.run_queue.as_ref().filter(|_| !works_for_run()) else {
            return self.0.run(invocation);
        };
        match queue.wait(&invocation.cancel) {
            Ok(place) => {
                let outcome = self.0.run(invocation);
                drop(place);
                outcome
            }
            Err(error) => self.0.refuse(&invocation, error),
        }
    }

    /// The scripts of a skill, as paths in its folder: those in `scripts/`, and those elsewhere that its text names. A run names one
    /// of them, or their stem, by [`Invocation::script`].
    pub fn scripts(&self, skill: &Skill) -> Result<Vec<String>> {
        script_selection::scripts(&self.0.runtimes, skill)
    }

    /// The sandbox support of this machine for external scripts: which restrictions of the strictest sandbox were in effect
    /// around a program that does nothing.
    pub fn sandbox_support(&self) -> SandboxSupport {
        runtimes::sandbox_support(self.0.script_cache.services())
    }

    /// Whether external scripts are running or being cleaned up. On a stop they are killed and end by themselves; a host that
    /// exits while they end leaves behind what they created.
    pub fn runs_processes(&self) -> bool {
        self.0.script_cache.services().runs_processes()
    }

    /// The runtimes that skills can choose: those of metier and those of the program.
    pub fn runtimes(&self) -> &Runtimes {
        &self.0.runtimes
    }

    /// The skills this engine knows now: as they were discovered, and as they were read again since.
    pub fn registry(&self) -> Arc<Registry> {
        self.0.skills.set().registry.clone()
    }

    /// Where skills are discovered.
    #[allow(dead_code, reason = "asked for by the server, which not every build has")]
    pub(crate) fn skill_roots(&self) -> &Roots {
        self.0.skills.roots()
    }

    /// Discovers the skills again, for this engine and its clones: skills that were added, renamed or moved since. Runs in
    /// progress keep the skill they started with; compiled scripts, workers and unpacked skills are kept.
    ///
    /// Edits need no reload: each run compares the `SKILL.md` and the contract of its skill with what was read, and reads that
    /// skill again when they changed. A skill that does not load any more fails with `invalid-skill`, one that was deleted with
    /// `unknown-skill`, and both are found again when they are back. `io` when a folder of the engine cannot be opened any more;
    /// the skills stay as they were.
    pub fn reload(&self) -> Result<()> {
        for folder in self.folders() {
            let unreadable =
                |source| SkillError::io(format_args!("failed to open {}", folder.display()), source);
            std::fs::read_dir(folder).map_err(unreadable)?;
        }
        self.0.skills.reload();
        Ok(())
    }

    /// The project's root; the first where the engine has several folders.
    pub fn project(&self) -> &Path {
        &self.0.folders.first().path
    }

    /// Where calls wait for a person, if they may.
    #[cfg_attr(
        not(feature = "mcp"),
        allow(dead_code, reason = "only the tasks of a server wait for decisions")
    )]
    pub(crate) fn pending_store(&self) -> Option<&PendingStore> {
        self.0.pending.as_ref()
    }

    /// Whether scripts have a model without that of an invocation.
    #[allow(dead_code, reason = "asked for by the server, which not every build has")]
    pub(crate) fn has_model(&self) -> bool {
        self.0.providers.sampling.is_some()
    }

    /// The folders that runs may work on: the project's root, then those of [`EngineBuilder::folder`].
    pub fn folders(&self) -> impl Iterator<Item = &Path> {
        self.0.folders.iter().map(|folder| folder.path.as_path())
    }
}
