//! Whether a skill could run now.

use std::time::Instant;

use super::{EngineInner, dependencies, worker};
use crate::engine::pipeline::run_deadline;
use crate::engine::script_selection::SelectedScript;
use crate::engine::skill_set::SkillSet;
use crate::error::{ErrorKind, Result, SkillError};
use crate::executor::RuntimeId;
use crate::policy::{CancelToken, Limits, SandboxMode};
use crate::registry::Skill;
use crate::runtimes;

/// Whether a skill could run now, and if not, why. No code of the skill runs to determine this.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Availability {
    /// The runtime of the script that would run; absent when no single script can be selected.
    pub runtime: Option<RuntimeId>,
    /// Why it could not run.
    pub reason: Option<SkillError>,
    /// Optional dependencies of the contract that are missing, one sentence each; the skill runs without them.
    pub warnings: Vec<String>,
}

impl Availability {
    /// Whether the skill could run now.
    pub fn is_runnable(&self) -> bool {
        self.reason.is_none()
    }

    /// Why it cannot run, unless it has no script, or several to choose from: then nothing is wrong with it.
    pub fn cannot_run(&self) -> Option<&SkillError> {
        let has_script =
            |reason: &&SkillError| self.runtime.is_some() || reason.kind() == ErrorKind::InvalidSkill;
        self.reason.as_ref().filter(has_script)
    }
}

impl EngineInner {
    /// Whether this script of the skill could run, or that which runs when nobody names one.
    pub(super) fn availability(&self, skill: &Skill, script: Option<&str>) -> Availability {
        let (set, skill) = match self.skills.current_version(skill) {
            Ok((set, skill)) => (set, &skill.clone()),
            Err(reason) => return Availability { runtime: None, reason: Some(reason), warnings: Vec::new() },
        };
        let warnings = dependencies::missing_optional(skill, &set.registry);
        match self.selected_script(skill, script) {
            Ok(selected) => Availability {
                runtime: Some(selected.runtime),
                reason: self
                    .check_enabled(skill)
                    .and_then(|()| self.check_runnable(&set, &selected, skill))
                    .err()
                    .map(|reason| skill.with_location_path(reason, Some(&selected.path))),
                warnings,
            },
            Err(reason) => Availability { runtime: None, reason: Some(reason), warnings },
        }
    }

    fn check_runnable(&self, set: &SkillSet, selected: &SelectedScript, skill: &Skill) -> Result<()> {
        let SelectedScript { runtime, path, .. } = selected;
        let runtime = *runtime;
        let described = self.runtimes.get(runtime)?;
        described.check_available()?;
        dependencies::require_dependencies(skill, &set.registry)?;
        // What a loader of the embedder needs, only the embedder knows.
        if described.custom_loader().is_some() {
            return Ok(());
        }
        if runtime == RuntimeId::TOOL_SEQUENCE {
            // Loading a plan checks it.
            let cancel = CancelToken::new();
            let _armed = self.watchdog.arm(run_deadline(Instant::now(), &self.limits), &cancel);
            self.script_cache.load(
                &self.runtimes,
                runtime,
                &self.load_script(skill, selected)?,
                (self.execution_mode, set.generation),
                &cancel,
            )?;
        }
        if runtime == RuntimeId::EXTERNAL {
            worker::requested_worker(skill.manifest(), runtime, &Limits::default())?;
            if self.sandbox_mode == SandboxMode::Required {
                runtimes::check_sandbox_built_in()?;
            }
            let source = skill.folder().read(path, Limits::MAX_READ_SIZE)?;
            match &selected.handler {
                Some(_) => runtimes::check_handler_interpreter(self.script_cache.services(), path)?,
                None => runtimes::check_interpreter(self.script_cache.services(), path, &source)?,
            }
        }
        Ok(())
    }
}
