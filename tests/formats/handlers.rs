//! Handlers of Curia, called in the sandbox: what they are given, what they answer, and what stops them.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use metier::engine::{EngineBuilder, Invocation, Outcome};
use metier::error::{ErrorKind, Result};
use metier::host::{Providers, SecretProvider, SkillContext, Tool, ToolProvider};
use metier::policy::SandboxMode;
use serde_json::{Value, json};

use crate::support::engine::{Project, granted, kind, sentence, value};
use crate::support::not_run::{find_program, not_run};

const SAMPLE: &str = include_str!("samples/web-search.json");
const HANDLER: &str = include_str!("samples/web-search.ts");

/// A skill `x` with these keys besides those that each has, and this handler.
fn project(more: &Value, file: &str, handler: &str) -> Project {
    let mut manifest = json!({"name": "x", "description": "d", "version": "1.0.0", "action_risk": "none"});
    manifest.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    Project::new()
        .file(".metier/skills/x/skill.json", manifest.to_string())
        .file(&format!(".metier/skills/x/{file}"), handler)
}

/// A class with this body of `execute`.
fn class(body: &str) -> String {
    format!("export class Handler {{ async execute(ctx) {{ {body} }} }}")
}

fn run(project: &Project, input: Value) -> Outcome {
    run_with(project, input, &[], Providers::default())
}

fn run_with(project: &Project, input: Value, grants: &[&str], providers: Providers) -> Outcome {
    let engine = builder(project).build().unwrap();
    engine.run(granted(Invocation::new("x").input(input).providers(providers), grants))
}

fn builder(project: &Project) -> EngineBuilder {
    project.builder().sandbox_mode(SandboxMode::Required)
}

/// A Node that strips the types of TypeScript: that of tests/typescript, where it is installed, or the one on `PATH`.
fn typescript_node() -> Option<PathBuf> {
    let installed = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/typescript/node_modules/.bin/node");
    let strips = |node: &PathBuf| {
        let script = "process.exit(require('module').stripTypeScriptTypes ? 0 : 1)";
        Command::new(node).args(["-e", script]).status().is_ok_and(|status| status.success())
    };
    let found = std::fs::canonicalize(installed).ok().or_else(|| find_program("node")).filter(strips);
    if found.is_none() {
        not_run("handlers in TypeScript", "no Node here strips types; tests/typescript has one to install");
    }
    found
}

struct Secrets;

impl SecretProvider for Secrets {
    fn secret(&self, _: &SkillContext, name: &str) -> Result<Option<String>> {
        Ok((name == "brave_api_key").then(|| "k3y-of-the-test".to_owned()))
    }
}

struct Services;

impl ToolProvider for Services {
    fn tools(&self) -> Vec<Tool> {
        ["bus", "skillSearch"].map(|name| Tool::new(name, "d", json!({}))).to_vec()
    }

    fn call(&self, _: &SkillContext, name: &str, args: &Value) -> Result<Value> {
        Ok(json!({"tool": name, "args": args}))
    }
}

fn with_secrets() -> Providers {
    let mut providers = Providers::default();
    providers.secrets = Some(Arc::new(Secrets));
    providers
}

#[test]
fn cu_t01_the_data_of_a_handler_is_the_value() {
    let inputs = json!({"inputs": {"n": "number", "more": "string?"}});
    for (file, handler) in [
        ("handler.js", class("return {success: true, data: {twice: ctx.input.n * 2, all: ctx.input}}")),
        ("handler.js", "exports.H = class { execute(ctx) { return {success: true, data: {twice: ctx.input.n * 2, all: ctx.input}} } }".to_owned()),
        ("handler.js", "export default {execute: async (ctx) => ({success: true, data: {twice: ctx.input.n * 2, all: ctx.input}})}".to_owned()),
        ("handler.js", "export default class { execute(ctx) { return {success: true, data: {twice: ctx.input.n * 2, all: ctx.input}} } }".to_owned()),
    ] {
        let outcome = run(&project(&inputs, file, &handler), json!({"n": 4}));
        assert_eq!(value(outcome), json!({"twice": 8, "all": {"n": 4}}), "{handler}");
    }
    let silent = run(&project(&json!({}), "handler.js", &class("return {success: true}")), json!({}));
    assert_eq!(value(silent), Value::Null);
}

