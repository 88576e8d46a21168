//! Activates skills: what a model becomes, with the tools and the skills that it names looked up.
//!
//! A skill is activated and not called. The only code that runs is its `on_activate` script, beside its definition: without a
//! permission, in the sandbox of its language, and nothing counts but the tools that it returns.

use std::collections::BTreeSet;
use std::path::Path;

use serde::Serialize;
use serde_json::{Map, Value};

use super::{Engine, EngineInner, Invocation};
use crate::registry::Skill;
use metier_core::client_variables::fill_client_variables;
use metier_core::error::{ErrorKind, Result, SkillError};
use metier_core::host::Tool;
use metier_skill::contract::{NamedPersona, ProvidedTool, ToolAliases, Turn, compose};

/// How deep skills may hand over to others.
const MAX_DELEGATION_DEPTH: usize = 3;
/// The most skills that are looked up for that.
const MAX_DELEGATES: usize = 100;
/// The most tools that a script may return.
const MAX_DYNAMIC_TOOLS: usize = 100;
/// The most names of tools that are reported as ambiguous.
const MAX_AMBIGUOUS: usize = 32;
/// The most characters of a name.
const MAX_NAME: usize = 64;
/// The name of the script, without its extension, in the skill's folder.
const HOOK: &str = "on_activate";
const HOOK_HELP: &str =
    "return {\"tools\": [{\"name\": …, \"description\": …, \"inputSchema\": …}]} and nothing else";

/// What a model becomes.
///
/// In JSON: `{name, description, instructions, examples, tools, delegates, temperature, metadata, problems}`.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Activation {
    /// The name of the skill; of several, one that stands for all.
    pub name: String,
    /// What it is for.
    pub description: String,
    /// What a model reads.
    pub instructions: String,
    /// Questions and answers to show.
    pub examples: Vec<Turn>,
    /// The tools that it may call, and no others: those that the skill offers, by `SKILL.TOOL`, those that it names, and those that its script
    /// returned.
    pub tools: Vec<Tool>,
    /// The skills that it may hand over to.
    pub delegates: Vec<Delegate>,
    /// From 0 to 2; only advice.
    pub temperature: Option<f64>,
    /// Facts that nothing reads.
    pub metadata: Map<String, Value>,
    /// The tools and skills that it names and that are not here, one sentence each.
    pub problems: Vec<String>,
}

/// A skill that another one may hand over to.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Delegate {
    /// Its name, as the other one names it.
    pub name: String,
    /// Its qualified name.
    pub skill: String,
    /// What it is for.
    pub description: String,
    /// The skills that it may hand over to in turn, three deep at most.
    pub delegates: Vec<Delegate>,
    /// Whether it is one of those that lead here, so that it is not followed again.
    pub is_in_circle: bool,
}

impl Engine {
    /// Activates a skill, or several as one: their texts, examples, tools, and the skills that they may hand over to.
    ///
    /// Tools are those of the engine's [`ToolProvider`](metier_core::host::ToolProvider) and the skills of that name, or of a name that these
    /// skills declare to mean the same. What is not here is among the problems. The script `on_activate` of each skill runs without any grant; if one fails, or returns anything but tools, the
    /// activation fails. Activating twice gives the same, unless a script decides otherwise.
    ///
    /// Like a run for a person, this does not ask whether the skills are trusted: where a model chooses them, ask
    /// [`Engine::trust_state`] first.
    pub fn activate(&self, names: &[&str]) -> Result<Activation> {
        self.0.activate(names)
    }
}

impl EngineInner {
    fn activate(&self, names: &[&str]) -> Result<Activation> {
        let found = names.iter().map(|name| self.find_skill(None, None, name).map(|(_, skill)| skill));
        let skills = found.collect::<Result<Vec<Skill>>>()?;
        let project = &self.folders.first().path;
        let personas = skills.iter().map(|skill| persona(skill, project)).collect::<Result<Vec<_>>>()?;
        let NamedPersona { name, description, persona, metadata, .. } = compose(&personas)?;
        let mut activation = Activation {
            name,
            description,
            instructions: persona.instructions,
            examples: persona.examples,
            tools: Vec::new(),
            delegates: Vec::new(),
            temperature: persona.temperature,
            metadata,
            problems: Vec::new(),
        };
        activation.tools = skills.iter().flat_map(own_tools).collect();
        let is_own = |name: &str| {
            skills.iter().any(|skill| {
                let own =
                    name.strip_prefix(skill.name()).and_then(|rest| rest.strip_prefix('.')).unwrap_or(name);
                callable_tools(skill).any(|tool| tool.name == own)
            })
        };
        let aliases = tool_aliases(&skills);
        for name in persona.tools.into_iter().filter(|name| !is_own(name)) {
            let equivalent = || aliases.equivalents(&name).find_map(|other| self.named_tool(other));
            match self.named_tool(&name).or_else(equivalent) {
                Some(tool) => {
                    if activation.tools.iter().all(|known| known.name != tool.name) {
                        activation.tools.push(tool);
                    }
                }
                None => activation
                    .problems
                    .push(format!("AK_TOOL_NOT_FOUND: no tool and no skill is called {name}")),
            }
        }
        activation.problems.extend(ambiguous_aliases(&aliases));
        for tool in skills.iter().map(|skill| self.dynamic_tools(skill)).collect::<Result<Vec<_>>>()?.concat()
        {
            // The last one of a name counts.
            activation.tools.retain(|known| known.name != tool.name);
            activation.tools.push(tool);
        }
        let mut lookup = DelegateLookup {
            engine: self,
            path: skills.iter().map(Skill::qualified_name).collect(),
            activated: skills.len(),
            left: MAX_DELEGATES,
            problems: Vec::new(),
        };
        activation.delegates = lookup.delegates(&persona.delegates);
        activation.problems.append(&mut lookup.problems);
        Ok(activation)
    }

