//! Flag, environment, project, user, default: the strongest source of a key counts.

use metier::config::{Configuration, KEYS, Key, KeyType, ProjectRule, ValueOrigin};
use serde_json::{Value, json};

use super::effective;
use crate::support::cli::Project;

/// Four values of a key, the first one the widest.
fn values(key: &Key) -> Option<[Value; 4]> {
    Some(match key.value_type {
        KeyType::Duration => ["8s", "7s", "6s", "5s"].map(Value::from),
        KeyType::Size | KeyType::Count => [80, 70, 60, 50].map(Value::from),
        KeyType::Product => ["a", "b", "c", "d"].map(Value::from),
        KeyType::Folders => ["/a", "/b", "/c", "/d"].map(|folder| json!([folder])),
        KeyType::Flag => match key.project {
            ProjectRule::Only(only) => [!only, only, !only, only].map(Value::from),
            _ => [true, false, true, false].map(Value::from),
        },
        KeyType::Word(words) => {
            let (strict, lenient) = (words[0], words[words.len() - 1]);
            [lenient, strict, lenient, strict].map(Value::from)
        }
        _ => return None,
    })
}

fn origins() -> [ValueOrigin; 4] {
    let file = |name: &str| name.into();
    [
        ValueOrigin::User { file: file("/home/u/config.toml"), line: 1 },
        ValueOrigin::Project { file: file(".metier/config.toml"), line: 1 },
        ValueOrigin::Environment { name: "METIER_X".into() },
        ValueOrigin::Flag { name: "--x".into() },
    ]
}

fn plain_keys() -> impl Iterator<Item = &'static Key> {
    KEYS.iter().filter(|key| !key.name.starts_with("skills."))
}

#[test]
fn of_all_sources_of_a_key_the_strongest_counts_whatever_the_order() {
    for key in plain_keys() {
        let Some(values) = values(key) else { continue };
        for skipped in 0..=4 {
            let sources: Vec<(Value, ValueOrigin)> =
                values.clone().into_iter().zip(origins()).take(4 - skipped).collect();
            for turn in 0..sources.len().max(1) {
                let mut sources = sources.clone();
                let turn = turn.min(sources.len());
                sources.rotate_left(turn);
                let configuration =
                    sources.into_iter().fold(Configuration::new(), |configuration, (value, origin)| {
                        configuration.with_origin(key.name, value, origin).unwrap()
                    });
                let strongest = (4 - skipped).checked_sub(1).map(|at| origins()[at].clone());
                assert_eq!(
                    configuration.get(key.name).map(|setting| setting.origin.clone()),
                    strongest,
                    "{}",
                    key.name
                );
            }
        }
    }
}

fn toml(value: &Value) -> String {
    value.to_string()
}

#[test]
fn the_command_reads_each_key_from_the_user_the_project_and_the_environment() {
    for key in plain_keys() {
        let Some([of_user, of_project, of_environment, _]) = values(key) else { continue };
        let name = key.name;
        // Its answers are read here as JSON, which takes the option.
        if name == "json" {
            continue;
        }
        let shows = |answer: &super::Answer, expected: &Value, kind: &str| {
            let shown = effective(answer, name);
            assert_eq!(
                (&shown["value"], &shown["origins"][0]["kind"]),
                (expected, &json!(kind)),
                "{name}: {answer:?}"
            );
        };
        let config = ["config", "--json"];
        let project = Project::new().user_config(format!("{name} = {}", toml(&of_user)));
        shows(&project.metier(&config), &of_user, "user");
        let project = if key.project == ProjectRule::Never {
            project
        } else {
            let project = project.project_config(format!("{name} = {}", toml(&of_project)));
            shows(&project.metier(&config), &of_project, "project");
            project
        };
        let variable = key.variable().unwrap();
        let text = match &of_environment {
            Value::Array(folders) => folders[0].as_str().unwrap().to_owned(),
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        let answer = project.command(&config).env(variable, text).output().unwrap().into();
        shows(&answer, &of_environment, "environment");
    }
}

#[test]
fn lists_of_what_is_refused_are_put_together() {
    let project = Project::new()
        .user_config("permissions.deny = ['net']\nruntimes.disabled = ['rhai']")
        .project_config("permissions.deny = ['sample', 'net']\nruntimes.disabled = ['wasm']");
    let answer = project
        .command(&["config", "--json"])
        .env("METIER_PERMISSIONS_DENY", "secret:A, secret:B")
        .env("METIER_RUNTIMES_DISABLED", "external")
        .output()
        .unwrap()
        .into();
    let denied = effective(&answer, "permissions.deny");
    assert_eq!(denied["value"], json!(["secret:A", "secret:B", "sample", "net"]));
    assert_eq!(denied["origins"].as_array().unwrap().len(), 3);
    assert_eq!(effective(&answer, "runtimes.disabled")["value"], json!(["external", "wasm", "rhai"]));
}

#[test]
fn an_option_is_stronger_than_every_other_source() {
    let project = Project::new()
        .lua("x", "return 1")
        .user_config("limits.timeout = '10s'\njson = false\nsandbox.mode = 'best-effort'")
        .project_config("limits.timeout = '5s'");
    let timeout = |args: &[&str], variable: Option<&str>| {
        let mut command = project.command(&[&["run", "x", "--json"], args].concat());
        command.envs(variable.map(|value| ("METIER_LIMITS_TIMEOUT", value)));
        super::Answer::from(command.output().unwrap()).json()["limits"]["timeout_ms"].clone()
    };
    assert_eq!(timeout(&[], None), 5_000);
    assert_eq!(timeout(&[], Some("20s")), 20_000);
    assert_eq!(timeout(&["--timeout", "25s"], Some("20s")), 25_000);
    assert_eq!(timeout(&["--timeout", "25s"], None), 25_000);
}

#[test]
fn a_wrong_variable_is_an_error_and_a_misspelled_one_a_warning() {
    let project = Project::with_marker_skill();
    let run = |name: &str, value: &str| -> super::Answer {
        project.command(&["run", "x", "--allow", "write"]).env(name, value).output().unwrap().into()
    };
    for (name, value) in [
        ("METIER_LIMITS_TIMEOUT", "soon"),
        ("METIER_COMPAT", "yes"),
        ("METIER_ROOTS", "relative"),
        ("METIER_PERMISSIONS_DENY", "network"),
        ("METIER_SANDBOX_MODE", "none"),
        ("METIER_PRODUCT", "../x"),
    ] {
        let answer = run(name, value);
        assert!(answer.code == 2 && answer.stderr.contains(name), "{answer:?}");
        assert!(!project.path(super::MARKER).exists());
    }
    for name in ["METIER_LIMITS_TIMEOUT", "METIER_COMPAT", "METIER_PRODUCT", "METIER_ROOTS"] {
        assert_eq!(run(name, "").code, 0, "{name} is empty");
    }
    let answer = run("METIER_LIMIT_TIMEOUT", "1s");
    assert!(
        answer.code == 0 && answer.stderr.contains("did you mean `METIER_LIMITS_TIMEOUT`?"),
        "{answer:?}"
    );
}
