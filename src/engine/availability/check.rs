//! The check itself, for a skill and for the skills that it needs.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::infrastructure::Probe;
use super::report::{Availability, Requirement, RequirementKind, SkillContent};
use super::requirements::{
    capabilities, could_be_refused, infrastructure_and_config, of_dependency, of_machine, program,
    requirement_error, requires_anything, warnings,
};
use crate::engine::script_selection::{ScriptChoice, SelectedScript, scripts};
use crate::engine::skill_set::SkillSet;
use crate::engine::{Engine, EngineInner, Invocation};
use crate::registry::{Skill, parallel_map};
use crate::runtimes::{LookupCache, Runtime};
use metier_core::error::{ErrorKind, Hint, Result, SkillError};
use metier_core::executor::RuntimeId;
use metier_core::host::{
    ContextBuilder, Extensions, Providers, RunContextBuilder, SharedFacts, SkillContext,
};
use metier_core::policy::CancelToken;
use metier_skill::contract::Dependency;

/// How deep skills may need one another.
const MAX_DEPTH: usize = 32;
/// The most characters of why another skill cannot run.
const MAX_REASON_CHARS: usize = 300;
/// The most scripts and the most tools of one skill that are checked where none runs by itself.
const MAX_PARTS: usize = 64;
/// The time in which providers say what settings there are.
const SETTINGS_TIMEOUT: Duration = Duration::from_secs(5);

const SKILL_HELP: &str = "add the skill, in a version that fits, to a folder where skills are found";
const CIRCLE_HELP: &str = "remove one of these dependencies";

/// The check of skills of one set. What is known of a skill is kept for the others that need it.
pub(in crate::engine) struct AvailabilityCheck<'e> {
    pub(super) engine: &'e EngineInner,
    set: Arc<SkillSet>,
    conditions: RunConditions,
    known: HashMap<String, Needed>,
    /// The script of each skill that runs if nobody names one, by its qualified name.
    scripts: HashMap<String, Arc<MainScript>>,
    /// Whether a program of this name is on `PATH`.
    programs: HashMap<String, bool>,
    /// The skills that are being checked, each needed by the one before.
    path: Vec<CirclePart>,
}

/// A skill in a circle of skills that need each other: its qualified name and its name.
type CirclePart = (String, String);

/// The script of a skill that runs if nobody names one.
struct MainScript {
    selected: Result<SelectedScript>,
    /// What it requires, or why it would not start, if that was looked at already.
    checked: Option<Result<Vec<Requirement>>>,
}

/// With what the settings of a skill are read in a run.
pub(in crate::engine) type RunSettings<'a> = (&'a Providers, &'a Extensions, &'a SharedFacts);

/// Under which conditions the skills would run.
#[derive(Clone)]
pub(super) struct RunConditions {
    /// Looks for services and files, and compares prepared packages.
    pub(super) probe: Option<Probe>,
    /// The projects whose interpreters and packages are not used.
    pub(super) refused: Arc<[PathBuf]>,
    /// What was found on `PATH`.
    pub(super) lookups: Arc<LookupCache>,
}

impl RunConditions {
    /// Those of a run without the interpreters and packages of these projects, if any.
    fn refusing(refused: Arc<[PathBuf]>) -> Self {
        Self { probe: None, refused, lookups: Arc::default() }
    }

    fn of_run(facts: &SharedFacts) -> Self {
        Self::refusing(facts.untrusted_projects.clone())
    }
}

/// What is known of a skill that another one needs.
#[derive(Clone, Default)]
struct Needed {
    /// Why it cannot run.
    reason: Option<SkillError>,
    /// The circle that it is a part of.
    circle: Option<Arc<[CirclePart]>>,
    /// Whether it was not followed to its end.
    is_cut: bool,
}

/// What a skill that has no script to run by itself has instead.
struct OtherContent {
    content: Option<SkillContent>,
    /// Why a run of the skill does not start.
    reason: SkillError,
    is_unusable: bool,
}

