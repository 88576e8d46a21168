//! Tells the formats of definitions apart by their keys.

use crate::contract::fields as contract_fields;
use crate::contract::fields::find;
use crate::contract::{DefinitionFormat, KEYS as CONTRACT_KEYS};
use crate::diagnostic_sink::DiagnosticSink;
use crate::formats::sweny;
use crate::lint;
use crate::yaml::{Entry, Node, Value};
use metier_core::suggestion::same_word;

/// Keys of Curia manifests that no other format has.
const CURIA_KEYS: [&str; 3] = ["action_risk", "sensitivity", "entity_enrichment"];
/// Keys that are in a manifest or a contract in JSON, and in few other files.
const MANIFEST_KEYS: [&str; 6] = ["inputs", "outputs", "entrypoint", "entrypoints", "steps", "composed_of"];
/// The keys of a contract that show that a file of any name is one.
const DECISIVE_KEYS: [&str; 12] = [
    "runtime",
    "entrypoint",
    "entrypoints",
    "inputs",
    "outputs",
    "steps",
    "composed_of",
    "base_url",
    "tools",
    "forms",
    "attachments",
    "sanitize",
];
/// The keys of the formats of other systems, besides those of a contract.
const FORMAT_KEYS: [&str; 10] = [
    "action_risk",
    "sensitivity",
    "entity_enrichment",
    "capabilities",
    "secrets",
    "systemPrompt",
    "manifestVersion",
    "instruction",
    "mcp",
    "skill",
];
/// Keys that files of every kind have. They say nothing by which a run is restricted.
const NEUTRAL_KEYS: [&str; 5] = ["$schema", "name", "version", "description", "license"];

/// What steps of other systems run, which is neither a skill nor a tool.
const OTHER_STEP_KEYS: [&str; 13] = [
    "run", "uses", "command", "commands", "script", "task", "bash", "image", "plugins", "block", "agent",
    "prompt", "action",
];

/// The syntax of a definition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Syntax {
    Yaml,
    Json,
}

impl Syntax {
    /// By the extension of the file's name.
    pub(super) fn from_file_name(name: &str) -> Self {
        let is_json =
            name.rsplit_once('.').is_some_and(|(_, extension)| extension.eq_ignore_ascii_case("json"));
        if is_json { Self::Json } else { Self::Yaml }
    }
}

/// Why a file is read as a definition: the less its name says, the more its keys must.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// It stands beside a `SKILL.md`, which is a skill without it.
    BesideSkillFile,
    /// It has the name of a definition, and no `SKILL.md` beside it.
    Alone,
    /// Somebody passed it, whatever its name is.
    Passed,
}

/// The format of a definition with these keys; `None`, with a diagnostic, if it is in none or could be in two. The diagnostic is only a
/// warning for a file beside a `SKILL.md` that has no key of any format, so that nothing it says could be lost.
pub(super) fn detect_format(
    entries: &[Entry],
    (syntax, purpose): (Syntax, Purpose),
    report: &mut DiagnosticSink<'_>,
) -> Option<DefinitionFormat> {
    let mut fits: Vec<DefinitionFormat> = fitting_formats(entries);
    if purpose == Purpose::BesideSkillFile {
        // Catalogs of skills have an `id` and a `category` of their own for each.
        fits.retain(|format| *format != DefinitionFormat::Sweny || is_certainly_sweny(entries));
    }
    match fits[..] {
        [only] => return Some(only),
        [] => {}
        [first, second, ..] => {
            let message = format!("the keys are those of {} and of {}", first.title(), second.title());
            report
                .add(&lint::FORMAT_MIXED, &(0..0), message)
                .help("write each definition into a file of its own");
            return None;
        }
    }
    if is_map(find(entries, "skill")) {
        return Some(DefinitionFormat::Contract);
    }
    let foreign = foreign_format(entries);
    let is_left_out = purpose == Purpose::BesideSkillFile && (is_index(entries) || !has_mark(entries));
    if is_left_out && (syntax == Syntax::Json || foreign.is_some()) {
        let what = foreign.unwrap_or("in no format of skill definitions");
        let message = format!("the file is {what}, so it is left out, and the skill runs by its SKILL.md");
        report
            .add(&lint::FORMAT_FOREIGN, &(0..0), message)
            .help("give it another name, or move it out of the skill's folder");
        return None;
    }
    let is_foreign = foreign.is_some() && purpose != Purpose::BesideSkillFile;
    let is_unmarked = purpose == Purpose::Passed && !has_key(entries, &DECISIVE_KEYS);
    if syntax == Syntax::Yaml && !is_foreign && !is_unmarked {
        return Some(DefinitionFormat::Contract);
    }
    let has = |key: &str| find(entries, key).is_some();
    // It lacks what its format requires, which its reader says.
    if foreign.is_none()
        && syntax == Syntax::Json
        && has("name")
        && (has("version") || has("description"))
        && has_key(entries, &MANIFEST_KEYS)
    {
        return Some(DefinitionFormat::Curia);
    }
    let message = match foreign {
        Some(what) => format!("the file is {what}, and not the definition of a skill"),
        None => "the file is in no format of skill definitions that metier reads".to_owned(),
    };
    report.add(&lint::FORMAT_UNKNOWN, &(0..0), message).help(KNOWN_FORMATS);
    None
}

