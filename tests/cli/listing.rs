//! `list`, `show`, `catalog`, `api` and `completions`: what there is to know, as data.

use serde_json::{Value, json};

use super::cli::Project;

const ROW: [&str; 11] = [
    "description",
    "name",
    "path",
    "qualified",
    "reason",
    "runnable",
    "runtime",
    "scope",
    "shadowed_by",
    "version",
    "warnings",
];

fn listed_project() -> Project {
    Project::new()
        .lua("counts", "return 1")
        .shell("shell", "echo 1")
        .skill(".metier/skills/instructions")
        .file(".metier/skills/broken/SKILL.md", "---\nname: broken\n")
        .file(
            ".agents/skills/counts/SKILL.md",
            "---\nname: counts\ndescription: <b> & \"q\"\nmetadata:\n  version: 9.0.0\n---\nbody\n",
        )
        .file(".claude/skills/extra/SKILL.md", "---\nname: extra\ndescription: d\n---\n")
}

fn row<'a>(rows: &'a Value, qualified: &str) -> &'a Value {
    let rows = rows.as_array().unwrap();
    rows.iter()
        .find(|row| row["qualified"] == json!(qualified))
        .unwrap_or_else(|| panic!("{qualified}: {rows:?}"))
}

pub fn keys(row: &Value) -> Vec<&str> {
    let mut keys: Vec<&str> = row.as_object().unwrap().keys().map(String::as_str).collect();
    keys.sort_unstable();
    keys
}

#[test]
fn the_list_is_whole_with_a_broken_skill_in_it() {
    let answer = listed_project().metier(&["list", "--json"]);
    let rows = answer.json();
    assert_eq!(answer.code, 0);
    for row in rows.as_array().unwrap() {
        assert_eq!(keys(row), ROW);
    }
    let counts = row(&rows, "project/.metier:counts@0.0.0");
    assert_eq!(
        (&counts["runtime"], &counts["runnable"], &counts["reason"]),
        (&json!("lua"), &json!(true), &json!(null))
    );
    let shadowed = row(&rows, "project/.agents:counts@9.0.0");
    assert_eq!(shadowed["shadowed_by"], json!("project/.metier:counts@0.0.0"));
    let instructions = row(&rows, "project/.metier:instructions@0.0.0");
    assert_eq!((&instructions["runnable"], &instructions["runtime"]), (&json!(false), &json!(null)));
    assert!(instructions["reason"].as_str().unwrap().contains("no script to run"));
    assert!(rows.as_array().unwrap().iter().any(|row| row["scope"] == json!("shipped")));
    assert!(
        !answer.stdout.contains("broken") && answer.stderr.contains("broken/SKILL.md:1:1: "),
        "{answer:?}"
    );
}

#[test]
fn the_list_for_people_has_a_line_a_skill_and_no_colours_in_a_pipe() {
    let answer = listed_project().metier(&["list"]);
    assert_eq!(answer.code, 0);
    assert!(
        answer.stdout.lines().any(|line| line.starts_with("counts ") && line.contains(" lua ")),
        "{answer:?}"
    );
    assert!(answer.stdout.contains("shadowed by project/.metier:counts@0.0.0"));
    assert!(!answer.stdout.contains('\u{1b}') && !answer.stderr.contains('\u{1b}'));
}

#[test]
fn other_clients_folders_are_read_on_request() {
    let house = listed_project();
    assert_eq!(house.metier(&["show", "extra"]).code, 3);
    assert_eq!(house.metier(&["show", "extra", "--compat"]).code, 0);
}

#[test]
fn a_skill_is_shown_by_its_plain_and_by_its_qualified_name() {
    let house = listed_project();
    for (name, qualified) in [
        ("counts", "project/.metier:counts@0.0.0"),
        ("project/.agents:counts@9.0.0", "project/.agents:counts@9.0.0"),
        ("counts@9.0.0", "project/.agents:counts@9.0.0"),
        (".agents:counts", "project/.agents:counts@9.0.0"),
        ("shipped:word-count", "shipped/metier:word-count@1.0.0"),
    ] {
        let shown = house.metier(&["show", name, "--json"]).json();
        assert!(ROW.iter().all(|key| shown.get(key).is_some()), "{shown}");
        assert_eq!(shown["qualified"], json!(qualified), "{name}");
    }
    let page = house.metier(&["show", "counts@9.0.0"]).stdout;
    assert!(page.contains("<b> & \"q\"") && page.ends_with("body\n"), "{page}");
}

#[test]
fn the_catalog_comes_as_a_list_as_json_and_as_xml_with_everything_escaped() {
    let project = Project::new().file(
        ".metier/skills/x/SKILL.md",
        "---\nname: x\ndescription: '</description><skill> & \"q\"'\n---\n",
    );
    let listed = project.metier(&["catalog"]).stdout;
    assert!(listed.contains("- x: </description><skill> & \"q\"\n"), "{listed}");
    let json = project.metier(&["catalog", "--json"]).json();
    assert!(
        json.as_array()
            .unwrap()
            .iter()
            .all(|row| keys(row) == ["description", "input_schema", "location", "name"])
    );
    assert_eq!(project.metier(&["catalog", "--xml", "--json"]).code, 2);
    let xml = project.metier(&["catalog", "--xml"]).stdout;
    assert!(xml.starts_with("<available_skills>\n") && xml.ends_with("</available_skills>\n"));
    assert!(
        xml.contains("<description>&lt;/description&gt;&lt;skill&gt; &amp; &quot;q&quot;</description>"),
        "{xml}"
    );
}

#[test]
fn every_shell_has_completions() {
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let answer = Project::new().metier(&["completions", shell]);
        assert!(answer.code == 0 && answer.stdout.contains("validate"), "{shell}");
    }
    assert_eq!(Project::new().metier(&["completions", "tcsh"]).code, 2);
}

#[test]
fn what_a_skill_asks_for_is_told_once() {
    let project = Project::new().lua("x", "return 1").file(
        ".metier/skills/x/SKILL.md",
        "---\nname: x\ndescription: d\nallowed-tools: write read write:out Read write\n---\n",
    );
    assert_eq!(
        project.metier(&["show", "x", "--json"]).json()["requested_permissions"],
        serde_json::json!(["read", "write", "write:out"])
    );
}

#[test]
fn a_worker_nobody_speaks_to_is_told_before_a_run() {
    let head = "---\nname: x\ndescription: d\nmetadata:\n  version: 1.0.0\n  worker: telepathy\n---\n";
    let project = Project::new().shell("x", "echo 1").file(".metier/skills/x/SKILL.md", head);
    let sentence = "metadata.worker is \"telepathy\", and no worker speaks that";
    let listed = project.metier(&["list", "--json"]).json();
    let row = listed.as_array().unwrap().iter().find(|row| row["name"] == "x").unwrap();
    assert_eq!((&row["runnable"], &row["reason"]), (&false.into(), &sentence.into()));
    let checked = project.metier(&["validate", ".metier/skills/x", "--json"]).json();
    let found = &checked[0]["diagnostics"][0];
    assert_eq!(
        (&found["code"], &found["line"], &found["message"]),
        (&"worker-unknown".into(), &6.into(), &sentence.into())
    );
    let run = project.metier(&["run", "x"]);
    assert_eq!(run.code, 3, "{run:?}");
    assert!(run.stderr.contains("--> SKILL.md:6") && run.stderr.contains("json-lines"), "{run:?}");
}
