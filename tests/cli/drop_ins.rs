//! A script in a root is a skill: it runs, is listed, trusted, validated and made like any other.

use serde_json::{Value, json};

use crate::support::cli::Project;
use crate::support::not_run::{find_program, not_run};

fn value(project: &Project, args: &[&str]) -> Value {
    let answer = project.metier(&[&["run", "--json"], args].concat());
    let outcome = answer.json();
    assert_eq!(outcome["ok"], true, "{answer:?}");
    outcome["value"].clone()
}

#[test]
fn a_script_in_a_root_runs_in_its_language() {
    let project = Project::new()
        .file(
            ".metier/skills/lua-one.lua",
            "-- Lua.\nreturn ctx.read_file('a.txt') .. (input and input.x or '')",
        )
        .file(".metier/skills/shell-one.sh", "#!/bin/sh\n# Shell.\ncat a.txt\nprintf '%s' \"$@\"")
        .file(".metier/skills/rhai-one.rhai", "// Rhai.\nctx.read_file(\"a.txt\")")
        .file("a.txt", "of the project");
    assert_eq!(value(&project, &["lua-one", "--input", "{\"x\": \"!\"}"]), "of the project!");
    assert_eq!(value(&project, &["shell-one", "--", "1", "2"]), "of the project12");
    if metier::supports(metier::executor::RuntimeId::RHAI).is_ok() {
        assert_eq!(value(&project, &["rhai-one"]), "of the project");
    }
    let listed = project.metier(&["list", "--json"]).json();
    let row = listed.as_array().unwrap().iter().find(|row| row["name"] == "lua-one").unwrap();
    let path = project.path(".metier/skills/lua-one.lua").canonicalize().unwrap();
    assert_eq!(row["path"], path.display().to_string(), "{row}");
    let shown = project.metier(&["show", "lua-one"]).stdout;
    assert!(shown.contains("Lua.") && shown.contains("scripts/lua-one.lua"), "{shown}");
}