const KNOWN_FORMATS: &str = "a Curia manifest has `action_risk`, a SWEny skill `id` and `category`, an AgentsKit skill `systemPrompt`, \
     a contract `skill`, or in YAML `entrypoint`, `inputs` or `steps`; rename the file if it is none of them";

fn fitting_formats(entries: &[Entry]) -> Vec<DefinitionFormat> {
    let has = |key: &str| find(entries, key).is_some();
    let has_persona = |node: Option<&Node>| match node.map(|node| &node.value) {
        Some(Value::Map(entries)) => find(entries, "systemPrompt").is_some(),
        _ => false,
    };
    let rows = [
        (DefinitionFormat::AgentsKitManifest, has("manifestVersion")),
        (DefinitionFormat::AgentsKitPackage, has_persona(find(entries, "skill"))),
        (DefinitionFormat::AgentsKit, has("systemPrompt")),
        (DefinitionFormat::Sweny, has("id") && has("category")),
        (DefinitionFormat::Curia, CURIA_KEYS.iter().any(|key| has(key))),
    ];
    rows.into_iter().filter_map(|(format, fits)| fits.then_some(format)).collect()
}

/// What a file certainly is that is no definition of a skill, by keys that have this meaning together.
fn foreign_format(entries: &[Entry]) -> Option<&'static str> {
    let has = |key: &str| find(entries, key).is_some();
    let has_map = |key: &str| is_map(find(entries, key));
    let has_key_of = |key: &str, inner: &[&str]| match find(entries, key).map(|node| &node.value) {
        Some(Value::Map(below)) => has_key(below, inner),
        _ => false,
    };
    let has_item_with = |key: &str, inner: &[&str]| match find(entries, key).map(|node| &node.value) {
        Some(Value::Map(items)) => items.iter().any(|item| item_has(&item.node, inner)),
        Some(Value::List(items)) => items.iter().any(|item| item_has(item, inner)),
        _ => false,
    };
    let has_other_steps = || {
        // Workflows have inputs and outputs, too.
        let is_shared = |key: &str| ["steps", "inputs", "outputs"].contains(&key);
        let is_contract = DECISIVE_KEYS.iter().any(|key| !is_shared(key) && has(key));
        !is_contract
            && has_item_with("steps", &OTHER_STEP_KEYS)
            && !has_item_with("steps", &["skill", "tool"])
    };
    let rows = [
        ("a workflow of GitHub Actions", has("on") && has_map("jobs")),
        ("an action of GitHub Actions", has_key_of("runs", &["using"])),
        ("a pipeline of Azure", has("trigger") && has_item_with("steps", &["script", "task", "bash"])),
        ("a Compose file", has_item_with("services", &["image", "build"])),
        ("an OpenAPI document", has("openapi") || has("swagger")),
        ("a list of MCP servers", has_map("mcpServers") || has_item_with("servers", &["command", "url"])),
        ("an object of Kubernetes", has("apiVersion") && has("kind") && has_map("spec")),
        ("a Helm chart", has("apiVersion") && has("appVersion")),
        ("a package of npm", has_map("scripts") && (has_map("devDependencies") || has("main"))),
        ("a browser extension", has("manifest_version")),
        ("a package of Dart", has_key_of("environment", &["sdk"])),
        ("an environment of Conda", has("channels") && has("dependencies")),
        ("a workflow of another system", has_other_steps()),
    ];
    rows.into_iter().find_map(|(what, fits)| fits.then_some(what))
}