/// What the contract and the metadata of a skill require, and its plan.
#[derive(Default)]
pub(super) struct ContractCheck {
    requirements: Vec<Requirement>,
    circle: Option<Arc<[CirclePart]>>,
    is_cut: bool,
}

impl ContractCheck {
    /// Why the skill cannot run by what it requires.
    fn error(&self, skill: &Skill) -> Option<SkillError> {
        requirement_error(skill, &self.requirements, self.circle.is_some())
    }
}

impl Engine {
    /// Whether a skill could run now, in which runtime, and if not, why: the answer that a run gives as well.
    ///
    /// No code of the skill runs. A program on `PATH` is asked for its version, in a sandbox, if the contract names a range of versions, and
    /// if the version of its interpreter decides whether a script runs: TypeScript in Node, and `requires-python`. Settings
    /// are asked of the engine's [`ConfigProvider`](metier_core::host::ConfigProvider), and secrets with
    /// [`SecretProvider::has`](metier_core::host::SecretProvider::has). Services and files are not looked for.
    pub fn availability(&self, skill: &Skill) -> Availability {
        self.0.availability(skill, ScriptChoice::Main)
    }

    /// The same for several skills, in their order: what skills need in common is checked once.
    pub fn availabilities(&self, skills: &[&Skill]) -> Vec<Availability> {
        self.0.availabilities(skills)
    }

    /// The same for runs that a model chooses ([`Invocation::for_model`]), which take no interpreters and packages from projects that are not
    /// trusted as a whole.
    pub fn availabilities_for_model(&self, skills: &[&Skill]) -> Vec<Availability> {
        self.0.check_several(skills, &self.0.conditions_for_model())
    }

    /// The same for one skill, or for one of its scripts or tools.
    #[cfg_attr(not(feature = "mcp"), allow(dead_code, reason = "only a server has tools"))]
    pub(crate) fn availability_for_model(&self, skill: &Skill, choice: ScriptChoice<'_>) -> Availability {
        self.0.check_current(skill, choice, self.0.conditions_for_model())
    }

    /// The same as [`Engine::availability`], and looks for the services and files that the contract names under
    /// `dependencies.infrastructure`, at most ten seconds in all. Connects to any host that the contract names, so call it only where a
    /// person asks for it.
    pub fn probed_availability(&self, skill: &Skill) -> Availability {
        self.0.probed_availability(skill)
    }

    /// The same for one of the skill's scripts, named as for [`Invocation::script`].
    pub fn script_availability(&self, skill: &Skill, script: &str) -> Availability {
        self.0.availability(skill, ScriptChoice::Named(script))
    }

    /// The same for a tool that the skill offers.
    pub fn tool_availability(&self, skill: &Skill, tool: &str) -> Availability {
        self.0.availability(skill, ScriptChoice::Tool(tool))
    }
}

impl EngineInner {
    /// Whether this script of the skill could run.
    pub(in crate::engine) fn availability(&self, skill: &Skill, choice: ScriptChoice<'_>) -> Availability {
        self.check_current(skill, choice, RunConditions::refusing(Arc::default()))
    }

    /// The same, with services and files looked for.
    pub(in crate::engine) fn probed_availability(&self, skill: &Skill) -> Availability {
        let conditions =
            RunConditions { probe: Some(Probe::new()), ..RunConditions::refusing(Arc::default()) };
        self.check_current(skill, ScriptChoice::Main, conditions)
    }

    /// The conditions of runs that a model chooses.
    fn conditions_for_model(&self) -> RunConditions {
        RunConditions::refusing(self.projects_without_trust())
    }

    /// The same for several skills, in their order.
    pub(in crate::engine) fn availabilities(&self, skills: &[&Skill]) -> Vec<Availability> {
        self.check_several(skills, &RunConditions::refusing(Arc::default()))
    }

