//! A project with skills, and an engine for it.

use std::time::{Duration, Instant};

use metier::engine::{Engine, EngineBuilder, Invocation, Outcome};
use metier::error::{ErrorKind, Result};
use metier::executor::{SkillExecutor, SkillInput, SkillOutput};
use metier::host::SkillContext;
use metier::policy::{Limits, Permission, SandboxMode};
use metier::registry::{Root, Roots, Scope};
use serde_json::Value;

pub use super::project::write;

/// The suites that run an engine.
pub struct EngineSuite;

pub type Project = super::project::Project<EngineSuite>;

/// A script that never ends.
pub const ENDLESS: &str = "while true do end";

impl Project {
    /// A project with one skill called `x`, whose only script is this Lua.
    pub fn lua(script: &str) -> Self {
        Self::new().skill("x", "").file(".metier/skills/x/scripts/main.lua", script)
    }

    /// As [`Project::lua`], with a line for `allowed-tools`.
    pub fn lua_with_tools(allowed_tools: &str, script: &str) -> Self {
        let asks = format!("allowed-tools: {allowed_tools}\n");
        Self::new().skill("x", &asks).file(".metier/skills/x/scripts/main.lua", script)
    }

    /// A project with one skill called `x`, whose only script is this shell script.
    pub fn shell(frontmatter: &str, script: &str) -> Self {
        Self::new().skill("x", frontmatter).file(".metier/skills/x/scripts/main.sh", script)
    }

    pub fn skill(self, name: &str, frontmatter: &str) -> Self {
        let text = format!("---\nname: {name}\ndescription: d\n{frontmatter}---\n");
        self.file(&format!(".metier/skills/{name}/SKILL.md"), text)
    }

    /// The roots inside this project alone, whatever the user of this machine has.
    pub fn roots(&self) -> Roots {
        Roots::empty().with(Root::new(Scope::Project, ".metier", self.path(".metier/skills")))
    }

    pub fn builder(&self) -> EngineBuilder {
        // Where a build has no sandbox, scripts run as plain processes.
        Engine::builder(self.root()).roots(self.roots()).sandbox_mode(SandboxMode::BestEffort)
    }

    pub fn engine(&self) -> Engine {
        self.builder().build().unwrap()
    }

    /// Runs `x` with these grants.
    pub fn run(&self, grants: &[&str]) -> Outcome {
        self.engine().run(granted(Invocation::new("x"), grants))
    }

    /// Waits until a script wrote that file.
    pub fn wait_for_file(&self, path: &str) {
        wait_until(Duration::from_secs(10), || self.path(path).exists());
    }
}

/// What a program brings for a language of its own, with a defect.
pub struct PanickingExecutor;

impl SkillExecutor for PanickingExecutor {
    fn execute_with_context(&self, _: SkillInput, _: Option<&SkillContext>) -> Result<SkillOutput> {
        panic!("a defect")
    }
}

pub fn granted(invocation: Invocation, grants: &[&str]) -> Invocation {
    grants.iter().fold(invocation, |invocation, grant| invocation.grant(grant.parse::<Permission>().unwrap()))
}

pub fn deadline(milliseconds: u64) -> Limits {
    Limits::default().timeout(Duration::from_millis(milliseconds))
}

/// Asks until it is true.
pub fn wait_until(patience: Duration, mut is_so: impl FnMut() -> bool) {
    let started = Instant::now();
    while !is_so() {
        assert!(started.elapsed() < patience, "it did not come true within {patience:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[track_caller]
pub fn value(outcome: Outcome) -> Value {
    outcome.result.unwrap()
}

#[track_caller]
pub fn kind(outcome: &Outcome) -> ErrorKind {
    match &outcome.result {
        Ok(value) => panic!("it answered {value}"),
        Err(error) => error.kind(),
    }
}

#[track_caller]
pub fn sentence(outcome: &Outcome) -> String {
    outcome.result.as_ref().unwrap_err().to_string()
}

/// Whether a process that reports this level was in a sandbox; which one it is depends on the machine.
pub fn is_sandbox_level(level: &str) -> bool {
    matches!(level, "namespaces" | "landlock")
}
