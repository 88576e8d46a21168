//! Resolves the skills and tools that a plan may call, for the check of the plan before anything runs.

use std::collections::HashSet;
use std::path::Path;
use std::sync::{Arc, Weak};

use serde_json::{Map, Value};

use super::{Engine, EngineInner};
use crate::engine::requested_permissions::{callable_skill_names, declared_permissions, with_permissions};
use crate::engine::script_selection::{ScriptChoice, SelectedScript, error_for_caller, select_script};
use crate::engine::skill_set::SkillSet;
use crate::engine::tool_selection::select_tool;
use crate::registry::{Skill, SkillFolder};
use crate::runtimes::{Runtimes, is_plugin_manifest};
use metier_core::error::{ErrorKind, Result, SkillError};
use metier_core::executor::RuntimeId;
use metier_core::host::{Providers, ToolProvider, catch_panic};
use metier_core::policy::{CancelToken, Limits, Permission, RequestedPermissions, split_tool_name};
use metier_plan::{self, Callee, CalleeLookup, Callees, Caller, Plan, callee_names};
use metier_skill::contract::Schema;

/// The skills and tools of an engine. Holds the engine weakly, since the engine holds this.
pub(super) struct CalleeResolver {
    engine: Weak<EngineInner>,
    tools: Option<Arc<dyn ToolProvider>>,
    /// Skills come from the embedder's provider, so the engine does not know them.
    has_custom_skill_provider: bool,
    /// The qualified name of the calling skill, where the caller is a skill.
    calling_skill: Option<String>,
}

impl CalleeResolver {
    pub(super) fn new(engine: Weak<EngineInner>, providers: &Providers) -> Self {
        let has_foreign_skills = providers.skills.is_some();
        Self {
            engine,
            tools: providers.tools.clone(),
            has_custom_skill_provider: has_foreign_skills,
            calling_skill: None,
        }
    }

    fn callee(&self, engine: &EngineInner, set: &SkillSet, skill: &Skill) -> Result<Callee> {
        let selected = engine.selected_script(skill, ScriptChoice::Main);
        let selected = selected.map_err(|error| error_for_caller(skill, error))?;
        let plan = load_plan(skill, &selected)?;
        let requested = permissions_of_script(skill, &selected, plan.as_ref());
        let mut known = HashSet::new();
        let named = plan.iter().flat_map(callee_names).filter(|name| known.insert(*name));
        let calls =
            named.filter_map(|name| set.name_seen_by_caller(skill, name, self.calling_skill.as_deref()));
        let (input_schema, output_schema) = contract_schemas(skill);
        Ok(Callee {
            identity: skill_identity(skill),
            input_schema,
            output_schema,
            calls: calls.collect(),
            requested,
            is_process: selected.runtime == RuntimeId::EXTERNAL,
            has_review: plan.as_ref().is_some_and(Plan::has_review),
        })
    }
}

impl CalleeResolver {
    /// The input of the tool that a skill offers, by `SKILL.TOOL`; `None` where the name is no such name, or its skill is not a skill.
    fn tool_of_skill(&self, name: &str) -> Option<CalleeLookup<Value>> {
        let (skill, tool) = split_tool_name(name)?;
        let engine = self.engine.upgrade()?;
        if self.has_custom_skill_provider {
            return Some(CalleeLookup::Unknown);
        }
        let (_, skill) = engine.find_skill(self.calling_skill.as_deref(), None, skill).ok()?;
        Some(match select_tool(&engine.runtimes, &skill, tool) {
            Ok(selected) => {
                let schema = selected.tool.and_then(|tool| tool.input_schema);
                CalleeLookup::Found(
                    schema.map_or_else(|| Value::Object(Map::new()), |schema| schema.json().clone()),
                )
            }
            Err(error) => CalleeLookup::Missing(error),
        })
    }
}

impl Callees for CalleeResolver {
    fn skill(&self, name: &str) -> CalleeLookup<Callee> {
        let Some(engine) = self.engine.upgrade().filter(|_| !self.has_custom_skill_provider) else {
            return CalleeLookup::Unknown;
        };
        let found = engine.find_skill(self.calling_skill.as_deref(), None, name);
        match found.and_then(|(set, skill)| self.callee(&engine, &set, &skill)) {
            Ok(callee) => CalleeLookup::Found(callee),
            Err(error) => CalleeLookup::Missing(error),
        }
    }

