//! What plans may call, told by the engine before anything runs: its skills, and the embedder's tools.

use std::collections::HashSet;
use std::path::Path;
use std::sync::{Arc, Weak};

use serde_json::{Map, Value};

use super::asked::{asks_of, skills_in};
use super::select::{Selected, select};
use super::{Engine, Parts};
use crate::error::{ErrorKind, Result, SkillError};
use crate::executor::SkillRuntime;
use crate::host::{Providers, ToolProvider, guarded};
use crate::plan::{self, Callee, Callees, Caller, Lookup, Plan};
use crate::policy::{Asked, Limits, Permission};
use crate::registry::{Folder, Skill};
use crate::skill::contract::Schema;

/// The skills and tools of an engine. Holds it weakly, since the engine holds this.
pub(super) struct Callable {
    engine: Weak<Parts>,
    tools: Option<Arc<dyn ToolProvider>>,
    /// Skills come from the embedder, who alone knows them.
    has_foreign_skills: bool,
    /// The qualified name of the skill that asks, where it is one.
    asker: Option<String>,
}

impl Callable {
    pub(super) fn new(engine: Weak<Parts>, providers: &Providers) -> Self {
        let has_foreign_skills = providers.skills.is_some();
        Self { engine, tools: providers.tools.clone(), has_foreign_skills, asker: None }
    }

    fn callee(&self, engine: &Parts, skill: &Skill) -> Result<Callee> {
        let selected = select(skill, None)?;
        let plan = plan_of(skill, &selected)?;
        let asked = besides(asks_of(skill, selected.runtime), plan.iter().flat_map(tools));
        let seer = engine.called(self.asker.as_deref());
        let mut known = HashSet::new();
        let named = plan.iter().flat_map(Plan::calls).filter(|name| known.insert(*name));
        let calls = named.filter_map(|name| engine.seen(skill, name, seer));
        let (input_schema, output_schema) = schemas(skill);
        Ok(Callee {
            identity: identity_of(skill.folder()),
            input_schema,
            output_schema,
            calls: calls.collect(),
            asked,
            is_process: selected.runtime == SkillRuntime::External,
        })
    }
}

impl Callees for Callable {
    fn skill(&self, name: &str) -> Lookup<Callee> {
        let Some(engine) = self.engine.upgrade().filter(|_| !self.has_foreign_skills) else {
            return Lookup::Untold;
        };
        let seer = engine.called(self.asker.as_deref());
        match engine.meant(seer, name).and_then(|skill| self.callee(&engine, skill)) {
            Ok(callee) => Lookup::Found(callee),
            Err(error) => Lookup::Missing(error),
        }
    }

    fn tool(&self, name: &str) -> Lookup<Value> {
        let missing = || {
            let sentence = format!("no function and no tool is called `{name}`");
            Lookup::Missing(SkillError::new(ErrorKind::Tool, sentence))
        };
        let Some(tools) = &self.tools else { return missing() };
        let looked_up = guarded("the provider of tools", ErrorKind::Unavailable, || {
            let described = tools.tools().into_iter().find(|tool| tool.name == name);
            Ok((described, tools.has(name)))
        });
        match looked_up {
            Ok((Some(tool), _)) => Lookup::Found(tool.input_schema),
            // Whoever has many tools may answer for one without listing it.
            Ok((None, true)) => Lookup::Found(Value::Object(Map::new())),
            Ok((None, false)) => missing(),
            Err(error) => Lookup::Missing(error),
        }
    }

    fn caller(&self, skill: &str, folder: Option<&Path>) -> Caller {
        let unknown = || Caller { identity: skill.to_owned(), input_schema: None };
        let Some(engine) = self.engine.upgrade() else { return unknown() };
        engine.at(folder).map_or_else(unknown, caller)
    }

    fn seen_by(&self, _skill: &str, folder: Option<&Path>) -> Option<Arc<dyn Callees>> {
        let asker = self.engine.upgrade()?.at(folder)?.qualified();
        let (engine, tools) = (self.engine.clone(), self.tools.clone());
        let has_foreign_skills = self.has_foreign_skills;
        Some(Arc::new(Self { engine, tools, has_foreign_skills, asker: Some(asker) }))
    }