#[test]
fn what_a_handler_prints_is_no_part_of_its_value() {
    let noisy = "console.log('to the log'); process.stdout.write('x'); ctx.log.warn({a: 1}, 'careful'); ctx.log.info('text');";
    let outcome = run(
        &project(&json!({}), "handler.js", &class(&format!("{noisy} return {{success: true, data: [1]}}"))),
        json!({}),
    );
    let log = format!("{:?}", outcome.log);
    assert!(log.contains("careful {\\\"a\\\":1}") && log.contains("text"), "{log}");
    assert_eq!(value(outcome), json!([1]));
}

#[test]
fn cu_t03_a_failure_is_a_failure_however_it_comes() {
    for (body, words) in [
        ("return {success: false, error: 'x failed: no luck'}", "x failed: no luck"),
        ("throw new Error('Connection refused')", "Connection refused"),
        ("throw 'thrown text'", "thrown text"),
        ("return undefined", "answered neither"),
        ("return {ok: true}", "answered neither"),
        ("return {success: true, data: 1n}", "a bigint has no JSON form"),
        ("return {success: true, data: [NaN]}", "NaN has no JSON form"),
        ("return {success: false}", "the handler failed"),
    ] {
        let outcome = run(&project(&json!({}), "handler.js", &class(body)), json!({}));
        assert_eq!(kind(&outcome), ErrorKind::Script, "{body}");
        assert!(sentence(&outcome).contains(words), "{body}: {}", sentence(&outcome));
    }
    for (module, words) in [
        ("export const x = 1", "exports no object and no class"),
        ("export class {", "handler.js"),
        ("import 'not-a-package'; export default {execute() {}}", "not-a-package"),
    ] {
        let outcome = run(&project(&json!({}), "handler.js", module), json!({}));
        assert_eq!(kind(&outcome), ErrorKind::Script, "{module}");
        assert!(sentence(&outcome).contains(words), "{module}: {}", sentence(&outcome));
    }
}

#[test]
fn cu_t04_cu_t31_a_handler_that_takes_too_long_is_stopped_for_good() {
    let body = "setTimeout(() => require('fs').writeFileSync('late', 'x'), 900); await new Promise((done) => setTimeout(done, 10000)); return {success: true}";
    let body = body.replace("require('fs')", "process.getBuiltinModule?.('fs')");
    let project =
        project(&json!({"timeout": 600, "permissions": ["filesystem:write"]}), "handler.js", &class(&body));
    let started = Instant::now();
    let outcome = run_with(&project, json!({}), &["write"], Providers::default());
    assert_eq!(kind(&outcome), ErrorKind::Timeout, "{}", sentence(&outcome));
    assert!(started.elapsed() < Duration::from_secs(8));
    std::thread::sleep(Duration::from_millis(600));
    assert_eq!(project.read("late"), "");
}

#[test]
fn cu_t30_input_that_does_not_fit_never_reaches_the_handler() {
    let project = project(
        &json!({"inputs": {"q": "string", "n": "integer?"}, "permissions": ["filesystem:write"]}),
        "handler.js",
        "import fs from 'node:fs'; export default {execute() { fs.writeFileSync('called', 'x'); return {success: true} }}",
    );
    for input in
        [json!({}), json!({"q": 1}), json!({"q": "a", "n": 1.5}), json!({"q": "a", "m": 1}), json!([1])]
    {
        assert_eq!(
            kind(&run_with(&project, input.clone(), &["write"], Providers::default())),
            ErrorKind::InvalidInput,
            "{input}"
        );
    }
    assert_eq!(project.read("called"), "");
    value(run_with(&project, json!({"q": "a", "n": null}), &["write"], Providers::default()));
    assert_eq!(project.read("called"), "x");
}

