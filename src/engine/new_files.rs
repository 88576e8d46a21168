//! Files that do not exist and that a script may create: a sandbox opens what exists, and a folder only as a whole. In a copy of the project the
//! script may do more in the folder around such a file, and what it was granted is applied when it has ended.

use std::os::fd::AsFd;
use std::path::Path;
use std::sync::Arc;

use super::EngineInner;
use crate::changes::{ApplyOptions, Change, ChangeKind, EntryType};
use crate::engine::preview::{Purpose, RunningCopy};
use crate::engine::requested_permissions::declared_permissions;
use crate::engine::run_terms::RunTerms;
use metier_core::error::{ErrorKind, Result, SkillError};
use metier_core::host::{
    Providers, RefusedTarget, RunContext, RunMessages, RunReporting, SkillContext, refused_with_permission,
};
use metier_core::policy::{Access, PathProtection, Permission, RunPermissions, SandboxMode, is_within};
use metier_external::{ProjectOverlay, new_files};

impl RunTerms<'_> {
    /// Files that do not exist and that the run may have the permission to create, relative to the project: none that is hidden or reached
    /// through a link. Nor is there any where processes are not in a sandbox or already have a copy, somebody provides the files, or the host
    /// or the skill writes to the project by another permission.
    pub(super) fn files_to_create(&self, providers: &Providers) -> Vec<String> {
        if self.is_in_process() {
            return Vec::new();
        }
        let project = self.project();
        let scope = |permission: &Permission| {
            let is_write = permission.name() == "write";
            is_write.then(|| permission.scope().unwrap_or_default().to_owned())
        };
        let mut writable: Vec<String> = self.granted().filter_map(scope).collect();
        let requested = declared_permissions(&self.skill, self.selected.runtime);
        // A skill that requests the whole folder, and was granted a file in it, has the file: unless somebody may be asked for more.
        let has_inner_grant =
            |requested: &String| writable.iter().any(|granted| is_within(granted, requested));
        let requested = requested.listed().iter().filter_map(scope);
        let requested = requested.filter(|path| providers.approver.is_some() || !has_inner_grant(path));
        let requested: Vec<String> = requested.collect();
        writable.extend(requested);
        let mut files = new_files(&writable, |path| project.join(path).symlink_metadata().is_ok());
        let is_plain = |path: &String| {
            let folder = project.join(path).parent().map(Path::to_owned);
            let is_reached =
                folder.is_some_and(|folder| folder.canonicalize().is_ok_and(|real| real == folder));
            is_reached && !path.split('/').any(|part| part.starts_with('.'))
        };
        files.retain(is_plain);
        let has_other_writer = || {
            let is_own_folder = |permission: &Permission| permission.name() == "own-folder";
            !self.facts.leftovers_to_copy.is_empty() || self.granted().any(is_own_folder)
        };
        let is_in_copy = || self.facts.is_in_copy || self.extensions.get::<Arc<ProjectOverlay>>().is_some();
        let is_unsandboxed = || {
            self.sandbox_mode == SandboxMode::Off
                || self
                    .granted()
                    .any(|permission| permission.name() == "exec" && permission.scope().is_some())
        };
        let has_editor = || providers.files.is_some();
        let is_out_of_reach = || is_in_copy() || is_unsandboxed() || has_editor() || has_other_writer();
        if files.is_empty() || is_out_of_reach() { Vec::new() } else { files }
    }
}

impl RunningCopy {
    /// Applies what the run may change in its project, once all of its processes have ended, and reports what else it has changed as refused;
    /// nothing of a preview.
    pub(super) fn apply_granted(&self, context: &SkillContext, engine: &EngineInner) -> Result<()> {
        match self.purpose {
            Purpose::NewFiles => {}
            Purpose::Undo => return self.apply_undoable(context, engine),
            Purpose::Preview(_) => return Ok(()),
        }
        self.end();
        let (mut set, upper) = self.copy.read()?;
        let permissions = context.permissions();
        let new_files = context.new_files();
        let is_file =
            |change: &Change| change.after.as_ref().is_some_and(|after| after.entry_type == EntryType::File);
        let opens = |path: &str| permissions.allows(&Access::write(path));
        // A grant of a file is none for a link or a folder in its place.
        let is_below = |path: &str, file: &String| {
            path.strip_prefix(file.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        let is_granted = |change: &Change| {
            let file = new_files.iter().find(|file| is_below(&change.path, file));
            opens(&change.path)
                && change.from.as_deref().is_none_or(opens)
                && file.is_none_or(|file| *file == change.path && is_file(change))
        };
        let (granted, refused): (Vec<Change>, Vec<Change>) =
            std::mem::take(&mut set.changes).into_iter().partition(is_granted);
        let left_out = set.refused.iter().map(|refusal| &refusal.path);
        let left_out: Vec<&String> = refused.iter().map(|change| &change.path).chain(left_out).collect();
        if let Some(first) = left_out.first() {
            let others = left_out.len() - 1;
            let others = if others > 0 { format!(" and {others} more") } else { String::new() };
            context.warn(format!(
                "the script may create the files that it was granted; what else it changed around them was left out: {}{others}",
                first.escape_debug()
            ));
        }
        let refused = refused.into_iter().map(|change| {
            let needed = needed_permission(&change, permissions.protection());
            refused_with_permission(needed.to_string(), RefusedTarget::Path(change.path), 1)
        });
        context.report_refused_accesses(refused.collect());
        if granted.is_empty() {
            return Ok(());
        }
        set.changes = granted;
        let stored = self.store.keep(&set, upper.as_fd())?;
        let options = ApplyOptions { keep_old: self.keeps_old, ..ApplyOptions::default() };
        let applied = self.store.apply(&stored.set.id, self.copy.project(), &options);
        if !self.keeps_old {
            self.store.discard(&stored.set.id)?;
        }
        let conflicts = applied?.conflicts;
        let Some(first) = conflicts.first() else { return Ok(()) };
        let paths: Vec<String> =
            conflicts.iter().map(|conflict| conflict.path.escape_debug().to_string()).collect();
        let sentence = format!("not applied to the project, since {}: {}", first.reason, paths.join(", "));
        Err(SkillError::new(ErrorKind::Io, sentence).with_help("run it again"))
    }
}

/// The smallest permission with which a script could have made this change without a copy: that for a file that was there, or that for the
/// folder around.
fn needed_permission(change: &Change, protection: &PathProtection) -> Permission {
    let narrowest = Access::write(change.path.as_str()).narrowest_permission(protection);
    let path = match change.kind {
        _ if narrowest.scope().is_some() => return narrowest,
        ChangeKind::Changed | ChangeKind::Mode => change.path.as_str(),
        _ => change.path.rsplit_once('/').map_or("", |(folder, _)| folder),
    };
    if path.is_empty() { narrowest } else { Permission::write(path).unwrap_or(narrowest) }
}
