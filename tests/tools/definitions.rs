//! Tools in `skill.yaml`: what is refused is an error with the file and the line.

use metier::skill::contract::parse;
use serde_json::json;

use crate::support::engine::{Project, kind, sentence};
use crate::tools::{FORECAST, call, forecast};

/// The line and the message of the first diagnostic that blocks.
fn refusal(contract: &str) -> (u32, String) {
    let parsed = parse(contract.as_bytes());
    let found = parsed.blocking_diagnostic().unwrap_or_else(|| panic!("it is accepted: {contract}"));
    (found.line, format!("{} ({})", found.message, found.help.as_deref().unwrap_or_default()))
}

#[test]
fn a_tool_is_read_with_all_of_its_keys() {
    let contract = "
permissions: [write]
tools:
  - name: delete
    description: Removes a file.
    inputs: {path: {type: string, required: true}}
    outputs: {type: boolean}
    entrypoint: {path: ./scripts/t.lua, function: delete}
    risk_level: critical
    timeout: 5s
    permissions: ['write:out']
    tags: [files, danger]
    category: files
";
    let contract = parse(contract.as_bytes()).contract.unwrap();
    let tool = serde_json::to_value(contract.tool("delete").unwrap()).unwrap();
    assert_eq!(tool["handler"]["script"]["path"], "scripts/t.lua");
    assert_eq!((&tool["risk_score"], &tool["requires_confirmation"]), (&json!(90), &json!(true)));
    assert_eq!((&tool["timeout_ms"], &tool["tags"]), (&json!(5000), &json!(["files", "danger"])));
    assert_eq!(tool["permissions"][0]["permission"], "write:out");
}

#[test]
fn what_cannot_be_called_is_refused_at_its_line() {
    for (tool, line, words) in [
        ("{entrypoint: a.lua}", 2, "a tool has no `name`"),
        ("{name: a b, entrypoint: a.lua}", 2, "`a b` cannot be the name of a tool"),
        ("{name: a.b, entrypoint: a.lua}", 2, "cannot be the name of a tool"),
        ("{name: a}", 2, "nothing runs when the tool `a` is called"),
        ("{name: a, entrypoint: ../x.lua}", 2, "is not a path in the skill's folder"),
        ("{name: a, entrypoint: /etc/passwd}", 2, "is not a path in the skill's folder"),
        ("{name: a, entrypoint: a.lua, risk_level: harmless}", 2, "is not a level"),
        (
            "{name: a, entrypoint: a.lua, risk_level: destructive, requires_confirmation: false}",
            2,
            "a person is always asked",
        ),
        ("{name: a, entrypoint: a.lua, timeout: soon}", 2, "timeout"),
        ("{name: a, entrypoint: a.lua, inputs: {b: {type: strin}}}", 2, ""),
        ("{name: a, entrypoint: a.lua, http: {path: /x}}", 2, "has an `entrypoint` and an `http` call"),
        ("{name: a, entrypoint: a.lua}\n  - {name: a, entrypoint: b.lua}", 3, "two tools are called `a`"),
        (
            "{name: main2, entrypoint: a.lua}\nentrypoints: {main2: b.lua}",
            2,
            "is the name of a tool and of an entrypoint",
        ),
        ("just text", 2, "a tool must be a map"),
    ] {
        let (at, told) = refusal(&format!("tools:\n  - {tool}\n"));
        assert!(at == line && told.contains(words), "{tool}: {at}: {told}");
    }
    assert_eq!(refusal("tools: {a: b}").1.split(" (").next(), Some("tools must be a list"));
}

#[test]
fn hostile_names_are_no_names() {
    let escape = "\\e[31mred";
    let long = "a".repeat(10_000);
    for name in [
        "''",
        "' '",
        "a/b",
        "'..'",
        "'a\\b'",
        "\"a\\nb\"",
        &format!("\"{escape}\""),
        "é",
        "'a b'",
        "'-a'",
        "'1a'",
        "constructor.name",
        &long,
        "'*'",
        "'a:b'",
        "'a@1'",
    ] {
        let (_, told) = refusal(&format!("tools:\n  - {{name: {name}, entrypoint: a.lua}}\n"));
        assert!(!told.contains('\u{1b}') && told.chars().count() < 500, "{told}");
    }
    // A name like any other: nothing here has prototypes.
    let contract = "tools: [{name: __proto__, entrypoint: scripts/t.lua}]";
    let project = Project::offering(contract, &[("t.lua", "return 'called'")]);
    assert_eq!(crate::support::engine::value(call(&project.engine(), "__proto__", json!({}), &[])), "called");
}

fn lines(count: usize, line: impl Fn(usize) -> String) -> String {
    (0..count).map(line).collect::<Vec<_>>().join("\n")
}

#[test]
fn ten_thousand_tools_are_refused_at_once() {
    let many = lines(10_000, |at| format!("- {{name: t{at}}}"));
    let started = std::time::Instant::now();
    let parsed = parse(format!("tools:\n{many}").as_bytes());
    assert!(parsed.blocking_diagnostic().is_some());
    let some = lines(257, |at| format!("  - {{name: t{at}, entrypoint: a.lua}}"));
    let (_, told) = refusal(&format!("tools:\n{some}"));
    assert!(told.contains("offers 257 tools, and may offer 256"), "{told}");
    let most = lines(256, |at| format!("  - {{name: t{at}, entrypoint: a.lua}}"));
    assert_eq!(parse(format!("tools:\n{most}").as_bytes()).contract.unwrap().tools.len(), 256);
    assert!(started.elapsed() < std::time::Duration::from_secs(20));
}

