//! What the server offers at one moment: the trusted skills, the tools of those that can run, and the resources that skills offer at addresses
//! of their own.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use rmcp::model::{Resource, ResourceTemplate};
use serde_json::{Map, Value};

use super::notices::{SkillState, SkillStates};
use super::skill_content::{mime_type, shown_line};
use super::tools::{SERVER_TOOLS, SkillPart, SkillTool, ToolNames, skill_tools, tool_name};
use crate::engine::{Availability, Engine};
use crate::registry::{Registry, Skill, parallel_map};
use metier_core::error::{ErrorKind, SkillError};
use metier_core::excerpt::shorten;
use metier_core::policy::ToolFilter;
use metier_skill::contract::{ProvidedResource, ResourceSource, ResourceUri, uris_overlap};

/// Tools that are remembered after they are gone.
const MAX_GONE: usize = 1_000;
/// What a model reads about a skill whose files cannot be read.
const BROKEN: &str = "its files have an error";
/// The most resources that all skills offer together.
const MAX_RESOURCES: usize = 10_000;
/// The most characters of the name or the description of a resource.
const MAX_TEXT: usize = 500;

/// The files of the skills by their addresses, each with its size and digest where it has them.
pub(super) type FileVersions = BTreeMap<String, FileFacts>;
pub(super) type FileFacts = Option<(u64, String)>;

/// What the server offers, and how often each list has changed.
#[derive(Clone, Default)]
pub(super) struct Offer {
    pub(super) inventory: Arc<Inventory>,
    pub(super) tools: u64,
    pub(super) prompts: u64,
    /// `None` until they were looked at for the first time.
    pub(super) files: Option<Arc<FileVersions>>,
}

/// The skills and tools of one moment, in a fixed order.
#[derive(Default)]
pub(super) struct Inventory {
    /// Sorted by name; no two have the same.
    pub(super) skills: Vec<ServedSkill>,
    /// Sorted by name.
    pub(super) tools: Vec<ServedTool>,
    /// What skills offer at addresses of their own, in the order of their names. No address is one of two.
    pub(super) resources: Vec<OfferedResource>,
    /// Why skills cannot run at present, by their names.
    pub(super) reasons: BTreeMap<String, String>,
    /// What is not offered, and why: for the person who started the server.
    pub(super) notices: Vec<String>,
    /// How each skill stands, of those that are not served, too.
    pub(super) states: SkillStates,
    /// Tools that were offered before and are not any more, by their names.
    pub(super) gone: BTreeMap<String, GoneTool>,
    /// The tools that may be offered.
    pub(super) filter: ToolFilter,
}

/// A tool that is not offered any more.
#[derive(Clone)]
pub(super) struct GoneTool {
    pub(super) skill: String,
    pub(super) address: String,
}

/// A trusted skill.
#[derive(Clone)]
pub(super) struct ServedSkill {
    pub(super) skill: Skill,
    /// The name by which it is run: its qualified name, without the version where that is enough.
    pub(super) address: String,
    /// Whether models may choose it. Others are prompts for people.
    pub(super) is_for_models: bool,
    /// Whether people may choose it.
    pub(super) is_for_people: bool,
}

/// A tool of a skill.
#[derive(Clone)]
pub(super) struct ServedTool {
    pub(super) name: String,
    pub(super) skill: String,
    pub(super) address: String,
    pub(super) tool: Arc<SkillTool>,
}

