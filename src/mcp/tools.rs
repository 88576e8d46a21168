//! The tools of a skill: their names and titles, their schemas, with invisible characters spelled out, what clients are told about their risk,
//! and what a call of one means.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use super::arguments::ArgumentForm;
use super::forms::{Form, forms};
use super::results::{MAX_DECLARED_TEXT, MAX_TEXT};
use super::skill_content::shown_line;
use crate::engine::{Availability, Engine, Invocation, RequestedPermission, ScriptChoice};
use crate::registry::Skill;
use metier_core::error::Result;
use metier_core::executor::RuntimeId;
use metier_core::policy::Permission;
use metier_core::sanitizer::json_for_model;
use metier_skill::contract::{Contract, Entrypoint, HttpCall, ProvidedTool, Schema};

/// Maximum characters of a description.
const MAX_DESCRIPTION: usize = 500;
/// Of more scripts only the first can be named.
const MAX_SCRIPTS: usize = 64;
/// The tools of the server itself.
pub(super) const LIST: &str = "skills_list";
pub(super) const ACTIVATE: &str = "activate_skill";
pub(super) const READ_FILE: &str = "read_skill_file";
pub(super) const READ_RESULT: &str = "read_result";
pub(super) const APPLY_CHANGES: &str = "apply_changes";
pub(super) const DISCARD_CHANGES: &str = "discard_changes";
/// Their names, which no skill can take.
pub(super) const SERVER_TOOLS: [&str; 6] =
    [LIST, ACTIVATE, READ_FILE, READ_RESULT, APPLY_CHANGES, DISCARD_CHANGES];
/// Maximum length of a name: clients put their own prefix before it, and refuse longer ones.
const MAX_NAME: usize = 64;
/// The digits that tell changed names apart.
const DIGEST_DIGITS: usize = 8;
/// The dialect of JSON Schema that holds in the protocol where a schema names none.
const DEFAULT_DIALECT: &str = "https://json-schema.org/draft/2020-12/schema";
/// The keywords that draft 7 does not have. Those of other names mean the same there.
const NEWER_KEYWORDS: [&str; 13] = [
    "$anchor",
    "$dynamicAnchor",
    "$dynamicRef",
    "$recursiveAnchor",
    "$recursiveRef",
    "$vocabulary",
    "dependentRequired",
    "dependentSchemas",
    "maxContains",
    "minContains",
    "prefixItems",
    "unevaluatedItems",
    "unevaluatedProperties",
];

/// A tool of a skill, without its name.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct SkillTool {
    pub(super) part: SkillPart,
    pub(super) description: String,
    pub(super) input_schema: Map<String, Value>,
    /// The schema of the input as the contract has it.
    inputs: Option<Schema>,
    arguments: ArgumentForm,
    /// Whether it runs a plan that may keep a journal, unless a call chooses another script.
    has_journal: bool,
    /// The schema of the value as the contract has it; clients of older revisions accept only objects.
    pub(super) output_schema: Option<Value>,
    pub(super) risk: Risk,
    /// What a person is asked for where a call does not give it.
    pub(super) forms: Vec<Form>,
    /// Bytes of a result that its author wants whole, if more than usual.
    pub(super) max_result_size: Option<usize>,
}

/// What of a skill a call runs.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum SkillPart {
    /// The skill itself: its main script.
    Main,
    /// A tool that its contract declares.
    Tool(String),
    /// A further entrypoint of its contract.
    Entrypoint(String),
}

impl SkillPart {
    /// Its own name in the skill.
    pub(super) fn name(&self) -> Option<&str> {
        match self {
            Self::Main => None,
            Self::Tool(name) | Self::Entrypoint(name) => Some(name),
        }
    }
}

/// What a call may do, as clients show it to people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Risk {
    pub(super) read_only: bool,
    pub(super) destructive: bool,
    pub(super) idempotent: Option<bool>,
    pub(super) open_world: bool,
}

