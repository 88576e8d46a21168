//! `metier try` and `--watch`: a run is observed, and names all grants that it would need at once, also if it ends well.

use serde_json::{Value, json};

use crate::support::cli::{Answer, Project};
use crate::support::not_run::{find_program, not_run};
use crate::support::pseudo_terminal::Terminal;

/// Swallows each refusal.
const SCRIPT: &str = "
import os, pathlib, subprocess, urllib.request
def attempt(work):
    try: work()
    except Exception: pass
os.environ.get('REPORT_API_KEY')
attempt(lambda: urllib.request.urlopen('https://api.example.org/v1', timeout=5))
attempt(lambda: (pathlib.Path.home() / '.config/tool.json').read_text())
attempt(lambda: open('/etc/shadow').read())
attempt(lambda: os.makedirs('reports/2026'))
attempt(lambda: open('reports/2026/a.md', 'w').write('x'))
attempt(lambda: open('docs/a.txt', 'a').write('more'))
print('done')
";

fn project() -> Project {
    let project = Project::new()
        .skill(".metier/skills/report")
        .file(".metier/skills/report/scripts/main.py", SCRIPT)
        .file("docs/a.txt", "one\n");
    crate::support::cli::write(&project.home().join(".config/tool.json"), "{}");
    project
}

/// Runs a command with a variable that the script reads; `None` where this machine has no copy of the project.
fn metier(project: &Project, args: &[&str]) -> Option<Answer> {
    if find_program("python3").is_none() {
        not_run("a watched run", "python3 is not installed");
        return None;
    }
    let answer: Answer = project.command(args).env("REPORT_API_KEY", "k-1").output().unwrap().into();
    if answer.stderr.contains("failed to run in a copy of the project") {
        not_run("a watched run in a copy", answer.stderr.lines().next().unwrap_or_default());
        return None;
    }
    Some(answer)
}

/// Each refused access as `kind target permission`.
fn refused(outcome: &Value) -> Vec<String> {
    let line = |refused: &Value| {
        let target = ["path", "host", "name", "variable"].into_iter().find(|key| refused[*key].is_string());
        let key = target.unwrap();
        format!("{key} {} {}", refused[key].as_str().unwrap(), refused["permission"].as_str().unwrap_or("-"))
    };
    outcome["refused"].as_array().into_iter().flatten().map(line).collect()
}

#[test]
fn a_trial_names_all_grants_at_once_and_these_are_enough() {
    let project = project();
    let Some(answer) = metier(&project, &["try", "report", "--json"]) else { return };
    let outcome = answer.json();
    assert_eq!(outcome["value"], "done\n", "{answer:?}");
    let all = refused(&outcome);
    for expected in [
        "path ~/.config/tool.json home:.config/tool.json",
        "host api.example.org net:api.example.org",
        "variable REPORT_API_KEY env:REPORT_API_KEY",
        "path /etc/shadow -",
    ] {
        assert!(all.contains(&expected.to_owned()), "{expected}: {all:?}");
    }
    let grants = [
        "env:REPORT_API_KEY",
        "home:.config/tool.json",
        "net:api.example.org",
        "write:docs/a.txt",
        "write:reports",
    ];
    assert_eq!(outcome["proposed_grants"], json!(grants));
    assert_eq!(std::fs::read_to_string(project.path("docs/a.txt")).unwrap(), "one\n");
    assert!(!project.path("reports").exists());
    // With these grants nothing but what no grant opens is refused. The host does not exist, which is another error.
    let allowed: Vec<&str> = grants.iter().flat_map(|grant| ["--allow", grant]).collect();
    let run = [&["run", "report", "--watch", "--json"], allowed.as_slice()].concat();
    let outcome = metier(&project, &run).unwrap().json();
    let left: Vec<String> = refused(&outcome).into_iter().filter(|line| !line.starts_with("host ")).collect();
    assert_eq!(left, ["path /etc/shadow -"]);
    assert_eq!(std::fs::read_to_string(project.path("docs/a.txt")).unwrap(), "one\nmore");
    assert!(project.path("reports/2026/a.md").exists());
}

