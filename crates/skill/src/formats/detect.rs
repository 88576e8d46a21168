//! Tells the formats of definitions apart by their keys.

use crate::contract::DefinitionFormat;
use crate::contract::fields::find;
use crate::diagnostic_sink::DiagnosticSink;
use crate::lint;
use crate::yaml::{Entry, Node, Value};

/// Keys of Curia manifests that no other format has.
const CURIA_KEYS: [&str; 3] = ["action_risk", "sensitivity", "entity_enrichment"];
/// Keys that are in a manifest or a contract in JSON, and in few other files.
const CONTRACT_KEYS: [&str; 6] = ["inputs", "outputs", "entrypoint", "entrypoints", "steps", "composed_of"];

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

/// The format of a definition with these keys; `None`, with a diagnostic, if it is in none or could be in two.
pub(super) fn detect_format(
    entries: &[Entry],
    syntax: Syntax,
    report: &mut DiagnosticSink<'_>,
) -> Option<DefinitionFormat> {
    let fits: Vec<DefinitionFormat> = fitting_formats(entries);
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
    if syntax == Syntax::Yaml || is_map(find(entries, "skill")) {
        return Some(DefinitionFormat::Contract);
    }
    let has = |key: &str| find(entries, key).is_some();
    // It lacks what its format requires, which its reader says.
    if has("name") && (has("version") || has("description")) && CONTRACT_KEYS.iter().any(|key| has(key)) {
        return Some(DefinitionFormat::Curia);
    }
    report
        .add(&lint::FORMAT_UNKNOWN, &(0..0), "the file is in no format of skill definitions that metier reads")
        .help(
            "a Curia manifest has `action_risk`, a SWEny skill `id` and `category`, an AgentsKit skill `systemPrompt`, a contract \
             `skill`; rename the file if it is none of them",
        );
    None
}

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

fn is_map(node: Option<&Node>) -> bool {
    node.is_some_and(|node| matches!(node.value, Value::Map(_)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::yaml;

    fn format(text: &str, syntax: Syntax) -> Result<DefinitionFormat, &'static str> {
        let Some(Node { value: Value::Map(entries), .. }) = yaml::parse(text).unwrap().root else {
            panic!("a map")
        };
        let mut report = DiagnosticSink::new(text);
        let found = detect_format(&entries, syntax, &mut report);
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
}