/// The tools of a skill that can run, if it has this availability: one for the skill, one for each tool that it offers, and one for each further entrypoint of its
/// contract.
pub(super) fn skill_tools(engine: &Engine, skill: &Skill, availability: &Availability) -> Vec<SkillTool> {
    let contract = skill.contract();
    let main = main_tool(engine, skill, availability);
    let main_entrypoint = contract.and_then(Contract::main_entrypoint);
    let entrypoints = contract.map_or(&[][..], |contract| &contract.entrypoints);
    let further = entrypoints.iter().filter(|(_, entrypoint)| Some(entrypoint) != main_entrypoint);
    let further = further.filter_map(|(name, entrypoint)| entrypoint_tool(engine, skill, (name, entrypoint)));
    let offered = contract.map_or(&[][..], |contract| &contract.tools);
    let offered = offered.iter().filter_map(|tool| offered_tool(engine, skill, tool));
    main.into_iter().chain(offered).chain(further).collect()
}

fn main_tool(engine: &Engine, skill: &Skill, availability: &Availability) -> Option<SkillTool> {
    let main = availability.runtime.filter(|_| availability.is_runnable());
    let description = short_description(skill.description());
    if let Some(inputs) = skill.contract().and_then(|contract| contract.inputs.as_ref()) {
        let has_journal = has_journal(engine, skill, ScriptChoice::Main, main?);
        let (input_schema, arguments) = input_schema(inputs);
        return Some(SkillTool {
            part: SkillPart::Main,
            description,
            input_schema,
            inputs: Some(inputs.clone()),
            arguments,
            has_journal,
            output_schema: output_schema(skill),
            risk: skill_risk(engine, skill, &[None]),
            forms: forms(skill),
            max_result_size: max_result_size(skill),
        });
    }
    let scripts = if skill.contract().is_some_and(|contract| contract.main_entrypoint().is_some()) {
        Vec::new()
    } else {
        runnable_scripts(engine, skill)
    };
    if main.is_none() && scripts.is_empty() {
        return None;
    }
    let runtimes: Vec<RuntimeId> =
        main.into_iter().chain(scripts.iter().map(|(_, runtime)| *runtime)).collect();
    let scripts: Vec<String> = scripts.into_iter().map(|(path, _)| path).collect();
    let scripts = if main.is_some() && scripts.len() < 2 { Vec::new() } else { scripts };
    let main_choice = main.map(|_| None);
    let choices: Vec<Option<&str>> =
        main_choice.into_iter().chain(scripts.iter().map(|path| Some(&**path))).collect();
    let risk = skill_risk(engine, skill, &choices);
    let (input_schema, arguments) = script_schema(scripts, main.is_some(), &runtimes);
    Some(SkillTool {
        part: SkillPart::Main,
        description,
        input_schema,
        inputs: None,
        arguments,
        has_journal: main.is_some_and(|runtime| has_journal(engine, skill, ScriptChoice::Main, runtime)),
        output_schema: output_schema(skill),
        risk,
        forms: Vec::new(),
        max_result_size: max_result_size(skill),
    })
}

fn entrypoint_tool(
    engine: &Engine,
    skill: &Skill,
    (name, entrypoint): (&str, &Entrypoint),
) -> Option<SkillTool> {
    let available = engine.availability_for_model(skill, ScriptChoice::Named(name));
    let runtime = available.runtime.filter(|_| available.is_runnable())?;
    let inputs = skill.contract().and_then(|contract| contract.inputs.as_ref());
    let (input_schema, arguments) = match inputs {
        Some(inputs) => input_schema(inputs),
        None => script_schema(Vec::new(), true, &[runtime]),
    };
    let own = entrypoint.description.as_deref();
    Some(SkillTool {
        part: SkillPart::Entrypoint(name.to_owned()),
        description: own.map_or_else(
            || short_description(&format!("{name} of the skill {}: {}", skill.name(), skill.description())),
            short_description,
        ),
        input_schema,
        inputs: inputs.cloned(),
        arguments,
        has_journal: has_journal(engine, skill, ScriptChoice::Named(name), runtime),
        output_schema: output_schema(skill),
        risk: skill_risk(engine, skill, &[Some(name)]),
        forms: forms(skill),
        max_result_size: max_result_size(skill),
    })
}