#[test]
fn cu_t05_declared_secrets_are_read_and_no_others() {
    let secrets = json!({"secrets": ["brave_api_key", "unset_key"]});
    let run_body = |body: &str| {
        let project = project(&secrets, "handler.js", &class(body));
        run_with(&project, json!({}), &["secret:brave_api_key", "secret:unset_key"], with_secrets())
    };
    let length = run_body("return {success: true, data: ctx.secret('BRAVE_API_KEY').length}");
    assert_eq!(value(length), 15, "upper and lower case are one");
    let echoed = run_body("return {success: true, data: `it is ${ctx.secret('brave_api_key')}`}");
    assert_eq!(value(echoed), "it is [secret:brave_api_key]", "CU-T33");
    let leaked = run_body("throw new Error(ctx.secret('brave_api_key'))");
    assert!(!sentence(&leaked).contains("k3y-of"), "{}", sentence(&leaked));
    assert!(sentence(&run_body("ctx.secret('other')")).contains("not declared in the manifest"));
    assert!(sentence(&run_body("ctx.secret('unset_key')")).contains("not set in the environment"));
    let ungranted = run_with(
        &project(&secrets, "handler.js", &class("ctx.secret('brave_api_key')")),
        json!({}),
        &[],
        with_secrets(),
    );
    assert!(sentence(&ungranted).contains("secret:brave_api_key"), "{}", sentence(&ungranted));
}

#[test]
fn cu_t09_capabilities_are_given_where_they_are_declared_and_offered() {
    let services = || {
        let mut providers = Providers::default();
        providers.tools = Some(Arc::new(Services));
        providers
    };
    let call = class(
        "return {success: true, data: [await ctx.bus.publish('topic', {a: 1}), await ctx.skillSearch('mail')]}",
    );
    let declared = json!({"capabilities": ["bus", "skillSearch"]});
    let outcome = run_with(
        &project(&declared, "handler.js", &call),
        json!({}),
        &["tool:bus", "tool:skillSearch"],
        services(),
    );
    assert_eq!(
        value(outcome),
        json!([
            {"tool": "bus", "args": {"method": "publish", "arguments": ["topic", {"a": 1}]}},
            {"tool": "skillSearch", "args": {"arguments": ["mail"]}},
        ])
    );
    let undeclared = run_with(
        &project(&json!({}), "handler.js", &class("return {success: true, data: typeof ctx.bus}")),
        json!({}),
        &["tool:bus"],
        services(),
    );
    assert_eq!(value(undeclared), "undefined");
    let missing = project(&json!({"capabilities": ["bus", "entityMemory"]}), "handler.js", &call);
    let outcome = run_with(&missing, json!({}), &["tool:bus"], services());
    assert_eq!(kind(&outcome), ErrorKind::Unavailable);
    assert!(
        sentence(&outcome).contains("does not offer the capability entityMemory"),
        "{}",
        sentence(&outcome)
    );
}

#[test]
fn cu_22_points_in_time_reach_the_handler_in_utc() {
    let project = project(
        &json!({"inputs": {"at": "timestamp?"}}),
        "handler.js",
        &class("return {success: true, data: ctx.input.at ?? null}"),
    );
    for (written, utc) in [
        (json!("2026-03-01T09:00:00+01:00"), json!("2026-03-01T08:00:00.000Z")),
        (json!("2026-03-01T09:00Z"), json!("2026-03-01T09:00:00.000Z")),
        (json!(" "), json!(" ")),
        (Value::Null, Value::Null),
    ] {
        assert_eq!(value(run(&project, json!({"at": written}))), utc, "{written}");
    }
    for wrong in ["next week", "1", "2026-13-01T00:00Z", "2026-03-01T09:00:00+1"] {
        let outcome = run(&project, json!({"at": wrong}));
        assert!(sentence(&outcome).contains("with an offset"), "{wrong}: {}", sentence(&outcome));
        assert_eq!((kind(&outcome), outcome.process.is_none()), (ErrorKind::InvalidInput, true), "{wrong}");
    }
}

