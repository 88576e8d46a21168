//! What every command shares: which project, which product, which form of answer.

use std::path::{Path, PathBuf};

use super::Global;
use metier::engine::Engine;
use metier::error::Result;
use metier::registry::{Roots, project_root};

/// One call of the command line.
#[derive(Clone)]
pub struct Session {
    global: Global,
}

impl Session {
    pub(super) fn new(global: Global) -> Self {
        Self { global }
    }

    /// Whether answers are JSON.
    pub fn json(&self) -> bool {
        self.global.json
    }

    /// The product's name: `metier` unless `--product` says otherwise.
    pub fn product(&self) -> &str {
        &self.global.product
    }

    /// The project: `--project`, or the nearest folder above with a product folder or a repository.
    pub fn project(&self) -> PathBuf {
        match &self.global.project {
            Some(folder) => folder.clone(),
            None => project_root(&PathBuf::from("."), self.product()),
        }
    }

    /// The folder that `--project` named.
    pub fn named_project(&self) -> Option<&Path> {
        self.global.project.as_deref()
    }

    /// An engine for the project, with the skills it finds.
    pub fn engine(&self) -> Result<Engine> {
        let project = self.project();
        let standard = Roots::standard(self.product(), &project);
        let roots = if self.global.compat { standard.with_compat() } else { standard };
        Engine::builder(project).roots(roots).build()
    }
}
