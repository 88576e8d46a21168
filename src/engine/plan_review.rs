//! Reviews in a plan: its steps run in a copy of the project, and what they have changed is applied when a person has agreed to it.

use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Value, json};

use super::EngineInner;
use crate::changes::{ApplyOptions, ChangeSet, ChangeStore};
use crate::engine::preview::{RunCopy, files_seen};
use crate::engine::run_terms::{RunTerms, ScriptCall};
use crate::engine::script_selection::count_reviews;
use metier_changes::PreviewCopy;
use metier_core::error::{ErrorKind, Result, SkillError};
use metier_core::host::files::SecretLinks;
use metier_core::host::outcome::changes_report;
use metier_core::host::{
    ChangeReviewer, LogLevel, RunContext, RunFiles, RunMessages, SkillContext, ask_to_apply,
};
use metier_external::{ExternalServices, ProjectOverlay};

/// The copies of one run of a plan.
struct PlanReviewer {
    services: ExternalServices,
    store: ChangeStore,
    overlay: Arc<ProjectOverlay>,
    /// The canonical path of the project, and the links in it that lead to what is protected.
    project: PathBuf,
    secret_links: SecretLinks,
    state: Mutex<ReviewState>,
}

struct ReviewState {
    /// `None` after the last review, and after one that failed.
    copy: Option<PreviewCopy>,
    /// The reviews that the plan has not come to.
    left: usize,
}

impl EngineInner {
    /// Makes the copy in which a plan with reviews runs. A preview has one already, and whoever calls such a plan from another skill is refused by
    /// the plan itself.
    pub(super) fn begin_review(&self, terms: &RunTerms<'_>, call: &ScriptCall) -> Result<RunCopy> {
        if terms.caller.is_some() || terms.facts.is_in_copy {
            return Ok(RunCopy::default());
        }
        let left = count_reviews(&terms.selected, call.script());
        if left == 0 {
            return Ok(RunCopy::default());
        }
        if terms.journal.is_some() {
            let sentence = "a plan with a review has no journal: until then its steps run in a copy of the project, which ends with the run";
            return Err(SkillError::new(ErrorKind::Usage, sentence).with_help("run it without a journal"));
        }
        let folder = terms.folder.1;
        let (project, secret_links) = (folder.path.clone(), folder.secret_links.clone());
        let store = self.change_store()?;
        let (copy, overlay) = self.mount_overlay(terms, &store)?;
        let services = self.script_cache.services().external().clone();
        let state = Mutex::new(ReviewState { copy: Some(copy), left });
        let reviewer =
            PlanReviewer { services, store, overlay: overlay.clone(), project, secret_links, state };
        Ok(RunCopy::in_overlay(terms, overlay, |facts| {
            facts.is_in_copy = true;
            facts.reviewer = Some(Arc::new(reviewer));
        }))
    }
}

impl ChangeReviewer for PlanReviewer {
    fn review(&self, ctx: &SkillContext, step: &str, text: &str) -> Result<(Value, RunFiles)> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let over = || SkillError::new(ErrorKind::Unavailable, "the copy of the project has ended");
        let copy = state.copy.take().ok_or_else(over)?;
        let value = self.apply(&copy, ctx, step, text)?;
        state.left = state.left.saturating_sub(1);
        if state.left == 0 {
            self.overlay.leave();
        } else {
            let parent = self.store.previews_folder();
            let about = (self.project.as_path(), ctx.skill());
            let (copy, ()) = PreviewCopy::create(&parent, about, |_, request| {
                self.overlay.mount_anew(&self.services, request)
            })?;
            state.copy = Some(copy);
        }
        let skill = ctx.skill_files().ok().map(|files| files.root().to_owned());
        let files = files_seen(&self.overlay, &self.project, skill.as_deref())?;
        let project = files.project.with_secret_links(&self.secret_links);
        Ok((value, RunFiles { project, ..files }))
    }

    fn end(&self, ctx: &SkillContext) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(copy) = state.copy.take() else { return };
        self.overlay.end();
        let lost = match copy.read() {
            Ok((set, _)) if set.changes.is_empty() => return,
            Ok((set, _)) => format!("{} changed paths", set.changes.len()),
            Err(error) => format!("changes that cannot be read: {error}"),
        };
        ctx.warn(format!(
            "the plan ended before a review, so the copy of the project was discarded with {lost}; the project has nothing of them"
        ));
    }
}

impl PlanReviewer {
    /// Asks about all that is in the copy, of which no process is left, and applies exactly that. Returns the value of the step.
    fn apply(&self, copy: &PreviewCopy, ctx: &SkillContext, step: &str, text: &str) -> Result<Value> {
        self.overlay.end();
        let (set, upper) = copy.read()?;
        let digest = set.digest();
        let redaction = ctx.redaction();
        let shown = |text| redaction.value(text).into_inner();
        let mut report = changes_report(set.to_json_with(shown), digest.clone());
        // What somebody agrees to is out of reach of the script before it is shown.
        let is_stored = !set.changes.is_empty();
        if is_stored {
            let stored = self.store.keep(&set, upper.as_fd())?;
            report.diffs = self.store.text_diffs_as_json(&stored.set, copy.project(), shown);
        }
        let agreed = ask_to_apply(ctx, step, text, report);
        if !is_stored {
            return agreed.map(|()| json!({"id": null, "digest": digest, "applied": 0}));
        }
        let applied = agreed.and_then(|()| self.apply_stored(copy, &set, &digest));
        match applied {
            Ok(count) => {
                let id = &set.id;
                ctx.log(
                    LogLevel::Info,
                    format!("the change set {id} was applied ({count} changed paths), and can be undone"),
                )?;
                Ok(json!({"id": id, "digest": digest, "applied": count}))
            }
            Err(error) => {
                self.store.discard(&set.id)?;
                Err(error)
            }
        }
    }

    fn apply_stored(&self, copy: &PreviewCopy, set: &ChangeSet, digest: &str) -> Result<usize> {
        let options = ApplyOptions {
            keep_old: true,
            digest: Some(digest.to_owned()),
            all_or_nothing: true,
            ..ApplyOptions::default()
        };
        let report = self.store.apply(&set.id, copy.project(), &options)?;
        let Some(first) = report.conflicts.first() else { return Ok(report.applied.len()) };
        let paths: Vec<String> =
            report.conflicts.iter().map(|conflict| conflict.path.escape_debug().to_string()).collect();
        let sentence = format!(
            "nothing was applied, since the project has changed meanwhile ({}): {}",
            first.reason,
            paths.join(", ")
        );
        Err(SkillError::new(ErrorKind::Io, sentence).with_help("run the plan again"))
    }
}