    fn check_several(&self, skills: &[&Skill], conditions: &RunConditions) -> Vec<Availability> {
        let set = self.skills.set();
        let known = |skill: &Skill| set.registry.skill_with_folder(skill.folder()).cloned();
        // What asks the file system is done for many skills at a time.
        let unchanged = parallel_map(skills, |skill| {
            let known = known(skill).filter(|known| known.is_current(None))?;
            Some(Arc::new(self.main_script(&set, &known, conditions)))
        });
        let changed = skills.iter().zip(&unchanged).filter(|(_, unchanged)| unchanged.is_none());
        let changed: HashSet<PathBuf> =
            changed.filter_map(|(skill, _)| Some(known(skill)?.folder().disk_path()?.to_owned())).collect();
        if !changed.is_empty() {
            self.skills.refresh(&set, &changed);
        }
        let set = self.skills.set();
        let mut check = AvailabilityCheck::new(self, set.clone(), conditions.clone());
        let of_unchanged = skills.iter().zip(&unchanged);
        check.scripts = of_unchanged
            .filter_map(|(skill, script)| {
                Some((set.registry.skill_with_folder(skill.folder())?.qualified_name(), script.clone()?))
            })
            .collect();
        let availability = |(skill, unchanged): (&&Skill, Option<_>)| {
            let found = unchanged.and_then(|_| set.registry.skill_with_folder(skill.folder()));
            let found = found.map(|found| (set.clone(), found.clone()));
            match found.map_or_else(|| self.skills.current_version(skill), Ok) {
                Ok((set, skill)) => {
                    if set.generation != check.set.generation {
                        check = AvailabilityCheck::new(self, set, conditions.clone());
                    }
                    check.availability(&skill, ScriptChoice::Main)
                }
                Err(reason) => Availability::not_found(reason),
            }
        };
        skills.iter().zip(unchanged).map(availability).collect()
    }

    /// The main script of a skill. Of one that is a process of its own, what it requires is looked at as well.
    fn main_script(&self, set: &SkillSet, skill: &Skill, conditions: &RunConditions) -> MainScript {
        let selected = self.selected_script(skill, ScriptChoice::Main);
        let is_process = |selected: &&SelectedScript| selected.runtime == RuntimeId::EXTERNAL;
        let process = selected.as_ref().ok().filter(is_process);
        let could_run = self.runtimes.get(RuntimeId::EXTERNAL).and_then(Runtime::check_available).is_ok()
            && self.check_enabled(skill).is_ok();
        let checked = process.filter(|_| could_run);
        let checked = checked.map(|selected| self.check_script(set, selected, skill, conditions));
        MainScript { selected, checked }
    }

    fn check_current(
        &self,
        skill: &Skill,
        choice: ScriptChoice<'_>,
        conditions: RunConditions,
    ) -> Availability {
        match self.skills.current_version(skill) {
            Ok((set, skill)) => AvailabilityCheck::new(self, set, conditions).availability(&skill, choice),
            Err(reason) => Availability::not_found(reason),
        }
    }

    /// Refuses a run of a skill whose requirements are not met, with everything that is missing.
    pub(in crate::engine) fn require_available(
        &self,
        (set, skill): (&Arc<SkillSet>, &Skill),
        settings: RunSettings<'_>,
        cancel: &CancelToken,
    ) -> Result<()> {
        if !could_be_refused(skill) {
            return Ok(());
        }
        self.run_requirements((set, skill), settings, cancel)?.1.map_or(Ok(()), Err)
    }

    /// Why a run does not start for which no script was selected: what it lacks besides comes first.
    pub(in crate::engine) fn unselected_error(
        &self,
        (set, skill): (&Arc<SkillSet>, &Skill),
        settings: RunSettings<'_>,
        invocation: &Invocation,
        error: SkillError,
        cancel: &CancelToken,
    ) -> SkillError {
        let Ok(choice) = invocation.script_choice() else { return error };
        if self.check_enabled(skill).is_err() || invocation.is_command {
            return error;
        }
        if let Err(missing) = self.require_available((set, skill), settings, cancel) {
            return missing;
        }
        let conditions = RunConditions::of_run(settings.2);
        AvailabilityCheck::new(self, set.clone(), conditions).other_content(skill, choice, error).reason
    }

