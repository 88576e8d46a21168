//! Settings and secrets that skills declare: where their values come from, and who reads them.

use metier::engine::{Engine, Invocation, Outcome};
use metier::error::{ErrorKind, Hint, Result};
use metier::host::{ConfigProvider, SecretProvider, SkillContext};
use serde_json::{Map, Value, json};

use crate::support::engine::{Project, granted, kind, sentence, value};

/// The same settings for every skill.
struct Values(Value);

impl ConfigProvider for Values {
    fn config(&self, _: &SkillContext) -> Result<Map<String, Value>> {
        Ok(self.0.as_object().cloned().unwrap_or_default())
    }
}

/// The same secret for every skill.
struct OneSecret(&'static str, &'static str);

impl SecretProvider for OneSecret {
    fn secret(&self, _: &SkillContext, name: &str) -> Result<Option<String>> {
        Ok((name == self.0).then(|| self.1.to_owned()))
    }

    fn has(&self, _: &SkillContext, name: &str) -> Option<bool> {
        Some(name == self.0)
    }
}

impl Project {
    /// A project with the skill `x`, which declares these settings.
    fn declaring(config: &str, script: &str) -> Self {
        Self::lua(script).file(".metier/skills/x/skill.yaml", format!("config:\n{config}"))
    }

    fn with_values(&self, values: Value) -> Engine {
        self.builder().config(Values(values)).build().unwrap()
    }
}

fn run(engine: &Engine, variables: &[(&str, &str)], grants: &[&str]) -> Outcome {
    let invocation = granted(Invocation::new("x"), grants);
    let invocation = variables.iter().fold(invocation, |run, (name, value)| run.env(*name, *value));
    engine.run(invocation)
}

const REGION: &str = "  region: {env: X_REGION_OF_TESTS, default: north}\n";

#[test]
fn sw_10_a_value_of_the_caller_comes_before_the_environment_and_that_before_the_default() {
    // SW-T01
    let project = Project::declaring(REGION, "return ctx.config('region')");
    let (none, some) = (project.with_values(json!({})), project.with_values(json!({"region": ""})));
    let variable = [("X_REGION_OF_TESTS", "south")];
    let grant = ["env:X_REGION_OF_TESTS"];
    assert_eq!(value(run(&none, &[], &grant)), json!("north"));
    assert_eq!(value(run(&none, &variable, &grant)), json!("south"));
    assert_eq!(value(run(&some, &variable, &grant)), json!(""), "an empty value is one");
    assert_eq!(value(run(&none, &variable, &[])), json!("north"), "nobody granted the variable");
}

#[test]
fn sw_11_what_is_required_is_neither_absent_nor_empty() {
    // SW-T02
    let project = Project::declaring(
        "  region: {required: true, env: X_REGION_OF_TESTS, description: Where it runs}\n",
        "return ctx.config('region')",
    );
    let missing = |values: Value, variables: &[(&str, &str)]| {
        let outcome = run(&project.with_values(values), variables, &["env:X_REGION_OF_TESTS"]);
        assert_eq!(kind(&outcome), ErrorKind::Unavailable);
        sentence(&outcome)
    };
    let set_to_empty = "skill x cannot run: the setting region is set to empty (Where it runs)";
    assert_eq!(
        missing(json!({}), &[]),
        "skill x cannot run: the setting region is not provided (Where it runs)"
    );
    assert_eq!(missing(json!({}), &[("X_REGION_OF_TESTS", "")]), set_to_empty);
    assert_eq!(missing(json!({"region": ""}), &[("X_REGION_OF_TESTS", "south")]), set_to_empty);
    let engine = project.with_values(json!({}));
    let answer = engine.availability(&engine.registry().skills()[0]);
    let reason = answer.cannot_run().unwrap();
    assert_eq!(reason.message(), "skill x cannot run: the setting region is not provided (Where it runs)");
    assert_eq!(reason.help(), Some("set the setting region, or the environment variable X_REGION_OF_TESTS"));
    assert_eq!(reason.hint(), Some(&Hint::Setting("region".into())));
    assert!(
        project.with_values(json!({"region": 0})).availability(&engine.registry().skills()[0]).is_runnable()
    );
}