#[test]
fn a_module_of_webassembly_in_a_root_is_a_skill() {
    if metier::supports(metier::executor::RuntimeId::WASM).is_err() {
        return;
    }
    let module = include_bytes!("../plugins/words.wasm");
    let project = Project::new().file(".metier/skills/words.wasm", module).file("a.txt", "three short words");
    let input = ["words", "--input", r#"{"path": "a.txt"}"#];
    assert_eq!(value(&project, &input)["words"], json!(3));
    let listed = project.metier(&["list", "--json"]).json();
    let row = listed.as_array().unwrap().iter().find(|row| row["name"] == "words").unwrap();
    assert_eq!((&row["runtime"], &row["description"]), (&json!("wasm"), &json!("Runs words.wasm.")), "{row}");
    let refused = project.metier(&["run", "words", "--for-model", "--input", input[2]]);
    assert_eq!(refused.code, 4, "{refused:?}");
    assert_eq!(project.metier(&["trust", "--yes"]).code, 0);
    let trusted = project.metier(&["run", "words", "--for-model", "--input", input[2]]);
    assert!(trusted.code == 0 && trusted.stdout.contains('3'), "{trusted:?}");
    // Another module under this name is another skill.
    let changed = [&module[..], &[0, 2, 1, b'x']].concat();
    let project = project.file(".metier/skills/words.wasm", changed);
    assert_eq!(value(&project, &input)["words"], json!(3), "an unknown section changes nothing");
    assert_eq!(project.metier(&["run", "words", "--for-model", "--input", input[2]]).code, 4);
    let project = project.file(".metier/skills/broken.wasm", "\0asm and no more");
    let broken = project.metier(&["run", "broken"]);
    assert!(broken.code != 0 && broken.stderr.contains("broken.wasm"), "{broken:?}");
}

#[test]
fn a_script_of_javascript_in_a_root_is_a_skill() {
    if find_program("node").is_none() {
        return not_run("a script of JavaScript in a root", "node is not installed");
    }
    let script = "#!/usr/bin/env node\n/**\n * Adds numbers. Use it for sums.\n */\n// /// skill\n// inputs:\n//   numbers: {type: array}\n// ///\n\
                  const input = JSON.parse(require('fs').readFileSync(0, 'utf8'))\n\
                  console.log(JSON.stringify({sum: input.numbers.reduce((a, b) => a + b, 0), args: process.argv.slice(2)}))\n";
    let module =
        "// Tells its name.\nimport {basename} from 'node:path'\nconsole.log(basename(process.argv[1]))\n";
    let project =
        Project::new().file(".metier/skills/sum.js", script).file(".metier/skills/name.mjs", module);
    let input = ["sum", "--input", r#"{"numbers": [1, 2, 39]}"#];
    assert_eq!(value(&project, &[&input[..], &["--", "a b"]].concat()), json!({"sum": 42, "args": ["a b"]}));
    assert_eq!(value(&project, &["name"]), json!("name.mjs\n"));
    let shown = project.metier(&["show", "sum", "--json"]).json();
    assert_eq!(shown["description"], json!("Adds numbers. Use it for sums."), "{shown}");
    let refused = project.metier(&["run", "sum", "--input", r#"{"numbers": 1}"#, "--json"]).json();
    assert_eq!(refused["error"]["kind"], "invalid-input", "{refused}");
    let project = project.file(".metier/skills/sum.py", "\"\"\"Adds.\"\"\"\n");
    let both = project.metier(&["run", "sum", "--input", input[2]]);
    assert!(both.code != 0 && both.stderr.contains("sum.js") && both.stderr.contains("sum.py"), "{both:?}");
}

/// What lies beside it in the root belongs to other skills, which nobody looked at when this one was trusted.
#[test]
fn a_script_sees_no_other_script_of_its_root() {
    let project = Project::new()
        .file(".metier/skills/json.py", "raise SystemExit('the wrong module')")
        .file(
            ".metier/skills/main.py",
            "\"\"\"Imports.\"\"\"\nimport json, os, sys\nprint(json.dumps(sorted(os.listdir(sys.path[0]))))",
        )
        .file(".metier/skills/other.luau", "return 'other'")
        .file(".metier/skills/needs.lua", "-- Needs.\nreturn (pcall(require, './other'))");
    if std::process::Command::new("python3").arg("-V").output().is_ok() {
        assert_eq!(value(&project, &["main"]), json!(["main.py"]));
    }
    assert_eq!(value(&project, &["needs"]), json!(false));
}

#[test]
fn a_contract_in_a_comment_holds() {
    let script = "# Doubles.\n# /// skill\n# version: 2.0.0\n# inputs:\n#   n: {type: integer}\n# permissions: [\"write:out\"]\n# ///\n\
                  cat > /dev/null; echo 4";
    let project = Project::new().file(".metier/skills/double.sh", script);
    assert_eq!(value(&project, &["double", "--input", "{\"n\": 2}"]), json!(4));
    let refused = project.metier(&["run", "double", "--input", "{\"n\": \"x\"}", "--json"]).json();
    assert_eq!(refused["error"]["kind"], "invalid-input", "{refused}");
    let shown = project.metier(&["show", "double", "--json"]).json();
    assert_eq!(shown["version"], "2.0.0", "{shown}");
    let broken = project.file(".metier/skills/broken.sh", "# B.\n# /// skill\n# inputs: [\n# ///\n");
    let refused = broken.metier(&["run", "broken"]);
    assert!(refused.code != 0 && refused.stderr.contains("broken.sh:"), "{refused:?}");
}

#[test]
fn its_trust_is_bound_to_its_text() {
    let project = Project::new().file(".metier/skills/hello.lua", "-- Hello.\nreturn 'hello'");
    assert_eq!(project.metier(&["run", "hello", "--for-model"]).code, 4);
    assert!(!project.metier(&["catalog"]).stdout.contains("hello"));
    assert_eq!(project.metier(&["trust", "--yes"]).code, 0);
    assert_eq!(project.metier(&["run", "hello", "--for-model"]).stdout, "hello\n");
    assert!(project.metier(&["catalog"]).stdout.contains("- hello: Hello.\n"));
    assert_eq!(project.metier(&["lock"]).code, 0);
    assert_eq!(project.metier(&["run", "hello", "--locked"]).stdout, "hello\n");
    let project = project.file(".metier/skills/beside.lua", "-- Beside.\nreturn 1");
    assert_eq!(
        project.metier(&["run", "hello", "--for-model"]).stdout,
        "hello\n",
        "another skill changes nothing"
    );
    let project = project.file(".metier/skills/hello.lua", "-- Hello.\nreturn 'evil'");
    assert_eq!(project.metier(&["run", "hello", "--for-model"]).code, 4);
    let locked = project.metier(&["run", "hello", "--locked"]);
    assert!(locked.code == 4 && locked.stderr.contains("scripts/hello.lua"), "{locked:?}");
    assert_eq!(project.metier(&["run", "hello"]).stdout, "evil\n", "a person typed it");
}

#[test]
fn a_script_cannot_change_itself_or_another_one() {
    let script = "# Writes.\nfor file in self.sh other.lua new.lua; do echo x > .metier/skills/$file; done 2> /dev/null; true";
    let project = Project::new()
        .file(".metier/skills/self.sh", script)
        .file(".metier/skills/other.lua", "-- Other.\nreturn 1");
    project.metier(&["run", "self", "--allow", "write"]);
    assert_eq!(project.read(".metier/skills/self.sh"), script);
    assert_eq!(project.read(".metier/skills/other.lua"), "-- Other.\nreturn 1");
    assert!(!project.path(".metier/skills/new.lua").exists());
}

#[test]
fn new_makes_one_that_a_model_may_run() {
    for (file, name) in [("hello.lua", "hello"), ("count.py", "count"), ("list.sh", "list")] {
        let project = Project::new().file("a.txt", "");
        let made = project.metier(&["new", file, "--description", "Lists files. Use it often.", "--json"]);
        assert_eq!(made.code, 0, "{made:?}");
        assert_eq!(made.json()["files"], json!([file]));
        let text = project.read(&format!(".metier/skills/{file}"));
        assert!(text.contains(" Lists files. Use it often.\n"), "{text}");
        let shown = project.metier(&["show", name, "--json"]).json();
        assert_eq!(
            (&shown["description"], &shown["trust"]),
            (&json!("Lists files. Use it often."), &json!("trusted"))
        );
        let again = project.metier(&["new", file]);
        assert!(again.code == 2 && again.stderr.contains("already exists"), "{again:?}");
        let run = project.metier(&["run", name, "--for-model", "--", "*.txt"]);
        assert!(run.code == 0 || made.json()["runnable"] == false, "{run:?}");
        assert!(project.metier(&["validate", &format!(".metier/skills/{file}")]).stdout.contains("1 valid"));
    }
    let project = Project::new();
    for name in ["Bad Name.lua", "hello.json", "../x.lua", "hello.cobol"] {
        assert_eq!(project.metier(&["new", name]).code, 2, "{name}");
    }
    assert!(
        !project.path(".metier/skills").exists()
            || project.path(".metier/skills").read_dir().unwrap().next().is_none()
    );
}

#[test]
fn validate_checks_it() {
    let project = Project::new()
        .file(".metier/skills/good.lua", "-- Good.\nreturn 1")
        .file(".metier/skills/mute.lua", "return 1")
        .file(".metier/skills/bad.lua", "-- Bad.\n-- /// skill\n-- timeout: []\n-- ///\nreturn 1")
        .file(".metier/skills/twice.lua", "-- Twice.")
        .file(".metier/skills/twice.sh", "# Twice.")
        .file("elsewhere.lua", "-- No skill.");
    let checked = project.metier(&["validate", ".metier/skills", "--json"]);
    let verdicts: Vec<(String, bool, bool)> = checked
        .json()
        .as_array()
        .unwrap()
        .iter()
        .map(|row| {
            let file = row["path"].as_str().unwrap().rsplit('/').next().unwrap().to_owned();
            (file, row["loads"].as_bool().unwrap(), row["valid"].as_bool().unwrap())
        })
        .collect();
    let expected = [
        ("bad.lua", true, false),
        ("good.lua", true, true),
        ("mute.lua", true, true),
        ("twice.lua", false, false),
        ("twice.sh", false, false),
    ];
    assert_eq!(verdicts, expected.map(|(file, loads, valid)| (file.to_owned(), loads, valid)));
    assert_eq!(checked.code, 1);
    let bad = project.metier(&["validate", ".metier/skills/bad.lua"]);
    assert!(bad.code == 1 && bad.stdout.contains("bad.lua:3:"), "{bad:?}");
    assert_eq!(project.metier(&["validate", "good"]).code, 0);
    assert_eq!(project.metier(&["validate", "elsewhere.lua"]).code, 1);
}
