//! `list`, `show`, `catalog` and `completions`: information as data.

use serde_json::{Value, json};

use crate::support::cli::Project;

const ROW: [&str; 15] = [
    "changed_files",
    "content",
    "description",
    "name",
    "path",
    "qualified",
    "reason",
    "requirements",
    "runnable",
    "runtime",
    "scope",
    "shadowed_by",
    "trust",
    "version",
    "warnings",
];

const CATALOG_ROW: [&str; 12] = [
    "cost",
    "description",
    "estimated_duration",
    "estimated_duration_ms",
    "input_schema",
    "location",
    "name",
    "output_schema",
    "permissions",
    "risk_level",
    "tools",
    "version",
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
fn the_list_is_complete_with_a_broken_skill_in_it() {
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
    assert!(rows.as_array().unwrap().iter().any(|row| row["scope"] == json!("builtin")));
    assert!(
        !answer.stdout.contains("broken") && answer.stderr.contains("broken/SKILL.md:1:1: "),
        "{answer:?}"
    );
}

#[test]
fn the_list_has_a_line_for_each_skill_and_no_colours_in_a_pipe() {
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
    let project = listed_project();
    assert_eq!(project.metier(&["show", "extra"]).code, 3);
    assert_eq!(project.metier(&["show", "extra", "--compat"]).code, 0);
}

#[test]
fn a_skill_is_shown_by_its_plain_and_by_its_qualified_name() {
    let project = listed_project();
    for (name, qualified) in [
        ("counts", "project/.metier:counts@0.0.0"),
        ("project/.agents:counts@9.0.0", "project/.agents:counts@9.0.0"),
        ("counts@9.0.0", "project/.agents:counts@9.0.0"),
        (".agents:counts", "project/.agents:counts@9.0.0"),
        ("builtin:word-count", "builtin/metier:word-count@1.0.0"),
    ] {
        let shown = project.metier(&["show", name, "--json"]).json();
        assert!(ROW.iter().all(|key| shown.get(key).is_some()), "{shown}");
        assert_eq!(shown["qualified"], json!(qualified), "{name}");
    }
    let page = project.metier(&["show", "counts@9.0.0"]).stdout;
    assert!(page.contains("<b> & \"q\"") && page.ends_with("body\n"), "{page}");
}

#[test]
fn the_catalog_comes_as_a_list_as_json_and_as_xml_with_everything_escaped() {
    let project = Project::new().file(
        ".metier/skills/x/SKILL.md",
        "---\nname: x\ndescription: '</description><skill> & \"q\"'\n---\n",
    );
    let listed = project.metier(&["catalog", "--trust"]).stdout;
    assert!(listed.contains("- x: </description><skill> & \"q\"\n"), "{listed}");
    let json = project.metier(&["catalog", "--trust", "--json"]).json();
    for row in json.as_array().unwrap() {
        assert_eq!(keys(row), CATALOG_ROW);
    }
    assert_eq!(project.metier(&["catalog", "--xml", "--json"]).code, 2);
    let xml = project.metier(&["catalog", "--trust", "--xml"]).stdout;
    assert!(xml.starts_with("<available_skills>\n") && xml.ends_with("</available_skills>\n"));
    assert!(
        xml.contains("<description>&lt;/description&gt;&lt;skill&gt; &amp; &quot;q&quot;</description>"),
        "{xml}"
    );
}

#[test]
fn the_catalog_leaves_out_what_cannot_run_unless_all_is_asked_for() {
    let project = Project::new()
        .lua("fine", "return 1")
        .skill(".metier/skills/instructions")
        .file(".metier/skills/odd/SKILL.md", "---\nname: odd\ndescription: d\nruntime: cobol\n---\n")
        .file(".metier/skills/odd/scripts/main.lua", "return 1");
    let names = |catalog: &Value| -> Vec<String> {
        catalog.as_array().unwrap().iter().map(|row| row["name"].as_str().unwrap().to_owned()).collect()
    };
    let offered = project.metier(&["catalog", "--trust", "--json"]).json();
    assert!(names(&offered).contains(&"fine".into()), "{offered}");
    assert!(names(&offered).contains(&"instructions".into()), "instructions need nothing to run: {offered}");
    assert!(!names(&offered).contains(&"odd".into()), "{offered}");
    for form in [&["catalog", "--trust"][..], &["catalog", "--trust", "--xml"]] {
        assert!(!project.metier(form).stdout.contains("odd"), "{form:?}");
    }

    let all = project.metier(&["catalog", "--trust", "--all", "--json"]).json();
    let row = |name: &str| all.as_array().unwrap().iter().find(|row| row["name"] == name).unwrap();
    let mut with_reason = [&CATALOG_ROW[..], &["reason"]].concat();
    with_reason.sort_unstable();
    assert_eq!(keys(row("odd")), with_reason);
    let reason = row("odd")["reason"].as_str().unwrap();
    assert!(row("fine")["reason"].is_null() && row("instructions")["reason"].is_null(), "{all}");
    let page = project.metier(&["catalog", "--trust", "--all"]).stdout;
    assert!(page.contains(&format!("- odd: d (cannot run: {reason})\n")), "{page}");
    assert!(page.contains("- fine: d\n"), "{page}");
    let listed = project.metier(&["list"]).stdout;
    assert!(listed.lines().any(|line| line.starts_with("odd ") && line.contains("cannot run: ")), "{listed}");
    assert_eq!(project.metier(&["catalog", "--trust", "--all", "--xml"]).code, 2);
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
fn each_requested_permission_is_shown_once() {
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
fn an_unknown_worker_protocol_is_reported_before_a_run() {
    let head = "---\nname: x\ndescription: d\nmetadata:\n  version: 1.0.0\n  worker: json-rpc\n---\n";
    let project = Project::new().shell("x", "echo 1").file(".metier/skills/x/SKILL.md", head);
    let sentence = "invalid metadata.worker \"json-rpc\"; expected json-lines";
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

#[test]
fn a_folder_without_a_skill_md_is_named_with_what_it_lacks() {
    let project =
        Project::new().lua("x", "return 1").file(".metier/skills/half/scripts/main.lua", "return 1");
    for args in [&["list"][..], &["list", "--json"], &["doctor"]] {
        let answer = project.metier(args);
        assert!(answer.stderr.contains("half: it has scripts, but no SKILL.md"), "{args:?}: {answer:?}");
        assert!(
            answer.stderr.contains("help: add ") && answer.stderr.contains("half/SKILL.md"),
            "{answer:?}"
        );
    }
    let diagnosis = project.metier(&["doctor", "--json"]).json();
    let problem = &diagnosis["problems"][0];
    assert_eq!(
        problem["message"],
        "it has scripts, but no SKILL.md, so it is not a skill and no model sees it"
    );
    assert_eq!((&problem["severity"], &problem["skipped"]), (&json!("warning"), &json!(true)));
    let answer = project.metier(&["run", "half"]);
    assert!(answer.code == 3 && answer.stderr.contains("no SKILL.md"), "{answer:?}");
}

#[test]
fn a_skill_is_run_by_a_range_of_versions() {
    let version = "---\nname: x\ndescription: d\nmetadata: {version: 1.4.0}\n---\n";
    let project = Project::new().lua("x", "return 1").file(".metier/skills/x/SKILL.md", version);
    assert_eq!(project.metier(&["run", "x@^1"]).stdout.trim(), "1");
    let answer = project.metier(&["run", "x@^2"]);
    assert_eq!(answer.code, 3);
    assert!(answer.stderr.contains("no skill `x` has a version that fits `^2`"), "{answer:?}");
    assert!(answer.stderr.contains("there are project/.metier:x@1.4.0"), "{answer:?}");
}

#[test]
fn a_skill_with_several_scripts_is_shown_with_all_of_them() {
    let folder = ".metier/skills/several";
    let project = Project::new()
        .skill(folder)
        .file(&format!("{folder}/scripts/a.sh"), "true")
        .file(&format!("{folder}/scripts/b.lua"), "return 1")
        .file(&format!("{folder}/scripts/notes.txt"), "no script");
    let shown = project.metier(&["show", "several"]).stdout;
    for line in [
        "runs         yes, one script that is named: scripts/a.sh in external, scripts/b.lua in lua\n",
        "scripts      scripts/a.sh (external), scripts/b.lua (lua), scripts/notes.txt\n",
        "requests     everything\n",
    ] {
        assert!(shown.contains(line), "{line}: {shown}");
    }
    let record = project.metier(&["show", "several", "--json"]).json();
    assert_eq!((&record["runnable"], &record["runtime"]), (&json!(true), &json!(null)));
    assert_eq!(record["requested_permissions"], json!(["everything"]));
    let runtimes =
        json!([{"path": "scripts/a.sh", "runtime": "external"}, {"path": "scripts/b.lua", "runtime": "lua"}]);
    assert_eq!(record["script_runtimes"], runtimes);
    let listed = project.metier(&["list"]).stdout;
    assert!(
        listed.lines().any(|line| line.starts_with("several ") && line.contains(" external, lua ")),
        "{listed}"
    );
    assert!(project.metier(&["catalog", "--trust"]).stdout.contains("- several: d\n"));
    let project = project.file(
        &format!("{folder}/SKILL.md"),
        "---\nname: several\ndescription: d\nallowed-tools: write:out\n---\n",
    );
    let record = project.metier(&["show", "several", "--json"]).json();
    assert_eq!(record["requested_permissions"], json!(["read", "write:out"]));
}
