//! What the trust store and an engine with one promise.

mod changes;
mod grants;
mod models;
mod processes;
mod store;

use metier::engine::{Engine, Invocation, Outcome, TrustState};
use metier::policy::Permission;
use metier::trust::TrustStore;

use crate::support::engine::Project;

/// A project, and a store of a user outside of it.
struct Stage {
    project: Project,
    data: tempfile::TempDir,
}

impl Stage {
    /// A project with the skill `x` of this script.
    fn lua(allowed_tools: &str, script: &str) -> Self {
        Self::with(Project::lua_with_tools(allowed_tools, script))
    }

    fn with(project: Project) -> Self {
        Self { project, data: tempfile::tempdir().unwrap() }
    }

    fn store(&self) -> TrustStore {
        TrustStore::new(self.data.path().join("trust"))
    }

    fn engine(&self) -> Engine {
        self.project.builder().trust(self.store()).build().unwrap()
    }

    /// Trusts a skill as it is now.
    fn trust(&self, name: &str) {
        trust(&self.engine(), name);
    }

    /// Remembers grants for the skill as it is now.
    fn remember(&self, name: &str, permissions: &[&str]) {
        let engine = self.engine();
        let registry = engine.registry();
        let skill = registry.find(name).unwrap();
        let files = engine.skill_files(skill).unwrap();
        let project = engine.project_identity(skill).unwrap();
        self.store().grant((name, files.digest), Some(&project), &parsed(permissions), "a test").unwrap();
    }
}

fn trust(engine: &Engine, name: &str) {
    let registry = engine.registry();
    let skill = registry.find(name).unwrap();
    let files = engine.skill_files(skill).unwrap();
    engine.trust_store().unwrap().trust_skills(&engine.project_identity(skill).unwrap(), &[files]).unwrap();
}

fn state(engine: &Engine, name: &str) -> TrustState {
    engine.trust_state(engine.registry().find(name).unwrap())
}

fn parsed(permissions: &[&str]) -> Vec<Permission> {
    permissions.iter().map(|text| text.parse().unwrap()).collect()
}

fn for_model(engine: &Engine) -> Outcome {
    engine.run(Invocation::new("x").for_model())
}
