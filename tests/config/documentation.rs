//! docs/configuration.md, and the schema of configuration files.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use metier::config::{KEYS, json_schema};

use crate::support::cli::Project;
use crate::support::snippets::snippets;

fn page() -> String {
    std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/configuration.md")).unwrap()
}

#[test]
fn the_table_of_keys_is_in_the_documentation() {
    let mut table =
        String::from("| key | value | default | a project may | what it does |\n|---|---|---|---|---|\n");
    for key in KEYS {
        let default = if key.default.is_empty() { String::new() } else { format!("`{}`", key.default) };
        let (value, project) = (key.value_type.description(), key.project.description());
        writeln!(table, "| `{}` | {value} | {default} | {project} | {} |", key.name, key.doc).unwrap();
    }
    assert!(page().contains(&table), "docs/configuration.md needs this table:\n{table}");
}

/// The options of every command are keys, or the page says why not.
#[test]
fn every_option_is_in_the_documentation() {
    let page = page();
    let project = Project::new();
    let help = |args: &[&str]| project.metier(args).stdout;
    let commands = help(&["--help"]);
    let names = commands.lines().skip_while(|line| !line.starts_with("Commands:")).skip(1);
    let names: Vec<&str> = names
        .take_while(|line| line.starts_with("  "))
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    assert!(names.contains(&"run") && names.contains(&"config"), "{names:?}");
    let mut options = BTreeSet::new();
    for name in names.into_iter().filter(|name| *name != "help") {
        let text = help(&[name, "--help"]);
        let words = text.lines().map(str::trim_start).filter(|line| line.starts_with('-'));
        options.extend(words.filter_map(|line| {
            Some(line.split([' ', ',', '=', '[']).find(|word| word.starts_with("--"))?.to_owned())
        }));
    }
    options.remove("--help");
    options.remove("--version");
    let missing: Vec<_> = options.iter().filter(|option| !page.contains(&format!("`{option}`"))).collect();
    assert!(options.len() > 30 && missing.is_empty(), "docs/configuration.md does not name {missing:?}");
}

fn samples() -> Vec<String> {
    let blocks = snippets(&page()).into_iter();
    blocks.filter(|block| block.language == "toml").map(|block| block.text).collect()
}

#[test]
fn the_samples_of_the_documentation_are_read_without_a_complaint() {
    let samples = samples();
    let [user, project] = samples.as_slice() else { panic!("one file of a user, one of a project") };
    let project = Project::with_marker_skill().user_config(user).project_config(project);
    let answer = project.metier(&["config", "--json"]);
    assert!(answer.code == 0 && answer.stderr.is_empty(), "{answer:?}");
}

#[cfg(feature = "json-schema")]
#[test]
fn the_schema_accepts_the_samples_and_no_unknown_key() {
    let printed = Project::new().metier(&["config", "--schema"]).json();
    assert_eq!(printed, json_schema());
    let validator = jsonschema::validator_for(&printed).unwrap();
    for sample in samples() {
        let value = to_json(&sample);
        let errors: Vec<String> = validator.iter_errors(&value).map(|error| error.to_string()).collect();
        assert!(errors.is_empty(), "{errors:?}");
    }
    for wrong in [
        "limit = 1",
        "limits.timeoot = '1s'",
        "sandbox.mode = 'none'",
        "skills.x.grant = []",
        "skills.x.secrets.T = {env = 'A', file = '/b'}",
        "product = 'a/b'",
        "compat = 1",
    ] {
        assert!(!validator.is_valid(&to_json(wrong)), "{wrong}");
    }
    for key in KEYS {
        let path = format!("/properties/{}", key.name.replace('.', "/properties/"));
        let path = path
            .replace("properties/NAME", "additionalProperties")
            .replace("properties/ENTRY", "additionalProperties");
        let found = printed.pointer(&path).unwrap_or_else(|| panic!("{path}"));
        assert!(found["description"].as_str().unwrap().starts_with(key.doc), "{path}");
    }
}

#[cfg(feature = "json-schema")]
fn to_json(text: &str) -> serde_json::Value {
    let document: toml_edit::DocumentMut = text.parse().unwrap();
    table_to_json(document.as_table())
}

#[cfg(feature = "json-schema")]
fn table_to_json(table: &dyn toml_edit::TableLike) -> serde_json::Value {
    table
        .iter()
        .map(|(word, item)| (word.to_owned(), item_to_json(item)))
        .collect::<serde_json::Map<_, _>>()
        .into()
}

#[cfg(feature = "json-schema")]
fn item_to_json(item: &toml_edit::Item) -> serde_json::Value {
    if let Some(table) = item.as_table_like() {
        return table_to_json(table);
    }
    value_to_json(item.as_value().unwrap())
}

#[cfg(feature = "json-schema")]
fn value_to_json(value: &toml_edit::Value) -> serde_json::Value {
    if let Some(text) = value.as_str() {
        return text.into();
    }
    if let Some(values) = value.as_array() {
        return values.iter().map(value_to_json).collect::<Vec<_>>().into();
    }
    if let Some(table) = value.as_inline_table() {
        return table_to_json(table);
    }
    serde_json::from_str(value.to_string().trim()).unwrap()
}
