//! `--config`, `--secret`, `--operations`, and what the command line provides to skills.

use serde_json::json;

use crate::support::cli::{Answer, Project};

const READS: &str = "return {ctx.secret('TOKEN'), #ctx.secret('TOKEN')}";

fn project_that_requests(permissions: &str, script: &str) -> Project {
    Project::new()
        .file(
            ".metier/skills/x/SKILL.md",
            format!("---\nname: x\ndescription: d\nallowed-tools: {permissions}\n---\n"),
        )
        .file(".metier/skills/x/scripts/main.lua", script)
}

fn with_variable(project: &Project, variable: &str, value: &str, args: &[&str]) -> Answer {
    project.command(args).env(variable, value).output().unwrap().into()
}

#[test]
fn settings_are_json_or_text_and_later_ones_win() {
    let project = Project::new().lua("x", "return ctx.config()").file("set.json", r#"{"a": [1], "b": null}"#);
    let settings = [
        "n=80",
        "t=plain text",
        "e=",
        "o={\"k\": true}",
        "eq=a=b",
        "v=1.10",
        "h=5417e39",
        "@set.json",
        "b=2",
    ];
    let mut args = vec!["run", "x", "--json"];
    args.extend(settings.iter().flat_map(|setting| ["--config", setting]));
    let answer = project.metier(&args);
    assert_eq!(
        answer.json()["value"],
        json!({
            "n": 80, "t": "plain text", "e": "", "o": {"k": true}, "eq": "a=b", "v": "1.10", "h": "5417e39", "a": [1], "b": 2,
        })
    );
    assert_eq!(project.metier(&["run", "x", "--json"]).json()["value"], json!({}));
}

#[test]
fn an_invalid_setting_is_a_usage_error() {
    let project = Project::new().lua("x", "return 1").file("list.json", "[]");
    for setting in ["nothing", "=1", "o={\"k\": ", "l=[1", "@nowhere.json", "@list.json", "@"] {
        let answer = project.metier(&["run", "x", "--config", setting]);
        assert_eq!(answer.code, 2, "{setting}: {answer:?}");
        assert!(answer.stderr.contains("--config"), "{setting}: {answer:?}");
    }
}

#[test]
fn a_secret_comes_from_the_environment_and_the_option_grants_it() {
    let project = project_that_requests("secret:TOKEN", READS);
    for (option, variable) in [("TOKEN", "TOKEN"), ("TOKEN=OTHER", "OTHER")] {
        let answer =
            with_variable(&project, variable, "hunter2", &["run", "x", "--json", "--secret", option]);
        assert_eq!(answer.json()["value"], json!(["[secret:TOKEN]", 7]), "{answer:?}");
    }
}

#[test]
fn a_secret_must_be_requested_by_the_skill_and_named_by_the_caller() {
    for (permissions, args) in [
        ("read", &["--secret", "TOKEN"][..]),
        ("secret:OTHER", &["--secret", "TOKEN"]),
        ("secret:TOKEN", &[]),
    ] {
        let project = project_that_requests(permissions, READS);
        let answer = with_variable(&project, "TOKEN", "hunter2", &[&["run", "x"], args].concat());
        assert_eq!(answer.code, 4, "{permissions} {args:?}: {answer:?}");
    }
    let granted_only = ["run", "x", "--allow", "secret:TOKEN"];
    let answer =
        with_variable(&project_that_requests("secret:TOKEN", READS), "TOKEN", "hunter2", &granted_only);
    assert_eq!(answer.code, 3, "a grant alone does not read the environment: {answer:?}");
    assert!(answer.stderr.contains("the secret TOKEN of skill x is not set"), "{answer:?}");
}

#[test]
fn a_missing_secret_is_a_usage_error() {
    let project = project_that_requests("secret:TOKEN", READS);
    for (option, words) in [
        ("TOKEN", "the environment variable TOKEN is not set"),
        ("TOKEN=NOT_SET_ANYWHERE", "the environment variable after `=` is not set"),
        ("TOKEN=BLANK", "the environment variable after `=` is blank"),
        ("TOKEN=a=b", "has an invalid name"),
        ("=BLANK", "write NAME or NAME=VARIABLE"),
        ("TOKEN=", "write NAME or NAME=VARIABLE"),
    ] {
        let answer = with_variable(&project, "BLANK", " ", &["run", "x", "--secret", option]);
        assert!(answer.code == 2 && answer.stderr.contains(words), "{option}: {answer:?}");
        let value = option.split_once('=').map_or("", |(_, value)| value);
        assert!(
            value.is_empty() || !answer.stderr.contains(value),
            "it may be the secret itself: {answer:?}"
        );
    }
}

#[test]
fn messages_are_redacted_too() {
    let project = project_that_requests(
        "secret:TOKEN",
        "local t = ctx.secret('TOKEN') print('log', t) error('error ' .. t)",
    );
    let answer = with_variable(&project, "TOKEN", "hunter2", &["run", "x", "--secret", "TOKEN"]);
    assert!(!format!("{answer:?}").contains("hunter2"), "{answer:?}");
    assert!(
        answer.stderr.contains("log\t[secret:TOKEN]") && answer.stderr.contains("error [secret:TOKEN]"),
        "{answer:?}"
    );
}

#[test]
fn a_skill_calls_another_if_it_has_the_permission() {
    let project = project_that_requests("skill:y", "return 'x and ' .. ctx.skill('y', {n = 2})")
        .lua("y", "return `y{input.n}`");
    let answer = project.metier(&["run", "x", "--allow", "skill:y"]);
    assert_eq!((answer.code, answer.stdout.as_str()), (0, "x and y2\n"), "{answer:?}");
    assert_eq!(project.metier(&["run", "x"]).code, 4);
}

#[test]
fn the_command_line_provides_no_tools_and_no_model() {
    for (permission, call) in [("tool:t", "ctx.tool('t')"), ("sample", "ctx.sample(nil, 'p')")] {
        let answer = project_that_requests(permission, call).metier(&["run", "x", "--allow", permission]);
        assert!(answer.code == 3 && answer.stderr.contains("this host does not provide"), "{answer:?}");
    }
}

#[test]
fn the_number_of_operations_may_have_a_unit() {
    let project = Project::new().lua("x", "return 1");
    assert_eq!(project.metier(&["run", "x", "--operations", "10k"]).code, 0);
    for count in ["0", "-1", "many"] {
        assert_eq!(project.metier(&["run", "x", &format!("--operations={count}")]).code, 2, "{count}");
    }
}

#[test]
#[cfg(feature = "rhai-runtime")]
fn operations_end_a_run_that_has_used_them_up() {
    let project = Project::new()
        .skill(".metier/skills/x")
        .file(".metier/skills/x/scripts/main.rhai", "let n = 0; while n < 10000 { n += 1; } n");
    assert_eq!(project.metier(&["run", "x"]).code, 0);
    let answer = project.metier(&["run", "x", "--operations", "1000", "--json"]);
    assert_eq!((answer.code, answer.json()["error"]["kind"].clone()), (5, json!("operations")));
}
