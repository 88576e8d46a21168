//! The skills of the project in which `metier validate` runs.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use metier::engine::{Engine, Requirement, RequirementKind, RequirementState};
use metier::error::ErrorKind;
use metier::registry::{Problem, Registry, Skill, SkillFolder};
use metier_plan::{Callee, CalleeLookup, Callees, Caller, NoCallees};
use serde_json::Value;

use crate::cli::session::Session;
use crate::cli::trust_words::trust_name;

/// The project, opened when the first plan needs it.
pub struct ProjectSkills {
    session: Session,
    engine: OnceLock<Option<Engine>>,
    /// The skills, and the problems of what is none, by their paths without links.
    skills: OnceLock<HashMap<PathBuf, SkillFolder>>,
    problems: OnceLock<HashMap<PathBuf, Problem>>,
}

/// What a plan may call, and the skill that it belongs to.
pub struct PlanContext {
    /// The skills that it may call.
    pub callees: Arc<dyn Callees>,
    /// The identity of its skill.
    pub identity: String,
}

impl ProjectSkills {
    pub fn new(session: &Session) -> Self {
        let (engine, skills, problems) = Default::default();
        Self { session: session.clone(), engine, skills, problems }
    }

    /// What the plan of the skill in that folder may call: the skills of the project if it is one of them; otherwise unknown.
    pub fn plan_context(&self, folder: &Path) -> PlanContext {
        let context = self.skill_at(folder).and_then(|(engine, skill)| {
            let (callees, place) = (engine.callees()?, skill.folder().disk_path());
            let callees = callees.for_caller(skill.name(), place).unwrap_or(callees);
            let identity = callees.caller_of_skill(skill.name(), place).identity;
            Some(PlanContext { callees: Arc::new(WithoutTools(callees)), identity })
        });
        context.unwrap_or_else(|| PlanContext { callees: Arc::new(NoCallees), identity: String::new() })
    }

    /// The folder of the skill with that name, or its script, also if it does not load; the help if there is none.
    pub fn skill_folder(&self, name: &Path) -> Result<PathBuf, String> {
        let otherwise = || "name a folder, a SKILL.md, or a skill that `metier list` shows".to_owned();
        let (Some(engine), Some(name)) = (self.engine(), name.to_str()) else { return Err(otherwise()) };
        let registry = engine.registry();
        let skill = match registry.find(name) {
            Ok(skill) => skill,
            Err(error) => {
                return unloaded_path(&registry, name).ok_or_else(|| match (error.kind(), error.help()) {
                    (ErrorKind::UnknownSkill, Some(help)) if help.starts_with("did you mean") => {
                        help.to_owned()
                    }
                    (ErrorKind::InvalidSkill, _) => error.message().to_owned(),
                    _ => otherwise(),
                });
            }
        };
        let builtin = || format!("{} is a builtin skill, which has no folder to check", skill.name());
        skill.folder().disk_path().map(Path::to_owned).ok_or_else(builtin)
    }

    /// The circle of skills that need each other and of which the skill in that folder is a part.
    pub fn dependency_circle(&self, folder: &Path) -> Option<String> {
        let (engine, skill) = self.skill_at(folder)?;
        let availability = engine.availability(&skill);
        let is_in_circle = |found: &&Requirement| {
            found.kind == RequirementKind::Skill && found.state == RequirementState::Missing
        };
        let reason = availability.reason.filter(|reason| reason.kind() == ErrorKind::InvalidSkill)?;
        let circle =
            availability.requirements.iter().filter(is_in_circle).find_map(|found| found.reason.as_ref());
        circle.map(|_| reason.message().to_owned())
    }

    /// Whether the skill in that folder is trusted, as JSON names it; `None` if it is none of the project.
    pub fn trust(&self, folder: &Path) -> Option<&'static str> {
        self.skill_at(folder).map(|(engine, skill)| trust_name(&engine.trust_state(&skill)))
    }

    /// The skill that the script at that path is by itself, or why it is none; nothing if it does not lie in a root.
    pub fn script_skill(&self, script: &Path) -> Option<Result<Skill, Problem>> {
        if let Some((_, skill)) = self.skill_at(script) {
            return Some(Ok(skill));
        }
        let path = script.canonicalize().ok()?;
        let engine = self.engine()?;
        let read = || {
            by_real_path(engine.registry().problems().iter().filter(|problem| problem.skipped), |problem| {
                Some(&problem.path)
            })
        };
        self.problems.get_or_init(read).get(&path).cloned().map(Err)
    }

    fn engine(&self) -> Option<&Engine> {
        self.engine.get_or_init(|| self.session.engine().ok()).as_ref()
    }

    fn skill_at(&self, folder: &Path) -> Option<(&Engine, Skill)> {
        let engine = self.engine()?;
        let folder = folder.canonicalize().ok()?;
        let registry = engine.registry();
        let read = || by_real_path(registry.skills().iter().map(Skill::folder), SkillFolder::disk_path);
        let found = self.skills.get_or_init(read).get(&folder)?;
        Some((engine, registry.skill_with_folder(found)?.clone()))
    }
}

/// What has a path, by that path without links; of several with one the first.
fn by_real_path<'a, T: Clone + 'a>(
    all: impl Iterator<Item = &'a T>,
    path: impl Fn(&'a T) -> Option<&'a Path>,
) -> HashMap<PathBuf, T> {
    let mut found = HashMap::new();
    for one in all {
        if let Some(real) = path(one).and_then(|path| path.canonicalize().ok()) {
            found.entry(real).or_insert_with(|| one.clone());
        }
    }
    found
}

/// The folder or the script of a skill that does not load, or that loads under another name than that of its folder.
fn unloaded_path(registry: &Registry, name: &str) -> Option<PathBuf> {
    let is_named = |path: &Path| path.file_name().is_some_and(|own| own == name);
    let is_stem = |path: &Path| path.is_file() && path.file_stem().is_some_and(|own| own == name);
    let folders = registry.skills().iter().filter_map(|skill| skill.folder().disk_path());
    let skipped = registry.problems().iter().filter(|problem| problem.skipped).map(|problem| &*problem.path);
    let mut others = folders.chain(skipped);
    let found = registry.broken_folder(name);
    found.or_else(|| others.find(|path| is_named(path) || is_stem(path))).map(Path::to_owned)
}

/// The skills of a project. The command line does not know which tools a host provides.
struct WithoutTools(Arc<dyn Callees>);

impl Callees for WithoutTools {
    fn skill(&self, name: &str) -> CalleeLookup<Callee> {
        self.0.skill(name)
    }

    fn tool(&self, _name: &str) -> CalleeLookup<Value> {
        CalleeLookup::Unknown
    }

    fn caller_of_skill(&self, skill: &str, folder: Option<&Path>) -> Caller {
        self.0.caller_of_skill(skill, folder)
    }
}