#[test]
fn a_trial_prints_one_line_of_grants_and_applies_only_on_request() {
    let project = project();
    let Some(answer) = metier(&project, &["try", "report"]) else { return };
    assert_eq!(answer.stdout, "done\n");
    let line = "metier allow report env:REPORT_API_KEY home:.config/tool.json net:api.example.org write:docs/a.txt write:reports";
    assert!(answer.stderr.contains(line), "{}", answer.stderr);
    assert!(answer.stderr.contains("once its files are trusted: metier trust"), "{}", answer.stderr);
    assert!(!project.path("reports").exists());
    let answer = metier(&project, &["try", "report", "--apply"]).unwrap();
    assert_eq!(answer.code, 0, "{answer:?}");
    assert!(project.path("reports/2026/a.md").exists());
    assert_eq!(project.metier(&["undo"]).code, 0);
    assert!(!project.path("reports").exists());
}

#[test]
fn a_second_trial_has_what_was_remembered_and_proposes_the_rest() {
    let project = project();
    let allow = |grants: &[&str]| {
        assert_eq!(project.metier(&["trust", "--yes", "report"]).code, 0);
        let answer = project.metier(&[&["allow", "report"], grants].concat());
        assert_eq!(answer.code, 0, "{answer:?}");
    };
    allow(&["home:.config/tool.json", "net:api.example.org", "write:docs/a.txt"]);
    let Some(answer) = metier(&project, &["try", "report", "--json"]) else { return };
    let outcome = answer.json();
    assert_eq!(outcome["proposed_grants"], json!(["env:REPORT_API_KEY", "write:reports"]));
    let all = refused(&outcome);
    assert!(!all.iter().any(|line| line.starts_with("path ~/")), "{all:?}");
    // The granted host does not exist, which is no lack of a grant.
    assert!(all.contains(&"host api.example.org:443 -".to_owned()), "{all:?}");
    let shown = metier(&project, &["try", "report"]).unwrap().stderr;
    assert!(
        shown.contains("it has already: home:.config/tool.json, net:api.example.org, write:docs/a.txt"),
        "{shown}"
    );
    assert!(shown.contains("with these grants as well it has what it asked for:\n  metier allow report env:REPORT_API_KEY write:reports\n"), "{shown}");
    allow(&["env:REPORT_API_KEY", "write:reports"]);
    let outcome = metier(&project, &["try", "report", "--json"]).unwrap().json();
    assert_eq!(outcome["proposed_grants"], json!([]), "{outcome}");
    assert!(!project.path("reports").exists() && project.read("docs/a.txt") == "one\n");
    // What was granted was granted to other files.
    crate::support::cli::write(
        &project.path(".metier/skills/report/scripts/main.py"),
        format!("{SCRIPT}# more\n"),
    );
    let outcome = metier(&project, &["try", "report", "--json"]).unwrap().json();
    assert_eq!(outcome["proposed_grants"].as_array().unwrap().len(), 5, "{outcome}");
    let without = ["try", "report", "--trust", "--no-remembered", "--json"];
    assert_eq!(metier(&project, &without).unwrap().json()["proposed_grants"].as_array().unwrap().len(), 5);
}

/// Stops at once without its key, and says of each variable what it has.
const KEY_FIRST: &str = "
import os, sys, urllib.request
key = os.environ.get('REPORT_API_KEY')
if not key:
    sys.exit('REPORT_API_KEY is not set')
print(len(key), key[:4], key == 'rk-0123456789abcdefghij', [name for name in (
    'REPORT_REGION', 'REPORT_SSL_CERT', 'REPORT_PROXY_AUTH', 'REPORT_KEY_FILE', 'REPORT_OTHER_TOKEN',
    'PATH_TO_REPORT', 'NODE_OPTIONS') if name in os.environ])