/// A tool that the contract declares, where something runs when it is called.
fn offered_tool(engine: &Engine, skill: &Skill, tool: &ProvidedTool) -> Option<SkillTool> {
    tool.handler.as_ref()?;
    let available = engine.availability_for_model(skill, ScriptChoice::Tool(&tool.name));
    let runtime = available.runtime.filter(|_| available.is_runnable())?;
    let (input_schema, arguments) = match &tool.input_schema {
        Some(inputs) => input_schema(inputs),
        None => script_schema(Vec::new(), true, &[]),
    };
    let own = tool.description.as_deref();
    let described = || format!("{} of the skill {}: {}", tool.name, skill.name(), skill.description());
    Some(SkillTool {
        part: SkillPart::Tool(tool.name.clone()),
        description: own.map_or_else(|| short_description(&described()), short_description),
        input_schema,
        inputs: tool.input_schema.clone(),
        arguments,
        has_journal: has_journal(engine, skill, ScriptChoice::Tool(&tool.name), runtime),
        output_schema: tool.output_schema.as_ref().map(listed_schema),
        risk: tool_risk(engine, skill, tool),
        forms: Vec::new(),
        max_result_size: max_result_size(skill),
    })
}

/// Whether it is a plan that can go on where it stopped: one with a review runs in a copy of the project that ends with the run.
fn has_journal(engine: &Engine, skill: &Skill, choice: ScriptChoice<'_>, runtime: RuntimeId) -> bool {
    runtime == RuntimeId::TOOL_SEQUENCE && !engine.has_review(skill, choice)
}

/// What the contract says about the risk of a tool, or else of its skill, as far as what a call may do agrees.
fn tool_risk(engine: &Engine, skill: &Skill, tool: &ProvidedTool) -> Risk {
    let metadata = skill.contract().map(|contract| &contract.metadata);
    let of_skill = metadata.and_then(|metadata| metadata.risk_level.as_deref());
    let level = tool.risk_level.as_deref().or(of_skill).unwrap_or_default();
    let requested = engine.tool_permissions(skill, tool);
    let requests = |names: &[&str]| {
        requested.as_ref().is_none_or(|requested| requested.iter().any(|known| names.contains(&known.name())))
    };
    let is_read = |permission: &Permission| permission.name() == Permission::READ.name();
    let only_reads = requested.as_ref().is_some_and(|requested| requested.iter().all(is_read))
        || tool.http().is_some_and(HttpCall::is_safe) && (level.is_empty() || is_harmless(level));
    Risk {
        read_only: only_reads,
        destructive: !only_reads && !is_harmless(level),
        idempotent: metadata.and_then(|metadata| metadata.idempotent),
        open_world: requests(&["net", "tool", "sample", "exec"]),
    }
}

/// Whether a call with this level of risk destroys nothing.
fn is_harmless(level: &str) -> bool {
    matches!(level, "none" | "safe" | "low" | "read-only")
}

/// The scripts that could run, each with its runtime.
fn runnable_scripts(engine: &Engine, skill: &Skill) -> Vec<(String, RuntimeId)> {
    let scripts = engine.scripts(skill).unwrap_or_default();
    let runnable = |path: String| {
        let available = engine.availability_for_model(skill, ScriptChoice::Named(&path));
        Some((path, available.runtime.filter(|_| available.is_runnable())?))
    };
    scripts.into_iter().take(MAX_SCRIPTS).filter_map(runnable).collect()
}