#[test]
fn a_handler_outside_of_the_folder_is_not_read_through_a_link_either() {
    let project = Project::new().file("outside.lua", "return 'outside'");
    let target = project.path("outside.lua");
    let project = project.offer("weather", &FORECAST.replace("forecast.lua", "link.lua"), &[("a.txt", "")]);
    let project = project.link(target, ".metier/skills/weather/scripts/link.lua");
    let outcome = call(&project.engine(), "forecast", json!({"city": "x"}), &[]);
    assert!(outcome.result.is_err());
    assert!(!sentence(&outcome).contains("'outside'"), "{outcome:?}");
}

#[test]
fn a_missing_handler_makes_one_tool_unavailable_and_no_other() {
    let contract = format!("{FORECAST}  - {{name: gone, entrypoint: scripts/gone.lua}}\n");
    let project = Project::offering(&contract, &[("forecast.lua", crate::tools::FORECAST_SCRIPT)]);
    let engine = project.engine();
    let registry = engine.registry();
    let skill = registry.find("weather").unwrap();
    assert!(engine.tool_availability(skill, "forecast").is_runnable());
    let gone = engine.tool_availability(skill, "gone").reason.unwrap();
    assert!(gone.location().is_some_and(|at| at.file == "skill.yaml" && at.line == Some(9)), "{gone:?}");
    let findings = engine.diagnosis().findings;
    assert!(findings.iter().any(|found| found.message.contains("the tool gone of")), "{findings:?}");
    assert_eq!(kind(&call(&engine, "gone", json!({}), &[])), metier::error::ErrorKind::InvalidSkill);
    drop(forecast());
}

#[test]
fn the_catalog_has_the_tools_that_something_runs_for() {
    let project = forecast();
    let engine = project.engine();
    let catalog = engine.catalog(&engine.registry()).json();
    assert_eq!(catalog[0]["tools"][0]["name"], "forecast");
    assert_eq!(catalog[0]["tools"][0]["input_schema"]["required"], json!(["city"]));
}

#[test]
fn a_key_that_means_another_one_is_refused_with_that_one() {
    for (key, meant) in [
        ("input_schema", "inputs"),
        ("inputSchema", "inputs"),
        ("input", "inputs"),
        ("parameters", "inputs"),
        ("params", "inputs"),
        ("args", "inputs"),
        ("arguments", "inputs"),
        ("inptus", "inputs"),
        ("Inputs", "inputs"),
        ("output_schema", "outputs"),
        ("outputSchema", "outputs"),
        ("returns", "outputs"),
        ("output", "outputs"),
        ("allowed-tools", "permissions"),
        ("permission", "permissions"),
    ] {
        let schema = "{a: {type: string}}";
        for contract in [
            format!("tools:\n  - {{name: t, entrypoint: t.lua, {key}: {schema}}}\n"),
            format!("{key}: {schema}\n"),
            format!("skill:\n  {key}: {schema}\n"),
        ] {
            let (_, told) = refusal(&contract);
            assert!(told.starts_with(&format!("`{key}` is not a key of ")), "{contract}: {told}");
            assert!(told.contains(&format!("did you mean `{meant}`?")), "{contract}: {told}");
        }
    }
    for (key, meant) in [
        ("riskLevel", "risk_level"),
        ("risk", "risk_level"),
        ("requiresConfirmation", "requires_confirmation"),
        ("confirm", "requires_confirmation"),
        ("time-out", "timeout"),
        ("entryPoint", "entrypoint"),
        ("handler", "entrypoint"),
        ("descripton", "description"),
    ] {
        let (_, told) = refusal(&format!("tools:\n  - {{name: t, entrypoint: a.lua, {key}: x.lua}}\n"));
        assert!(told.contains(&format!("did you mean `{meant}`?")), "{key}: {told}");
    }
}

#[test]
fn a_tool_whose_inputs_would_be_lost_is_neither_offered_nor_called() {
    let contract = "tools:\n  - {name: t, entrypoint: tools/t.lua, input_schema: {a: {type: string}}}\n";
    let project = Project::new()
        .file(".metier/skills/x/SKILL.md", "---\nname: x\ndescription: d\n---\n")
        .file(".metier/skills/x/skill.yaml", contract)
        .file(".metier/skills/x/tools/t.lua", "return input");
    let engine = project.engine();
    let registry = engine.registry();
    let skill = registry.find("x").unwrap();
    assert!(!engine.tool_availability(skill, "t").is_runnable());
    let outcome = engine.run(metier::engine::Invocation::new("x").tool("t").input(json!({"b": 1})));
    assert_eq!(kind(&outcome), metier::error::ErrorKind::InvalidSkill);
    assert!(sentence(&outcome).contains("`input_schema` is not a key of the tool `t`"), "{outcome:?}");
}

#[test]
fn what_others_write_beside_the_keys_is_kept_and_not_taken_for_one() {
    let contract = "name: x\nauthor: a\nstatus: stable\ntags: [a]\nsummary: s\ntitle: T\nfrobnicate: 1\nmetadata: {team: a, reviewed: yes}\n";
    let parsed = parse(contract.as_bytes());
    assert!(parsed.contract.is_some(), "{:?}", parsed.diagnostics);
}