#[test]
fn cu_w03_a_handler_is_restricted_by_the_sandbox() {
    let outcome = run(
        &project(
            &json!({}),
            "handler.js",
            "import fs from 'node:fs'; export default {execute() { fs.writeFileSync('out', 'x'); return {success: true} }}",
        ),
        json!({}),
    );
    assert_eq!(kind(&outcome), ErrorKind::Script);
    let env = class(
        "return {success: true, data: Object.keys(process.env).filter((name) => name.startsWith('CARGO'))}",
    );
    assert_eq!(value(run(&project(&json!({}), "handler.js", &env), json!({}))), json!([]));
}

#[test]
fn typescript_that_node_cannot_run_says_what_is_missing() {
    let handler = "export class H { async execute(ctx: unknown): Promise<unknown> { return {success: true, data: 'ts'} } }";
    let project = project(&json!({}), "handler.ts", handler);
    let outcome = run(&project, json!({}));
    match &outcome.result {
        Ok(answer) => assert_eq!(answer, "ts"),
        Err(error) => assert!(error.message().contains("which Node runs from version 22.18 on"), "{error}"),
    }
}

#[test]
fn cu_14_typescript_is_preferred_and_runs_without_its_types() {
    let Some(node) = typescript_node() else { return };
    let handler = "import type {A} from '../../src/skills/types.js';\nimport {shout} from './lib.js';\nenum Kind { One = 1 }\n\
                   export class H implements A { async execute(ctx: A): Promise<A> { return {success: true, data: [shout('a' as string), Kind.One]} } }";
    let project = project(&json!({}), "handler.ts", handler)
        .file(".metier/skills/x/handler.js", class("return {success: true, data: 'javascript'}"))
        .file(".metier/skills/x/lib.ts", "export const shout = (text: string): string => `${text}!`;");
    let engine = builder(&project).interpreter("node", node).build().unwrap();
    assert_eq!(value(engine.run(Invocation::new("x"))), json!(["a!", 1]));
}

#[test]
fn the_sample_of_curia_runs_as_it_is_printed() {
    let Some(node) = typescript_node() else { return };
    let project = Project::new()
        .file(".metier/skills/web-search/skill.json", SAMPLE)
        .file(".metier/skills/web-search/handler.ts", HANDLER);
    let run = |project: &Project| {
        let engine = builder(project).interpreter("node", &node).build().unwrap();
        let invocation =
            Invocation::new("web-search").input(json!({"query": "sandboxes"})).providers(with_secrets());
        engine.run(granted(invocation, &["secret:brave_api_key"]))
    };
    // Without a network its own error comes through.
    let outcome = run(&project);
    assert!(sentence(&outcome).contains("web-search failed: fetch failed"), "{}", sentence(&outcome));
    // With what it fetches supplied.
    let answer = "{web: {results: [{title: 'A', url: 'https://a.example'}]}, query: {total_count: 7}}";
    let stub = format!(
        "globalThis.fetch = async (url: string, init: any) => ({{ok: init.headers['X-Subscription-Token'].length > 0, json: async () => ({answer})}});\n\
         export * from './sample.ts';"
    );
    let project = project
        .file(".metier/skills/web-search/handler.ts", stub)
        .file(".metier/skills/web-search/sample.ts", HANDLER);
    assert_eq!(
        value(run(&project)),
        json!({"results": [{"title": "A", "url": "https://a.example"}], "total": 7})
    );
}
