//! What a contract costs a run: ten fields filled in and held, against the executor alone.

use criterion::Criterion;
use metier::engine::{Engine, Invocation};
use metier::executor::{RuntimeId, Script, SkillExecutor};
use metier::host::SkillContext;
use metier::registry::{Root, Roots, Scope};
use metier::skill::contract::parse;
use serde_json::{Value, json};
use tempfile::TempDir;

const CONTRACT: &str = "inputs:
  path: {type: string, required: true, pattern: '^[a-z/.]+$', max_length: 200}
  title: {type: string, required: true, min_length: 1}
  kind: {type: string, required: true, enum: [text, table, chart]}
  lines: {type: integer, required: true, minimum: 0, maximum: 100000}
  share: {type: number, required: true, minimum: 0, maximum: 1}
  deep: {type: boolean, required: true}
  tags: {type: array, required: true, max_items: 20, items: {type: string, max_length: 40}}
  page: {type: object, required: true, properties: {width: {type: integer, required: true}, height: {type: integer, required: true}}}
  dry_run: {type: boolean, default: false}
  namespace: {type: string, default: default}
outputs:
  total: {type: integer, required: true, minimum: 0}
  rows: {type: array, required: true, items: {type: object, properties: {name: {type: string, required: true}}}}
";

const SCRIPT: &str = "return {total = input.lines, rows = {{name = input.title}}}";

fn input() -> Value {
    json!({
        "path": "docs/report.md", "title": "Report", "kind": "table", "lines": 120, "share": 0.5, "deep": true,
        "tags": ["a", "b", "c"], "page": {"width": 210, "height": 297},
    })
}

pub fn check(criterion: &mut Criterion) {
    let contract = parse(CONTRACT.as_bytes()).contract.expect("a contract");
    let (inputs, outputs) = (contract.inputs.expect("inputs"), contract.outputs.expect("outputs"));
    let executor = executor();
    let context = SkillContext::builder("bench").build();
    let run = |input: Value| executor.execute_with_context(input.into(), Some(&context)).expect("runs").value;
    let mut group = criterion.benchmark_group("contract");
    let full = inputs.with_defaults(input());
    group.bench_function("bare", |b| b.iter(|| run(full.clone())));
    group.bench_function("held", |b| {
        b.iter(|| {
            let input = inputs.with_defaults(input_without_defaults(&full));
            inputs.validate(&input).expect("fits");
            let value = run(input);
            outputs.validate(&value).expect("fits");
            value
        });
    });
    group.finish();
    whole_runs(criterion);
}

fn input_without_defaults(full: &Value) -> Value {
    let mut input = full.clone();
    if let Some(fields) = input.as_object_mut() {
        fields.shift_remove("dry_run");
        fields.shift_remove("namespace");
    }
    input
}

fn executor() -> Box<dyn SkillExecutor> {
    let script = Script::new("bench", "scripts/main.lua", SCRIPT.as_bytes());
    metier::ScriptLoader::new().load(RuntimeId::LUA, &script).expect("loads")
}

fn whole_runs(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("contract_run");
    for (name, contract) in [("without", None), ("with", Some(CONTRACT))] {
        let project = TempDir::new().expect("a folder");
        let engine = engine(&project, contract);
        let call = || engine.run(Invocation::new("x").input(input())).result.expect("a value");
        group.bench_function(name, |b| b.iter(call));
    }
    group.finish();
}

fn engine(project: &TempDir, contract: Option<&str>) -> Engine {
    let skills = project.path().join("skills");
    let folder = skills.join("x");
    std::fs::create_dir_all(folder.join("scripts")).expect("a folder");
    std::fs::write(folder.join("SKILL.md"), "---\nname: x\ndescription: d\n---\n").expect("a file");
    std::fs::write(folder.join("scripts/main.lua"), SCRIPT).expect("a file");
    if let Some(contract) = contract {
        std::fs::write(folder.join("skill.yaml"), contract).expect("a file");
    }
    let root = Root::new(Scope::Project, ".bench", skills);
    Engine::builder(project.path()).roots(Roots::empty().with(root)).build().expect("an engine")
}
