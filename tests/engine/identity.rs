//! Whose run it is: values of an embedder's own types, providers of one invocation, identities, and what was missing.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use metier::engine::Invocation;
use metier::error::{ErrorKind, Result};
use metier::executor::{RuntimeId, SkillExecutor, SkillInput, SkillOutput};
use metier::host::{ClosureTools, ConfigProvider, Fixtures, Providers, RunId, SecretProvider, SkillContext};
use metier::registry::{Root, Scope, Skill};
use serde_json::{Map, Value, json};

use crate::support::engine::{Project, deadline, granted, kind, sentence, value};

/// A value that an embedder attaches.
struct Tab(u32);

impl SecretProvider for Tab {
    fn secret(&self, ctx: &SkillContext, _: &str) -> Result<Option<String>> {
        Ok(ctx.extension::<Self>().map(|tab| format!("secret of tab {}", tab.0)))
    }
}

fn tab_tool() -> ClosureTools {
    ClosureTools::new().tool("tab", "The tab that asks", json!({}), |ctx, _| {
        Ok(json!(ctx.extension::<Tab>().map(|tab| tab.0)))
    })
}

#[test]
fn a_value_of_the_embedder_reaches_its_providers_and_no_other_run() {
    let asks = "tool:tab skill:y secret:K";
    let project = Project::lua_with_tools(asks, "return {ctx.tool('tab'), ctx.skill('y'), #ctx.secret('K')}")
        .skill("y", "allowed-tools: tool:tab\n")
        .file(".metier/skills/y/scripts/main.lua", "return ctx.tool('tab')");
    let engine = project.builder().tools(tab_tool()).secrets(Tab(0)).build().unwrap();
    let run = |invocation: Invocation| engine.run(granted(invocation, &["tool:tab", "skill:y", "secret:K"]));
    assert_eq!(value(run(Invocation::new("x").extension(Tab(1)).extension(Tab(7)))), json!([7, 7, 15]));
    assert_eq!(kind(&run(Invocation::new("x").extension("no tab"))), ErrorKind::Unavailable);
}

#[test]
fn providers_of_an_invocation_replace_those_of_the_engine_one_by_one() {
    struct Mode(&'static str);
    impl ConfigProvider for Mode {
        fn config(&self, _: &SkillContext) -> Result<Map<String, Value>> {
            Ok(Map::from_iter([("mode".to_owned(), json!(self.0))]))
        }
    }
    let script = "local ok, e = pcall(ctx.tool, 'tab', {n = 'x'})
        return {ctx.config('mode'), ctx.skill('y'), ok and e or e.kind}";
    let project = Project::lua_with_tools("tool:tab skill:y", script)
        .skill("y", "")
        .file(".metier/skills/y/scripts/main.lua", "return ctx.config('mode')");
    let engine = project.builder().tools(tab_tool()).config(Mode("engine")).build().unwrap();
    let run = |invocation: Invocation| value(engine.run(granted(invocation, &["tool:tab", "skill:y"])));
    assert_eq!(run(Invocation::new("x")), json!(["engine", "engine", null]));
    let own = Providers::default().config(Mode("own"));
    assert_eq!(run(Invocation::new("x").providers(own)), json!(["own", "own", null]));
    // Arguments are validated here as well.
    let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}});
    let tools = ClosureTools::new().tool("tab", "Never called", schema, |_, _| Ok(json!("called")));
    let own = Providers::default().tools(tools);
    assert_eq!(run(Invocation::new("x").providers(own)), json!(["engine", "engine", "invalid-input"]));
    assert_eq!(run(Invocation::new("x")), json!(["engine", "engine", null]), "the engine keeps its own");
}

#[test]
fn a_provider_tells_a_shadowed_skill_from_the_one_in_front() {
    struct Whose;
    impl ConfigProvider for Whose {
        fn config(&self, ctx: &SkillContext) -> Result<Map<String, Value>> {
            Ok(Map::from_iter([("whose".to_owned(), json!(ctx.qualified_name()))]))
        }
    }
    let script = "return ctx.config('whose')";
    let project = Project::lua(script)
        .file("user/x/SKILL.md", "---\nname: x\ndescription: d\n---\n")
        .file("user/x/scripts/main.lua", script);
    let roots = project.roots().with(Root::new(Scope::User, "home", project.path("user")));
    let engine = project.builder().roots(roots).config(Whose).build().unwrap();
    let names: Vec<String> = engine.registry().skills().iter().map(Skill::qualified_name).collect();
    assert_eq!(names.len(), 2, "{names:?}");
    for name in names {
        assert_eq!(value(engine.run(Invocation::new(&name))), json!(name));
    }
}