    /// What a run requires by the contract and the metadata of its skill, and why it would not start.
    pub(in crate::engine) fn run_requirements(
        &self,
        (set, skill): (&Arc<SkillSet>, &Skill),
        settings: RunSettings<'_>,
        cancel: &CancelToken,
    ) -> Result<(Vec<Requirement>, Option<SkillError>)> {
        if !requires_anything(skill) {
            return Ok((Vec::new(), None));
        }
        let ctx = settings_context(skill, settings, cancel.child()).build();
        let mut check = AvailabilityCheck::new(self, set.clone(), RunConditions::of_run(settings.2));
        check.path.push((skill.qualified_name(), skill.name().to_owned()));
        let contract = check.contract(skill, &ctx)?;
        let error = contract.error(skill);
        Ok((contract.requirements, error))
    }

    /// Hands over the context of no run, with the settings that a run of the skill would have.
    pub(in crate::engine) fn with_settings<T>(
        &self,
        set: &SkillSet,
        skill: &Skill,
        read: impl FnOnce(&SkillContext) -> T,
    ) -> T {
        let cancel = CancelToken::new();
        let _armed = self.watchdog.arm(Instant::now() + SETTINGS_TIMEOUT, &cancel);
        let mut facts = SharedFacts::default();
        if let Some(withheld) = self.withheld_values((set, skill), None, &cancel) {
            facts.withheld_values = Some(Arc::new(withheld));
        }
        let settings = (&self.providers, &Extensions::default(), &facts);
        read(&settings_context(skill, settings, cancel).build())
    }

    /// What the settings of the skill are, outside of a run.
    pub(super) fn setting_requirements(&self, set: &SkillSet, skill: &Skill) -> Result<Vec<Requirement>> {
        let project = &self.folders.first().path;
        self.with_settings(set, skill, |ctx| infrastructure_and_config(skill, ctx, project, None))
    }
}

impl<'e> AvailabilityCheck<'e> {
    fn new(engine: &'e EngineInner, set: Arc<SkillSet>, conditions: RunConditions) -> Self {
        let (known, scripts, programs) = (HashMap::new(), HashMap::new(), HashMap::new());
        Self { engine, set, conditions, known, scripts, programs, path: Vec::new() }
    }

    fn selected_script(&mut self, skill: &Skill, choice: ScriptChoice<'_>) -> Arc<MainScript> {
        let selected = || self.engine.selected_script(skill, choice);
        let select = || Arc::new(MainScript { selected: selected(), checked: None });
        match choice {
            ScriptChoice::Main => self.scripts.entry(skill.qualified_name()).or_insert_with(select).clone(),
            _ => select(),
        }
    }

    fn availability(&mut self, skill: &Skill, choice: ScriptChoice<'_>) -> Availability {
        self.path.push((skill.qualified_name(), skill.name().to_owned()));
        let availability = self.check(skill, choice).0;
        self.path.pop();
        availability
    }

    /// Whether the skill could run, which is the last one on the path, and what it requires.
    fn check(&mut self, skill: &Skill, choice: ScriptChoice<'_>) -> (Availability, ContractCheck) {
        let (mut contract, unread) = match self.contract_without_run(skill) {
            Ok(contract) => (contract, None),
            Err(error) => (ContractCheck::default(), Some(error)),
        };
        let requirement_error = unread.or_else(|| contract.error(skill));
        let mut refused = self.engine.check_enabled(skill).err().or(requirement_error);
        let mut availability = Availability {
            runtime: None,
            content: Some(SkillContent::Script),
            is_unusable: true,
            reason: None,
            warnings: Vec::new(),
            requirements: Vec::new(),
        };
        let script = self.selected_script(skill, choice);
        match &script.selected {
            Ok(selected) => {
                let checked = script.checked.as_ref();
                let (runtime, checked) = self.check_selected((selected, checked), skill, refused.is_none());
                availability.runtime = Some(selected.runtime);
                availability.requirements.push(runtime);
                if refused.is_none() && checked.is_ok() {
                    self.add_planned_skills(skill, selected, &mut contract);
                    refused = contract.error(skill);
                }
                match refused.map_or(checked, Err) {
                    Ok(checked) => availability.requirements.extend(checked),
                    Err(reason) => {
                        availability.reason = Some(skill.with_location_path(reason, Some(&selected.path)));
                    }
                }
            }
            Err(error) => {
                let other = self.other_content(skill, choice, error.clone());
                availability.content = other.content;
                availability.is_unusable = refused.is_some() || other.is_unusable;
                availability.reason = Some(refused.unwrap_or(other.reason));
            }
        }
        availability.requirements.extend(contract.requirements.iter().cloned());
        availability.warnings = warnings(&availability.requirements);
        (availability, contract)
    }