impl Inventory {
    /// Reads what is offered now. A skill that `last` has and that does not load any more is offered as it was, until it is mended
    /// or removed: a half-written file takes nothing from a client.
    pub(super) fn read(engine: &Engine, filter: &ToolFilter, last: Option<&Self>) -> Self {
        let registry = engine.registry();
        let trusted = registry.nearest_accepted(engine.trusts_as_read());
        let mut skills: Vec<ServedSkill> =
            trusted.into_iter().map(|skill| ServedSkill::new(registry.namesakes(skill), skill)).collect();
        let is_here = |name: &str| skills.binary_search_by(|known| known.skill.name().cmp(name)).is_ok();
        let mut states = skill_states(engine, &registry, is_here, last);
        let last_skills = last.map_or(&[][..], |last| &last.skills);
        let gone = last_skills.iter().filter(|served| !is_here(served.skill.name()));
        let broken: Vec<ServedSkill> =
            gone.filter(|served| registry.is_broken(&served.address)).cloned().collect();
        for served in &broken {
            let reason = registry.find(&served.address).err().map(|error| error.message().to_owned());
            states.insert(served.skill.name().to_owned(), SkillState::Broken(reason.unwrap_or_default()));
        }
        let answers = availabilities(engine, &skills);
        let (reasons, faults) = reasons(&skills, &answers);
        states.extend(faults);
        let (tools, mut notices) = offered_tools(engine, (&skills, &answers), &broken, (filter, last));
        skills.extend(broken);
        skills.sort_by(|a, b| a.skill.name().cmp(b.skill.name()));
        let mut inventory = Self {
            skills,
            tools,
            resources: Vec::new(),
            reasons,
            notices: Vec::new(),
            states,
            gone: BTreeMap::new(),
            filter: filter.clone(),
        };
        if let Some(last) = last {
            inventory.gone = gone_tools(last, &inventory);
        }
        // Clients read resources by themselves, so no reading may destroy anything.
        let harmless_tool = |served: &ServedTool| match &served.tool.part {
            SkillPart::Tool(tool) if !served.tool.risk.destructive => {
                Some((served.skill.clone(), tool.clone()))
            }
            _ => None,
        };
        let harmless: HashSet<(String, String)> = inventory.tools.iter().filter_map(harmless_tool).collect();
        let has_tool = |skill: &str, tool: &str| harmless.contains(&(skill.to_owned(), tool.to_owned()));
        let (resources, refused) = offered_resources(inventory.for_models(), has_tool);
        notices.extend(refused);
        (inventory.resources, inventory.notices) = (resources, notices);
        inventory
    }

    /// The tool that a skill offers under that name.
    pub(super) fn tool_of_skill(&self, skill: &str, name: &str) -> Option<&ServedTool> {
        let is_meant = |part: &SkillPart| matches!(part, SkillPart::Tool(tool) if tool == name);
        self.tools.iter().find(|tool| tool.skill == skill && is_meant(&tool.tool.part))
    }

    /// What a skill offers at that address.
    pub(super) fn resource(&self, uri: &str) -> Option<&OfferedResource> {
        self.resources.iter().find(|offered| offered.resource.uri.values_in(uri).is_some())
    }

    pub(super) fn tool(&self, name: &str) -> Option<&ServedTool> {
        let at = self.tools.binary_search_by(|tool| tool.name.as_str().cmp(name)).ok()?;
        self.tools.get(at)
    }

    /// Whether tools of this skill were offered before, and it is not served any more.
    pub(super) fn gone_skill(&self, name: &str) -> Option<&GoneTool> {
        self.gone.values().find(|gone| gone.skill == name).filter(|_| self.skill(name).is_none())
    }

    pub(super) fn skill(&self, name: &str) -> Option<&ServedSkill> {
        let at = self.skills.binary_search_by(|served| served.skill.name().cmp(name)).ok()?;
        self.skills.get(at)
    }

    /// The skills that models may choose.
    pub(super) fn for_models(&self) -> impl Iterator<Item = &Skill> {
        self.skills.iter().filter(|served| served.is_for_models).map(|served| &served.skill)
    }
}

/// How each skill of the registry stands, by its name. `is_served` says which of them have one that is trusted and as it was read.
fn skill_states(
    engine: &Engine,
    registry: &Registry,
    is_served: impl Fn(&str) -> bool,
    last: Option<&Inventory>,
) -> SkillStates {
    let others: Vec<&Skill> = registry.skills().iter().filter(|skill| !is_served(skill.name())).collect();
    let trusted = others.iter().zip(engine.trust_states(&others)).filter(|(_, state)| state.is_trusted());
    let trusted: BTreeSet<&str> = trusted.map(|(skill, _)| skill.name()).collect();
    let state = |name: &str| match () {
        () if is_served(name) => SkillState::Served,
        () if !trusted.contains(name) => SkillState::Untrusted,
        // It is being edited: the next look shows what became of it.
        () => last.and_then(|last| last.states.get(name).cloned()).unwrap_or(SkillState::Served),
    };
    registry.skills().iter().map(|skill| (skill.name().to_owned(), state(skill.name()))).collect()
}