/// What a contract says about the input, as a schema of objects.
fn input_schema(inputs: &Schema) -> (Map<String, Value>, ArgumentForm) {
    match listed_schema(inputs) {
        Value::Object(schema) if schema.get("type").is_some_and(|kind| kind == "object") => {
            (schema, ArgumentForm::Input)
        }
        // A reference points into its own schema, which would no longer be at the top.
        inputs => {
            let inputs = if inputs.to_string().contains("\"$ref\"") { json!({}) } else { inputs };
            let schema = json!({
                "type": "object",
                "properties": {"input": inputs},
                "required": ["input"],
                "additionalProperties": false,
            });
            (into_object(schema), ArgumentForm::WrappedInput)
        }
    }
}

fn script_schema(
    scripts: Vec<String>,
    has_main: bool,
    runtimes: &[RuntimeId],
) -> (Map<String, Value>, ArgumentForm) {
    let takes_args = runtimes.contains(&RuntimeId::EXTERNAL);
    let mut properties = Map::new();
    if !scripts.is_empty() {
        let about =
            if has_main { "The script to run, if it is not the main one." } else { "The script to run." };
        properties.insert("script".into(), json!({"type": "string", "enum": scripts, "description": about}));
    }
    let about = "The input of the script: any JSON value. A process reads it as JSON on its standard input.";
    properties.insert("input".into(), json!({"description": about}));
    if takes_args {
        let args = json!({
            "type": "array", "items": {"type": "string"}, "description": "The arguments of the command line.",
        });
        properties.insert("args".into(), args);
        let about = "The standard input of the process as it is, in place of the input.";
        properties.insert("stdin".into(), json!({"type": "string", "description": about}));
    }
    let mut schema = json!({"type": "object", "properties": properties, "additionalProperties": false});
    if !has_main {
        schema["required"] = json!(["script"]);
    }
    (into_object(json_for_model(schema)), ArgumentForm::Script { scripts, has_main, takes_args })
}

fn into_object(schema: Value) -> Map<String, Value> {
    match schema {
        Value::Object(schema) => schema,
        _ => Map::new(),
    }
}

fn output_schema(skill: &Skill) -> Option<Value> {
    skill.contract()?.outputs.as_ref().map(listed_schema)
}

fn listed_schema(schema: &Schema) -> Value {
    without_default_dialect(json_for_model(schema.json().clone()))
}

/// What the contract says about the size of results, if it is more than usual.
fn max_result_size(skill: &Skill) -> Option<usize> {
    let declared = usize::try_from(skill.contract()?.metadata.max_result_size?).unwrap_or(usize::MAX);
    (declared > MAX_TEXT).then(|| declared.min(MAX_DECLARED_TEXT))
}

/// The text as a model is shown it, with at most [`MAX_DESCRIPTION`] characters.
fn short_description(text: &str) -> String {
    let shown = shown_line(text);
    if shown.chars().count() <= MAX_DESCRIPTION {
        return shown;
    }
    let mut short: String = shown.chars().take(MAX_DESCRIPTION - 1).collect();
    short.push('…');
    short
}

/// What the contract says about the risk, as far as what these scripts of the skill request agrees: a call runs one of them.
fn skill_risk(engine: &Engine, skill: &Skill, scripts: &[Option<&str>]) -> Risk {
    let metadata = skill.contract().map(|contract| &contract.metadata);
    let level = metadata.and_then(|metadata| metadata.risk_level.as_deref()).unwrap_or_default();
    let requested = engine.script_requests(skill, scripts);
    let requests = |names: &[&str]| {
        requested.as_ref().is_none_or(|requested| {
            requested.iter().any(|request| names.contains(&request.permission.name()))
        })
    };
    let is_read = |request: &RequestedPermission| request.permission.name() == Permission::READ.name();
    let only_reads = requested.as_ref().is_some_and(|requested| requested.iter().all(is_read));
    Risk {
        read_only: only_reads,
        destructive: !only_reads && !is_harmless(level),
        idempotent: metadata.and_then(|metadata| metadata.idempotent),
        open_world: requests(&["net", "tool", "sample", "exec"]),
    }
}