#[test]
fn sw_12_a_skill_without_its_settings_does_not_keep_others_from_running() {
    let project = Project::declaring("  region: {required: true}\n", "return 1")
        .skill("y", "")
        .file(".metier/skills/y/scripts/main.lua", "return 2");
    let engine = project.engine();
    assert_eq!(value(engine.run(Invocation::new("y"))), json!(2));
    let registry = engine.registry();
    let runnable: Vec<_> = registry
        .visible()
        .filter(|skill| engine.availability(skill).cannot_run().is_none())
        .map(|skill| skill.name().to_owned())
        .collect();
    assert_eq!(runnable, ["y"]);
}

#[test]
fn of_alternatives_one_is_enough() {
    let script = "return {a = ctx.config('a'), b = ctx.config('b')}";
    let project = Project::declaring("  a: {required: any_of}\n  b: {required: any_of}\n", script);
    let run =
        |config: Value| project.builder().config(Values(config)).build().unwrap().run(Invocation::new("x"));
    let missing = run(json!({}));
    assert_eq!(kind(&missing), ErrorKind::Unavailable);
    let sentence = sentence(&missing);
    assert!(
        sentence.contains("the setting a is not provided") && sentence.contains("the setting b"),
        "{sentence}"
    );
    assert_eq!(kind(&run(json!({"a": "", "b": ""}))), ErrorKind::Unavailable);
    assert_eq!(value(run(json!({"b": "B"}))), json!({"a": null, "b": "B"}));
    let engine = project.engine();
    let registry = engine.registry();
    assert!(engine.availability(registry.find("x").unwrap()).cannot_run().is_some());
    let report = engine.diagnosis().settings;
    assert_eq!(report.missing.len(), 1, "{report:?}");
}

#[test]
fn what_is_needed_on_use_fails_where_it_is_read() {
    // CU-31
    let script = "if input.read then return ctx.config('region') end return 1";
    let project = Project::declaring("  region: {required: on_use}\n  other: {}\n", script);
    let engine = project.engine();
    let run = |input| engine.run(Invocation::new("x").input(input));
    assert_eq!(value(run(json!({}))), json!(1));
    let outcome = run(json!({"read": true}));
    assert_eq!(kind(&outcome), ErrorKind::Unavailable);
    assert_eq!(sentence(&outcome), "the setting region of skill x is not set");
    assert_eq!(outcome.result.unwrap_err().hint(), Some(&Hint::Setting("region".into())));
}

#[test]
fn sw_w04_a_skill_reads_its_own_settings_alone() {
    let values = json!({"region": "north", "of_others": "s3cret", "TOKEN": "as a setting"});
    let declared = "  region: {}\n  TOKEN: {secret: true}\n";
    let all = Project::declaring(declared, "return ctx.config()");
    assert_eq!(value(run(&all.with_values(values.clone()), &[], &[])), json!({"region": "north"}));
    for (name, reason) in [
        ("of_others", "the skill x does not declare the setting of_others"),
        ("TOKEN", "TOKEN is a secret of the skill x, and no setting"),
    ] {
        let project = Project::declaring(declared, &format!("return ctx.config('{name}')"));
        let outcome = run(&project.with_values(values.clone()), &[], &[]);
        assert_eq!((kind(&outcome), sentence(&outcome).as_str()), (ErrorKind::InvalidArgument, reason));
    }
    let undeclared = Project::lua("return ctx.config('of_others')");
    assert_eq!(value(run(&undeclared.with_values(values), &[], &[])), json!("s3cret"), "it declares none");
}

#[test]
fn sw_t31_what_a_skill_calls_does_not_read_its_settings() {
    let project = Project::lua_with_tools("skill:y", "return ctx.skill('y')")
        .file(".metier/skills/x/skill.yaml", "config: {mine: {}}\npermissions: ['skill:y']\n")
        .skill("y", "")
        .file(".metier/skills/y/skill.yaml", "config: {yours: {default: 1}}")
        .file(".metier/skills/y/scripts/main.lua", "return ctx.config()");
    let engine = project.with_values(json!({"mine": "s3cret"}));
    assert_eq!(value(run(&engine, &[], &["skill:y"])), json!({"yours": 1}));
}