/// The tools that the last inventory had, or missed already, and that this one lacks.
fn gone_tools(last: &Inventory, now: &Inventory) -> BTreeMap<String, GoneTool> {
    let mut gone = last.gone.clone();
    for tool in &last.tools {
        let (skill, address) = (tool.skill.clone(), tool.address.clone());
        gone.insert(tool.name.clone(), GoneTool { skill, address });
    }
    gone.retain(|name, _| now.tool(name).is_none());
    while gone.len() > MAX_GONE {
        gone.pop_first();
    }
    gone
}

fn availabilities(engine: &Engine, skills: &[ServedSkill]) -> Vec<Availability> {
    let skills: Vec<&Skill> = skills.iter().map(|served| &served.skill).collect();
    engine.availabilities_for_model(&skills)
}

/// Why skills cannot run, and which of them have a contract that cannot be read. What a broken file says is not text for a model.
fn reasons(skills: &[ServedSkill], answers: &[Availability]) -> (BTreeMap<String, String>, SkillStates) {
    let (mut reasons, mut faults) = (BTreeMap::new(), SkillStates::new());
    for (skill, answer) in skills.iter().map(|served| &served.skill).zip(answers) {
        let Some(reason) = answer.cannot_run() else { continue };
        let text = match reason.kind() {
            ErrorKind::InvalidSkill => {
                let state = SkillState::Broken(reason.message().to_owned());
                faults.insert(skill.name().to_owned(), state);
                BROKEN.to_owned()
            }
            _ => reason.message().to_owned(),
        };
        reasons.insert(skill.name().to_owned(), text);
    }
    (reasons, faults)
}

/// The tools of these skills, and what is not offered because its name is taken. The tools of the server have theirs first, then
/// those of skills, then those that skills offer, then those of entrypoints.
fn offered_tools(
    engine: &Engine,
    (skills, answers): (&[ServedSkill], &[Availability]),
    broken: &[ServedSkill],
    (filter, last): (&ToolFilter, Option<&Inventory>),
) -> (Vec<ServedTool>, Vec<String>) {
    let mut names = ToolNames::default();
    let mut notices: Vec<String> = Vec::new();
    for name in SERVER_TOOLS {
        notices.extend(names.add(name, "a tool of the server".to_owned()).err());
    }
    let last_tools = tools_by_skill(last);
    let last_tools = |skill: &str| last_tools.get(skill).into_iter().flatten().copied().cloned();
    let mut drafts: Vec<ServedTool> = Vec::new();
    let for_models = skills.iter().zip(answers).filter(|(served, _)| served.is_for_models);
    let for_models: Vec<(&ServedSkill, &Availability)> = for_models.collect();
    let tools = parallel_map(&for_models, |(served, answer)| skill_tools(engine, &served.skill, answer));
    for ((served, _), tools) in for_models.into_iter().zip(tools) {
        let name = served.skill.name();
        if tools.is_empty() && last.is_some() && is_broken(engine, &served.skill) {
            drafts.extend(last_tools(name));
        }
        drafts.extend(tools.into_iter().map(|tool| ServedTool {
            name: tool_name(name, tool.part.name()),
            skill: name.to_owned(),
            address: served.address.clone(),
            tool: Arc::new(tool),
        }));
    }
    drafts.extend(broken.iter().flat_map(|served| last_tools(served.skill.name())));
    let offered: Vec<String> = drafts.iter().map(ServedTool::filter_name).collect();
    let unknown = filter.unknown_names(&offered).into_iter();
    notices.extend(unknown.map(|name| format!("no tool that is offered is called {}", shown_line(name))));
    drafts.retain(|draft| filter.accepts(&draft.filter_name()));
    drafts.sort_by(|a, b| {
        let order = |tool: &ServedTool| (tool.tool.part.clone(), tool.skill.clone());
        order(a).cmp(&order(b))
    });
    let mut tools: Vec<ServedTool> = Vec::new();
    for draft in drafts {
        let owner = match &draft.tool.part {
            SkillPart::Main => format!("the skill {}", draft.skill),
            SkillPart::Tool(tool) => format!("the tool {tool} of the skill {}", draft.skill),
            SkillPart::Entrypoint(entrypoint) => {
                format!("the entrypoint {entrypoint} of the skill {}", draft.skill)
            }
        };
        match names.add(&draft.name, owner) {
            Ok(()) => tools.push(draft),
            Err(notice) => notices.push(notice),
        }
    }
    tools.sort_by(|a, b| a.name.cmp(&b.name));
    (tools, notices)
}

