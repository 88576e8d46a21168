//! A run in a copy of its project that only the run sees: an overlay, or a delta where there can be no overlay and no process needs one. The
//! engine and everybody else see the project itself.
//!
//! It is for previews, and for scripts that may create files (`new_files.rs`).

use std::os::fd::AsFd;
use std::path::Path;
use std::sync::Arc;

use serde_json::Value;

use super::{Engine, EngineInner, Preview};
use crate::audit::{AuditClient, ChangeSetDecision};
use crate::changes::{ChangeSet, ChangeStore};
use crate::engine::run_terms::{RunTerms, ScriptCall};
use metier_changes::PreviewCopy;
use metier_core::error::{ErrorKind, Result, SkillError};
use metier_core::host::outcome::{ChangesReport, changes_report};
use metier_core::host::{
    Extensions, Files, NewFiles, ProjectDelta, RunContext, RunFacts, RunFiles, SharedFacts,
};
use metier_core::policy::Permission;
use metier_external::ProjectOverlay;

/// In what a run works: in the project itself, or in a copy.
#[derive(Default)]
pub(super) struct RunCopy {
    /// The copy, unless it is that of its caller or its plan applies it.
    pub(super) running: Option<RunningCopy>,
    /// Why it cannot be undone, if it was to be.
    pub(super) undo_gap: Option<String>,
    /// What is granted to it for being in a copy.
    pub(super) grant: Option<Permission>,
    /// What the run knows if it works in a copy.
    pub(super) view: Option<(Extensions, SharedFacts)>,
}

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
    /// Makes the copy that the run needs, if it needs one. A skill that another one calls has that of its caller.
    pub(super) fn begin_copy(&self, terms: &RunTerms<'_>, call: &ScriptCall) -> Result<RunCopy> {
        if let Some(delta) = terms.facts.delta.as_ref().filter(|_| !terms.is_in_process()) {
            return Err(delta.refusal.clone());
        }
        if let Some(kind) = terms.preview {
            return self.begin_preview(terms, kind);
        }
        let paths = terms.files_to_create(&call.providers);
        if !paths.is_empty() {
            let depth = terms.caller.as_ref().map_or(0, |caller| caller.depth() + 1);
            let new_files = Some(Arc::new(NewFiles { paths, depth }));
            let copy = self.mount_copy(terms, Purpose::NewFiles, |facts| facts.new_files = new_files);
            // Without it the run fails with a sentence about the first of them.
            if copy.is_ok() {
                return copy;
            }
        }
        match self.begin_undoable(terms, call) {
            Some(copy) => Ok(copy),
            None => self.begin_review(terms, call),
        }
    }

    fn begin_preview(&self, terms: &RunTerms<'_>, kind: Preview) -> Result<RunCopy> {
        if terms.journal.is_some() {
            let sentence = "a run in a copy of the project has no journal: its steps would count as finished, and the project has nothing of them";
            return Err(SkillError::new(ErrorKind::Usage, sentence)
                .with_help("run it without a journal, or on the project itself"));
        }
        let purpose = Purpose::Preview(kind);
        let copy = match self.mount_copy(terms, purpose, |facts| facts.is_in_copy = true) {
            Err(refusal) if has_delta(terms, &refusal) => {
                let store = self.change_store()?;
                let about = (terms.project(), terms.skill.name());
                let (copy, delta) = PreviewCopy::with_delta(&store.previews_folder(), about)?;
                let mut facts = terms.facts.clone();
                facts.is_in_copy = true;
                facts.delta = Some(Arc::new(ProjectDelta { delta, refusal }));
                let running =
                    RunningCopy { copy, overlay: None, store, purpose, keeps_old: self.wants_undo() };
                let view = Some((terms.extensions.clone(), facts));
                RunCopy { running: Some(running), view, ..RunCopy::default() }
            }
            begun => begun?,
        };
        Ok(RunCopy { grant: Some("write".parse()?), ..copy })
    }

    /// The copy of a run for this purpose, and what the run knows of it.
    pub(super) fn mount_copy(
        &self,
        terms: &RunTerms<'_>,
        purpose: Purpose,
        change: impl FnOnce(&mut RunFacts),
    ) -> Result<RunCopy> {
        let store = self.change_store()?;
        let (copy, overlay) = self.mount_overlay(terms, &store)?;
        let keeps_old = self.wants_undo();
        let running = RunningCopy { copy, overlay: Some(overlay.clone()), store, purpose, keeps_old };
        Ok(RunCopy { running: Some(running), ..RunCopy::in_overlay(terms, overlay, change) })
    }

    /// The copy, and the overlay that the run sees.
    pub(super) fn mount_overlay(
        &self,
        terms: &RunTerms<'_>,
        store: &ChangeStore,
    ) -> Result<(PreviewCopy, Arc<ProjectOverlay>)> {
        let services = self.script_cache.services().external();
        let about = (terms.project(), terms.skill.name());
        let (copy, overlay) = PreviewCopy::create(&store.previews_folder(), about, |_, request| {
            ProjectOverlay::mount(services, request)
        })?;
        Ok((copy, Arc::new(overlay)))
    }

    /// The store of change sets: that of the engine, or that of the user.
    pub(super) fn change_store(&self) -> Result<ChangeStore> {
        self.changes.clone().map_or_else(ChangeStore::user, Ok)
    }
}

/// Whether a run that can have no overlay has a delta: all that its script does passes the host functions.
fn has_delta(terms: &RunTerms<'_>, refusal: &SkillError) -> bool {
    terms.is_in_process() && refusal.kind() == ErrorKind::SandboxUnavailable
}

/// The files of the project as the run sees them, and those of its skill.
pub(super) fn files_of_run(terms: &RunTerms<'_>, skill_files: Files) -> Result<(Files, Files)> {
    let project = terms.project();
    let skill_root = Some(skill_files.root());
    let seen = match (terms.extensions.get::<Arc<ProjectOverlay>>(), &terms.facts.delta) {
        (Some(overlay), _) => files_seen(overlay, project, skill_root)?,
        (None, Some(delta)) => with_skill(Files::of_delta(&delta.delta, project)?, project, skill_root)?,
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

impl RunCopy {
    /// The copy of a run that sees its project through this overlay, with what it knows besides.
    pub(super) fn in_overlay(
        terms: &RunTerms<'_>,
        overlay: Arc<ProjectOverlay>,
        change: impl FnOnce(&mut RunFacts),
    ) -> Self {
        let (mut extensions, mut facts) = (terms.extensions.clone(), terms.facts.clone());
        extensions.insert(overlay);
        change(&mut facts);
        Self { view: Some((extensions, facts)), ..Self::default() }
    }
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
        let mut report = changes_report(set.to_json_with(shown), set.digest());
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
