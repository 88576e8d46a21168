//! `api`: one table, printed as a list, as JSON, as a page and as definitions for editors.

use metier::executor::{RuntimeId, Script, SkillInput};
use metier::host::{SkillContext, functions};
use serde_json::json;

use crate::cli::listing::keys;
use crate::support::cli::Project;

fn api(args: &[&str]) -> String {
    let answer = Project::new().metier(&[&["api"], args].concat());
    assert_eq!((answer.code, answer.stderr.as_str()), (0, ""));
    answer.stdout
}

#[test]
fn the_api_is_the_table_of_host_functions() {
    let rows = Project::new().metier(&["api", "--json"]).json();
    let rows = rows.as_array().unwrap();
    assert_eq!(rows.len(), functions().len());
    for (row, function) in rows.iter().zip(functions()) {
        let names = ["aliases", "arguments", "doc", "name", "params", "permission", "returns", "signature"];
        assert_eq!(keys(row), names);
        assert_eq!(row["name"], json!(function.name));
        assert!(row["returns"].is_object());
        assert!(row["params"].as_array().unwrap().iter().all(|param| param["schema"].is_object()));
        assert_eq!(row["arguments"]["prefixItems"].as_array().unwrap().len(), function.params.len());
    }
    let list = api(&[]);
    assert!(functions().iter().all(|function| list.contains(&format!("ctx.{}", function.name))));
}

#[test]
fn the_reference_page_is_the_one_that_the_command_prints() {
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/host-api.md")).unwrap();
    assert!(page == api(&["--markdown"]), "write it again: cargo run -- api --markdown > docs/host-api.md");
}

#[test]
fn the_definitions_for_luau_are_valid_types_and_names_that_exist() {
    let definitions = api(&["--definitions", "lua"]);
    let declared: Vec<&str> = definitions.lines().filter_map(|line| line.strip_prefix("declare ")).collect();
    let globals: Vec<String> =
        declared.iter().map(|line| line.split(':').next().unwrap().to_owned()).collect();
    let members: Vec<String> = definitions
        .lines()
        .filter_map(|line| line.strip_prefix("    ").filter(|line| !line.starts_with("---")))
        .map(|line| line.split(':').next().unwrap().to_owned())
        .collect();
    assert!(globals.contains(&"ctx".into()) && members.len() > functions().len());

    // What a definition file declares, a script can state as the types of its locals.
    let checks: String = globals
        .iter()
        .map(|name| format!("assert({name} ~= nil, '{name}')\n"))
        .chain(members.iter().map(|name| format!("assert(type(ctx.{name}) == 'function', '{name}')\n")))
        .collect();
    let types = definitions.replace("declare ", "local ");
    let script =
        Script::new("definitions", "definitions.luau", format!("{checks}{types}\nreturn true").into_bytes());
    let executor = metier::ScriptLoader::new().load(RuntimeId::LUA, &script).unwrap();
    let context = SkillContext::builder("definitions").build();
    let answer = executor.execute_with_context(SkillInput::default(), Some(&context)).unwrap();
    assert_eq!(answer.value, json!(true));
}

#[test]
fn the_definitions_for_rhai_have_an_overload_for_every_number_of_arguments() {
    let definitions = api(&["--definitions", "rhai"]);
    assert!(definitions.contains("\nmodule static;\n"));
    for function in functions() {
        let least = function.params.iter().rposition(|param| param.required).map_or(0, |last| last + 1);
        for name in [function.name].iter().chain(function.aliases) {
            let start = format!("fn {name}(_: ctx");
            let overloads = definitions
                .lines()
                .filter(|line| line.strip_prefix(&start).is_some_and(|rest| rest.starts_with([',', ')'])));
            assert_eq!(overloads.count(), function.params.len() - least + 1, "{name}");
        }
    }
}
