//! What a skill asks for, so that a host can show it before anybody grants it.

use std::collections::HashSet;

use super::{Engine, EngineInner};
use crate::engine::callee_resolver::{load_plan, permissions_of_script};
use crate::engine::requested_permissions::{
    callable_skill_names, declared_permissions, declared_values, narrowed_permissions,
};
use crate::engine::script_selection::ScriptChoice;
use crate::engine::tool_selection::tool_plans;
use crate::executor::RuntimeId;
use crate::plan::Plan;
use crate::policy::{Permission, RequestedPermissions, split_tool_name};
use crate::registry::{Registry, Skill};
use crate::skill::contract::ProvidedTool;

/// A permission that a skill requests, and who does so.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RequestedPermission {
    /// The permission.
    pub permission: Permission,
    /// Who requests it, each once.
    pub sources: Vec<RequestSource>,
}

/// Who requests a permission.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RequestSource {
    /// Nobody: every run has it.
    Default,
    /// `allowed-tools` in the skill's SKILL.md.
    Manifest,
    /// `permissions` in the skill's contract.
    Contract,
    /// A step of the skill's plan.
    Plan,
    /// A skill that it calls, by its qualified name. It gets no more than its caller requests too.
    Callee(String),
}

impl Engine {
    /// The permissions that a skill requests, its callees included, the default ones first. No code of the skill runs.
    ///
    /// Every run reads the project, which is all that an external script gets whose skill lists no permission of metier. Such a
    /// script would use whatever else is granted ([`Engine::uses_any_grant`]). Hosts that the manifest of a WebAssembly plug-in
    /// names are read when it runs and are not in the list, nor are skills of a provider of the program.
    /// The skill counts as it is on disk now; one that does not load any more counts as it was.
    pub fn requested_permissions(&self, skill: &Skill) -> Vec<RequestedPermission> {
        let current = self.0.skills.current_version(skill);
        let (registry, skill) = match &current {
            Ok((set, skill)) => (set.registry.clone(), skill),
            Err(_) => (self.registry(), skill),
        };
        let read =
            RequestedPermission { permission: Permission::READ, sources: vec![RequestSource::Default] };
        let mut requests = vec![read];
        self.0.add_requests(&registry, skill, None, 0, &mut HashSet::new(), &mut requests);
        requests
    }

    /// The permissions that a call of a tool of the skill can have, if they are granted: those to which the tool narrows its skill's, or
    /// all of its skill's. `None` where every grant applies to it. Every run may read the project besides.
    pub fn tool_permissions(&self, skill: &Skill, tool: &ProvidedTool) -> Option<Vec<Permission>> {
        if let Some(narrowed) = narrowed_permissions(skill, tool) {
            return Some(narrowed);
        }
        let requested = match self.0.selected_script(skill, ScriptChoice::Tool(&tool.name)) {
            Ok(selected) => {
                let plan = load_plan(skill, &selected).ok().flatten();
                permissions_of_script(skill, &selected, plan.as_ref())
            }
            Err(_) => declared_permissions(skill, RuntimeId::TOOL_SEQUENCE),
        };
        match requested {
            RequestedPermissions::Listed(listed) => Some(listed),
            RequestedPermissions::All => None,
        }
    }

    /// Whether every grant applies to the skill, since it lists no permission of metier and runs an external script. The skill
    /// counts as in [`Engine::requested_permissions`].
    pub fn uses_any_grant(&self, skill: &Skill) -> bool {
        let current = self.0.skills.current_version(skill);
        let skill = current.as_ref().map_or(skill, |(_, skill)| skill);
        let selected = self.0.selected_script(skill, ScriptChoice::Main);
        selected.is_ok_and(|script| declared_permissions(skill, script.runtime) == RequestedPermissions::All)
    }
}

impl EngineInner {
    fn add_requests(
        &self,
        registry: &Registry,
        skill: &Skill,
        callee: Option<&str>,
        depth: usize,
        seen: &mut HashSet<String>,
        requests: &mut Vec<RequestedPermission>,
    ) {
        if depth > Plan::MAX_CALL_DEPTH || !seen.insert(skill.qualified_name()) {
            return;
        }
        let selected = self.selected_script(skill, ScriptChoice::Main).ok();
        let runtime = selected.as_ref().map_or(RuntimeId::TOOL_SEQUENCE, |script| script.runtime);
        let scripts = selected.into_iter().chain(tool_plans(&self.runtimes, skill));
        let plans: Vec<Plan> =
            scripts.filter_map(|script| load_plan(skill, &script).ok().flatten()).collect();
        let source = |own| callee.map_or(own, |name| RequestSource::Callee(name.to_owned()));
        let variables = skill.manifest().requested_variables();
        let listed = match declared_permissions(skill, runtime) {
            RequestedPermissions::Listed(listed) => listed,
            RequestedPermissions::All => [declared_values(skill), variables.clone()].concat(),
        };
        let has_contract = skill.contract().is_some_and(|contract| contract.permissions.is_some());
        let own = if has_contract { RequestSource::Contract } else { RequestSource::Manifest };
        let values = declared_values(skill);
        for permission in &listed {
            let own = match permission {
                value if values.contains(value) => RequestSource::Contract,
                variable if variables.contains(variable) => RequestSource::Manifest,
                _ => own.clone(),
            };
            add_request(requests, permission.clone(), source(own));
        }
        let called_tools: Vec<&str> = plans.iter().flat_map(Plan::tools).collect();
        let of_tools = called_tools.iter().filter_map(|name| Some(split_tool_name(name)?.0.to_owned()));
        for permission in called_tools.iter().filter_map(|name| Permission::tool(name).ok()) {
            add_request(requests, permission, source(RequestSource::Plan));
        }
        let planned = plans.iter().flat_map(Plan::skills).map(str::to_owned).chain(of_tools);
        for name in planned.chain(callable_skill_names(&listed)) {
            if let Ok(called) = registry.find_for_caller(skill, &name) {
                self.add_requests(
                    registry,
                    called,
                    Some(&called.qualified_name()),
                    depth + 1,
                    seen,
                    requests,
                );
            }
        }
    }
}

fn add_request(requests: &mut Vec<RequestedPermission>, permission: Permission, source: RequestSource) {
    match requests.iter_mut().find(|request| request.permission == permission) {
        Some(request) if request.sources.contains(&source) => {}
        Some(request) => request.sources.push(source),
        None => requests.push(RequestedPermission { permission, sources: vec![source] }),
    }
}