#[test]
fn a_declared_secret_comes_from_its_variable_where_it_is_granted() {
    let declared = "  TOKEN: {secret: true, required: true, env: X_TOKEN_OF_TESTS}\n";
    let project = Project::declaring(declared, "return #ctx.secret('TOKEN') .. ctx.secret('TOKEN')");
    let engine = project.engine();
    let variables = [("X_TOKEN_OF_TESTS", "hunter2")];
    assert_eq!(value(run(&engine, &variables, &["secret:TOKEN"])), json!("7[secret:TOKEN]"));
    let denied = run(&engine, &variables, &["env:X_TOKEN_OF_TESTS"]);
    assert_eq!(kind(&denied), ErrorKind::Denied, "{denied:?}");
    let absent = run(&engine, &[], &["secret:TOKEN"]);
    assert_eq!(sentence(&absent), "skill x cannot run: the secret TOKEN is not provided");
    let blank = run(&engine, &[("X_TOKEN_OF_TESTS", " ")], &["secret:TOKEN"]);
    assert_eq!(sentence(&blank), "skill x cannot run: the secret TOKEN is set to empty");
    let provided = project.builder().secrets(OneSecret("TOKEN", "own")).build().unwrap();
    assert_eq!(value(run(&provided, &variables, &["secret:TOKEN"])), json!("3[secret:TOKEN]"));
}

#[test]
fn a_variable_that_decides_what_runs_is_no_setting() {
    for (config, reason) in [
        ("  path: {env: PATH}\n", "PATH"),
        ("  x: {env: 'A B'}\n", "A B"),
        ("  TOKEN: {secret: true, default: s3cret}\n", "a secret has no default"),
        ("  'a b': {}\n", "the name of a setting"),
        ("  x: {required: sometimes}\n", "required (true, false, any_of or on_use)"),
        ("  x: [1]\n", "must be a map"),
    ] {
        let outcome = Project::declaring(config, "return 1").run(&[]);
        assert_eq!(kind(&outcome), ErrorKind::InvalidSkill, "{config}");
        assert!(sentence(&outcome).contains(reason), "{config}: {}", sentence(&outcome));
    }
}

#[test]
fn sw_26_the_diagnosis_says_which_skills_have_their_settings() {
    let skill = |project: Project, name: &str, category: &str, config: &str| {
        project
            .skill(name, &format!("metadata:\n  category: {category}\n"))
            .file(&format!(".metier/skills/{name}/skill.yaml"), format!("config: {config}"))
    };
    let project = skill(Project::new(), "a", "git", "{t: {required: true, env: X_NOT_SET_1}}");
    let project = skill(project, "b", "notification", "{u: {env: X_NOT_SET_2}, v: {env: X_NOT_SET_3}}");
    let project = skill(project, "c", "data", "{w: {required: true, default: 1}}");
    let project = skill(project, "d", "data", "{w: {required: true}, y: {env: X_NOT_SET_4}}");
    let report = serde_json::to_value(project.engine().diagnosis().settings).unwrap();
    assert_eq!(
        report,
        json!({
            "configured": ["project/.metier:c@0.0.0"],
            "missing": [
                {"skill": "project/.metier:a@0.0.0", "category": "git", "missing_env": ["X_NOT_SET_1"]},
                {"skill": "project/.metier:b@0.0.0", "category": "notification", "missing_env": ["X_NOT_SET_2", "X_NOT_SET_3"]},
                {"skill": "project/.metier:d@0.0.0", "category": "data", "missing_env": []},
            ],
            "problems": [
                {"category": "git", "severity": "error", "message": "no skill of the category git has its settings"},
                {"category": "notification", "severity": "warning", "message": "no skill of the category notification has its settings"},
            ],
        })
    );
}
