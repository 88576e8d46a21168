//! A run in a copy of its project: an overlay that only the run sees. The engine and everybody else see the project itself.

use std::os::fd::AsFd;
use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};

use super::{EngineInner, Invocation, Preview};
use crate::changes::{ChangeStore, PreviewCopy};
use crate::engine::skill_set::SkillSet;
use crate::registry::Skill;
use metier_core::error::{ErrorKind, Result, SkillError};
use metier_core::executor::ProjectCopy;
use metier_core::host::Files;
use metier_core::host::outcome::ChangesReport;
use metier_core::policy::GrantOrigin;
use metier_external::ProjectOverlay;

/// The copy of a run that has begun.
pub(super) struct RunningPreview {
    copy: PreviewCopy,
    /// In the extensions of the run as well.
    overlay: Arc<ProjectOverlay>,
    store: ChangeStore,
    kind: Preview,
}

impl EngineInner {
    /// Makes the copy that the invocation wants, and notes it in the invocation. A skill that another one calls has that of its caller.
    pub(super) fn begin_preview(
        &self,
        (set, skill): (&SkillSet, &Skill),
        invocation: &mut Invocation,
    ) -> Result<Option<RunningPreview>> {
        let Some(kind) = invocation.preview.take().filter(|_| invocation.caller.is_none()) else {
            return Ok(None);
        };
        if invocation.journal.is_some() {
            let sentence = "a run in a copy of the project has no journal: its steps would count as finished, and the project has nothing of them";
            return Err(SkillError::new(ErrorKind::Usage, sentence)
                .with_help("run it without a journal, or on the project itself"));
        }
        if !cfg!(target_os = "linux") {
            let sentence = "failed to run in a copy of the project: this system has no overlays";
            return Err(SkillError::new(ErrorKind::SandboxUnavailable, sentence).with_help("run it on Linux"));
        }
        let (_, folder) = self.folders.of_run(set, skill, invocation)?;
        let services = self.script_cache.services().external();
        let store = self.change_store()?;
        let parent = store.previews_folder();
        let (copy, overlay) = PreviewCopy::create(&parent, (&folder.path, skill.name()), |_, request| {
            ProjectOverlay::mount(services, request)
        })?;
        let overlay = Arc::new(overlay);
        invocation.grants.push(("write".parse()?, GrantOrigin::Caller));
        invocation.extensions.insert(ProjectCopy);
        invocation.extensions.insert(overlay.clone());
        Ok(Some(RunningPreview { copy, overlay, store, kind }))
    }

    /// The store of change sets: that of the engine, or that of the user.
    pub(super) fn change_store(&self) -> Result<ChangeStore> {
        self.changes.clone().map_or_else(ChangeStore::user, Ok)
    }
}

/// The files of the project as the run sees them, and those of its skill.
pub(super) fn files_of_run(
    project: &Path,
    skill_files: Files,
    invocation: &Invocation,
) -> Result<(Files, Files)> {
    let Some(overlay) = invocation.extensions.get::<Arc<ProjectOverlay>>() else {
        return Ok((Files::open_nofollow(project)?, skill_files));
    };
    let failed = |error| SkillError::io("failed to open the copy of the project", error);
    let files = Files::of_overlay(overlay.root().map_err(failed)?, project)?;
    // What the run changes in the skill's folder is in the copy as well.
    let own = match skill_files.root().strip_prefix(project) {
        Ok(inside) => files.open_below(inside).map_err(failed)?,
        Err(_) => skill_files,
    };
    Ok((files, own))
}

impl RunningPreview {
    /// What the run has changed, once all of its processes have ended. `shown` takes secrets out of what the outcome says of it.
    pub(super) fn finish(&self, shown: impl Fn(Value) -> Value + Copy) -> Result<ChangesReport> {
        self.overlay.end();
        let (set, upper) = self.copy.read()?;
        let mut report = ChangesReport::new(json!(set), set.digest());
        if !set.changes.is_empty() {
            let stored = self.store.keep(&set, upper.as_fd())?;
            report.diffs = self.store.text_diffs_as_json(&stored.set, self.copy.project());
            report.is_stored = self.kind == Preview::Store;
            if !report.is_stored {
                self.store.discard(&stored.set.id)?;
            }
        }
        report.set = shown(report.set);
        report.diffs = report.diffs.into_iter().map(shown).collect();
        Ok(report)
    }
}
