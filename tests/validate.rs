//! What `metier validate` promises.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::cli::{Answer, Project};

/// `code severity line:column` of every diagnostic of the first answer.
fn codes(answer: &Answer) -> Vec<String> {
    let json = answer.json();
    let text = |diagnostic: &Value, key: &str| diagnostic[key].to_string().replace('"', "");
    let shown = |found: &Value| {
        let [code, severity, line, column] =
            ["code", "severity", "line", "column"].map(|key| text(found, key));
        format!("{code} {severity} {line}:{column}")
    };
    json[0]["diagnostics"].as_array().unwrap().iter().map(shown).collect()
}

/// The codes found in a skill called `x`, valid unless the text or the other files say otherwise.
fn codes_of_x(project: &Project) -> Vec<String> {
    codes(&project.metier(&["validate", "x", "--json"]))
}

fn skill(body: &str) -> Project {
    Project::new().file("x/SKILL.md", format!("---\nname: x\ndescription: d\n---\n{body}"))
}

#[test]
fn a_valid_skill_is_reported_in_one_line() {
    let answer = Project::new().skill("a").metier(&["validate", "a"]);
    assert_eq!((answer.code, answer.stdout.as_str()), (0, "1 skill checked: 1 valid\n"));
    assert_eq!(answer.stderr, "");
}

#[test]
fn a_module_without_its_source_is_reported() {
    let with = |files: &[&str]| {
        files.iter().fold(skill("").file("x/scripts/main.wasm", ""), |project, file| project.file(file, ""))
    };
    let missing = ["source-missing warning 1:1"];
    assert_eq!(codes_of_x(&with(&[])), missing);
    assert_eq!(codes_of_x(&with(&["x/scripts/other.c", "x/src.txt"])), missing);
    for source in ["x/scripts/main.c", "x/scripts/main.wat", "x/src/lib.rs", "x/scripts/src/lib.rs"] {
        assert_eq!(codes_of_x(&with(&[source])), [""; 0], "{source}");
    }
}

#[test]
fn a_contract_by_another_name_is_reported() {
    assert_eq!(codes_of_x(&skill("").file("x/Skill.yaml", "name: x")), ["contract-misnamed warning 1:1"]);
    assert_eq!(codes_of_x(&skill("").file("x/skill.yaml", "name: x")), [""; 0]);
}

#[test]
fn every_key_is_always_there() {
    let project = Project::new().skill("a").file("b/SKILL.md", "---\nname: B\ndescription: d\n---\n");
    let answer = project.metier(&["validate", "--json", "a", "b", "c"]);
    assert_eq!(answer.code, 1);
    let expected = json!([
        {"path": "a", "name": "a", "valid": true, "loads": true, "diagnostics": [], "contract": null, "sequences": [], "trust": null},
        {"path": "b", "name": "B", "valid": false, "loads": true, "diagnostics": [
            {"code": "name-uppercase", "severity": "error", "line": 2, "column": 7,
             "message": "name `B` must be lowercase", "help": "call it `b`, and its directory too"},
            {"code": "name-mismatch", "severity": "error", "line": 2, "column": 7,
             "message": "directory name `b` must match skill name `B`", "help": "rename the directory or the skill"},
        ], "contract": null, "sequences": [], "trust": null},
        {"path": "c", "name": null, "valid": false, "loads": false, "diagnostics": [
            {"code": "path-missing", "severity": "error", "line": 1, "column": 1,
             "message": "Path does not exist: c",
             "help": "name a folder, a SKILL.md, or a skill that `metier list` shows"},
        ], "contract": null, "sequences": [], "trust": null},
    ]);
    assert_eq!(answer.json(), expected);
}

#[test]
fn a_fault_in_a_value_is_pointed_at() {
    let answer = Project::new()
        .file("my-skill/SKILL.md", "---\nname: My_Skill\ndescription: d\n---\n")
        .metier(&["validate", "my-skill"]);
    let expected = "\
error[name-uppercase]: name `My_Skill` must be lowercase
 --> my-skill/SKILL.md:2:7
  |
2 | name: My_Skill
  |       ^^^^^^^^
  |
  = help: call it `my-skill`, and its directory too
";
    assert!(answer.stdout.starts_with(expected), "{}", answer.stdout);
    assert!(answer.stdout.ends_with("\n1 skill checked: 0 valid, 1 invalid\n"));
    assert_eq!((answer.code, answer.stderr.as_str()), (1, ""));
}