impl SkillTool {
    /// The schema of the arguments for a client by which a person can be asked: what the forms ask for may be left out.
    pub(super) fn asking_input_schema(&self) -> Map<String, Value> {
        let mut schema = self.input_schema.clone();
        if let Some(Value::Array(required)) = schema.get_mut("required") {
            required.retain(|name| !self.forms.iter().any(|form| form.inputs().any(|input| name == input)));
            if required.is_empty() {
                schema.shift_remove("required");
            }
        }
        schema
    }

    /// The arguments without those that are null because they are left out: models often send null for what is optional.
    pub(super) fn without_nulls(&self, arguments: Map<String, Value>) -> Map<String, Value> {
        let is_asked_for =
            |name: &str| self.forms.iter().any(|form| form.inputs().any(|input| name == input));
        self.arguments.without_nulls(self.inputs.as_ref(), arguments, is_asked_for)
    }

    /// Whether a call with these arguments may keep a journal.
    pub(super) fn keeps_journal(&self, arguments: &Map<String, Value>) -> bool {
        self.has_journal && !self.arguments.chooses_script(arguments)
    }

    /// The invocation that a call with these arguments means. Arguments are hostile: what is not described is refused.
    pub(super) fn invocation(&self, skill: &str, arguments: Map<String, Value>) -> Result<Invocation> {
        let invocation = Invocation::new(skill);
        let invocation = match &self.part {
            SkillPart::Main => invocation,
            SkillPart::Tool(tool) => invocation.tool(tool),
            SkillPart::Entrypoint(entrypoint) => invocation.script(entrypoint),
        };
        self.arguments.add_to(invocation, arguments)
    }
}

/// Whether it is a tool of servers whose calls run in a copy of the project.
#[cfg(unix)]
pub(super) fn is_change_tool(name: &str) -> bool {
    [APPLY_CHANGES, DISCARD_CHANGES].contains(&name)
}

/// The names that are taken, each with what it stands for.
#[derive(Default)]
pub(super) struct ToolNames(BTreeMap<String, String>);

impl ToolNames {
    /// Takes a name; or else a sentence that says what has it already. Nothing is replaced.
    pub(super) fn add(&mut self, name: &str, owner: String) -> Result<(), String> {
        if let Some(first) = self.0.get(name) {
            return Err(format!("{owner} is not offered as the tool {name}, which is the name of {first}"));
        }
        self.0.insert(name.to_owned(), owner);
        Ok(())
    }
}

/// The name of a skill's tool, or of a tool that it offers (`SKILL_TOOL`) or of one of its entrypoints (`SKILL_ENTRY`): letters and digits of ASCII, `_` and `-`.
/// A name that has other letters or is too long is changed, and ends in digits that differ for every name.
pub(super) fn tool_name(skill: &str, entrypoint: Option<&str>) -> String {
    let whole = entrypoint.map_or_else(|| skill.to_owned(), |entrypoint| format!("{skill}_{entrypoint}"));
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    if !whole.is_empty() && whole.len() <= MAX_NAME && whole.chars().all(is_allowed) {
        return whole;
    }
    let readable: String = whole
        .chars()
        .map(|c| if is_allowed(c) { c } else { '_' })
        .take(MAX_NAME - DIGEST_DIGITS - 1)
        .collect();
    // The parts are told apart, so that `a_b` and the entrypoint `b` of `a` differ where both were changed.
    let mut digest = Sha256::new();
    digest.update(skill);
    digest.update([0]);
    digest.update(entrypoint.unwrap_or_default());
    let digest: [u8; 32] = digest.finalize().into();
    let digits = u32::from_be_bytes([digest[0], digest[1], digest[2], digest[3]]);
    format!("{readable}_{digits:08x}")
}

