//! The context of a run: what its script receives, and what it may do.

use std::path::PathBuf;
use std::sync::Arc;

use super::invocation::JournalTarget;
use super::{EngineInner, Invocation};
use crate::engine::base_url_hosts::base_url_hosts_of_run;
use crate::engine::builder::with_validated_tools;
use crate::engine::preview::files_of_run;
use crate::engine::requested_permissions::{declared_permissions, requests_store, with_permissions};
use crate::engine::script_selection::SelectedScript;
use crate::engine::skill_set::SkillSet;
use crate::registry::Skill;
use crate::trust::ProjectIdentity;
use metier_core::error::{ErrorKind, Hint, Result, SkillError};
use metier_core::executor::{ProjectCopy, RuntimeId, Script, SkillExecutor};
use metier_core::host::{ContextBuilder, Environment, Files, Providers, SkillContext, catch_panic};
use metier_core::policy::{CancelToken, Limits, ThreadBudget};

impl EngineInner {
    /// The loaded script, and the context of its run.
    pub(super) fn prepare_run(
        &self,
        (set, skill): (&SkillSet, &Skill),
        selected: &SelectedScript,
        (script, files): (Script, Files),
        invocation: &Invocation,
        limits: &Limits,
        token: CancelToken,
    ) -> Result<(Arc<dyn SkillExecutor>, ContextBuilder)> {
        token.check()?;
        invocation.extensions.get::<Environment>().map_or(Ok(()), Environment::check)?;
        let mode = invocation.execution_mode.unwrap_or(self.execution_mode);
        let executor = catch_runtime_panic(|| {
            self.script_cache.load(&self.runtimes, selected.runtime, &script, (mode, set.generation), &token)
        })?;
        let mut providers = self.run_providers(invocation);
        if invocation.extensions.get::<ProjectCopy>().is_some() {
            // What an editor has is of the project, and it would be asked about changes that nothing makes there.
            providers.files = None;
        }
        let tool = selected.tool.as_deref().filter(|tool| tool.http().is_some());
        let hosts = base_url_hosts_of_run((skill, tool), (invocation, &providers), &token)?;
        let declared = with_permissions(declared_permissions(skill, selected.runtime), hosts.iter().cloned());
        let listed = declared.listed().len();
        let asked = with_permissions(declared, executor.requested_permissions());
        let (folder_index, folder) = self.folders.of_run(set, skill, invocation)?;
        let unprotected =
            || SkillError::new(ErrorKind::Unavailable, "the folder of the run is not protected");
        let protected = set.protected_folders.get(folder_index).ok_or_else(unprotected)?;
        let requests_store = requests_store(&asked);
        let permissions =
            self.run_permissions(skill, (selected, listed, hosts), asked, invocation, protected)?;
        let (project_files, files) = files_of_run(&folder.path, files, invocation)?;
        let context = SkillContext::builder(skill.name())
            .qualified_name(skill.qualified_name())
            .project(project_files.with_secret_links(&folder.secret_links))
            .skill_files(files)
            .config_fields(skill.contract().map(|contract| contract.config.clone()))
            .permissions(permissions)
            .limits(limits.clone())
            .sandbox_mode(self.run_sandbox_mode(skill, invocation))
            .execution_mode(mode)
            .providers(providers)
            .extensions(self.run_extensions(
                skill,
                (selected, &script.source),
                (invocation, requests_store),
                &folder.path,
            )?)
            .thread_budget(ThreadBudget::new(self.max_threads))
            .cancel(token);
        let context = match selected.runtime {
            RuntimeId::EXTERNAL => context.host_memory(limits.host_memory_for_process()),
            _ => context,
        };
        let context = match &invocation.caller {
            Some(caller) => context.called_by(caller.clone()),
            None => context,
        };
        let context = match journal_file(invocation, skill, selected)? {
            Some(file) => {
                context.journal(file, Some(ProjectIdentity::from_canonical(&folder.path)?.to_string()))
            }
            None => context,
        };
        Ok((executor, context))
    }

    /// The engine's providers, or those of the caller, with those of the invocation in their place.
    pub(super) fn run_providers(&self, invocation: &Invocation) -> Providers {
        let inherited = invocation.caller.as_ref().map_or(&self.providers, SkillContext::providers);
        match invocation.providers.as_deref() {
            Some(own) => {
                let own = self.approval_memory.for_providers(own.clone());
                inherited.overridden_by(&with_validated_tools(own))
            }
            None => inherited.clone(),
        }
    }
}

/// The journal file of the run, if it has one. Only plans have steps to journal.
fn journal_file(
    invocation: &Invocation,
    skill: &Skill,
    selected: &SelectedScript,
) -> Result<Option<PathBuf>> {
    let is_plan = selected.runtime == RuntimeId::TOOL_SEQUENCE;
    match &invocation.journal {
        Some(JournalTarget::File(file)) if is_plan => Ok(Some(file.clone())),
        Some(JournalTarget::Folder(folder)) if is_plan => {
            let of_tool = selected.tool.as_ref().map(|tool| format!("{}.{}", skill.name(), tool.name));
            Ok(Some(metier_plan::journal_path(folder, of_tool.as_deref().unwrap_or(skill.name()))))
        }
        Some(JournalTarget::File(_)) if invocation.caller.is_some() => Ok(None),
        None => Ok(None),
        Some(_) => {
            let sentence =
                format!("skill {} runs no plan, so there is nothing to keep a journal of", skill.name());
            Err(SkillError::new(ErrorKind::Usage, sentence)
                .with_help("run it without a journal")
                .with_hint(Hint::NoJournal))
        }
    }
}

/// A panic in the runtime is a defect of metier or of an embedder's executor; it must not crash the host.
pub(super) fn catch_runtime_panic<T>(work: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_panic("the runtime", ErrorKind::Script, work)
}
