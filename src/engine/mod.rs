//! The engine: an [`Invocation`] goes in, an [`Outcome`] comes out. The command line and every embedder end here.

mod applied;
mod asked;
mod availability;
mod bound;
mod builder;
mod callable;
mod contract;
mod dependencies;
mod doctor;
mod explain;
mod future;
mod invocation;
mod loaded;
mod nested;
mod outcome;
mod run;
mod select;
mod shipped;
mod tools;
mod worker;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::Result;
use crate::host::files::SecretLinks;
use crate::host::temp_places::TempPlaces;
use crate::host::{Machine, Providers};
use crate::policy::{ExecutionMode, Isolation, Limits, Watchdog};
use crate::registry::{Registry, Roots, Skill};
use crate::runtimes;

pub use asked::{asked_by, asks_of};
pub use availability::Availability;
pub use builder::EngineBuilder;
pub use callable::asked_for;
pub use doctor::{Cache, Diagnosis, Feature, Finding, RootReport, Shadowed, System, Tier};
pub use explain::{CalleeReach, Explanation, FunctionReach};
pub use future::Run;
pub use invocation::Invocation;
pub use outcome::{LimitsReport, Outcome};

/// Runs the skills of one project. Cheap to clone; clones share compiled scripts and the clock.
///
/// It holds no global state, prints nothing and needs no async runtime.
#[derive(Clone)]
pub struct Engine(Arc<Parts>);

struct Parts {
    project: PathBuf,
    roots: Roots,
    registry: Registry,
    protected: Vec<String>,
    secret_links: SecretLinks,
    limits: Limits,
    isolation: Isolation,
    execution: ExecutionMode,
    loaded: loaded::Loaded,
    shipped: shipped::Unpacked,
    watchdog: Watchdog,
    /// The most threads of one run.
    threads: usize,
    providers: Providers,
    /// What was made for a while is gone before.
    _temp_places: TempPlaces,
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
    pub fn run_async(&self, invocation: Invocation) -> Run {
        Run::new(self.clone(), invocation)
    }

    /// What a run would reach, without running it: its cage is put up around a program that does nothing, and its interpreter
    /// is asked its version. Fails as the run would before it starts.
    pub fn explain(&self, invocation: &Invocation) -> Result<Explanation> {
        self.0.explain(invocation)
    }

    /// What this machine, this build and these skills offer. Starts a cage around a program that does nothing, and every
    /// interpreter for its version; no skill.
    pub fn diagnosis(&self) -> Diagnosis {
        self.0.diagnosis()
    }

    /// Whether a skill could run now, in which runtime, and if not, why.
    pub fn availability(&self, skill: &Skill) -> Availability {
        self.0.availability(skill)
    }

    /// What this machine offers to external scripts: what held of the strictest cage around a program that does nothing.
    pub fn machine(&self) -> Machine {
        runtimes::machine(self.0.loaded.shared())
    }

    /// Whether external scripts run, or are cleaned up after. Told to stop, they are killed and end by themselves; a host that
    /// ends while they do leaves behind what they made.
    pub fn runs_processes(&self) -> bool {
        self.0.loaded.shared().runs_processes()
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