#[test]
fn every_run_has_an_identity_and_knows_its_caller() {
    /// A run, and the one that called it.
    type Seen = Mutex<Vec<(RunId, Option<RunId>)>>;
    let seen: Arc<Seen> = Arc::default();
    let to = seen.clone();
    let tools = ClosureTools::new().tool("note", "Notes the run", json!({}), move |ctx, _| {
        to.lock().unwrap().push((ctx.run_id(), ctx.caller().map(SkillContext::run_id)));
        Ok(Value::Null)
    });
    let script = "ctx.tool('note') ctx.tool('note') ctx.skill('y') return 1";
    let project = Project::lua_with_tools("tool:note skill:y", script)
        .skill("y", "allowed-tools: tool:note\n")
        .file(".metier/skills/y/scripts/main.lua", "ctx.tool('note') return 1");
    let engine = project.builder().tools(tools).build().unwrap();
    for _ in 0..2 {
        value(engine.run(granted(Invocation::new("x"), &["tool:note", "skill:y"])));
    }
    let seen = seen.lock().unwrap();
    let [first, again, callee, second, _, _] = seen[..] else { panic!("{seen:?}") };
    assert_eq!((first.1, again, callee.1), (None, first, Some(first.0)));
    assert!(first.0 != callee.0 && first.0 != second.0);
    let text = first.0.to_string();
    assert!(text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit()), "{text}");
    assert_eq!(text[..16], second.0.to_string()[..16]);
}

#[test]
fn an_error_names_the_permission_that_was_missing() {
    let missing = |asks: &str, grants: &[&str], script: &str| {
        let project = Project::lua_with_tools(asks, script)
            .skill("y", "allowed-tools: write\n")
            .file(".metier/skills/y/scripts/main.lua", "ctx.write('a', 'b')");
        let outcome = project.run(grants);
        let error = outcome.result.as_ref().unwrap_err();
        let json = json!(outcome);
        let text = error.missing().map(|permission| permission.to_string());
        assert_eq!(json["error"]["missing"], json!(text), "{error}");
        text
    };
    for (asks, grants, script, permission) in [
        ("write", &[][..], "ctx.write('a', 'b')", Some("write")),
        ("write", &["write"], "ctx.write('.git/config', 'b')", Some("write:.git/config")),
        ("write", &["write:b"], "ctx.mkdir('a')", Some("write")),
        ("", &[], "ctx.read_file('.env')", Some("read:.env")),
        ("net", &[], "ctx.http('http://a.test/')", Some("net:a.test")),
        ("", &["skill:y"], "ctx.skill('y')", Some("skill:y")),
        ("skill:y", &["skill:y"], "ctx.skill('y')", Some("write")),
        ("", &[], "ctx.sample(nil, 'x')", Some("sample")),
        ("", &[], "local ok, e = pcall(ctx.write, 'a', 'b') error(e)", Some("write")),
        // No permission opens what is outside.
        ("", &[], "ctx.read_file('../a')", None),
        ("", &[], "error('x')", None),
    ] {
        if script.contains("http") && cfg!(not(feature = "http")) {
            continue;
        }
        assert_eq!(missing(asks, grants, script).as_deref(), permission, "{script}");
    }
}

#[test]
fn an_executor_that_ignores_its_token_succeeds_too_late() {
    struct Sleeper;
    impl SkillExecutor for Sleeper {
        fn execute_with_context(&self, _: SkillInput, _: Option<&SkillContext>) -> Result<SkillOutput> {
            std::thread::sleep(Duration::from_millis(300));
            Ok(json!("slept").into())
        }
    }
    let project = Project::lua("return 1");
    let engine = project.builder().runtime(RuntimeId::LUA, &[], |_| Ok(Box::new(Sleeper))).build().unwrap();
    let outcome = engine.run(Invocation::new("x").limits(deadline(100)));
    assert_eq!(kind(&outcome), ErrorKind::Timeout, "{}", sentence(&outcome));
    assert_eq!(outcome.limits.hit, Some(ErrorKind::Timeout));
    assert_eq!(value(engine.run(Invocation::new("x").limits(deadline(10_000)))), json!("slept"));
}

#[test]
fn providers_that_nobody_sets_stay_absent() {
    let project = Project::lua_with_tools("sample", "return ctx.sample(nil, 'x')");
    let none = Invocation::new("x").providers(Providers::default());
    assert_eq!(kind(&project.engine().run(granted(none, &["sample"]))), ErrorKind::Unavailable);
    let fixtures = Fixtures::new(r#"{"model": "y"}"#).unwrap().providers();
    let own = Invocation::new("x").providers(fixtures);
    assert_eq!(value(project.engine().run(granted(own, &["sample"]))), json!("y"));
}