    fn tool(&self, name: &str) -> CalleeLookup<Value> {
        let missing = || {
            let sentence = format!("no function and no tool is called `{name}`");
            self.tool_of_skill(name)
                .unwrap_or_else(|| CalleeLookup::Missing(SkillError::new(ErrorKind::Tool, sentence)))
        };
        let Some(tools) = &self.tools else { return missing() };
        let looked_up = catch_panic("the provider of tools", ErrorKind::Unavailable, || {
            let described = tools.tools().into_iter().find(|tool| tool.name == name);
            Ok((described, tools.has(name)))
        });
        match looked_up {
            Ok((Some(tool), _)) => CalleeLookup::Found(tool.input_schema),
            // A provider of many tools may support one without listing it.
            Ok((None, true)) => CalleeLookup::Found(Value::Object(Map::new())),
            Ok((None, false)) => missing(),
            Err(error) => CalleeLookup::Missing(error),
        }
    }

    fn caller_of_skill(&self, skill: &str, folder: Option<&Path>) -> Caller {
        let unknown = || Caller { identity: skill.to_owned(), input_schema: None };
        let Some(engine) = self.engine.upgrade() else { return unknown() };
        engine.skill_at_path(folder).as_ref().map_or_else(unknown, caller_of_skill)
    }

    fn for_caller(&self, _skill: &str, folder: Option<&Path>) -> Option<Arc<dyn Callees>> {
        let asker = self.engine.upgrade()?.skill_at_path(folder)?.qualified_name();
        let (engine, tools) = (self.engine.clone(), self.tools.clone());
        let has_foreign_skills = self.has_custom_skill_provider;
        Some(Arc::new(Self {
            engine,
            tools,
            has_custom_skill_provider: has_foreign_skills,
            calling_skill: Some(asker),
        }))
    }

    /// A callee gets no permission that the caller does not have itself, not even a skill that requests everything.
    fn permitted_callees(&self, identity: &str) -> Vec<String> {
        let Some(engine) = self.engine.upgrade() else { return Vec::new() };
        let set = engine.skills.set();
        let caller = self.calling_skill.as_deref();
        let (Some(skill), Some(asker)) =
            (set.skill_by_identity(identity), set.skill_by_qualified_name(caller))
        else {
            return Vec::new();
        };
        let RequestedPermissions::Listed(own) = declared_permissions(asker, RuntimeId::TOOL_SEQUENCE) else {
            return Vec::new();
        };
        let mut names = callable_skill_names(&own);
        if !names.is_empty()
            && let RequestedPermissions::Listed(listed) = requested_permissions(&engine.runtimes, skill, None)
        {
            let known = callable_skill_names(&listed);
            names.retain(|name| known.contains(name));
        }
        names.iter().filter_map(|name| set.name_seen_by_caller(skill, name, caller)).collect()
    }

    fn digest(&self, identity: &str) -> Option<String> {
        let engine = self.engine.upgrade()?;
        let set = engine.skills.set();
        let skill = set.skill_by_identity(identity)?;
        engine.digests.list(skill, &CancelToken::new()).ok().map(|list| list.digest().to_hex())
    }
}

fn caller_of_skill(skill: &Skill) -> Caller {
    Caller { identity: skill_identity(skill), input_schema: contract_schemas(skill).0 }
}

/// The name by which the caller finds the skill that another one calls `name`: `name` itself if it means the same skill there,
/// else the qualified name.
fn name_for_caller<'a>(
    skill: &Skill,
    name: &str,
    meant: impl Fn(&str) -> Result<&'a Skill>,
) -> Option<String> {
    let is_same = |meant: &Skill| skill_identity(meant) == skill_identity(skill);
    [name.to_owned(), skill.qualified_name()].into_iter().find(|name| meant(name).is_ok_and(is_same))
}

/// What identifies a skill among all others: its folder.
fn skill_identity(skill: &Skill) -> String {
    match skill.folder() {
        SkillFolder::Disk(path) | SkillFolder::Script(path) => path.display().to_string(),
        SkillFolder::Embedded(_) => skill.path(),
    }
}

impl SkillSet {
    fn skill_by_identity(&self, identity: &str) -> Option<&Skill> {
        let is_meant = |skill: &&Skill| skill_identity(skill) == identity;
        let has_other_identity =
            |skill: &&Skill| skill.folder().disk_path().is_none_or(|path| path.to_str().is_none());
        let others = || self.registry.skills().iter().filter(has_other_identity).find(is_meant);
        self.registry.skill_at(Path::new(identity)).filter(is_meant).or_else(others)
    }

