//! What a contract promises: inputs and outputs held before and after a run, limits, permissions, what a skill needs.

mod agreement;
mod article;
mod calls;
mod entrypoints;
mod faces;
mod faults;
mod hostile;
mod limits;
mod secrets;

use metier::engine::{Invocation, Outcome};
use serde_json::Value;

use crate::support::engine::{Project, granted};

impl Project {
    /// Writes the contract of a skill of the project.
    fn contract(self, name: &str, yaml: &str) -> Self {
        self.file(&format!(".metier/skills/{name}/skill.yaml"), yaml)
    }

    /// A project with one skill called `x`: this contract, and this Lua.
    fn with_contract(yaml: &str, script: &str) -> Self {
        Self::lua(script).contract("x", yaml)
    }

    /// Runs `x` with that input.
    fn run_with(&self, input: impl Into<Value>, grants: &[&str]) -> Outcome {
        self.engine().run(granted(Invocation::new("x").input(input), grants))
    }
}

/// `path keyword` of every violation.
fn violations(outcome: &Outcome) -> Vec<String> {
    let error = outcome.result.as_ref().expect_err("an error");
    error.violations().iter().map(|found| format!("{} {}", found.path, found.keyword)).collect()
}
