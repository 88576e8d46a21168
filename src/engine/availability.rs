//! Whether a skill could run now.

use std::time::Instant;

use super::run::latest;
use super::select::{Selected, select};
use super::{Parts, dependencies, worker};
use crate::error::{Result, SkillError};
use crate::executor::SkillRuntime;
use crate::policy::{CancelToken, Limits};
use crate::registry::Skill;
use crate::runtimes;

/// Whether a skill could run now, and if not, why. Nothing of the skill runs to find out.
#[derive(Clone, Debug)]
pub struct Availability {
    /// The runtime of the script that would run; absent when no single script is told.
    pub runtime: Option<SkillRuntime>,
    /// Why it could not run.
    pub reason: Option<SkillError>,
    /// What its contract would like to find and does not, a sentence each; it runs without.
    pub warnings: Vec<String>,
}

impl Availability {
    /// Whether the skill could run now.
    pub fn is_runnable(&self) -> bool {
        self.reason.is_none()
    }
}

impl Parts {
    pub(super) fn availability(&self, skill: &Skill) -> Availability {
        let warnings = dependencies::optional(skill, &self.registry);
        match select(skill, None) {
            Ok(selected) => Availability {
                runtime: Some(selected.runtime),
                reason: self.could_run(&selected, skill).err(),
                warnings,
            },
            Err(reason) => Availability { runtime: None, reason: Some(reason), warnings },
        }
    }

    fn could_run(&self, selected: &Selected, skill: &Skill) -> Result<(), SkillError> {
        let Selected { runtime, path, .. } = selected;
        let runtime = *runtime;
        self.loaded.knows(runtime)?;
        dependencies::required(skill, &self.registry)?;
        if runtime == SkillRuntime::ToolSequence {
            // Loading a plan is checking it.
            let cancel = CancelToken::new();
            let _armed = self.watchdog.arm(latest(Instant::now(), &self.limits), &cancel);
            self.loaded.load(runtime, &self.script(skill, selected)?, self.execution, &cancel)?;
        }
        if runtime == SkillRuntime::External {
            worker::asked_for(skill.manifest(), runtime, &Limits::default())?;
            let source = skill.folder().read(path, Limits::FILE)?;
            runtimes::has_interpreter(path, &source)?;
        }
        Ok(())
    }
}
