//! Runs in a copy of their project, on systems that have none.

use std::convert::Infallible;
use std::path::Path;

use serde_json::Value;

use super::{EngineInner, Invocation};
use crate::engine::script_selection::{SelectedScript, count_reviews};
use crate::engine::skill_set::SkillSet;
use crate::registry::Skill;
use metier_core::error::{ErrorKind, Result, SkillError};
use metier_core::executor::{Script, UndoGap};
use metier_core::host::outcome::ChangesReport;
use metier_core::host::{Files, SkillContext};

/// Never created.
pub(super) struct RunningCopy(Infallible);

impl EngineInner {
    /// Fails where the invocation wants a copy.
    #[allow(clippy::unused_self, reason = "as where there are copies")]
    pub(super) fn begin_copy(
        &self,
        _: (&SkillSet, &Skill),
        _: (&SelectedScript, Option<&Script>),
        invocation: &mut Invocation,
    ) -> Result<Option<RunningCopy>> {
        if invocation.preview.is_none() {
            let wants_undo =
                self.configuration.as_ref().is_some_and(|configuration| configuration.is_undoable());
            if wants_undo && invocation.caller.is_none() {
                invocation.extensions.insert(UndoGap("this system has no overlays".to_owned()));
            }
            return Ok(None);
        }
        let sentence = "failed to run in a copy of the project: this system has no overlays";
        Err(SkillError::new(ErrorKind::SandboxUnavailable, sentence).with_help("run it on Linux"))
    }
}

impl EngineInner {
    /// Fails where a plan has a review.
    #[allow(clippy::unused_self, reason = "as where there are copies")]
    pub(super) fn begin_review(
        &self,
        _: (&SkillSet, &Skill),
        (selected, script): (&SelectedScript, Option<&Script>),
        invocation: &mut Invocation,
    ) -> Result<()> {
        if invocation.caller.is_some() || count_reviews(selected, script) == 0 {
            return Ok(());
        }
        let sentence = "a plan with a review runs in a copy of the project, and this system has no overlays";
        Err(SkillError::new(ErrorKind::SandboxUnavailable, sentence).with_help("run it on Linux"))
    }
}

/// The files of the project, and those of the skill.
pub(super) fn files_of_run(project: &Path, skill_files: Files, _: &Invocation) -> Result<(Files, Files)> {
    Ok((Files::open_nofollow(project)?, skill_files))
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