fn item_has(item: &Node, keys: &[&str]) -> bool {
    match &item.value {
        Value::Map(entries) => has_key(entries, keys),
        Value::Scalar(_) | Value::List(_) => false,
    }
}

fn has_key(entries: &[Entry], keys: &[&str]) -> bool {
    entries.iter().any(|entry| keys.contains(&entry.key.as_str()))
}

/// Whether a file with `id` and `category` says what a skill of SWEny offers, or has one of its categories.
fn is_certainly_sweny(entries: &[Entry]) -> bool {
    let category = find(entries, "category").and_then(|node| node.text());
    has_key(entries, &["tools", "instruction", "mcp"])
        || category.is_some_and(|category| sweny::CATEGORIES.contains(&category))
}

/// Whether a file lists skills, as those who publish several of them do, and has no other key of a format.
fn is_index(entries: &[Entry]) -> bool {
    let is_list = |entry: &Entry| match &entry.node.value {
        Value::List(items) => entry.key == "skills" && items.iter().all(|item| item_has(item, &["name"])),
        _ => false,
    };
    let others: Vec<&Entry> = entries.iter().filter(|entry| !is_list(entry)).collect();
    others.len() + 1 == entries.len() && !others.iter().any(|entry| is_mark(&entry.key))
}

/// Whether some key belongs to a format that is read, perhaps misspelt or by another name.
fn has_mark(entries: &[Entry]) -> bool {
    entries.iter().any(|entry| is_mark(&entry.key))
}

fn is_mark(key: &str) -> bool {
    let is_of_contract = || {
        let meant = contract_fields::probable_key(key, &CONTRACT_KEYS);
        meant.is_some_and(|meant| !NEUTRAL_KEYS.contains(&meant))
    };
    !NEUTRAL_KEYS.contains(&key) && (same_word(key, FORMAT_KEYS).is_some() || is_of_contract())
}