hook = os.environ.get('REPORT_WEBHOOK')
for address in [hook, 'https://api.example.org/v1']:
    try: urllib.request.urlopen(address, data=key.encode(), timeout=5)
    except Exception as error: print(type(error).__name__)
open('report.md', 'w').write(key)
";

/// Runs it with these arguments, with variables of all kinds set.
fn key_first(project: &Project, args: &[&str]) -> Option<Answer> {
    let mut command = project.command(args);
    command.env("REPORT_API_KEY", "rk-0123456789abcdefghij").env("REPORT_REGION", "eu-west-1");
    command.env("REPORT_SSL_CERT", "a-cert-0123456789").env("REPORT_PROXY_AUTH", "me:0123456789abcdef");
    command.env("REPORT_KEY_FILE", "/home/me/key.json").env("NODE_OPTIONS", "--require=0123456789abcdef");
    command.env("REPORT_WEBHOOK", "https://hooks.internal.example/services/0123456789abcdef");
    let answer: Answer = command.output().unwrap().into();
    let has_no_copy = answer.stderr.contains("failed to run in a copy of the project");
    if find_program("python3").is_none() || has_no_copy {
        not_run("a trial with placeholders", "no python3, or no copy of the project");
        return None;
    }
    Some(answer)
}

fn key_first_project() -> Project {
    Project::new().skill(".metier/skills/report").file(".metier/skills/report/scripts/main.py", KEY_FIRST)
}

#[test]
fn a_trial_gives_random_placeholders_for_secrets_so_that_all_needs_are_seen_in_one_round() {
    let project = key_first_project();
    let Some(answer) = key_first(&project, &["try", "report", "--json"]) else { return };
    let outcome = answer.json();
    // The same form as the key, which is never there, and nothing for what is no secret or leads programs elsewhere.
    let value = outcome["value"].as_str().unwrap_or_default();
    assert!(value.starts_with("23 "), "{answer:?}");
    assert!(value.contains(" False []\nURLError\nURLError\n"), "{answer:?}");
    assert!(!answer.stdout.contains("rk-0123456789abcdefghij"), "{answer:?}");
    let grants = outcome["proposed_grants"].as_array().unwrap();
    for grant in ["env:REPORT_API_KEY", "env:REPORT_WEBHOOK", "net:api.example.org", "write:report.md"] {
        assert!(grants.contains(&json!(grant)), "{grant}: {grants:?}");
    }
    let hosts = grants.iter().filter(|grant| grant.as_str().unwrap().starts_with("net:"));
    assert_eq!(hosts.count(), 1, "the host of a placeholder is none: {grants:?}");
    let row = |name: &str| {
        let rows = outcome["refused"].as_array().unwrap();
        rows.iter().find(|row| row["variable"] == name).unwrap_or_else(|| panic!("{name}: {rows:?}")).clone()
    };
    assert_eq!(row("REPORT_API_KEY")["reason"], "a random placeholder stood in for it");
    assert_eq!(row("REPORT_REGION")["reason"], Value::Null);
    let warning = "scripts/main.py had random placeholders in the place of variables that it reads and was not granted (REPORT_API_KEY, REPORT_WEBHOOK)";
    let log = outcome["log"].to_string();
    assert!(log.contains(warning), "{log}");
    // A key that is not set is not made up.
    let answer = project.command(&["try", "report", "--json"]).env_remove("REPORT_API_KEY").output().unwrap();
    let outcome = Answer::from(answer).json();
    assert!(outcome["error"]["message"].as_str().unwrap().contains("REPORT_API_KEY is not set"), "{outcome}");
}

