//! A run in a copy of its project that only the run sees: an overlay, or a delta where there can be no overlay and no process needs one. The
//! engine and everybody else see the project itself.
//!
//! It is for previews, and for scripts that may create files (`new_files.rs`).

use std::os::fd::AsFd;
use std::path::Path;
use std::sync::Arc;

use serde_json::Value;

use super::{Engine, EngineInner, Invocation, Preview};
use crate::audit::{AuditClient, ChangeSetDecision};
use crate::changes::{ChangeSet, ChangeStore};
use crate::engine::script_selection::SelectedScript;
use crate::engine::skill_set::SkillSet;
use crate::registry::Skill;
use metier_changes::PreviewCopy;
use metier_core::error::{ErrorKind, Result, SkillError};
use metier_core::executor::{NewFiles, ProjectCopy, ProjectDelta, RuntimeId, Script};
use metier_core::host::outcome::ChangesReport;
use metier_core::host::{Files, RunFiles};
use metier_core::policy::GrantOrigin;
use metier_external::ProjectOverlay;

/// The copy of a run that has begun.
pub(super) struct RunningCopy {
    pub(super) copy: PreviewCopy,
    /// In the extensions of the run as well; without it the run has a delta.
    overlay: Option<Arc<ProjectOverlay>>,
    pub(super) store: ChangeStore,
    pub(super) purpose: Purpose,
    /// Whether what is applied is to be undoable.
    pub(super) keeps_old: bool,
}

/// What the copy is for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// To show what the run would change.
    Preview(Preview),
    /// To create files that the run was granted.
    NewFiles,
    /// To be able to take back what the run changes.
    Undo,
}

impl Engine {
    /// Where change sets are stored.
    #[cfg_attr(
        not(feature = "mcp"),
        allow(dead_code, reason = "asked for by the server, which not every build has")
    )]
    pub(crate) fn change_store(&self) -> Result<ChangeStore> {
        self.0.change_store()
    }

    /// Records a decision about a change set that came through this client, if this engine records anything. Fails where that is required and not
    /// possible.
    #[cfg_attr(
        not(feature = "mcp"),
        allow(dead_code, reason = "asked for by the server, which not every build has")
    )]
    pub(crate) fn record_change_set(
        &self,
        set: &ChangeSet,
        decision: ChangeSetDecision,
        client: AuditClient,
    ) -> Result<()> {
        let Some(writer) = &self.0.audit else { return Ok(()) };
        if let Some(warning) = writer.record_change_set(set, decision, Some(client))? {
            tracing::warn!("{warning}");
        }
        Ok(())
    }
}

impl EngineInner {
    /// Makes the copy that the run needs, if it needs one, and notes it in the invocation. A skill that another one calls has that of its
    /// caller.
    pub(super) fn begin_copy(
        &self,
        (set, skill): (&SkillSet, &Skill),
        (selected, script): (&SelectedScript, Option<&Script>),
        invocation: &mut Invocation,
    ) -> Result<Option<RunningCopy>> {
        if let Some(ProjectDelta { refusal, .. }) = invocation.extensions.get()
            && selected.runtime == RuntimeId::EXTERNAL
        {
            return Err(refusal.clone());
        }
        let (_, folder) = self.folders.of_run(set, skill, invocation)?;
        let project = folder.path.clone();
        let Some(kind) = invocation.preview.take().filter(|_| invocation.caller.is_none()) else {
            let files = self.files_to_create((skill, selected.runtime), &project, invocation);
            if files.is_empty() {
                return Ok(self.begin_undoable(skill, (selected, script), &project, invocation));
            }
            // Without it the run fails with a sentence about the first of them.
            let Ok(begun) = self.mount_copy(skill, &project, Purpose::NewFiles, invocation) else {
                return Ok(self.begin_undoable(skill, (selected, script), &project, invocation));
            };
            let depth = invocation.caller.as_ref().map_or(0, |caller| caller.depth() + 1);
            invocation.extensions.insert(NewFiles { paths: files, depth });
            return Ok(Some(begun));
        };
        if invocation.journal.is_some() {
            let sentence = "a run in a copy of the project has no journal: its steps would count as finished, and the project has nothing of them";
            return Err(SkillError::new(ErrorKind::Usage, sentence)
                .with_help("run it without a journal, or on the project itself"));
        }
        let purpose = Purpose::Preview(kind);
        let begun = match self.mount_copy(skill, &project, purpose, invocation) {
            Err(refusal) if has_delta(selected.runtime, &refusal) => {
                self.begin_delta((skill, refusal), &project, purpose, invocation)?
            }
            begun => begun?,
        };
        invocation.grants.push(("write".parse()?, GrantOrigin::Caller));
        invocation.extensions.insert(ProjectCopy);
        Ok(Some(begun))
    }

