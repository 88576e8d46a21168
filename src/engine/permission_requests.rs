//! What a skill asks for, so that a host can show it before anybody grants it.

use std::collections::HashSet;

use super::{Engine, EngineInner};
use crate::engine::callee_resolver::{load_plan, permissions_of_script};
use crate::engine::named_scripts::uses_any_grant;
use crate::engine::requested_permissions::{
    callable_skill_names, declared_permissions, declared_values, narrowed_permissions,
};
use crate::engine::script_selection::{ScriptChoice, SelectedScript};
use crate::engine::tool_selection::tool_plans;
use crate::registry::{Registry, Skill};
use crate::runtimes::{is_plugin_manifest, plugin_manifest_hosts};
use metier_core::executor::RuntimeId;
use metier_core::policy::{Limits, Permission, RequestedPermissions, split_tool_name};
use metier_plan::Plan;
use metier_skill::ManifestFacts;
use metier_skill::contract::ProvidedTool;

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
    /// The permissions that a skill requests: those of every script that a run can select and of its tools, its callees included,
    /// the default ones first. No code of the skill runs. A run has those of its script alone.
    ///
    /// Every run reads the project, which is all that an external script gets whose skill lists no permission of metier. Such a
    /// script would use whatever else is granted ([`Engine::uses_any_grant`]). Skills of a provider of the program are not in the
    /// list.
    /// The skill counts as it is on disk now; one that does not load any more counts as it was.
    pub fn requested_permissions(&self, skill: &Skill) -> Vec<RequestedPermission> {
        let current = self.0.skills.current_version(skill);
        let (registry, skill) = match &current {
            Ok((set, skill)) => (set.registry.clone(), skill),
            Err(_) => (self.registry(), skill),
        };
        self.0.requests_of(&registry, skill, &self.0.selectable_scripts(skill))
    }

    /// The same for a call that runs one of these scripts of the skill, `None` for the main one; `None` in answer where every grant
    /// applies to one of them.
    #[cfg_attr(not(feature = "mcp"), allow(dead_code, reason = "only a server announces scripts"))]
    pub(crate) fn script_requests(
        &self,
        skill: &Skill,
        names: &[Option<&str>],
    ) -> Option<Vec<RequestedPermission>> {
        let choice = |name: Option<&str>| {
            let choice = name.map_or(ScriptChoice::Main, ScriptChoice::Named);
            self.0.selected_script(skill, choice).ok()
        };
        // Nothing is known of one that cannot be selected.
        let scripts = names.iter().copied().map(choice).collect::<Option<Vec<SelectedScript>>>()?;
        let is_unlimited = scripts.iter().any(|script| uses_any_grant(skill, script));
        (!is_unlimited).then(|| self.0.requests_of(&self.registry(), skill, &scripts))
    }

    /// The permissions that a call of a tool of the skill can have, if they are granted: those to which the tool narrows its skill's, or
    /// all of its skill's. `None` where every grant applies to it. Every run may read the project besides.
    pub fn tool_permissions(&self, skill: &Skill, tool: &ProvidedTool) -> Option<Vec<Permission>> {
        if let Some(mut narrowed) = narrowed_permissions(skill, tool) {
            if tool.http().is_some() {
                narrowed.extend(self.0.base_url_hosts(skill, Some(tool)));
            }
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
            RequestedPermissions::Listed(mut listed) => {
                listed.extend(self.0.base_url_hosts(skill, None));
                Some(listed)
            }
            RequestedPermissions::All => None,
        }
    }

    /// Whether every grant applies to some script or tool of the skill, since it lists no permission of metier and that script is
    /// external. The skill counts as in [`Engine::requested_permissions`].
    pub fn uses_any_grant(&self, skill: &Skill) -> bool {
        let current = self.0.skills.current_version(skill);
        let skill = current.as_ref().map_or(skill, |(_, skill)| skill);
        self.0.selectable_scripts(skill).iter().any(|script| uses_any_grant(skill, script))
    }
}

impl EngineInner {
    /// What these scripts of the skill request, its callees included.
    fn requests_of(
        &self,
        registry: &Registry,
        skill: &Skill,
        scripts: &[SelectedScript],
    ) -> Vec<RequestedPermission> {
        let read =
            RequestedPermission { permission: Permission::READ, sources: vec![RequestSource::Default] };
        let mut requests = vec![read];
        self.add_requests(registry, (skill, scripts), None, 0, &mut HashSet::new(), &mut requests);
        requests
    }