#[test]
fn a_missing_field_is_pointed_at_where_it_should_be() {
    let answer = Project::new().file("x/SKILL.md", "---\nname: x\n---\n").metier(&["validate", "x"]);
    let expected = "\
error[description-missing]: Missing required field in frontmatter: description
 --> x/SKILL.md:1:1
  |
1 | ---
  | ^^^
  |
  = help: say in a sentence what the skill does and when to use it

1 skill checked: 0 valid, 1 invalid
";
    assert_eq!(answer.stdout, expected);
}

#[test]
fn a_folder_without_a_skill_is_no_silence() {
    let answer = Project::new().file("x/Skill.MD", "").metier(&["validate", "x"]);
    let expected = "\
error[skill-file-missing]: Missing required file: SKILL.md
--> x
 = help: rename Skill.MD to SKILL.md

1 skill checked: 0 valid, 1 invalid
";
    assert_eq!((answer.code, answer.stdout.as_str()), (1, expected));
}

#[test]
fn as_t01_to_as_t20_have_the_verdicts_of_the_reference() {
    let long = "a".repeat(70);
    let described = |name: &str, rest: &str| format!("---\nname: {name}\ndescription: d\n{rest}---\n");
    let with_description =
        |length: usize| format!("---\nname: x\ndescription: {}\n---\n", "d".repeat(length));
    let compatibility = format!("compatibility: {}\n", "c".repeat(550));
    // The folder, its SKILL.md, and a part of the only error, or nothing where it is valid.
    let cases = [
        ("AS-T01", "my-skill", described("my-skill", ""), ""),
        ("AS-T05", "MySkill", described("MySkill", ""), "lowercase"),
        ("AS-T06", &long, described(&long, ""), "character limit"),
        ("AS-T07", "-my-skill", described("-my-skill", ""), "hyphen"),
        ("AS-T08", "my--skill", described("my--skill", ""), "consecutive hyphens"),
        ("AS-T09", "my_skill", described("my_skill", ""), "invalid characters"),
        ("AS-T10", "wrong-name", described("correct-name", ""), "must match"),
        ("AS-T11", "x", described("x", "unknown_field: y\n"), "Unexpected fields"),
        ("AS-T12", "技能", described("技能", ""), ""),
        ("AS-T12", "мой-навык", described("мой-навык", ""), ""),
        ("AS-T12", "НАВЫК", described("НАВЫК", ""), "lowercase"),
        ("AS-T13", "x", with_description(1100), "1024"),
        ("AS-T14", "x", described("x", &compatibility), "500"),
        ("AS-T15", "caf\u{e9}", described("cafe\u{301}", ""), ""),
        ("AS-T16", "x", described("x", "metadata:\n  version: 1.0\n"), ""),
        ("AS-T19", "x", "---\n- a list\n---\n".to_owned(), "must be a YAML mapping"),
        ("AS-T20", "x", "---\nname: x\n".to_owned(), "not properly closed"),
    ];
    for (case, folder, text, words) in cases {
        let project = Project::new().file(&format!("{folder}/SKILL.md"), &text);
        let path = format!("./{folder}");
        let answer = project.metier(&["validate", &path, "--profile", "skills-ref", "--json"]).json();
        let found = answer[0]["diagnostics"].as_array().unwrap().iter();
        let errors: Vec<&Value> = found.filter(|found| found["severity"] == "error").collect();
        assert_eq!(answer[0]["valid"], errors.is_empty(), "{case}: {answer}");
        match words {
            "" => assert_eq!(errors, [] as [&Value; 0], "{case}"),
            words => assert!(
                errors.len() == 1 && errors[0]["message"].as_str().unwrap().contains(words),
                "{case}: {errors:?}"
            ),
        }
    }
}