    /// The runtime of a script, and why the script would not run, or what else it requires, if that is not known already. Without
    /// `is_wanted` only the runtime is looked at.
    fn check_selected(
        &self,
        (selected, known): (&SelectedScript, Option<&Result<Vec<Requirement>>>),
        skill: &Skill,
        is_wanted: bool,
    ) -> (Requirement, Result<Vec<Requirement>>) {
        let runtime = self.engine.runtimes.get(selected.runtime);
        let is_built_in = runtime.and_then(Runtime::check_available);
        let checked = match &is_built_in {
            Ok(()) if is_wanted => known
                .cloned()
                .unwrap_or_else(|| self.engine.check_script(&self.set, selected, skill, &self.conditions)),
            Ok(()) => Ok(Vec::new()),
            Err(error) => Err(error.clone()),
        };
        (runtime_requirement(selected.runtime, is_built_in), checked)
    }

    /// What a skill has of which no script could be selected, for this reason: it can be used if one of several scripts, or one of its
    /// tools, can run. Where none can, the reason of the first counts.
    fn other_content(&mut self, skill: &Skill, choice: ScriptChoice<'_>, error: SkillError) -> OtherContent {
        let is_main = matches!(choice, ScriptChoice::Main);
        let is_several = is_main && error.kind() == ErrorKind::Usage && error.hint() == Some(&Hint::Script);
        let has_none = is_main && error.kind() == ErrorKind::Unavailable;
        let entrypoints = skill.contract().map_or(&[][..], |contract| &contract.entrypoints);
        let is_several = is_several || has_none && !entrypoints.is_empty();
        let tools = skill.contract().map_or(&[][..], |contract| &contract.tools);
        let tools = tools.iter().filter(|tool| tool.handler.is_some()).take(MAX_PARTS);
        let tools: Vec<&str> = tools.map(|tool| tool.name.as_str()).collect();
        let content = match (is_several, has_none, tools.is_empty()) {
            (true, ..) => SkillContent::Scripts,
            (_, true, false) => SkillContent::Tools,
            (_, true, true) => SkillContent::Instructions,
            _ => {
                let is_unusable = error.kind() == ErrorKind::InvalidSkill;
                return OtherContent { content: None, is_unusable, reason: error };
            }
        };
        let paths = if is_several { scripts(&self.engine.runtimes, skill) } else { Ok(Vec::new()) };
        let paths = paths.unwrap_or_default();
        let entrypoints = entrypoints.iter().map(|(name, _)| name).filter(|_| is_several);
        let named = paths.iter().chain(entrypoints).take(MAX_PARTS).map(|name| ScriptChoice::Named(name));
        let mut first = None;
        for part in named.chain(tools.into_iter().map(ScriptChoice::Tool)) {
            let selected = self.engine.selected_script(skill, part);
            let checked = selected.and_then(|selected| {
                let mut planned = ContractCheck::default();
                let (_, checked) = self.check_selected((&selected, None), skill, true);
                let checked = checked.and_then(|_| {
                    self.add_planned_skills(skill, &selected, &mut planned);
                    planned.error(skill).map_or(Ok(()), Err)
                });
                checked.map_err(|reason| skill.with_location_path(reason, Some(&selected.path)))
            });
            match checked {
                Ok(()) => return OtherContent { content: Some(content), reason: error, is_unusable: false },
                Err(reason) => first = first.or(Some(reason)),
            }
        }
        let is_unusable = first.is_some();
        OtherContent { content: Some(content), reason: first.unwrap_or(error), is_unusable }
    }