    /// The tool of that name: one of the embedder, or a skill.
    fn named_tool(&self, name: &str) -> Option<Tool> {
        let of_embedder = self.providers.tools.as_ref().and_then(|tools| {
            metier_core::host::catch_panic("the provider of tools", ErrorKind::Unavailable, || {
                Ok(tools.tool(name))
            })
            .ok()?
        });
        of_embedder.or_else(|| {
            let (_, skill) = self.find_skill(None, None, name).ok()?;
            let inputs = skill.contract().and_then(|contract| contract.inputs.as_ref());
            let schema = inputs.map_or_else(|| serde_json::json!({}), |inputs| inputs.json().clone());
            Some(Tool::new(name, skill.description(), schema))
        })
    }

    /// What the script of the skill returns when it is activated.
    fn dynamic_tools(&self, skill: &Skill) -> Result<Vec<Tool>> {
        let files = skill.folder().files()?;
        let hooks: Vec<&String> =
            files.iter().filter(|path| path.rsplit_once('.').is_some_and(|(stem, _)| stem == HOOK)).collect();
        let hook = match hooks[..] {
            [] => return Ok(Vec::new()),
            [only] => only,
            _ => return Err(hook_error(skill, "it has several of them")),
        };
        let invocation = Invocation::new(skill.qualified_name()).script(hook).without_stored_grants();
        let value = self.run(invocation).result.map_err(|cause| {
            let sentence = format!("failed to activate {}: {}", skill.name(), cause.message());
            let error = SkillError::new(cause.kind(), sentence);
            match cause.help() {
                Some(help) => error.with_help(help),
                None => error,
            }
        })?;
        read_tools(value).map_err(|reason| hook_error(skill, &reason))
    }
}

/// The tools that the skill itself offers, by the names under which they are called.
fn own_tools(skill: &Skill) -> impl Iterator<Item = Tool> {
    callable_tools(skill).map(|tool| {
        let schema = tool.input_schema.as_ref().map_or_else(|| serde_json::json!({}), |it| it.json().clone());
        let name = format!("{}.{}", skill.name(), tool.name);
        Tool::new(name, tool.description.as_deref().unwrap_or_default(), schema)
    })
}

fn callable_tools(skill: &Skill) -> impl Iterator<Item = &ProvidedTool> {
    let offered = skill.contract().map_or(&[][..], |contract| &contract.tools);
    offered.iter().filter(|tool| tool.handler.is_some())
}

/// The names of tools that mean the same, by what these skills declare.
pub(super) fn tool_aliases<'a>(skills: impl IntoIterator<Item = &'a Skill>) -> ToolAliases {
    let declared =
        skills.into_iter().filter_map(|skill| Some((skill.name(), &skill.contract()?.tool_aliases[..])));
    ToolAliases::new(declared)
}

/// A sentence about each name that several skills declare for tools of theirs.
pub(super) fn ambiguous_aliases(aliases: &ToolAliases) -> Vec<String> {
    let sentence = |(name, skills): (&String, &BTreeSet<String>)| {
        let skills: Vec<&str> = skills.iter().map(String::as_str).collect();
        let name = metier_core::excerpt::shorten(name, 60);
        format!("{} declare {name} as another name of a tool, so it stands for none", skills.join(" and "))
    };
    aliases.ambiguous().iter().take(MAX_AMBIGUOUS).map(sentence).collect()
}

