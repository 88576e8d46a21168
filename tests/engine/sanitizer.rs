//! What a model reads of a run: known secrets, encoded ones, orders to a terminal and invisible characters do not reach it.

use std::sync::{Arc, Mutex};

use metier::engine::{Invocation, Outcome};
use metier::error::{ErrorKind, Result};
use metier::host::{Event, EventKind, Observer, SecretProvider, SkillContext};
use metier::policy::Limits;
use serde_json::{Value, json};

use crate::support::engine::{Project, granted, kind, value};

/// A token of a form that is known, which is none.
fn token() -> String {
    format!("ghp_{}", "aB3dE6gH9jK2mN5pQ8sT1vW4yZ7cF0aB3dE6")
}

fn for_model(project: &Project) -> Outcome {
    project.engine().run(Invocation::new("x").for_model())
}

fn for_person(project: &Project) -> Outcome {
    project.engine().run(Invocation::new("x"))
}

#[test]
fn a_model_gets_a_value_without_what_it_must_not_get_and_a_person_gets_it_as_it_is() {
    let script = format!(
        r#"print("log {0}") return {{text = "key {0}", ["{0}"] = 1, red = "\27[31mred\27[0m", hidden = "a\u{{202e}}b", plain = "naïve"}}"#,
        token()
    );
    let project = Project::lua(&script);
    let outcome = for_model(&project);
    assert_eq!(outcome.sanitized, 6, "{outcome:?}");
    assert_eq!(outcome.log[0].message, "log [secret:github-token]");
    assert_eq!(json!(outcome)["sanitized"], 6);
    assert_eq!(
        value(outcome),
        json!({
            "text": "key [secret:github-token]", "[secret:github-token]": 1, "red": "red", "hidden": r"a\u{202e}b",
            "plain": "naïve",
        })
    );
    let outcome = for_person(&project);
    assert_eq!((outcome.sanitized, outcome.log[0].message.clone()), (0, format!("log {}", token())));
    assert_eq!(value(outcome)["text"], format!("key {}", token()));
}

struct Key;

impl SecretProvider for Key {
    fn secret(&self, _: &SkillContext, _: &str) -> Result<Option<String>> {
        Ok(Some("a/b c=d-and-more".to_owned()))
    }
}

#[test]
fn a_secret_of_the_run_leaves_in_no_encoded_form() {
    let script = r#"
        local key = ctx.secret("KEY")
        local base64 = ctx.read_file("n.txt")
        return {plain = key, base64 = base64, nested = {header = "Basic " .. base64, url = "?k=a%2Fb%20c%3Dd-and-more"}}
    "#;
    let project = Project::lua_with_tools("secret:KEY", script).file("n.txt", "YS9iIGM9ZC1hbmQtbW9yZQ==");
    let engine = project.builder().secrets(Key).build().unwrap();
    let outcome = engine.run(granted(Invocation::new("x").for_model(), &["secret:KEY"]));
    let shown = value(outcome).to_string();
    assert_eq!(shown.matches("[secret:KEY]").count(), 4, "{shown}");
    assert!(!shown.contains("YS9iIGM9") && !shown.contains("and-more"), "{shown}");
}

