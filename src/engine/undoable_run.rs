//! Runs that can be undone, as the configuration says of skills that write: such a run has a copy of the project, and what it changed is applied
//! when it has ended, with what it replaced stored.

use std::os::fd::AsFd;

use super::EngineInner;
use crate::audit::ChangeSetDecision;
use crate::changes::{ApplyOptions, ChangeSet, StoreLimits};
use crate::engine::preview::{Purpose, RunCopy, RunningCopy};
use crate::engine::requested_permissions::declared_permissions;
use crate::engine::run_terms::{RunTerms, ScriptCall};
use crate::engine::script_selection::count_reviews;
use metier_core::error::{ErrorKind, Result, SkillError};
use metier_core::host::{LogLevel, Providers, RunMessages, SkillContext};
use metier_core::policy::{Permission, RequestedPermissions, SandboxMode};

impl EngineInner {
    /// Whether the configuration wants runs of skills that write to be undoable.
    pub(super) fn wants_undo(&self) -> bool {
        self.configuration.as_ref().is_some_and(|configuration| configuration.is_undoable())
    }

    /// Makes the copy of a run that may write, if such runs are to be undoable. Where it cannot be had, the run goes on without, and its log
    /// says why.
    pub(super) fn begin_undoable(&self, terms: &RunTerms<'_>, call: &ScriptCall) -> Option<RunCopy> {
        let is_part = terms.caller.is_some() || terms.is_command;
        // What reviews apply can be undone as well.
        let has_review = || count_reviews(&terms.selected, call.script()) > 0;
        let providers = &call.providers;
        let is_concerned = self.wants_undo() && !is_part && !terms.facts.is_in_copy && !has_review();
        if !is_concerned || !may_write(terms, providers) {
            return None;
        }
        let begun = if let Some(obstacle) = obstacle_to_copy(terms, providers) {
            Err(obstacle.to_owned())
        } else {
            let copy = self.mount_copy(terms, Purpose::Undo, |facts| {
                (facts.is_in_copy, facts.applies_copy) = (true, true);
            });
            copy.map_err(|error| error.message().to_owned())
        };
        let without = |reason| RunCopy { undo_gap: Some(reason), ..RunCopy::default() };
        Some(begun.unwrap_or_else(without))
    }

    /// Records that a change set is about to be applied, if there is an audit log.
    fn record_applied(&self, set: &ChangeSet, context: &SkillContext) -> Result<()> {
        let Some(writer) = &self.audit else { return Ok(()) };
        if let Some(warning) = writer.record_change_set(set, ChangeSetDecision::Applied, None)? {
            context.warn(warning);
        }
        Ok(())
    }
}

/// Whether the run may change files of the project: by a grant, or once somebody has agreed.
fn may_write(terms: &RunTerms<'_>, providers: &Providers) -> bool {
    let writes = |permission: &Permission| permission.name() == "write";
    let declared = declared_permissions(&terms.skill, terms.selected.runtime);
    // An external script that lists nothing may use any grant.
    let lists_none = declared == RequestedPermissions::All;
    let lists_write = declared.listed().iter().any(writes);
    let is_granted = terms.granted().any(writes);
    is_granted && (lists_none || lists_write) || lists_write && providers.approver.is_some()
}

/// Why the run would not be the same in a copy.
fn obstacle_to_copy(terms: &RunTerms<'_>, providers: &Providers) -> Option<&'static str> {
    let is_unsandboxed = || {
        terms.sandbox_mode == SandboxMode::Off
            || terms.granted().any(|permission| permission.name() == "exec")
    };
    let opens_git = || {
        terms.granted().any(|permission| {
            permission.name() == "write"
                && permission.scope().is_some_and(|scope| scope.split('/').any(|part| part == ".git"))
        })
    };
    if terms.journal.is_some() {
        return Some("it has a journal, and its steps would count as finished before their files are there");
    }
    if is_unsandboxed() {
        return Some("a script without a sandbox would leave the copy");
    }
    if opens_git() {
        return Some("it may change .git, which is no part of a change set");
    }
    if terms.granted().any(|permission| permission.name() == "own-folder") {
        return Some("it may change the folder of its skill");
    }
    providers.files.is_some().then_some("another program has files of the project open")
}

impl RunningCopy {
    /// Applies everything that the run has changed, once all of its processes have ended, with what that replaces stored.
    pub(super) fn apply_undoable(&self, context: &SkillContext, engine: &EngineInner) -> Result<()> {
        self.end();
        let (set, upper) = self.copy.read()?;
        for refusal in &set.refused {
            context.warn(format!(
                "not applied to the project: {} ({})",
                refusal.path.escape_debug(),
                refusal.reason
            ));
        }
        if set.changes.is_empty() {
            return Ok(());
        }
        // What a run has made is not lost for being large.
        let sizes = set.changes.iter().filter_map(|change| change.after.as_ref()).map(|after| after.size);
        let limits = StoreLimits::default();
        let limits = StoreLimits { bytes: limits.bytes.max(sizes.sum()), ..limits };
        let store = self.store.clone().with_limits(limits);
        let stored = store.keep(&set, upper.as_fd())?;
        let id = &stored.set.id;
        engine.record_applied(&stored.set, context)?;
        let options = ApplyOptions { keep_old: true, ..ApplyOptions::default() };
        let report = store.apply(id, self.copy.project(), &options)?;
        let count = report.applied.len();
        context.log(
            LogLevel::Info,
            format!("the changes of the run can be undone: change set {id} ({count} changed paths)"),
        )?;
        let Some(first) = report.conflicts.first() else { return Ok(()) };
        let paths: Vec<String> =
            report.conflicts.iter().map(|conflict| conflict.path.escape_debug().to_string()).collect();
        let sentence = format!(
            "not applied to the project, since {}: {}; the change set {id} has them",
            first.reason,
            paths.join(", ")
        );
        Err(SkillError::new(ErrorKind::Io, sentence).with_help("look at the change set, or run it again"))
    }
}
