//! The start of a run: its skill is found, its script is read, and its deadline begins.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{EngineInner, Invocation};
use crate::engine::script_selection::SelectedScript;
use crate::engine::skill_set::{Attempts, SkillSet};
use crate::engine::tool_selection::refuse_internal;
use crate::engine::trust::RunTrust;
use crate::registry::{Skill, command_skill};
use metier_core::error::{ErrorKind, Result, SkillError};
use metier_core::executor::{ForModel, RuntimeId, Script};
use metier_core::host::{Files, SkillContext, check_memory_reserve};
use metier_core::policy::{CancelToken, DeadlineGuard, Limits};

/// The deadline of a run that began at `began`.
pub(super) fn run_deadline(began: Instant, limits: &Limits) -> Instant {
    /// The clock cannot represent more; a century is as good as no deadline.
    const MAX_TIMEOUT: Duration = Duration::from_hours(100 * 365 * 24);
    began + limits.timeout.min(MAX_TIMEOUT)
}

/// A run whose deadline has started.
pub(super) struct RunStart<'a> {
    pub(super) found: Result<FoundSkill>,
    pub(super) limits: Limits,
    pub(super) armed: DeadlineGuard<'a>,
}

/// A skill, the set it was found in, and the script that was selected and read, or why not.
pub(super) struct FoundSkill {
    pub(super) set: Arc<SkillSet>,
    pub(super) skill: Skill,
    pub(super) script: Result<(SelectedScript, Result<(Script, Files)>)>,
    /// What is known about its trust, in engines that ask.
    pub(super) trust: Option<Result<RunTrust>>,
}

impl FoundSkill {
    pub(super) fn runtime(&self) -> Option<RuntimeId> {
        self.script.as_ref().ok().map(|(selected, _)| selected.runtime)
    }

    fn is_untrusted(&self) -> bool {
        matches!(&self.trust, Some(Err(error)) if error.kind() == ErrorKind::Untrusted)
    }

    /// The folder from which the script was read.
    fn folder(&self) -> Option<&Files> {
        self.script.as_ref().ok()?.1.as_ref().ok().map(|(_, files)| files)
    }
}

impl EngineInner {
    /// The start of a run whose start panicked.
    pub(super) fn failed_start(
        &self,
        invocation: &Invocation,
        started: Instant,
        token: &CancelToken,
        error: SkillError,
    ) -> RunStart<'_> {
        let limits = invocation.limits.as_ref().unwrap_or(&self.limits).clone();
        let armed = self.watchdog.arm(run_deadline(started, &limits), token);
        RunStart { found: Err(error), limits, armed }
    }

    /// Finds the skill, reads its script and starts the deadline. `SKILL.md` and contract are compared with those that were read
    /// after the script was read, so the permissions and the script of a run were on disk at the same time.
    pub(super) fn start_run(
        &self,
        invocation: &Invocation,
        started: Instant,
        token: &CancelToken,
    ) -> RunStart<'_> {
        let by = invocation.caller.as_ref().and_then(SkillContext::qualified_name);
        let folder = self.folders.before_lookup(invocation);
        let mut attempts = Attempts::default();
        let mut trusted_namesake: Option<String> = None;
        let is_for_model = invocation.extensions.get::<ForModel>().is_some();
        loop {
            let set = self.skills.set();
            let name = trusted_namesake.as_deref().unwrap_or(&invocation.skill);
            let found = check_memory_reserve().and_then(|()| {
                if invocation.is_command {
                    return command_skill();
                }
                let found = set.registry.find_for_run(by, folder, name).cloned();
                found.map_err(|error| self.lookup_error(error, name, is_for_model))
            });
            let limits = match &found {
                Ok(skill) => self.run_limits(skill, invocation),
                Err(_) => invocation.limits.as_ref().unwrap_or(&self.limits).clone(),
            };
            let armed = self.watchdog.arm(run_deadline(started, &limits), token);
            let found = found.map(|skill| {
                // Its files are listed before the script is read, and the script is compared with the list.
                let trust = self.run_trust(&set, &skill, invocation, token);
                let listed = trust.as_ref().and_then(|trust| trust.as_ref().ok()?.list());
                let folder = skill.folder().open();
                let selected = self
                    .check_enabled(&skill)
                    .and_then(|()| invocation.script_choice())
                    .and_then(|choice| self.selected_script_in((&skill, folder.as_ref()), choice))
                    .and_then(|selected| refuse_internal(&skill, selected, by));
                let script = selected.map(|selected| {
                    let opened = self.open_listed_script((&skill, folder), &selected, listed, token);
                    (selected, opened)
                });
                FoundSkill { set: set.clone(), skill, script, trust }
            });
            if trusted_namesake.is_none() && found.as_ref().is_ok_and(FoundSkill::is_untrusted) {
                trusted_namesake = self.trusted_namesake(&set, invocation, folder, token);
                if trusted_namesake.is_some() {
                    continue;
                }
            }
            let skill = found.as_ref().ok().map(|found| &found.skill);
            let opened = found.as_ref().ok().and_then(FoundSkill::folder);
            if !self.skills.refresh_changed(&set, &invocation.skill, skill, opened) {
                return RunStart { found, limits, armed };
            }
            if let Err(error) = attempts.next(&invocation.skill) {
                return RunStart { found: Err(error), limits, armed };
            }
        }
    }
}