    fn add_requests(
        &self,
        registry: &Registry,
        (skill, scripts): (&Skill, &[SelectedScript]),
        callee: Option<&str>,
        depth: usize,
        seen: &mut HashSet<String>,
        requests: &mut Vec<RequestedPermission>,
    ) {
        if depth > Plan::MAX_CALL_DEPTH || !seen.insert(skill.qualified_name()) {
            return;
        }
        let plans: Vec<Plan> =
            scripts.iter().filter_map(|script| load_plan(skill, script).ok().flatten()).collect();
        let source = |own| callee.map_or(own, |name| RequestSource::Callee(name.to_owned()));
        let variables = skill.manifest().requested_variables();
        let hosts = self.base_url_hosts(skill, None);
        let mut listed = listed_permissions(skill, scripts);
        listed.extend(hosts.iter().filter(|host| !listed.contains(host)).cloned().collect::<Vec<_>>());
        let has_contract = skill.contract().is_some_and(|contract| contract.permissions.is_some());
        let own = if has_contract { RequestSource::Contract } else { RequestSource::Manifest };
        let of_tools = scripts.iter().flat_map(|script| listed_by_tool(skill, script));
        let values: Vec<Permission> =
            declared_values(skill).into_iter().chain(of_tools).chain(hosts).collect();
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
            if let Some(called) = registry.find_any_for_caller(skill, &name) {
                // Who calls a skill names none of its scripts.
                let main = self.selected_script(called, ScriptChoice::Main).ok();
                let scripts: Vec<SelectedScript> =
                    main.into_iter().chain(tool_plans(&self.runtimes, called)).collect();
                self.add_requests(
                    registry,
                    (called, &scripts),
                    Some(&called.qualified_name()),
                    depth + 1,
                    seen,
                    requests,
                );
            }
        }
    }
}

/// What the skill lists for these scripts together: of an external one for which it lists nothing, its variables and secrets.
fn listed_permissions(skill: &Skill, scripts: &[SelectedScript]) -> Vec<Permission> {
    let mut runtimes: Vec<RuntimeId> = scripts.iter().map(|script| script.runtime).collect();
    runtimes.dedup();
    if runtimes.is_empty() {
        runtimes.push(RuntimeId::TOOL_SEQUENCE);
    }
    let of_runtime = |runtime| match declared_permissions(skill, runtime) {
        RequestedPermissions::Listed(listed) => listed,
        RequestedPermissions::All => {
            [declared_values(skill), skill.manifest().requested_variables()].concat()
        }
    };
    let hosts = scripts.iter().flat_map(|script| plugin_hosts(skill, script));
    let of_tools = scripts.iter().flat_map(|script| listed_by_tool(skill, script));
    let mut listed: Vec<Permission> = Vec::new();
    for permission in runtimes.into_iter().flat_map(of_runtime).chain(of_tools).chain(hosts) {
        if !listed.contains(&permission) {
            listed.push(permission);
        }
    }
    listed
}

/// What a tool lists in a skill that lists nothing.
fn listed_by_tool(skill: &Skill, script: &SelectedScript) -> Vec<Permission> {
    let tool = script.tool.as_deref();
    let tool = tool.filter(|_| declared_permissions(skill, script.runtime) == RequestedPermissions::All);
    tool.and_then(|tool| narrowed_permissions(skill, tool)).unwrap_or_default()
}

/// The hosts that the manifest of a plug-in names.
fn plugin_hosts(skill: &Skill, script: &SelectedScript) -> Vec<Permission> {
    if !is_plugin_manifest(&script.path) || script.runtime != RuntimeId::WASM {
        return Vec::new();
    }
    let source = skill.folder().read(&script.path, Limits::MAX_READ_SIZE).unwrap_or_default();
    plugin_manifest_hosts(&source)
}

fn add_request(requests: &mut Vec<RequestedPermission>, permission: Permission, source: RequestSource) {
    match requests.iter_mut().find(|request| request.permission == permission) {
        Some(request) if request.sources.contains(&source) => {}
        Some(request) => request.sources.push(source),
        None => requests.push(RequestedPermission { permission, sources: vec![source] }),
    }
}