    /// Nothing that whoever asks may not call itself is handed on, also not to a skill that asks for everything.
    fn may_call(&self, identity: &str) -> Vec<String> {
        let Some(engine) = self.engine.upgrade() else { return Vec::new() };
        let seer = engine.called(self.asker.as_deref());
        let (Some(skill), Some(asker)) = (engine.identified(identity), seer) else { return Vec::new() };
        let Asked::These(own) = asks_of(asker, SkillRuntime::ToolSequence) else { return Vec::new() };
        let mut names = skills_in(&own);
        if !names.is_empty()
            && let Asked::These(listed) = asked_for(skill, None)
        {
            let known = skills_in(&listed);
            names.retain(|name| known.contains(name));
        }
        names.iter().filter_map(|name| engine.seen(skill, name, seer)).collect()
    }

    fn digest(&self, identity: &str) -> Option<String> {
        let engine = self.engine.upgrade()?;
        let skill = engine.identified(identity)?;
        skill.folder().digest().ok().map(|digest| plan::hexadecimal(&digest))
    }
}

fn caller(skill: &Skill) -> Caller {
    Caller { identity: identity_of(skill.folder()), input_schema: schemas(skill).0 }
}

/// What the asker calls a skill that is another one's `name`: the same where that means the same, or else its name in full.
fn name_of<'a>(skill: &Skill, name: &str, meant: impl Fn(&str) -> Result<&'a Skill>) -> Option<String> {
    let is_same = |meant: &Skill| identity_of(meant.folder()) == identity_of(skill.folder());
    [name.to_owned(), skill.qualified()].into_iter().find(|name| meant(name).is_ok_and(is_same))
}

/// What tells a skill from every other one: its folder.
fn identity_of(folder: &Folder) -> String {
    match folder {
        Folder::Disk(path) => path.display().to_string(),
        Folder::Shipped(shipped) => format!("shipped:{}", shipped.name),
    }
}

impl Parts {
    fn identified(&self, identity: &str) -> Option<&Skill> {
        self.registry.skills().iter().find(|skill| identity_of(skill.folder()) == identity)
    }

    /// What the seer calls the skill that another one means by a name.
    fn seen(&self, by: &Skill, name: &str, seer: Option<&Skill>) -> Option<String> {
        let meant = self.registry.find_for(by, name).ok()?;
        name_of(meant, name, |name| self.meant(seer, name))
    }

    /// The skill whose folder lies there, or was unpacked to there.
    fn at(&self, folder: Option<&Path>) -> Option<&Skill> {
        let folder = folder?;
        self.registry.skills().iter().find(|skill| self.shipped.is_at(skill.folder(), folder))
    }
}

/// What a skill asks for when that script of it runs, or the one that runs where none is named: what it lists, and the tools that
/// its plan names. Of a skill that could not run, what it lists.
pub fn asked_for(skill: &Skill, script: Option<&str>) -> Asked {
    let Ok(selected) = select(skill, script) else { return asks_of(skill, SkillRuntime::ToolSequence) };
    let plan = plan_of(skill, &selected).ok().flatten();
    besides(asks_of(skill, selected.runtime), plan.iter().flat_map(tools))
}

/// What is asked for, and this as well.
pub(super) fn besides(asked: Asked, more: impl IntoIterator<Item = Permission>) -> Asked {
    match asked {
        Asked::These(listed) => Asked::These(listed.into_iter().chain(more).collect()),
        Asked::Everything => Asked::Everything,
    }
}

/// The tools that steps of a plan name, as permissions.
fn tools(plan: &Plan) -> impl Iterator<Item = Permission> {
    plan.tools().filter_map(Permission::tool)
}

impl Engine {
    /// What plans of its skills may call: for whoever checks one that is not run. Knows nothing once the engine is gone.
    pub fn callees(&self) -> Option<Arc<dyn Callees>> {
        self.0.loaded.shared().callees()
    }

    /// The plan that a skill runs, read and not checked; nothing where it runs none. `invalid-skill` where it cannot be read.
    pub fn plan(&self, skill: &Skill) -> Result<Option<Plan>> {
        // Why a skill cannot run is told by its availability.
        select(skill, None).map_or(Ok(None), |selected| plan_of(skill, &selected))
    }
}

/// What the skill takes and answers with, where its contract says.
fn schemas(skill: &Skill) -> (Option<Value>, Option<Value>) {
    let Some(contract) = skill.contract() else { return (None, None) };
    let json = |schema: &Option<Schema>| schema.as_ref().map(|schema| schema.json().clone());
    (json(&contract.inputs), json(&contract.outputs))
}

/// The skill's plan, where it has one.
pub(super) fn plan_of(skill: &Skill, selected: &Selected) -> Result<Option<Plan>> {
    if selected.runtime != SkillRuntime::ToolSequence {
        return Ok(None);
    }
    let source = skill.folder().read(&selected.path, Limits::FILE)?;
    plan::from_file(&source, &selected.path).map(Some)
}
