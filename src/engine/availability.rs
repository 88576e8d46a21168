//! Whether a skill could run now.

use super::Parts;
use super::select::select;
use crate::error::{Result, SkillError};
use crate::executor::SkillRuntime;
use crate::policy::Limits;
use crate::registry::Skill;
use crate::runtimes;

/// Whether a skill could run now, and if not, why. Nothing of the skill runs to find out.
#[derive(Clone, Debug)]
pub struct Availability {
    /// The runtime of the script that would run; absent when no single script is told.
    pub runtime: Option<SkillRuntime>,
    /// Why it could not run.
    pub reason: Option<SkillError>,
}

impl Availability {
    /// Whether the skill could run now.
    pub fn is_runnable(&self) -> bool {
        self.reason.is_none()
    }
}

impl Parts {
    pub(super) fn availability(&self, skill: &Skill) -> Availability {
        match select(skill, None) {
            Ok(selected) => Availability {
                runtime: Some(selected.runtime),
                reason: self.could_run(selected.runtime, &selected.path, skill).err(),
            },
            Err(reason) => Availability { runtime: None, reason: Some(reason) },
        }
    }

    fn could_run(&self, runtime: SkillRuntime, path: &str, skill: &Skill) -> Result<(), SkillError> {
        self.loaded.knows(runtime)?;
        if runtime == SkillRuntime::External {
            let source = skill.folder().read(path, Limits::FILE)?;
            runtimes::has_interpreter(path, &source)?;
        }
        Ok(())
    }
}
