//! Puts an engine together.

use std::path::PathBuf;
use std::sync::Arc;

use super::loaded::{Loaded, Loader};
use super::shipped::Unpacked;
use super::{Engine, Parts};
use crate::error::{Result, SkillError};
use crate::executor::{Script, SkillExecutor, SkillRuntime};
use crate::policy::{Limits, Watchdog};
use crate::registry::{Registry, Roots};

/// Builds an [`Engine`]; see [`Engine::builder`].
pub struct EngineBuilder {
    project: PathBuf,
    roots: Option<Roots>,
    limits: Limits,
    loaders: Vec<(SkillRuntime, Loader)>,
}

impl EngineBuilder {
    pub(super) fn new(project: PathBuf) -> Self {
        Self { project, roots: None, limits: Limits::default(), loaders: Vec::new() }
    }

    /// Where skills are looked for; the standard roots of the product `metier` when never said.
    pub fn roots(mut self, roots: Roots) -> Self {
        self.roots = Some(roots);
        self
    }

    /// The limits of runs whose invocation names none.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Loads scripts of `runtime` with a loader of your own, in place of the one that is built in.
    pub fn runtime(
        mut self,
        runtime: SkillRuntime,
        load: impl Fn(&Script) -> Result<Box<dyn SkillExecutor>> + Send + Sync + 'static,
    ) -> Self {
        self.loaders.push((runtime, Box::new(load)));
        self
    }

    /// Discovers the skills and opens the project; `io` when the project's folder cannot be opened.
    pub fn build(self) -> Result<Engine> {
        let unreadable =
            |source| SkillError::io(format_args!("failed to open {}", self.project.display()), source);
        let project = std::fs::canonicalize(&self.project).map_err(unreadable)?;
        let roots = self.roots.unwrap_or_else(|| Roots::standard("metier", &project));
        let registry = Registry::discover(&roots);
        let mut protected = roots.protected_folders(&project);
        protected.extend(registry.linked_folders(&project));
        Ok(Engine(Arc::new(Parts {
            registry,
            protected,
            limits: self.limits,
            loaded: Loaded::new(self.loaders),
            shipped: Unpacked::default(),
            watchdog: Watchdog::new(),
            project,
        })))
    }
}
