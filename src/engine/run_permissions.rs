//! The permissions of a run: of a skill, of one that another skill calls, and of a tool.

use std::borrow::Cow;

use super::EngineInner;
use crate::engine::requested_permissions::narrowed_permissions;
use crate::engine::run_terms::RunTerms;
use crate::engine::script_selection::SelectedScript;
use crate::registry::Skill;
use metier_core::error::Result;
use metier_core::executor::RuntimeId;
use metier_core::policy::{
    PathProtection, Permission, Permissions, RequestedPermissions, RunPermissions, filtered_tool_error,
};

impl EngineInner {
    /// Those of a run whose script requests all but the first so many of what is requested. `hosts` are those that settings decide about.
    /// Fails for a tool that the caller left out.
    pub(super) fn run_permissions(
        &self,
        terms: &RunTerms<'_>,
        (requested, listed, hosts): (RequestedPermissions, usize, Vec<Permission>),
        protected_folders: &[String],
        has_approver: bool,
    ) -> Result<Permissions> {
        let RunTerms { skill, selected, .. } = terms;
        let permissions = self
            .effective_permissions(terms, requested, protected_folders, has_approver)
            .with_requests_of_script(&selected.path, listed);
        if let Some(tool) = &selected.tool
            && !permissions.accepts_tool(&format!("{}.{}", skill.name(), tool.name))
        {
            return Err(filtered_tool_error(format_args!("failed to call the tool {}", tool.name)));
        }
        Ok(match narrowed_by_tool(skill, selected) {
            Some((tool, file, mut narrowed)) => {
                if selected.runtime == RuntimeId::HTTP_CALL {
                    narrowed.extend(hosts);
                }
                permissions.for_tool((skill.name(), tool), file, narrowed)
            }
            None => permissions,
        })
    }

    fn effective_permissions(
        &self,
        terms: &RunTerms<'_>,
        requested: RequestedPermissions,
        protected_folders: &[String],
        has_approver: bool,
    ) -> Permissions {
        let skill = &terms.skill;
        let permissions = if let Some(caller) = &terms.caller {
            let permissions = caller.permissions().for_callee(caller.skill(), skill.name(), requested);
            permissions.with_callee_approvals(&skill.qualified_name(), terms.digest)
        } else {
            let protection = PathProtection::new(protected_folders.iter().cloned());
            let permissions = Permissions::new(requested, terms.granted().cloned(), protection)
                .with_tool_filter(terms.tool_filter.clone());
            if has_approver { permissions.with_approvals(&skill.qualified_name()) } else { permissions }
        };
        let permissions = match self.skill_settings(skill) {
            Some(settings) => permissions.without(&settings.denied),
            None => permissions,
        };
        permissions.declared_in(skill.permission_list())
    }
}

/// The name of the tool that is called, where it is declared, and the permissions to which it narrows those of its skill.
fn narrowed_by_tool<'s>(
    skill: &Skill,
    selected: &'s SelectedScript,
) -> Option<(&'s str, Cow<'static, str>, Vec<Permission>)> {
    let tool = selected.tool.as_deref()?;
    Some((&tool.name, skill.contract_list().0, narrowed_permissions(skill, tool)?))
}
