//! `--sandbox` and `--on-output`: how strictly a process is sandboxed, and what happens to one that writes too much.

use serde_json::{Value, json};

use crate::support::cli::Project;

fn tries() -> Project {
    Project::new().shell("tries", "cat /etc/shadow > /dev/null 2>&1 || echo refused")
}

fn run(project: &Project, args: &[&str]) -> Value {
    project.metier(&[&["run", "--json"], args].concat()).json()
}

#[test]
fn a_process_is_in_a_sandbox_unless_the_caller_says_otherwise() {
    let project = tries();
    for (args, is_sandboxed) in [
        (&["tries"][..], true),
        (&["tries", "--sandbox", "required"], true),
        (&["tries", "--sandbox", "best-effort"], true),
        (&["tries", "--sandbox", "off"], false),
    ] {
        let outcome = run(&project, args);
        assert_eq!(outcome["sandbox"]["level"] != "none", is_sandboxed, "{args:?}: {outcome}");
        assert_eq!(outcome["sandbox"]["files"], json!(is_sandboxed), "{args:?}");
        assert!(!is_sandboxed || outcome["value"] == "refused\n", "{args:?}: {outcome}");
    }
}

#[test]
fn a_run_without_a_sandbox_is_logged() {
    let outcome = run(&tries(), &["tries", "--sandbox", "off"]);
    let line = outcome["log"][0]["message"].as_str().unwrap();
    assert!(line.contains("runs without a sandbox, with all the rights of the user"), "{line}");
}

#[test]
fn an_unknown_value_is_a_usage_error_that_lists_the_known_ones() {
    for (option, word, known) in [("--sandbox", "loose", "best-effort"), ("--on-output", "drop", "truncate")]
    {
        let answer = tries().metier(&["run", "tries", option, word]);
        assert!(answer.code == 2 && answer.stderr.contains(known), "{answer:?}");
    }
}

#[test]
fn nothing_in_the_project_turns_the_sandbox_off() {
    let skill =
        "---\nname: x\ndescription: d\nallowed-tools: exec:unsandboxed\nmetadata:\n  sandbox: \"off\"\n---\n";
    let project = Project::new().shell("x", "true").file(".metier/skills/x/SKILL.md", skill);
    assert_ne!(run(&project, &["x"])["sandbox"]["level"], json!("none"));
}

#[test]
fn truncated_output_is_reported_and_the_run_continues() {
    let project = Project::new().shell("says", "yes é | head -c 30000; echo done >&2");
    let outcome = run(&project, &["says", "--output", "1000", "--on-output", "truncate"]);
    assert_eq!((&outcome["ok"], &outcome["limits"]["truncated"]), (&json!(true), &json!(true)), "{outcome}");
    assert_eq!(
        (&outcome["limits"]["hit"], &outcome["limits"]["on_output"]),
        (&Value::Null, &json!("truncate"))
    );
    let process = &outcome["process"];
    assert_eq!((&process["stdout_truncated"], &process["stderr_truncated"]), (&json!(true), &json!(false)));
    assert_eq!(process["usage"]["stdout_bytes"], json!(30_000));
    // The value's JSON may be no longer than the cap either: quotes and `\n` count.
    let value = outcome["value"].as_str().unwrap();
    assert!(Value::from(value).to_string().len() <= 1000 && value.starts_with("é\né\n"), "{value}");
    assert!(process["stdout"].as_str().unwrap().starts_with(value));
    let plain = project.metier(&["run", "says", "--output", "1000", "--on-output", "truncate"]);
    assert!(plain.code == 0 && plain.stdout.starts_with("é\n"), "{plain:?}");
    assert!(plain.stderr.contains("was truncated"), "{plain:?}");
}

#[test]
fn output_beyond_the_limit_ends_the_run_by_default() {
    let project = Project::new().shell("says", "yes");
    let outcome = run(&project, &["says", "--output", "1000"]);
    assert_eq!((&outcome["error"]["kind"], &outcome["limits"]["hit"]), (&json!("output"), &json!("output")));
    assert_eq!(outcome["limits"]["truncated"], json!(true), "what was kept is the beginning");
    let help = outcome["error"]["help"].as_str().unwrap();
    assert!(help.contains("--on-output truncate"), "{help}");
}

#[test]
fn no_line_of_a_secret_is_in_the_error_of_a_process() {
    let says = "metier ctx secret KEY > $HOME/k; printf '%s' \"$(cat $HOME/k)\" >&2; exit 3";
    let project = Project::new().shell("says", says);
    for args in [&["run", "says", "--json", "--secret", "KEY"][..], &["run", "says", "--secret", "KEY"]] {
        for key in ["first-line-of-it\nsecond\tline of it\nlast-of-them", "one\tline\rof-some-signs"] {
            let mut command = project.command(args);
            let answer: crate::support::cli::Answer = command.env("KEY", key).output().unwrap().into();
            let said = format!("{}{}", answer.stdout, answer.stderr);
            assert!(answer.code == 1 && said.contains("[secret:KEY]"), "{answer:?}");
            for piece in ["first", "second", "last-of", "one", "of-some"] {
                assert!(!said.contains(piece), "{args:?}: {answer:?}");
            }
        }
    }
}

#[test]
fn a_secret_that_the_limit_truncates_is_redacted_as_well() {
    let project = Project::new().shell("says", "printf 'it is '; metier ctx secret KEY; yes");
    let mut command = project.command(&[
        "run",
        "says",
        "--json",
        "--secret",
        "KEY",
        "--output",
        "14",
        "--on-output",
        "truncate",
        "--timeout",
        "2s",
    ]);
    let answer: crate::support::cli::Answer =
        command.env("KEY", "s3cret-value-of-mine").output().unwrap().into();
    assert!(!answer.stdout.contains("s3c"), "{answer:?}");
}