fn is_map(node: Option<&Node>) -> bool {
    node.is_some_and(|node| matches!(node.value, Value::Map(_)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::yaml;

    fn format(text: &str, syntax: Syntax) -> Result<DefinitionFormat, &'static str> {
        format_for(text, (syntax, Purpose::Alone))
    }

    fn format_for(text: &str, kind: (Syntax, Purpose)) -> Result<DefinitionFormat, &'static str> {
        let Some(Node { value: Value::Map(entries), .. }) = yaml::parse(text).unwrap().root else {
            panic!("a map")
        };
        let mut report = DiagnosticSink::new(text);
        let found = detect_format(&entries, kind, &mut report);
        found.ok_or_else(|| report.finish()[0].code)
    }

    #[test]
    fn formats_are_recognized_by_their_keys() {
        for (text, expected) in [
            ("{name: x, action_risk: low}", DefinitionFormat::Curia),
            ("{name: x, sensitivity: normal, inputs: {}}", DefinitionFormat::Curia),
            ("{name: x, version: 1.0.0, inputs: {}}", DefinitionFormat::Curia),
            ("{id: x, category: git, name: X}", DefinitionFormat::Sweny),
            ("{name: x, systemPrompt: y}", DefinitionFormat::AgentsKit),
            ("{version: 1.0.0, skill: {name: x, systemPrompt: y}}", DefinitionFormat::AgentsKitPackage),
            ("{manifestVersion: 2026-04, name: x, skills: []}", DefinitionFormat::AgentsKitManifest),
            ("{skill: {name: x}}", DefinitionFormat::Contract),
        ] {
            assert_eq!(format(text, Syntax::Json), Ok(expected), "{text}");
        }
        assert_eq!(format("{name: x}", Syntax::Yaml), Ok(DefinitionFormat::Contract));
    }

    #[test]
    fn what_could_be_anything_is_nothing() {
        assert_eq!(format("{name: x}", Syntax::Json), Err("format-unknown"));
        assert_eq!(format("{name: x, author: y, stars: 3}", Syntax::Json), Err("format-unknown"));
        assert_eq!(format("{systemPrompt: x, action_risk: low}", Syntax::Json), Err("format-mixed"));
        assert_eq!(format("{id: x, category: git, sensitivity: normal}", Syntax::Yaml), Err("format-mixed"));
    }

    #[test]
    fn a_file_that_somebody_passes_needs_a_key_of_its_format() {
        let passed = |text: &str| format_for(text, (Syntax::Yaml, Purpose::Passed));
        for text in [
            "{name: x}",
            "{name: x, description: y, version: 1.0.0, dependencies: {a: 1}}",
            "{jobs: {}}",
            "{steps: [{label: x, command: make}]}",
            "{name: w, description: d, inputs: {a: {type: string}}, steps: [{id: a, run: x}]}",
            "{name: w, description: d, inputs: {a: {type: string}}, steps: [{id: a, agent: b, prompt: c}]}",
            "{name: x, steps: [wait, {name: a, run: make}]}",
        ] {
            assert_eq!(passed(text), Err("format-unknown"), "{text}");
        }
        for text in [
            "{name: x, inputs: {}}",
            "{name: x, steps: [{tool: ctx.read_file}]}",
            "{name: x, runtime: lua, steps: [{run: x}]}",
            "{skill: {name: x}}",
            "{name: x, entrypoint: scripts/a.lua}",
        ] {
            assert_eq!(passed(text), Ok(DefinitionFormat::Contract), "{text}");
        }
    }

    #[test]
    fn what_is_certainly_another_format_is_no_contract() {
        for text in [
            "{name: CI, on: push, permissions: {contents: read}, jobs: {a: {steps: []}}}",
            "{name: x, inputs: {}, outputs: {}, runs: {using: node20}}",
            "{name: x, services: {web: {image: nginx}}, config: {}}",
            "{openapi: 3.1.0, info: {}, paths: {}}",
            "{mcpServers: {a: {command: b}}}",
            "{apiVersion: v1, kind: Pod, metadata: {name: x}, spec: {}}",
        ] {
            for purpose in [Purpose::Alone, Purpose::Passed] {
                assert_eq!(format_for(text, (Syntax::Yaml, purpose)), Err("format-unknown"), "{text}");
            }
        }
    }

    #[test]
    fn beside_a_skill_file_only_what_has_no_key_of_a_format_is_left_out() {
        let beside = |text: &str, syntax| format_for(text, (syntax, Purpose::BesideSkillFile));
        for text in [
            "{}",
            "{name: x, version: 1.0.0}",
            "{name: x, author: y, stars: 3, tags: []}",
            "{mcpServers: {}}",
            "{id: pdf, name: x, description: y, category: documents, version: 1.0.0}",
            "{skills: [{name: x, path: .}, {name: z}]}",
            "{name: x, skills: []}",
        ] {
            assert_eq!(beside(text, Syntax::Json), Err("format-foreign"), "{text}");
        }
        for text in ["{id: x, name: x, category: git}", "{id: x, name: x, category: documents, tools: []}"] {
            assert_eq!(beside(text, Syntax::Json), Ok(DefinitionFormat::Sweny), "{text}");
        }
        for text in ["{skills: [{name: x}], permissions: []}", "{skills: [x]}", "{skills: {}}"] {
            assert_ne!(beside(text, Syntax::Json), Err("format-foreign"), "{text}");
        }
        for key in [
            "permissions",
            "permission",
            "Permissions",
            "inputs",
            "input_schema",
            "parameters",
            "limits",
            "timeout_ms",
            "env",
            "config",
            "secrets",
            "capabilities",
            "metadata",
            "dependencies",
            "allowed_tools",
            "skill",
            "entry-point",
            "timout",
        ] {
            let text = format!("{{name: x, version: 1.0.0, {key}: []}}");
            assert_ne!(beside(&text, Syntax::Json), Err("format-foreign"), "{key}");
        }
        assert_eq!(beside("{name: x}", Syntax::Yaml), Ok(DefinitionFormat::Contract));
        assert_eq!(beside("{name: CI, on: push, jobs: {}}", Syntax::Yaml), Err("format-foreign"));
        let with_permissions = "{name: CI, on: push, permissions: {contents: read}, jobs: {}}";
        assert_eq!(beside(with_permissions, Syntax::Yaml), Ok(DefinitionFormat::Contract));
    }
}
