//! Runs that can be undone, as the configuration says of skills that write: such a run has a copy of the project, and what it changed is applied
//! when it has ended, with what it replaced stored.

use std::os::fd::AsFd;
use std::path::Path;

use super::{EngineInner, Invocation};
use crate::audit::ChangeSetDecision;
use crate::changes::{ApplyOptions, ChangeSet, StoreLimits};
use crate::engine::preview::{Purpose, RunningCopy};
use crate::engine::requested_permissions::declared_permissions;
use crate::engine::script_selection::{SelectedScript, count_reviews};
use crate::registry::Skill;
use metier_core::error::{ErrorKind, Result, SkillError};
use metier_core::executor::{AppliedCopy, ProjectCopy, Script, UndoGap};
use metier_core::host::{LogLevel, SkillContext};
use metier_core::policy::{Permission, RequestedPermissions, SandboxMode};

impl EngineInner {
    /// Whether the configuration wants runs of skills that write to be undoable.
    pub(super) fn wants_undo(&self) -> bool {
        self.configuration.as_ref().is_some_and(|configuration| configuration.is_undoable())
    }

    /// Makes the copy of a run that may write. Where it cannot be had, the run goes on without, and its log says why.
    pub(super) fn begin_undoable(
        &self,
        skill: &Skill,
        (selected, script): (&SelectedScript, Option<&Script>),
        project: &Path,
        invocation: &mut Invocation,
    ) -> Option<RunningCopy> {
        let is_part = invocation.caller.is_some() || invocation.is_command;
        let is_in_copy = invocation.extensions.get::<ProjectCopy>().is_some();
        // What reviews apply can be undone as well.
        let has_review = || count_reviews(selected, script) > 0;
        if !self.wants_undo() || is_part || is_in_copy || has_review() {
            return None;
        }
        if !self.may_write(skill, selected, invocation) {
            return None;
        }
        let begun = match self.obstacle_to_copy(skill, invocation) {
            Some(obstacle) => Err(obstacle.to_owned()),
            None => self
                .mount_copy(skill, project, Purpose::Undo, invocation)
                .map_err(|error| error.message().to_owned()),
        };
        match begun {
            Ok(begun) => {
                invocation.extensions.insert(ProjectCopy);
                invocation.extensions.insert(AppliedCopy);
                Some(begun)
            }
            Err(reason) => {
                invocation.extensions.insert(UndoGap(reason));
                None
            }
        }
    }

    /// Records that a change set is about to be applied, if there is an audit log.
    fn record_applied(&self, set: &ChangeSet, context: &SkillContext) -> Result<()> {
        let Some(writer) = &self.audit else { return Ok(()) };
        if let Some(warning) = writer.record_change_set(set, ChangeSetDecision::Applied, None)? {
            context.warn(warning);
        }
        Ok(())
    }

    /// Whether the run may change files of the project: by a grant, or once somebody has agreed.
    fn may_write(&self, skill: &Skill, selected: &SelectedScript, invocation: &Invocation) -> bool {
        let writes = |permission: &Permission| permission.name() == "write";
        let declared = declared_permissions(skill, selected.runtime);
        // An external script that lists nothing may use any grant.
        let lists_none = declared == RequestedPermissions::All;
        let lists_write = declared.listed().iter().any(writes);
        let is_granted = invocation.grants.iter().any(|(permission, _)| writes(permission));
        let can_ask = || self.run_providers(invocation).approver.is_some();
        is_granted && (lists_none || lists_write) || lists_write && can_ask()
    }

    /// Why the run would not be the same in a copy.
    fn obstacle_to_copy(&self, skill: &Skill, invocation: &Invocation) -> Option<&'static str> {
        let grants = || invocation.grants.iter().map(|(permission, _)| permission);
        let is_unsandboxed = || {
            self.run_sandbox_mode(skill, invocation) == SandboxMode::Off
                || grants().any(|permission| permission.name() == "exec")
        };
        let opens_git = || {
            grants().any(|permission| {
                permission.name() == "write"
                    && permission.scope().is_some_and(|scope| scope.split('/').any(|part| part == ".git"))
            })
        };
        if invocation.journal.is_some() {
            return Some(
                "it has a journal, and its steps would count as finished before their files are there",
            );
        }
        if is_unsandboxed() {
            return Some("a script without a sandbox would leave the copy");
        }
        if opens_git() {
            return Some("it may change .git, which is no part of a change set");
        }
        if grants().any(|permission| permission.name() == "own-folder") {
            return Some("it may change the folder of its skill");
        }
        if self.run_providers(invocation).files.is_some() {
            return Some("another program has files of the project open");
        }
        None
    }
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