    fn contract_without_run(&mut self, skill: &Skill) -> Result<ContractCheck> {
        if !requires_anything(skill) {
            return Ok(ContractCheck::default());
        }
        let (engine, set) = (self.engine, self.set.clone());
        engine.with_settings(&set, skill, |ctx| self.contract(skill, ctx))
    }

    /// What the contract and the metadata of the skill require, which is the last one on the path.
    fn contract(&mut self, skill: &Skill, ctx: &SkillContext) -> Result<ContractCheck> {
        let project = self.engine.folders.first().path.clone();
        let services = self.engine.script_cache.services();
        let mut check =
            ContractCheck { requirements: of_machine(skill, &mut self.programs), ..ContractCheck::default() };
        let Some(contract) = skill.contract() else { return Ok(check) };
        let programs = contract.dependencies.tools.iter();
        let programs = programs.map(|needed| program(needed, services, &project, &mut self.programs));
        check.requirements.extend(programs);
        let skills = contract.dependencies.skills.iter().map(|needed| (needed, None));
        self.add_skills(skill, skills, &mut check);
        check.requirements.extend(infrastructure_and_config(
            skill,
            ctx,
            &project,
            self.conditions.probe.as_ref(),
        )?);
        check.requirements.extend(capabilities(skill, ctx));
        Ok(check)
    }

    /// Skills, or tools of them, that are needed. Of a skill that is needed by another one, what is optional does not matter, and one missing
    /// skill is enough. So each skill is followed once, however they need each other.
    pub(super) fn add_skills<'a>(
        &mut self,
        skill: &Skill,
        needed: impl Iterator<Item = (&'a Dependency, Option<&'a str>)>,
        check: &mut ContractCheck,
    ) {
        let is_needed_itself = self.path.len() > 1;
        for (needed, tool) in needed {
            if is_needed_itself && !needed.required {
                continue;
            }
            let requirement = self.needed_skill(skill, (needed, tool), check);
            let is_enough = requirement.is_missing() && (is_needed_itself || check.is_cut);
            check.requirements.push(requirement);
            if is_enough {
                break;
            }
        }
    }

    fn needed_skill(
        &mut self,
        skill: &Skill,
        (needed, tool): (&Dependency, Option<&str>),
        check: &mut ContractCheck,
    ) -> Requirement {
        let requirement = of_dependency(needed, RequirementKind::Skill);
        let missing = |state: &str| {
            let reason = requirement.describe(&needed.name, state);
            requirement.clone().missing(reason, SKILL_HELP)
        };
        let set = self.set.clone();
        let ranged = needed.version.as_ref().map(|range| format!("{}@{range}", needed.name));
        let in_range = ranged.and_then(|name| set.registry.find_any_for_caller(skill, &name));
        let Some(found) = in_range.or_else(|| set.registry.find_any_for_caller(skill, &needed.name)) else {
            let nearer = set.registry.find_any(&needed.name).map(Skill::qualified_name);
            let only = |nearer| format!("is here only nearer to the project, as {nearer}");
            return missing(&nearer.map_or_else(|| "is not a skill here".to_owned(), only));
        };
        let version = found.version();
        if needed.version.as_ref().is_some_and(|range| !range.matches(version)) {
            return missing(&format!("is here as {version}")).found_version(Some(version.to_string()));
        }
        let requirement = requirement.clone().found_version(Some(version.to_string()));
        let known = if needed.required {
            self.check_needed(found, tool)
        } else {
            // Whether it needs this skill in turn is not a circle: this one runs without it.
            let path = std::mem::take(&mut self.path);
            let placeholder = (String::new(), String::new());
            self.path = vec![placeholder];
            let known = self.check_needed(found, tool);
            self.path = path;
            Needed { circle: None, ..known }
        };
        check.is_cut |= known.is_cut && needed.required;
        let own = skill.qualified_name();
        if let Some(circle) = known.circle.as_ref().filter(|circle| circle.iter().any(|part| part.0 == own)) {
            check.circle = Some(circle.clone());
            let reason = format!("skills need each other in a circle: {}", describe_circle(circle, &own));
            return requirement.missing(reason, CIRCLE_HELP);
        }
        let Some(reason) = &known.reason else { return requirement };
        let own_words = format!("skill {} cannot run: ", found.name());
        let why = reason.message().strip_prefix(&own_words).unwrap_or(reason.message());
        let state = format!("is here and cannot run itself: {}", without_middle(why));
        let sentence = requirement.describe(&needed.name, &state);
        requirement.missing(sentence, reason.help().unwrap_or(SKILL_HELP))
    }

    /// What is known of a skill that the last one on the path needs, or of its tool.
    fn check_needed(&mut self, skill: &Skill, tool: Option<&str>) -> Needed {
        let named = |name: String| tool.map_or_else(|| name.clone(), |tool| format!("{name}.{tool}"));
        let key = named(skill.qualified_name());
        if let Some(at) = self.path.iter().position(|part| part.0 == key) {
            return Needed { circle: Some(self.path[at..].into()), ..Needed::default() };
        }
        if let Some(known) = self.known.get(&key) {
            return known.clone();
        }
        if self.path.len() >= MAX_DEPTH {
            let sentence = format!("skills need one another more than {MAX_DEPTH} deep");
            let reason = SkillError::new(ErrorKind::Unavailable, sentence)
                .with_help("let the first of them name fewer skills");
            return Needed { reason: Some(reason), circle: None, is_cut: true };
        }
        self.path.push((key.clone(), named(skill.name().to_owned())));
        let choice = tool.map_or(ScriptChoice::Main, ScriptChoice::Tool);
        let (availability, contract) = self.check(skill, choice);
        self.path.pop();
        let reason = availability.cannot_run().cloned();
        let needed = Needed { reason, circle: contract.circle, is_cut: contract.is_cut };
        if !needed.is_cut {
            self.known.insert(key, needed.clone());
        }
        needed
    }
}