    pub(super) fn mount_copy(
        &self,
        skill: &Skill,
        project: &Path,
        purpose: Purpose,
        invocation: &mut Invocation,
    ) -> Result<RunningCopy> {
        let store = self.change_store()?;
        let (copy, overlay) = self.mount_overlay(skill, project, &store, invocation)?;
        Ok(RunningCopy { copy, overlay: Some(overlay), store, purpose, keeps_old: self.wants_undo() })
    }

    /// The copy, and the overlay that the run sees from here on.
    pub(super) fn mount_overlay(
        &self,
        skill: &Skill,
        project: &Path,
        store: &ChangeStore,
        invocation: &mut Invocation,
    ) -> Result<(PreviewCopy, Arc<ProjectOverlay>)> {
        let services = self.script_cache.services().external();
        let parent = store.previews_folder();
        let (copy, overlay) = PreviewCopy::create(&parent, (project, skill.name()), |_, request| {
            ProjectOverlay::mount(services, request)
        })?;
        let overlay = Arc::new(overlay);
        invocation.extensions.insert(overlay.clone());
        Ok((copy, overlay))
    }

    /// Where there is no overlay, with the reason.
    fn begin_delta(
        &self,
        (skill, refusal): (&Skill, SkillError),
        project: &Path,
        purpose: Purpose,
        invocation: &mut Invocation,
    ) -> Result<RunningCopy> {
        let store = self.change_store()?;
        let (copy, delta) = PreviewCopy::with_delta(&store.previews_folder(), (project, skill.name()))?;
        invocation.extensions.insert(ProjectDelta { delta, refusal });
        Ok(RunningCopy { copy, overlay: None, store, purpose, keeps_old: self.wants_undo() })
    }

    /// The store of change sets: that of the engine, or that of the user.
    pub(super) fn change_store(&self) -> Result<ChangeStore> {
        self.changes.clone().map_or_else(ChangeStore::user, Ok)
    }
}

/// Whether a run that can have no overlay has a delta: all that its script does passes the host functions.
fn has_delta(runtime: RuntimeId, refusal: &SkillError) -> bool {
    runtime != RuntimeId::EXTERNAL && refusal.kind() == ErrorKind::SandboxUnavailable
}

/// The files of the project as the run sees them, and those of its skill.
pub(super) fn files_of_run(
    project: &Path,
    skill_files: Files,
    invocation: &Invocation,
) -> Result<(Files, Files)> {
    let extensions = &invocation.extensions;
    let skill_root = Some(skill_files.root());
    let seen = match (extensions.get::<Arc<ProjectOverlay>>(), extensions.get::<ProjectDelta>()) {
        (Some(overlay), _) => files_seen(overlay, project, skill_root)?,
        (None, Some(ProjectDelta { delta, .. })) => {
            with_skill(Files::of_delta(delta, project)?, project, skill_root)?
        }
        (None, None) => return Ok((Files::open_nofollow(project)?, skill_files)),
    };
    Ok((seen.project, seen.skill.unwrap_or(skill_files)))
}

/// The files of the project that a run with this overlay sees now, and those of its skill if its folder is in the project.
pub(super) fn files_seen(
    overlay: &ProjectOverlay,
    project: &Path,
    skill_root: Option<&Path>,
) -> Result<RunFiles> {
    let failed = |error| SkillError::io("failed to open the copy of the project", error);
    let files = match overlay.root().map_err(failed)? {
        Some(root) => Files::of_overlay(root, project)?,
        None => Files::open_nofollow(project)?,
    };
    with_skill(files, project, skill_root)
}

/// What the run changes in the folder of the skill is in the copy as well.
fn with_skill(files: Files, project: &Path, skill_root: Option<&Path>) -> Result<RunFiles> {
    let failed = |error| SkillError::io("failed to open the copy of the project", error);
    let inside = skill_root.and_then(|root| root.strip_prefix(project).ok());
    let skill = inside.map(|inside| files.open_below(inside)).transpose().map_err(failed)?;
    Ok(RunFiles { project: files, skill })
}

impl RunningCopy {
    /// From here on no process starts with it.
    pub(super) fn end(&self) {
        if let Some(overlay) = &self.overlay {
            overlay.end();
        }
    }

    /// What a preview has changed, once all of its processes have ended; `None` for other runs. `shown` takes secrets out of what the outcome
    /// says of it.
    pub(super) fn finish(&self, shown: impl Fn(Value) -> Value + Copy) -> Result<Option<ChangesReport>> {
        let Purpose::Preview(kind) = self.purpose else { return Ok(None) };
        self.end();
        let (set, upper) = self.copy.read()?;
        let mut report = ChangesReport::new(set.to_json_with(shown), set.digest());
        if !set.changes.is_empty() {
            let stored = self.store.keep(&set, upper.as_fd())?;
            report.diffs = self.store.text_diffs_as_json(&stored.set, self.copy.project(), shown);
            report.is_stored = kind == Preview::Store;
            if !report.is_stored {
                self.store.discard(&stored.set.id)?;
            }
        }
        Ok(Some(report))
    }
}