    /// The name by which the caller finds the skill that `by` calls `name`.
    fn name_seen_by_caller(&self, by: &Skill, name: &str, caller: Option<&str>) -> Option<String> {
        let meant = self.registry.find_any_for_caller(by, name)?;
        name_for_caller(meant, name, |name| self.registry.find_for_run(caller, None, name))
    }
}

impl EngineInner {
    /// The skill whose folder is at that path, or was unpacked to it.
    fn skill_at_path(&self, folder: Option<&Path>) -> Option<Skill> {
        let (folder, set) = (folder?, self.skills.set());
        let is_meant = |skill: &&Skill| self.unpacked_skills.is_located_at(skill.folder(), folder);
        let is_unpacked = |skill: &&Skill| !matches!(skill.folder(), SkillFolder::Disk(_));
        let unpacked = || set.registry.skills().iter().filter(is_unpacked).find(is_meant);
        set.registry.skill_at(folder).filter(is_meant).or_else(unpacked).cloned()
    }
}

/// The permissions that a skill requests when the named script runs, or the default script where none is named: those it lists,
/// and the tools that its plan names. For a skill that could not run, those it lists.
pub(crate) fn requested_permissions(
    runtimes: &Runtimes,
    skill: &Skill,
    script: Option<&str>,
) -> RequestedPermissions {
    let Ok(selected) = select_script(runtimes, skill, script) else {
        return declared_permissions(skill, RuntimeId::TOOL_SEQUENCE);
    };
    let plan = load_plan(skill, &selected).ok().flatten();
    permissions_of_script(skill, &selected, plan.as_ref())
}

/// What the script of a skill can request. The manifest of a plug-in names hosts besides, and is read when it runs: until then it
/// counts as requesting everything, so that no plan takes a step for one that only reads.
pub(super) fn permissions_of_script(
    skill: &Skill,
    selected: &SelectedScript,
    plan: Option<&Plan>,
) -> RequestedPermissions {
    if is_plugin_manifest(&selected.path) && selected.runtime == RuntimeId::WASM {
        return RequestedPermissions::All;
    }
    with_permissions(
        declared_permissions(skill, selected.runtime),
        plan.into_iter().flat_map(planned_tool_permissions),
    )
}

/// The tools that steps of a plan name, as permissions.
fn planned_tool_permissions(plan: &Plan) -> impl Iterator<Item = Permission> {
    plan.tools().filter_map(|name| Permission::tool(name).ok())
}

impl Engine {
    /// The skills and tools that plans of these skills may call, to check a plan without running it. Resolves nothing once the
    /// engine is gone.
    #[doc(hidden)]
    pub fn callees(&self) -> Option<Arc<dyn Callees>> {
        self.0.script_cache.services().callees()
    }

    /// The plan that a skill runs, parsed but not checked; `None` where it runs none. `invalid-skill` where it cannot be read.
    pub fn plan(&self, skill: &Skill) -> Result<Option<Plan>> {
        // `Engine::availability` reports why a skill cannot run.
        self.0
            .selected_script(skill, ScriptChoice::Main)
            .map_or(Ok(None), |selected| load_plan(skill, &selected))
    }
}

/// The input and output schemas of the skill, where its contract declares them.
fn contract_schemas(skill: &Skill) -> (Option<Value>, Option<Value>) {
    let Some(contract) = skill.contract() else { return (None, None) };
    let json = |schema: &Option<Schema>| schema.as_ref().map(|schema| schema.json().clone());
    (json(&contract.inputs), json(&contract.outputs))
}

/// The skill's plan, where it has one.
pub(super) fn load_plan(skill: &Skill, selected: &SelectedScript) -> Result<Option<Plan>> {
    if selected.runtime != RuntimeId::TOOL_SEQUENCE {
        return Ok(None);
    }
    let source = skill.folder().read(&selected.path, Limits::MAX_READ_SIZE)?;
    metier_plan::from_file(&source, &selected.path).map(Some)
}

impl Engine {
    /// Whether the script that runs is a plan with a review.
    #[cfg_attr(
        not(feature = "mcp"),
        allow(dead_code, reason = "asked by the server, which not every build has")
    )]
    pub(crate) fn has_review(&self, skill: &Skill, choice: ScriptChoice<'_>) -> bool {
        let selected = self.0.selected_script(skill, choice);
        let plan = selected.and_then(|selected| load_plan(skill, &selected));
        plan.is_ok_and(|plan| plan.as_ref().is_some_and(Plan::has_review))
    }
}