#[test]
fn no_run_but_a_trial_that_applies_nothing_has_placeholders() {
    let project = key_first_project();
    for args in [
        &["try", "report", "--apply"][..],
        &["try", "report", "--for-model", "--trust"],
        &["run", "report", "--watch"],
        &["run", "report", "--watch", "--preview"],
        &["run", "report"],
    ] {
        let Some(answer) = key_first(&project, args) else { return };
        assert!(
            answer.code == 1 && answer.stderr.contains("REPORT_API_KEY is not set"),
            "{args:?} {answer:?}"
        );
        assert!(!answer.stderr.contains("placeholder"), "{args:?} {answer:?}");
    }
    assert!(!project.path("report.md").exists());
    // The value that was granted is no placeholder.
    assert_eq!(project.metier(&["trust", "--yes", "report"]).code, 0);
    assert_eq!(project.metier(&["allow", "report", "env:REPORT_API_KEY"]).code, 0);
    let answer = key_first(&project, &["try", "report"]).unwrap();
    assert!(answer.stdout.contains(" True ["), "{answer:?}");
    assert!(answer.stderr.contains("was not granted (REPORT_WEBHOOK)"), "{answer:?}");
}

#[test]
fn a_person_is_not_asked_about_the_host_of_a_placeholder() {
    let project = key_first_project();
    if key_first(&project, &["try", "report"]).is_none() {
        return;
    }
    let mut command = project.command(&["try", "report"]);
    command.env("REPORT_API_KEY", "rk-0123456789abcdefghij");
    command.env("REPORT_WEBHOOK", "https://hooks.internal.example/services/0123456789abcdef");
    let mut terminal = Terminal::start(&mut command);
    terminal.wait_for("wants     net:api.example.org ");
    terminal.press("n");
    terminal.wait_for("Apply them to the project?");
    terminal.press("n");
    let (_, screen) = terminal.finish();
    assert!(screen.matches("wants     ").count() == 1 && !screen.contains("internal"), "{screen}");
}

#[test]
fn a_trial_with_a_remembered_place_in_the_home_says_that_it_is_no_copy() {
    let project = Project::new().shell("list", "echo x > ~/Documents/list.md; echo y > docs/new.md");
    let project = project.file("docs/a.txt", "one\n");
    std::fs::create_dir_all(project.home().join("Documents")).unwrap();
    assert_eq!(project.metier(&["trust", "--yes", "list"]).code, 0);
    assert_eq!(project.metier(&["allow", "list", "home-write:Documents"]).code, 0);
    let Some(answer) = metier(&project, &["try", "list"]) else { return };
    assert_eq!(answer.code, 0, "{answer:?}");
    let sentence = "it could change your home itself, of which no copy was made (home-write:Documents)";
    assert!(answer.stderr.contains(sentence), "{}", answer.stderr);
    assert!(answer.stderr.contains("  metier allow list write:docs/new.md\n"), "{}", answer.stderr);
}

#[test]
fn a_trial_proposes_the_one_new_file_of_a_folder_and_that_grant_is_enough() {
    let made = |script: &str| {
        let project = Project::new()
            .skill(".metier/skills/make")
            .file(".metier/skills/make/scripts/main.sh", format!("#!/bin/sh\n{script}\n"))
            .file("docs/a.txt", "one\n");
        let answer = metier(&project, &["try", "make", "--json"])?;
        Some((answer.json()["proposed_grants"].clone(), project))
    };
    let script = "echo x > out.json && echo y > docs/new.md";
    let Some((grants, project)) = made(script) else { return };
    assert_eq!(grants, json!(["write:docs/new.md", "write:out.json"]));
    let run = ["run", "make", "--allow", "write:docs/new.md", "--allow", "write:out.json"];
    assert_eq!(project.metier(&run).code, 0);
    assert_eq!((project.read("out.json"), project.read("docs/new.md")), ("x\n".into(), "y\n".into()));
    for (script, expected) in [
        ("echo x > docs/b.md; echo x > docs/c.md", "write:docs"),
        ("echo x > docs/report-20261129.md", "write:docs"),
        ("echo x > docs/report", "write:docs"),
        ("rm docs/a.txt; echo x > docs/b.md", "write:docs"),
        ("echo x > Makefile", "write"),
        // The next time the file is there, and to replace it takes the folder.
        ("echo x > docs/b.md.tmp && mv docs/b.md.tmp docs/b.md", "write:docs"),
    ] {
        assert_eq!(made(script).unwrap().0, json!([expected]), "{script}");
    }
}