/// The tools that each skill had.
fn tools_by_skill(last: Option<&Inventory>) -> HashMap<&str, Vec<&ServedTool>> {
    let mut tools: HashMap<&str, Vec<&ServedTool>> = HashMap::new();
    for tool in last.map_or(&[][..], |last| &last.tools) {
        tools.entry(&tool.skill).or_default().push(tool);
    }
    tools
}

/// Whether its contract cannot be read, so that it cannot run until it is mended.
fn is_broken(engine: &Engine, skill: &Skill) -> bool {
    engine.availability(skill).reason.is_some_and(|reason| reason.kind() == ErrorKind::InvalidSkill)
}

/// Why a tool that was offered before is not any more. Looks at the files of its skill.
pub(super) fn gone_error((engine, inventory): (&Engine, &Inventory), gone: &GoneTool) -> SkillError {
    let registry = engine.registry();
    match registry.find(&gone.address).and_then(|skill| engine.trusted_files(skill)) {
        Err(error) if inventory.skill(&gone.skill).is_none() => changed_error(&gone.skill, &error),
        _ => {
            let skill = shown_line(&gone.skill);
            let reason = inventory.reasons.get(&gone.skill).map(|reason| shown_line(reason));
            let sentence = match reason {
                Some(reason) => format!("the skill {skill} does not offer this tool at present: {reason}"),
                None => format!("the skill {skill} was changed and does not offer this tool any more"),
            };
            SkillError::new(ErrorKind::InvalidArgument, sentence).with_help("list the tools again")
        }
    }
}

/// The error of a skill that is not what it was, without what its files say.
pub(super) fn changed_error(skill: &str, error: &SkillError) -> SkillError {
    let skill = shown_line(skill);
    let (sentence, help) = match error.kind() {
        ErrorKind::InvalidSkill => (
            format!("the skill {skill} cannot be loaded at present: its files have an error"),
            "a person can validate it to see where",
        ),
        ErrorKind::UnknownSkill => {
            (format!("the skill {skill} was removed, or has another name now"), "list the tools again")
        }
        _ => (
            format!("the skill {skill} is not trusted any more: its files changed, or its trust was revoked"),
            "a person can look at it and trust it again",
        ),
    };
    SkillError::new(error.kind(), sentence).with_help(help).with_hint(error.hint().cloned())
}

impl ServedTool {
    /// Its name in a filter: `SKILL`, or `SKILL.NAME` for a tool or an entrypoint of the skill.
    fn filter_name(&self) -> String {
        self.tool.part.name().map_or_else(|| self.skill.clone(), |name| format!("{}.{name}", self.skill))
    }
}

impl ServedSkill {
    fn new(namesakes: &[Skill], skill: &Skill) -> Self {
        let unversioned = |skill: &Skill| {
            let mut name = skill.qualified_name();
            name.truncate(name.rfind('@').unwrap_or(name.len()));
            name
        };
        let name = unversioned(skill);
        let is_unique = namesakes.iter().filter(|other| unversioned(other) == name).count() < 2;
        Self {
            address: if is_unique { name } else { skill.qualified_name() },
            is_for_models: !skill.is_hidden_from_models(),
            is_for_people: !is_hidden_from_people(skill),
            skill: skill.clone(),
        }
    }
}

/// Whether its author wants only models to choose it: `user-invocable: false`.
fn is_hidden_from_people(skill: &Skill) -> bool {
    let is_false =
        |value: &serde_json::Value| value.as_str().is_some_and(|text| text.eq_ignore_ascii_case("false"));
    skill.manifest().unknown.iter().any(|key| key.is("user-invocable") && is_false(&key.value))
}

/// A resource of a skill.
#[derive(Clone, Debug)]
pub(super) struct OfferedResource {
    pub(super) skill: String,
    pub(super) resource: ProvidedResource,
    /// The type of its content as far as it is known before it is read.
    mime_type: Option<String>,
}