#[test]
fn paths_that_are_no_skills_are_reported_in_the_reference_validators_words() {
    let project = Project::new().file("file.txt", "").file("empty/x/notes.md", "");
    let answer = project.metier(&["validate", "--json", "nowhere", "file.txt", "empty", "file.txt/SKILL.md"]);
    assert_eq!(answer.code, 1);
    let json = answer.json();
    // AS-T02, AS-T03, AS-T04
    for (at, code, words) in [
        (0, "path-missing", "does not exist"),
        (1, "not-a-directory", "Not a directory"),
        (2, "skill-file-missing", "Missing required file: SKILL.md"),
        (3, "path-missing", "does not exist"),
    ] {
        let diagnostic = &json[at]["diagnostics"][0];
        assert_eq!(diagnostic["code"], code);
        assert!(diagnostic["message"].as_str().unwrap().contains(words), "{diagnostic}");
        assert_eq!(json[at]["valid"], false);
    }
}

#[test]
fn every_skill_below_a_folder_is_checked_in_order() {
    let project = Project::new()
        .skill(".metier/skills/b")
        .skill("deep/er/a")
        .skill("deep/er/a/nested")
        .skill("node_modules/c")
        .skill(".git/d");
    let json = project.metier(&["validate", ".", "--json"]).json();
    let paths: Vec<_> =
        json.as_array().unwrap().iter().map(|skill| skill["path"].as_str().unwrap()).collect();
    assert_eq!(paths, ["./.metier/skills/b", "./deep/er/a", "./deep/er/a/nested"]);
}

#[test]
fn a_skill_may_be_named_by_its_file_or_by_a_dot() {
    let project = Project::new().skill("a");
    for (folder, path) in [("a", "."), ("a", "SKILL.md"), (".", "a/SKILL.md"), ("a", "../a/"), ("a", "./.")] {
        let answer = project.metier_in(folder, &["validate", path]);
        assert_eq!(answer.code, 0, "{path}: {}", answer.stdout);
    }
}

#[test]
fn the_profile_decides_what_is_valid() {
    let project = Project::new().file("x/SKILL.md", "---\nname: x\ndescription: d\nversion: 1\n---\n");
    assert_eq!(project.metier(&["validate", "x"]).code, 0);
    let strict = project.metier(&["validate", "x", "--profile", "skills-ref"]);
    assert_eq!(strict.code, 1);
    assert!(strict.stdout.contains("Unexpected fields in frontmatter: version"), "{}", strict.stdout);
    assert_eq!(project.metier(&["validate", "x", "--profile", "agent-plugins"]).code, 1);
    let unknown = project.metier(&["validate", "x", "--profile", "strict"]);
    assert_eq!(unknown.code, 2);
    assert!(unknown.stderr.contains("[possible values: spec, skills-ref, agent-plugins]"));
    assert_eq!(project.metier(&["validate"]).code, 2);
}

#[test]
fn files_the_text_names_must_be_there() {
    let text = "[a](there.md) [b](gone.md)\nrun scripts/gone.py or scripts/there.py\n[c](../up.md) [d](/x) [e](http://x)\n";
    let project = skill(text).file("x/there.md", "").file("x/scripts/there.py", "").file("up.md", "");
    let expected = ["link-missing warning 5:19", "link-missing warning 6:5", "link-outside warning 7:5"];
    assert_eq!(codes_of_x(&project), expected);
    assert_eq!(project.metier(&["validate", "x"]).code, 0);
}