/// What a skill makes of a model. A skill that is not a persona has its text.
fn persona(skill: &Skill, project: &Path) -> Result<NamedPersona> {
    if let Some(error) = skill.contract_error() {
        return Err(error);
    }
    let contract = skill.contract();
    let mut persona = contract.and_then(|contract| contract.persona.clone()).unwrap_or_default();
    let body = skill.body()?;
    persona.instructions = match skill.folder().disk_path() {
        Some(folder) => fill_client_variables(&body, folder, project).into_owned(),
        None => body,
    };
    let facts = contract.map(|contract| contract.metadata.unknown.clone()).unwrap_or_default();
    Ok(NamedPersona::new(skill.name(), skill.description(), persona).metadata(facts))
}

fn hook_error(skill: &Skill, reason: &str) -> SkillError {
    let sentence = format!("AK_SKILL_INVALID, S9: the script {HOOK} of {}: {reason}", skill.name());
    SkillError::new(ErrorKind::InvalidSkill, sentence).with_help(HOOK_HELP)
}

/// The tools in what a script returned: nothing, or an object with tools alone.
fn read_tools(value: Value) -> std::result::Result<Vec<Tool>, String> {
    let Value::Object(fields) = value else {
        return if value.is_null() { Ok(Vec::new()) } else { Err("it returns no tools".to_owned()) };
    };
    if let Some(other) = fields.keys().find(|key| *key != "tools") {
        return Err(format!("it returns {}, and may return tools alone", other.escape_debug()));
    }
    let tools = match fields.get("tools") {
        None | Some(Value::Null) => return Ok(Vec::new()),
        Some(Value::Array(tools)) if tools.len() <= MAX_DYNAMIC_TOOLS => tools,
        Some(Value::Array(_)) => return Err(format!("it returns more than {MAX_DYNAMIC_TOOLS} tools")),
        Some(_) => return Err("`tools` is not a list".to_owned()),
    };
    tools.iter().map(read_tool).collect()
}

fn read_tool(value: &Value) -> std::result::Result<Tool, String> {
    const KEYS: [&str; 3] = ["name", "description", "inputSchema"];
    let fields = value.as_object().ok_or("a tool is not an object")?;
    if let Some(other) = fields.keys().find(|key| !KEYS.contains(&key.as_str())) {
        return Err(format!("a tool has {}; its keys are {}", other.escape_debug(), KEYS.join(", ")));
    }
    let is_name = |name: &&str| {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-".contains(c);
        let begins_well = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
        name.len() <= MAX_NAME && begins_well && name.chars().all(is_plain)
    };
    let name =
        fields.get("name").and_then(Value::as_str).filter(is_name).ok_or("a tool has no name that is one")?;
    let description = match fields.get("description") {
        None | Some(Value::Null) => "",
        Some(Value::String(text)) => text,
        Some(_) => return Err("the description of a tool is not a text".to_owned()),
    };
    let schema = match fields.get("inputSchema") {
        None | Some(Value::Null) => Value::Object(Map::new()),
        Some(schema @ Value::Object(_)) => schema.clone(),
        Some(_) => return Err("the inputSchema of a tool is not an object".to_owned()),
    };
    Ok(Tool::new(name, description, schema))
}

/// Looks up the skills that others may hand over to. They may form circles, which are followed once.
struct DelegateLookup<'e> {
    engine: &'e EngineInner,
    /// The qualified names of those that lead here.
    path: Vec<String>,
    /// How many of them are activated, and not handed over to.
    activated: usize,
    /// How many more are looked up.
    left: usize,
    problems: Vec<String>,
}

impl DelegateLookup<'_> {
    fn delegates(&mut self, names: &[String]) -> Vec<Delegate> {
        names.iter().filter_map(|name| self.delegate(name)).collect()
    }

    fn delegate(&mut self, name: &str) -> Option<Delegate> {
        if self.left == 0 {
            let sentence =
                format!("no more than {MAX_DELEGATES} skills are looked up, so others are left out");
            if self.problems.last() != Some(&sentence) {
                self.problems.push(sentence);
            }
            return None;
        }
        self.left -= 1;
        let Ok((_, skill)) = self.engine.find_skill(None, None, name) else {
            self.problems.push(format!("no skill is called {name}, to which another one may hand over"));
            return None;
        };
        let qualified = skill.qualified_name();
        let is_in_circle = self.path.contains(&qualified);
        let named = skill.contract().and_then(|contract| contract.persona.as_ref());
        let delegates = match named {
            Some(persona) if !is_in_circle && self.path.len() - self.activated + 1 < MAX_DELEGATION_DEPTH => {
                self.path.push(qualified.clone());
                let delegates = self.delegates(&persona.delegates);
                self.path.pop();
                delegates
            }
            _ => Vec::new(),
        };
        Some(Delegate {
            name: name.to_owned(),
            skill: qualified,
            description: skill.description().to_owned(),
            delegates,
            is_in_circle,
        })
    }
}