/// What can be read, and sentences about what is not offered because another skill has the address. A tool answers only where it is
/// offered itself.
fn offered_resources<'a>(
    skills: impl Iterator<Item = &'a Skill>,
    has_tool: impl Fn(&str, &str) -> bool,
) -> (Vec<OfferedResource>, Vec<String>) {
    let (mut offered, mut notices): (Vec<OfferedResource>, Vec<String>) = (Vec::new(), Vec::new());
    let mut addresses = OfferedAddresses::default();
    for skill in skills {
        let resources = skill.contract().map_or(&[][..], |contract| &contract.resources);
        for resource in resources {
            let known_type = match &resource.source {
                ResourceSource::File(path) => Some(mime_type(path).to_owned()),
                ResourceSource::Tool(tool) if !has_tool(skill.name(), tool) => continue,
                _ => None,
            };
            if let Some(other) = addresses.overlapping(&offered, skill, &resource.uri) {
                notices.push(format!(
                    "the resource {} of the skill {} is not offered, because {} of the skill {} may be the same address",
                    resource.uri,
                    shown_line(skill.name()),
                    other.resource.uri,
                    shown_line(&other.skill)
                ));
            } else if offered.len() == MAX_RESOURCES {
                notices.push(format!(
                    "the resource {} of the skill {} is not offered, because there are {MAX_RESOURCES} others",
                    resource.uri,
                    shown_line(skill.name())
                ));
            } else {
                addresses.add(offered.len(), &resource.uri);
                let mime_type = resource.mime_type.clone().or(known_type);
                offered.push(OfferedResource {
                    skill: skill.name().to_owned(),
                    resource: resource.clone(),
                    mime_type,
                });
            }
        }
    }
    (offered, notices)
}

/// The positions of what is offered, by which an address is compared with few others.
#[derive(Default)]
struct OfferedAddresses {
    plain: HashMap<String, Vec<usize>>,
    templates: Vec<usize>,
}

impl OfferedAddresses {
    fn add(&mut self, position: usize, uri: &ResourceUri) {
        if uri.is_template() {
            self.templates.push(position);
        } else {
            self.plain.entry(uri.as_str().to_owned()).or_default().push(position);
        }
    }

    /// The first of what another skill offers that may have the same address. Two addresses without variables are the same, or
    /// do not overlap.
    fn overlapping<'a>(
        &self,
        offered: &'a [OfferedResource],
        skill: &Skill,
        uri: &ResourceUri,
    ) -> Option<&'a OfferedResource> {
        let is_meant =
            |other: &&OfferedResource| other.skill != skill.name() && uris_overlap(&other.resource.uri, uri);
        if uri.is_template() {
            return offered.iter().find(is_meant);
        }
        let same = self.plain.get(uri.as_str()).into_iter().flatten();
        let mut positions: Vec<usize> = same.chain(&self.templates).copied().collect();
        positions.sort_unstable();
        positions.into_iter().filter_map(|position| offered.get(position)).find(is_meant)
    }
}

impl OfferedResource {
    /// The values of the variables of an address that is one of its.
    pub(super) fn arguments(&self, uri: &str) -> Option<Map<String, Value>> {
        let values = self.resource.uri.values_in(uri)?;
        Some(values.into_iter().map(|(name, value)| (name.to_owned(), value.into())).collect())
    }

    /// The type of this content.
    pub(super) fn mime_type<'a>(&'a self, found: &'a str) -> &'a str {
        self.mime_type.as_deref().unwrap_or(found)
    }

    /// How a client lists it; `None` if its address has variables.
    pub(super) fn listed(&self) -> Option<Resource> {
        if self.resource.uri.is_template() {
            return None;
        }
        let mut listed = Resource::new(self.resource.uri.as_str(), self.name());
        listed.description = self.description();
        listed.mime_type.clone_from(&self.mime_type);
        Some(listed)
    }

    /// How a client lists the form of its addresses; `None` if its address has no variables.
    pub(super) fn listed_template(&self) -> Option<ResourceTemplate> {
        if !self.resource.uri.is_template() {
            return None;
        }
        let mut listed = ResourceTemplate::new(self.resource.uri.as_str(), self.name());
        listed.description = self.description();
        listed.mime_type.clone_from(&self.mime_type);
        Some(listed)
    }

    fn name(&self) -> String {
        let name = self.resource.name.as_deref().unwrap_or(self.resource.uri.as_str());
        shorten(&shown_line(name), MAX_TEXT)
    }

    fn description(&self) -> Option<String> {
        self.resource.description.as_deref().map(|text| shorten(&shown_line(text), MAX_TEXT))
    }
}