#[test]
fn words_of_another_client_under_metadata_keep_no_skill_from_running() {
    for (words, code) in [
        ("worker: opus", "worker-foreign warning 5:11"),
        ("worker: 4", "worker-foreign warning 5:11"),
        ("entrypoint: main", "entrypoint-foreign warning 5:15"),
        ("entrypoint: package.cli:main", "entrypoint-foreign warning 5:15"),
        ("entrypoint: SKILL.md", "entrypoint-foreign warning 5:15"),
        ("entrypoint: index.html", "entrypoint-foreign warning 5:15"),
        ("entrypoint: notes.txt", "entrypoint-foreign warning 5:15"),
        ("entrypoint: v1.0", "entrypoint-foreign warning 5:15"),
        ("entrypoint: python scripts/main.py", "entrypoint-foreign warning 5:15"),
        ("entrypoint: https://x.org/a", "entrypoint-foreign warning 5:15"),
        ("entrypoint: /review", "entrypoint-foreign warning 5:15"),
    ] {
        let head = format!("---\nname: x\ndescription: d\nmetadata:\n  {words}\n---\n");
        let project = Project::new().shell("x", "echo ran").file(".metier/skills/x/SKILL.md", &head);
        let project = project.file(".metier/skills/x/notes.txt", "notes");
        let validated = project.metier(&["validate", ".metier/skills/x", "--json"]);
        assert_eq!(codes(&validated), [code], "{words}");
        assert_eq!(project.metier(&["run", "x"]).stdout, "ran\n", "{words}");
    }
    // What is a path leads to no other script, and what is a protocol to no other way of running.
    for words in ["entrypoint: scripts/gone.sh", "entrypoint: gone.sh", "worker: ndjson"] {
        let head = format!("---\nname: x\ndescription: d\nmetadata:\n  {words}\n---\n");
        let project = Project::new().shell("x", "echo ran").file(".metier/skills/x/SKILL.md", &head);
        assert_eq!(project.metier(&["run", "x"]).code, 3, "{words}");
    }
}

#[test]
fn a_runtime_must_be_one_and_have_a_script() {
    let with = |runtime: &str| {
        let text = format!("---\nname: x\ndescription: d\nmetadata:\n  runtime: {runtime}\n---\n");
        Project::new()
            .file("x/SKILL.md", text)
            .file("x/scripts/main.lua", "return 1")
            .file("x/scripts/run.py", "")
    };
    assert_eq!(codes_of_x(&with("lua")), [""; 0]);
    assert_eq!(codes_of_x(&with("external")), [""; 0]);
    assert_eq!(codes_of_x(&with("wasm")), ["runtime-unfit error 5:12"]);
    for foreign in ["python", "node20", "20", "pyton"] {
        let project = with(foreign);
        assert_eq!(codes_of_x(&project), ["runtime-foreign warning 5:12"], "{foreign}");
        assert_eq!(project.metier(&["validate", "x"]).code, 0, "{foreign}");
    }
    let in_one_line = Project::new()
        .file("x/SKILL.md", "---\nname: x\ndescription: d\nmetadata: {runtime: node20}\n---\n")
        .file("x/scripts/main.lua", "return 1");
    assert_eq!(codes_of_x(&in_one_line), ["runtime-foreign warning 4:21"]);
    assert_eq!(
        codes_of_x(&with("{engine: node}")),
        ["metadata-nested warning 5:3", "metadata-runtime warning 5:12"]
    );
    let at_top = Project::new()
        .file("x/SKILL.md", "---\nname: x\ndescription: d\nruntime: python\n---\n")
        .file("x/scripts/main.lua", "return 1");
    assert!(codes_of_x(&at_top).contains(&"runtime-unknown error 4:10".to_owned()));
}

#[test]
fn text_that_yaml_drops_is_reported_with_its_place() {
    let with = |description: &str| {
        Project::new().file("x/SKILL.md", format!("---\nname: x\ndescription: {description}\n---\n"))
    };
    assert_eq!(codes_of_x(&with("Fix issue #12 and more")), ["yaml-text-dropped warning 3:24"]);
    assert_eq!(codes_of_x(&with("&name does things")), ["yaml-text-dropped warning 3:14"]);
    assert_eq!(codes_of_x(&with("!important does things")), ["yaml-text-dropped warning 3:14"]);
    assert_eq!(codes_of_x(&with("Fix it # a comment")), [""; 0]);
    assert_eq!(codes_of_x(&with("'Fix issue #12 and more'")), [""; 0]);
    let shown = with("Fix issue #12 and more").metier(&["validate", "x"]).stdout;
    assert!(shown.contains("`#12 and more` is a comment of YAML, so it is left out of the value"), "{shown}");
    assert!(shown.contains("put quotes around the whole value"), "{shown}");
    for file in ["skill.yaml", "skill.yml"] {
        let text = "description: d\ninputs:\n  n: {type: string, description: d}\n  m:\n    type: string\n    description: Issue #3\n";
        let project = skill("").file(&format!("x/{file}"), text);
        let answer = project.metier(&["validate", "x", "--json"]).json();
        let found = answer[0]["contract"]["diagnostics"].as_array().unwrap().clone();
        let dropped = found.iter().find(|found| found["code"] == "yaml-text-dropped").unwrap();
        assert_eq!((&dropped["line"], &dropped["column"]), (&6.into(), &24.into()), "{answer}");
    }
}