/// The beginning and the end of a long reason: the end is the cause of all of it.
fn without_middle(reason: &str) -> String {
    let half = |at: usize| reason.char_indices().nth(at).map_or(reason.len(), |(at, _)| at);
    let count = reason.chars().count();
    if count <= MAX_REASON_CHARS {
        return reason.to_owned();
    }
    let (start, end) = (half(MAX_REASON_CHARS / 2), half(count - MAX_REASON_CHARS / 2));
    format!("{} … {}", &reason[..start], &reason[end..])
}

/// `a -> b -> a`, from the skill of that qualified name.
fn describe_circle(circle: &[CirclePart], from: &str) -> String {
    let start = circle.iter().position(|part| part.0 == from).unwrap_or_default();
    let names = circle.iter().cycle().skip(start).take(circle.len() + 1);
    names.map(|part| part.1.as_str()).collect::<Vec<_>>().join(" -> ")
}

fn runtime_requirement(runtime: RuntimeId, available: Result<()>) -> Requirement {
    let requirement = Requirement::available(RequirementKind::Runtime, runtime.name());
    match available {
        Ok(()) => requirement,
        Err(error) => requirement.missing(error.message().to_owned(), error.help().unwrap_or_default()),
    }
}

/// A context that has nothing but the values of settings.
pub(in crate::engine) fn settings_context(
    skill: &Skill,
    (providers, extensions, facts): RunSettings<'_>,
    cancel: CancelToken,
) -> ContextBuilder {
    let fields = skill.contract().map(|contract| contract.config.clone());
    SkillContext::builder(skill.name())
        .qualified_name(skill.qualified_name())
        .providers(providers.clone())
        .extensions(extensions.clone())
        .facts(facts.clone())
        .config_fields(fields)
        .cancel(cancel)
}