#[test]
fn a_trial_at_a_terminal_asks_about_each_host_and_changes_nothing() {
    let script = "
import urllib.request
for host in ['one.invalid', 'two.invalid', 'one.invalid']:
    try: urllib.request.urlopen(f'http://{host}/', timeout=20)
    except OSError: print('no', host)
";
    let project =
        Project::new().skill(".metier/skills/fetch").file(".metier/skills/fetch/scripts/main.py", script);
    if metier(&project, &["try", "fetch"]).is_none() {
        return;
    }
    let mut terminal = Terminal::start(&mut project.command(&["try", "fetch"]));
    terminal.wait_for("wants     net:one.invalid ");
    terminal.press("y");
    terminal.wait_for("wants     net:two.invalid ");
    terminal.press("n");
    let (code, screen) = terminal.finish();
    assert!(code == 0 && screen.matches("wants     ").count() == 2, "{screen}");
    assert!(screen.contains("metier allow fetch net:one.invalid net:two.invalid"), "{screen}");
}

#[test]
fn a_trial_names_what_is_made_beside_a_result_and_left_in_the_home() {
    let names: Vec<String> = (0..6).map(|number| format!("TRIAL_SETTING_{number}")).collect();
    let reads: Vec<String> = names.iter().map(|name| format!("echo \"${{{name}:-}}\"\n")).collect();
    let reads = reads.concat();
    let script =
        format!("{reads}sed -i s/one/two/ docs/a.txt\nmkdir -p ~/Documents\necho x > ~/Documents/list.md");
    let project = Project::new().shell("report", &script).file("docs/a.txt", "one\n").file("docs/b.txt", "");
    std::fs::create_dir_all(project.home().join("Documents")).unwrap();
    let run = |args: &[&str]| -> Answer {
        project.command(args).envs(names.iter().map(|name| (name, "x"))).output().unwrap().into()
    };
    let answer = run(&["try", "report", "--json"]);
    if answer.stderr.contains("failed to run in a copy of the project") {
        not_run("a trial", answer.stderr.lines().next().unwrap_or_default());
        return;
    }
    let variables = names.iter().map(|name| format!("env:{name}"));
    let grants: Vec<String> =
        variables.chain(["home-write:Documents", "write:docs"].map(str::to_owned)).collect();
    assert_eq!(answer.json()["proposed_grants"], json!(grants), "{answer:?}");
    assert_eq!(std::fs::read_dir(project.home().join("Documents")).unwrap().count(), 0);
    let allowed: Vec<&str> = grants.iter().flat_map(|grant| ["--allow", grant]).collect();
    let answer = run(&[&["run", "report"], allowed.as_slice()].concat());
    assert_eq!((answer.code, answer.stdout.as_str()), (0, "x\n".repeat(6).as_str()), "{answer:?}");
    assert_eq!(std::fs::read_to_string(project.path("docs/a.txt")).unwrap(), "two\n");
    assert_eq!(std::fs::read_to_string(project.home().join("Documents/list.md")).unwrap(), "x\n");
}

#[test]
fn a_run_that_ends_well_reports_the_hosts_that_it_tried_without_being_watched() {
    let project = project();
    let Some(answer) = metier(&project, &["run", "report", "--json"]) else { return };
    let outcome = answer.json();
    assert_eq!(outcome["ok"], true);
    assert_eq!(refused(&outcome), ["host api.example.org net:api.example.org"], "{answer:?}");
    let quiet = Project::new().shell("x", "echo hello").metier(&["run", "x", "--json"]).json();
    assert_eq!(quiet["refused"], Value::Null);
}