#[test]
fn tools_that_grant_nothing_are_reported() {
    let tools = "Read Bash(git:*) write:out wrte Task";
    let text = format!("---\nname: x\ndescription: d\nallowed-tools: {tools}\n---\n");
    let project = Project::new().file("x/SKILL.md", text);
    assert_eq!(codes_of_x(&project), ["allowed-tool-unknown info 4:43", "allowed-tool-unknown info 4:48"]);
    let shown = project.metier(&["validate", "x"]);
    assert_eq!(shown.code, 0);
    assert!(
        shown
            .stdout
            .contains("info[allowed-tool-unknown]: no permission is called `wrte`; it grants nothing")
    );
    assert!(shown.stdout.contains("= help: did you mean `write`?"));
}

#[cfg(target_os = "linux")]
#[test]
fn two_files_that_differ_in_case_are_reported() {
    assert_eq!(codes_of_x(&skill("").file("x/skill.md", "")), ["skill-file-twice warning 1:1"]);
}

#[cfg(unix)]
#[test]
fn a_skill_file_that_is_a_link_to_one_of_the_project_is_checked() {
    let project = skill("").skill("source/y").file(".metier/skills/y/notes.md", "");
    std::os::unix::fs::symlink("../../../source/y/SKILL.md", project.path(".metier/skills/y/SKILL.md"))
        .unwrap();
    let answer = project.metier(&["validate", ".metier/skills/y"]);
    assert_eq!((answer.code, answer.stdout.as_str()), (0, "1 skill checked: 1 valid\n"), "{answer:?}");
}

#[cfg(unix)]
#[test]
fn a_skill_file_that_is_a_link_stays_in_its_folder() {
    let project = skill("").file("secret", "---\nname: TOP_SECRET\n---\n").file("y/notes.md", "");
    std::os::unix::fs::symlink("../secret", project.path("y/SKILL.md")).unwrap();
    std::os::unix::fs::symlink("nowhere", project.path("y/skill.md")).unwrap();
    for path in ["y", "y/SKILL.md", "y/skill.md"] {
        let answer = project.metier(&["validate", path, "--json"]);
        assert_eq!((answer.code, codes(&answer)), (1, vec!["unreadable error 1:1".to_owned()]), "{path}");
        assert!(!answer.stdout.contains("TOP_SECRET"));
        let is_lowercase = path.ends_with("skill.md");
        let words = if is_lowercase {
            "skill.md is a link to nowhere, which is not there"
        } else {
            "SKILL.md is a link to ../secret, outside of the skill's folder"
        };
        assert!(answer.stdout.contains(words), "{path}: {answer:?}");
    }
}

#[cfg(unix)]
#[test]
fn linked_skills_are_checked_and_circles_do_no_harm() {
    let project = Project::new().skill("store/a");
    std::fs::create_dir(project.path("skills")).unwrap();
    std::os::unix::fs::symlink("../store/a", project.path("skills/a")).unwrap();
    std::os::unix::fs::symlink("..", project.path("skills/up")).unwrap();
    let answer = project.metier(&["validate", "skills"]);
    assert_eq!((answer.code, answer.stdout.as_str()), (0, "1 skill checked: 1 valid\n"));
}

#[cfg(unix)]
#[test]
fn a_fifo_does_not_hang() {
    let project = Project::new().file("x/notes.md", "").skill("y").file("y/a.md", "[f](fifo)");
    let made = std::process::Command::new("mkfifo").arg(project.path("x/SKILL.md")).status().unwrap();
    assert!(made.success());
    for path in ["x", "x/SKILL.md", "."] {
        let answer = project.metier(&["validate", path, "--json"]);
        assert!(answer.stdout.contains("it is not a regular file"), "{}", answer.stdout);
    }
}