#[test]
fn an_error_for_a_model_is_without_them_too() {
    let project =
        Project::lua(&format!(r#"print("before {0}") error("failed with {0} \27[1mbold")"#, token()));
    let outcome = for_model(&project);
    let text = format!("{:?}", outcome.result);
    assert!(text.contains("failed with [secret:github-token] bold") && !text.contains(&token()), "{text}");
    assert!(outcome.sanitized >= 3, "{}", outcome.sanitized);
    let missing = project.engine().run(Invocation::new(format!("no-{}-\u{202e}", "x")).for_model());
    assert!(!missing.result.unwrap_err().message().contains('\u{202e}'));
}

#[test]
fn what_a_skill_calls_gives_its_caller_the_value_as_it_is() {
    let project = Project::lua_with_tools(
        "skill:y",
        "local v = ctx.skill('y', {}) return {length = #v.text, text = v.text}",
    )
    .skill("y", "")
    .file(".metier/skills/y/scripts/main.lua", format!("return {{text = '{}'}}", token()));
    let outcome = project.engine().run(granted(Invocation::new("x").for_model(), &["skill:y"]));
    assert_eq!(value(outcome), json!({"length": token().len(), "text": "[secret:github-token]"}));
}

#[test]
fn a_value_is_measured_as_the_model_gets_it() {
    let script = r#"return ("a\u{202e}"):rep(100)"#;
    let project = Project::lua(script);
    let limited =
        |invocation: Invocation| project.engine().run(invocation.limits(Limits::default().output(600)));
    assert!(limited(Invocation::new("x")).result.is_ok());
    assert_eq!(kind(&limited(Invocation::new("x").for_model())), ErrorKind::Output);
}

#[test]
fn a_cached_value_is_sanitized_for_a_model_only() {
    let metadata = "metadata: {idempotent: true, cacheable: true, cache_ttl: 5m}\n";
    let project =
        Project::lua(&format!("return {{'{}'}}", token())).file(".metier/skills/x/skill.yaml", metadata);
    let engine = project.builder().cache_results(true).build().unwrap();
    let plain = json!([token()]);
    let clean = json!(["[secret:github-token]"]);
    for (is_for_model, expected) in [(true, &clean), (true, &clean), (false, &plain), (true, &clean)] {
        let invocation = Invocation::new("x");
        let outcome = engine.run(if is_for_model { invocation.for_model() } else { invocation });
        assert_eq!(outcome.sanitized, u64::from(is_for_model));
        assert_eq!(&value(outcome), expected);
    }
    assert!(engine.run(Invocation::new("x")).cached.is_some());
}

#[test]
fn the_profile_of_curia_is_requested_by_a_contract_or_a_configuration() {
    let script = "if input.fails then error('no') end return {('x'):rep(10001), '<system>a</system><b>'}";
    let contract = Project::lua(script).file(".metier/skills/x/skill.yaml", "sanitize: curia\n");
    let plain = Project::lua(script);
    let configuration = metier::config::Configuration::new().with("sanitize", "curia").unwrap();
    let by_contract = contract.engine();
    let by_configuration = plain.builder().configuration(configuration).build().unwrap();
    let expected = json!([format!("{}[truncated]", "x".repeat(10_000)), "[truncated]"]);
    for engine in [by_contract, by_configuration] {
        let run = |input: Value| engine.run(Invocation::new("x").input(input).for_model());
        assert_eq!(value(run(json!({}))), expected);
        let failed = run(json!({"fails": true})).result.unwrap_err();
        assert!(failed.message().starts_with("<tool_error>") && failed.message().contains("no"), "{failed}");
        assert!(failed.location().is_some(), "{failed:?}");
        let person = value(engine.run(Invocation::new("x")));
        assert_eq!(person, json!(["x".repeat(10_001), "<system>a</system><b>"]));
    }
}

#[derive(Default)]
struct Texts(Mutex<Vec<String>>);

impl Observer for Texts {
    fn on_event(&self, event: &Event) {
        if let EventKind::Log(_) | EventKind::Progress(_) | EventKind::Finished { .. } = &event.kind {
            self.0.lock().unwrap().push(json!(event).to_string());
        }
    }
}

#[test]
fn events_of_a_run_for_a_model_are_without_them() {
    let project = Project::lua(&format!("print('{0}') ctx.progress('{0}') return '{0}'", token()));
    for (is_for_model, count) in [(true, 0), (false, 4)] {
        let texts = Arc::new(Texts::default());
        let invocation = Invocation::new("x").observer(texts.clone());
        project.engine().run(if is_for_model { invocation.for_model() } else { invocation });
        let texts = texts.0.lock().unwrap().join("\n");
        assert_eq!(texts.matches(&token()).count(), count, "{texts}");
    }
}

#[cfg(all(feature = "sandboxed", target_os = "linux"))]
#[test]
fn the_output_of_a_process_is_without_them() {
    let script = format!("printf 'out {0}\\n\\033[31mred\\n'; echo 'err {0}' >&2; exit $1", token());
    let project = Project::shell("", &script);
    let run = |code: &str| project.engine().run(Invocation::new("x").args([code]).for_model());
    let outcome = run("0");
    let process = outcome.process.clone().unwrap();
    assert_eq!(process.stdout, "out [secret:github-token]\nred\n");
    assert_eq!(process.stderr, "err [secret:github-token]\n");
    assert_eq!(value(outcome), "out [secret:github-token]\nred\n");
    let error: Value = json!(run("3"))["error"].clone();
    assert!(!error.to_string().contains(&token()), "{error}");
    assert!(error.to_string().contains("err [secret:github-token]"), "{error}");
}
