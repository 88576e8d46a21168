//! Runs in a copy of their project, on systems that have none.

use std::convert::Infallible;

use serde_json::Value;

use super::EngineInner;
use crate::engine::run_terms::{RunTerms, ScriptCall};
use crate::engine::script_selection::count_reviews;
use metier_core::error::{ErrorKind, Result, SkillError};
use metier_core::host::outcome::ChangesReport;
use metier_core::host::{Extensions, Files, SharedFacts, SkillContext};
use metier_core::policy::Permission;

/// Never created.
pub(super) struct RunningCopy(Infallible);

/// In what a run works: always in the project itself.
#[derive(Default)]
pub(super) struct RunCopy {
    /// Always `None`.
    pub(super) running: Option<RunningCopy>,
    /// Why it cannot be undone, if it was to be.
    pub(super) undo_gap: Option<String>,
    /// Always `None`.
    pub(super) grant: Option<Permission>,
    /// Always `None`.
    pub(super) view: Option<(Extensions, SharedFacts)>,
}

impl EngineInner {
    /// Fails where the run is to be in a copy, or its plan has a review.
    pub(super) fn begin_copy(&self, terms: &RunTerms<'_>, call: &ScriptCall) -> Result<RunCopy> {
        let sentence = if terms.preview.is_some() {
            "failed to run in a copy of the project: this system has no overlays"
        } else if terms.caller.is_none() && count_reviews(&terms.selected, call.script()) > 0 {
            "a plan with a review runs in a copy of the project, and this system has no overlays"
        } else {
            let wants_undo =
                self.configuration.as_ref().is_some_and(|configuration| configuration.is_undoable());
            let gap = || "this system has no overlays".to_owned();
            let undo_gap = (wants_undo && terms.caller.is_none()).then(gap);
            return Ok(RunCopy { undo_gap, ..RunCopy::default() });
        };
        Err(SkillError::new(ErrorKind::SandboxUnavailable, sentence).with_help("run it on Linux"))
    }
}

/// The files of the project, and those of the skill.
pub(super) fn files_of_run(terms: &RunTerms<'_>, skill_files: Files) -> Result<(Files, Files)> {
    Ok((Files::open_nofollow(terms.project())?, skill_files))
}

impl RunningCopy {
    /// There is none.
    pub(super) fn apply_granted(&self, _: &SkillContext, _: &EngineInner) -> Result<()> {
        match self.0 {}
    }

    /// There is none.
    pub(super) fn finish(&self, _: impl Fn(Value) -> Value + Copy) -> Result<Option<ChangesReport>> {
        match self.0 {}
    }
}