#[test]
fn a_huge_file_is_read_in_part() {
    let project = skill("text\n");
    let file = std::fs::OpenOptions::new().append(true).open(project.path("x/SKILL.md")).unwrap();
    file.set_len(1 << 30).unwrap();
    let start = Instant::now();
    let answer = project.metier(&["validate", "x", "--json"]);
    assert!(start.elapsed() < Duration::from_secs(5));
    assert_eq!(codes(&answer), ["body-control-character warning 6:1", "skill-file-large warning 1:1"]);
    assert_eq!(answer.code, 0);
}

#[test]
fn hostile_bodies_cost_little() {
    for body in ["[a](b".repeat(200_000), "`scripts/a.b ".repeat(80_000), "[](x) ".repeat(170_000)] {
        let project = skill(&body);
        let start = Instant::now();
        project.metier(&["validate", "x"]);
        assert!(start.elapsed() < Duration::from_secs(5), "{}", &body[..12]);
    }
    let many: String =
        (0..60_000).flat_map(|number| [String::from("[](gone-"), number.to_string(), ")\n".into()]).collect();
    let answer = skill(&many).metier(&["validate", "x", "--json"]);
    assert_eq!(codes(&answer).len(), 33);
}

#[cfg(unix)]
#[test]
fn nothing_a_terminal_obeys_comes_out_raw() {
    let folder = "a\u{1b}[31m\u{9b}2J\u{202e}";
    let text = "---\nname: \"\\e[31m\\x9b\"\ndescription: \u{202e}d\nver\u{202e}sion: 1\nx\u{200f}\u{2028}\u{e0041}y: 1\n---\n[a](\u{1b}x) [b](no\u{9b}pe) [c](no\u{7f})\n";
    let project = Project::new().file(&format!("{folder}/SKILL.md"), text).file("f\u{1b}[0m", "");
    for args in
        [&["validate", "."][..], &["validate", ".", "--json"], &["validate", "f\u{1b}[0m", "gone\u{9b}"]]
    {
        let answer = project.metier(args);
        assert_eq!(answer.code, 1);
        let raw = |c: char| c.is_control() && c != '\n';
        assert!(
            !answer.stdout.contains(raw) && !answer.stderr.contains(raw),
            "{}",
            answer.stdout.escape_debug()
        );
        let turns = ['\u{202e}', '\u{200f}', '\u{2028}', '\u{e0041}'];
        assert!(args.contains(&"--json") || !answer.stdout.contains(turns), "{}", answer.stdout);
    }
    let json = project.metier(&["validate", ".", "--json"]).json();
    assert_eq!(json[0]["path"], format!("./{folder}"));
}

#[test]
fn a_plan_is_checked_however_large_it_may_be() {
    let step = json!({"tool": "read_file", "args": {"path": "a", "pahtt": "x".repeat(1000)}});
    let plan = |steps: usize| serde_json::to_string(&vec![step.clone(); steps]).unwrap();
    let told = |text: String| {
        let project = skill("").file("x/scripts/sequence.json", text);
        let answer = project.metier(&["validate", "x", "--json"]);
        (answer.code, answer.json()[0]["sequences"][0]["diagnostics"][0]["code"].clone())
    };
    assert_eq!(told(plan(1200)), (1, json!("parameter-unknown")));
    let (code, rule) = told(plan(4200));
    assert_eq!((code, rule), (1, json!("plan-too-large")), "what cannot be checked is not valid");
}

#[test]
fn an_entrypoint_without_its_folder_is_missing_and_the_error_has_help() {
    let project =
        skill("").file("x/scripts/main.lua", "return 1").file("x/skill.yaml", "entrypoint: main.lua");
    let answer = project.metier(&["validate", "x"]);
    assert_eq!(answer.code, 1);
    assert!(answer.stdout.contains("error[entrypoint-missing]"), "{}", answer.stdout);
    assert!(answer.stdout.contains("help: write scripts/main.lua"), "{}", answer.stdout);
}