/// The names of a skill and of a tool or an entrypoint of it as words: `Open tasks`, `Github: list issues`.
pub(super) fn title_from_names(skill: &str, part: Option<&str>) -> String {
    let words = |name: &str| name.replace(['-', '_'], " ").trim().to_owned();
    let title = match part {
        Some(part) => format!("{}: {}", words(skill), words(part)),
        None => words(skill),
    };
    let mut letters = title.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

/// The schema without the name of the default dialect, if a validator of draft 7 understands it as well.
fn without_default_dialect(mut schema: Value) -> Value {
    let names_default = |dialect: &Value| {
        dialect.as_str().is_some_and(|dialect| dialect.trim_end_matches('#') == DEFAULT_DIALECT)
    };
    if schema.get("$schema").is_some_and(names_default)
        && !has_newer_keyword(&schema)
        && let Value::Object(keywords) = &mut schema
    {
        keywords.shift_remove("$schema");
    }
    schema
}

/// A property of such a name counts, too, which costs nothing but the key.
fn has_newer_keyword(schema: &Value) -> bool {
    match schema {
        Value::Object(keywords) => keywords
            .iter()
            .any(|(keyword, value)| NEWER_KEYWORDS.contains(&keyword.as_str()) || has_newer_keyword(value)),
        Value::Array(items) => items.iter().any(has_newer_keyword),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn plain_names_stay_and_others_become_plain() {
        assert_eq!(tool_name("word-count", None), "word-count");
        assert_eq!(tool_name("word-count", Some("check")), "word-count_check");
        let odd = [
            ("технологии", None),
            ("技能", None),
            ("a b", None),
            ("a.b", None),
            ("", None),
            ("x", Some("a b")),
            ("x", Some("a.b")),
            ("\u{1b}[31m", None),
        ];
        let long = "a".repeat(70);
        let names: Vec<String> = odd
            .into_iter()
            .chain([(long.as_str(), None), (long.as_str(), Some("x"))])
            .map(|(s, e)| tool_name(s, e))
            .collect();
        for name in &names {
            let is_plain = name.chars().all(|c| c.is_ascii_alphanumeric() || "_-".contains(c));
            assert!(is_plain && (1..=MAX_NAME).contains(&name.len()), "{name}");
        }
        let distinct: std::collections::BTreeSet<_> = names.iter().collect();
        assert_eq!(distinct.len(), names.len(), "{names:?}");
    }

    #[test]
    fn a_name_is_taken_once() {
        let mut names = ToolNames::default();
        assert_eq!(names.add("a_b", "the skill a_b".into()), Ok(()));
        let refused = names.add("a_b", "the entrypoint b of a".into()).unwrap_err();
        assert_eq!(
            refused,
            "the entrypoint b of a is not offered as the tool a_b, which is the name of the skill a_b"
        );
    }

    #[test]
    fn a_title_has_the_words_of_the_names() {
        for (skill, part, title) in [
            ("word-count", None, "Word count"),
            ("github", Some("list_issues"), "Github: list issues"),
            ("éa", None, "Éa"),
            ("", None, ""),
        ] {
            assert_eq!(title_from_names(skill, part), title);
        }
    }

    #[test]
    fn only_the_default_dialect_is_left_out_and_only_where_draft_7_is_the_same() {
        for (dialect, items, is_left_out) in [
            (DEFAULT_DIALECT, json!({"type": "array", "items": {"type": "string"}}), true),
            ("https://json-schema.org/draft/2020-12/schema#", json!({"$ref": "#/$defs/x"}), true),
            (DEFAULT_DIALECT, json!({"prefixItems": [{"type": "string"}], "items": false}), false),
            (DEFAULT_DIALECT, json!({"anyOf": [{"unevaluatedProperties": false}]}), false),
            ("http://json-schema.org/draft-07/schema#", json!({"type": "string"}), false),
            ("https://json-schema.org/draft/2019-09/schema", json!({"type": "string"}), false),
        ] {
            let schema = json!({"$schema": dialect, "type": "object", "properties": {"a": items}});
            let found = without_default_dialect(schema.clone());
            assert_eq!(found.get("$schema").is_none(), is_left_out, "{schema}");
            assert_eq!(found["properties"], schema["properties"]);
        }
        assert_eq!(without_default_dialect(json!(true)), json!(true));
    }
}
