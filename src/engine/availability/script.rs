//! Whether a script would start: its plan is checked, and its interpreter looked for.

use std::time::Instant;

use super::check::RunConditions;
use super::report::{Requirement, RequirementKind};
use crate::engine::limits::run_deadline;
use crate::engine::script_selection::SelectedScript;
use crate::engine::skill_set::SkillSet;
use crate::engine::{EngineInner, worker};
use crate::registry::Skill;
use crate::runtimes::{self, InterpreterSearch};
use metier_core::error::Result;
use metier_core::executor::RuntimeId;
use metier_core::policy::{CancelToken, Limits, SandboxMode};

impl EngineInner {
    /// Fails as a run of the script would before it starts. Returns what the script requires of the machine.
    pub(super) fn check_script(
        &self,
        set: &SkillSet,
        selected: &SelectedScript,
        skill: &Skill,
        conditions: &RunConditions,
    ) -> Result<Vec<Requirement>> {
        let SelectedScript { runtime, .. } = selected;
        let runtime = *runtime;
        // What a loader of the embedder needs, only the embedder knows.
        if self.runtimes.get(runtime)?.custom_loader().is_some() {
            return Ok(Vec::new());
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
            return self.check_external(selected, skill, conditions);
        }
        Ok(Vec::new())
    }

    fn check_external(
        &self,
        SelectedScript { path, runtime, handler, .. }: &SelectedScript,
        skill: &Skill,
        conditions: &RunConditions,
    ) -> Result<Vec<Requirement>> {
        worker::requested_worker(skill.manifest(), *runtime, &Limits::default())?;
        let source = skill.folder().read(path, Limits::MAX_READ_SIZE)?;
        let untrusted = self.package_untrusted_dirs(skill);
        let search = self.interpreter_search(skill, (path, &source), &untrusted);
        let search = InterpreterSearch {
            is_handler: handler.is_some(),
            refused: &conditions.refused,
            lookups: Some(&conditions.lookups),
            ..search
        };
        let packages = self.script_packages(skill, path, &source);
        let services = self.script_cache.services();
        if self.sandbox_mode == SandboxMode::Off {
            let reason = "comes from the project or the skill and runs in a sandbox only";
            runtimes::find_trusted_interpreter(services, &search, reason)?;
        } else {
            let has_packages = self.has_packages(skill, (path, &source), packages.as_ref(), &untrusted);
            runtimes::find_interpreter(services, &search, has_packages)?;
        }
        if self.sandbox_mode == SandboxMode::Required {
            runtimes::check_sandbox_built_in()?;
        }
        let versions = search.python.as_ref().map(|python| python.versions.to_string());
        let name = runtimes::interpreter_name(services, path, &source).filter(|_| handler.is_none());
        let interpreter =
            name.map(|name| Requirement::available(RequirementKind::Interpreter, name).version(versions));
        if conditions.probe.is_some() {
            self.verify_packages(skill, path, &source)?;
        }
        let packages = packages.and_then(|packages| {
            let script = (path.as_str(), &*source);
            self.state_of_packages(skill, script, &packages, (&untrusted, &conditions.refused))
        });
        Ok(interpreter.into_iter().chain(packages).collect())
    }
}