#[test]
fn a_script_of_another_language_than_is_named_is_no_plan_with_a_fault() {
    let project = Project::new()
        .file("x/SKILL.md", "---\nname: x\ndescription: d\nmetadata:\n  runtime: tool-sequence\n---\n")
        .file("x/scripts/main.lua", "return 1")
        .file("x/skill.yaml", "name: x\nentrypoint: scripts/main.lua");
    let answer = project.metier(&["validate", "x", "--json"]).json();
    let found = &answer[0]["contract"]["diagnostics"][0];
    assert_eq!((&found["code"], &found["line"]), (&json!("entrypoint-unfit"), &json!(2)), "{answer:#}");
    assert_eq!(
        found["message"],
        "the entrypoint `scripts/main.lua` is a script in lua, but the runtime is tool-sequence in SKILL.md:5"
    );
    assert_eq!(answer[0]["sequences"], json!([]), "{answer:#}");
    assert_eq!(answer[0]["valid"], false);
    let head =
        "---\nname: x\ndescription: d\nmetadata:\n  runtime: rhai\n  entrypoint: scripts/main.lua\n---\n";
    let alone = Project::new().file("x/SKILL.md", head).file("x/scripts/main.lua", "return 1");
    assert_eq!(crate::validate::codes_of_x(&alone), ["runtime-unfit error 5:12"]);
}

#[test]
fn a_skill_of_the_project_is_validated_by_its_name() {
    let project = Project::new().skill(".metier/skills/mine").skill("here");
    let answer = project.metier(&["validate", "mine", "here"]);
    assert_eq!((answer.code, answer.stdout.as_str()), (0, "2 skills checked: 2 valid\n"));
    let path = project.metier(&["validate", "mine", "--json"]).json()[0]["path"].clone();
    assert!(path.as_str().unwrap().ends_with(".metier/skills/mine"), "{path}");
    let answer = project.metier(&["validate", "mien"]);
    assert_eq!(answer.code, 1);
    assert!(answer.stdout.contains("Path does not exist: mien"), "{}", answer.stdout);
    assert!(answer.stdout.contains("did you mean `mine`?"), "{}", answer.stdout);
}

#[test]
fn a_script_that_a_shell_misreads_is_reported_with_its_file() {
    let project = skill("")
        .file("x/scripts/main.sh", "#!/usr/bin/env bash\r\nset -euo pipefail\r\n")
        .file("x/scripts/lib/run", "#!/bin/sh\r\necho a\r\n")
        .file("x/scripts/marked.sh", "\u{feff}echo a\n")
        .file("x/setup.sh", "echo a\r\n")
        .file("x/scripts/fine.sh", "#!/bin/sh\necho a\n")
        .file("x/scripts/fine.py", "print(1)\r\n")
        .file("x/scripts/data.txt", "a\r\n")
        .file("x/scripts/.hidden.sh", "a\r\n");
    let answer = project.metier(&["validate", "x", "--json"]);
    assert_eq!(answer.code, 0, "{answer:?}");
    assert_eq!(codes(&answer), ["script-misread warning 1:1"; 4]);
    let shown = project.metier(&["validate", "x"]).stdout;
    for words in [
        "`scripts/main.sh`: its lines end in CR LF, as on Windows",
        "`scripts/lib/run`: its lines end in CR LF",
        "`scripts/marked.sh`: it begins with a byte order mark",
        "`setup.sh`: its lines end in CR LF",
    ] {
        assert!(shown.contains(words), "{words}: {shown}");
    }
    let alone = Project::new()
        .file("x/skill.yaml", "name: x\ndescription: d\n")
        .file("x/scripts/main.sh", "echo a\r\n");
    assert_eq!(codes_of_x(&alone), ["script-misread warning 1:1"]);
    let one_file = Project::new().file(".metier/skills/one.sh", "# Prints a.\r\necho a\r\n");
    assert_eq!(codes(&one_file.metier(&["validate", "one", "--json"])), ["script-misread warning 1:1"]);
}
