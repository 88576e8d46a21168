//! `metier run`: the value on standard output, everything else beside it.

use super::cli::Project;

#[test]
fn the_value_is_printed_text_as_it_is_and_the_rest_as_json() {
    for (script, printed) in [
        ("return 'two\\nlines'", "two\nlines\n"),
        ("return 'ended\\n'", "ended\n"),
        ("return {a = array{1, null}}", "{\n  \"a\": [\n    1,\n    null\n  ]\n}\n"),
        ("return 42", "42\n"),
        ("", "null\n"),
    ] {
        let answer = Project::new().lua("x", script).metier(&["run", "x"]);
        assert_eq!(
            (answer.code, answer.stdout.as_str(), answer.stderr.as_str()),
            (0, printed, ""),
            "{script}"
        );
    }
}

#[test]
fn what_a_skill_says_while_it_runs_never_mixes_with_its_value() {
    let script = "print('a') ctx.log('warn', 'b') ctx.progress('c', 1, 2) return 'value'";
    let answer = Project::new().lua("x", script).metier(&["run", "x"]);
    assert_eq!(answer.stdout, "value\n");
    assert_eq!(answer.stderr, "info: a\nwarning: b\n");
}

#[test]
fn a_process_is_given_its_arguments_its_input_and_the_project() {
    let script = "cat; printf '[%s]' \"$@\"; echo \" $PWD\" >&2";
    let project = Project::new().shell("x", script).file("sub/a", "");
    let args = ["run", "x", "--sandbox", "best-effort", "--input", "[1]", "--", "--json", "two words", ""];
    let answer = project.metier_in("sub", &args);
    assert_eq!((answer.code, answer.stdout.as_str()), (0, "[1][--json][two words][]\n"));
    let root = project.path(".").canonicalize().unwrap();
    assert!(answer.stderr.ends_with(&format!(" {}\n", root.display())), "{}", answer.stderr);
}

#[test]
fn arguments_nobody_is_given_are_not_passed_over_in_silence() {
    let answer = Project::new().lua("x", "return 1").metier(&["run", "x", "--", "a"]);
    assert_eq!((answer.code, answer.stdout.as_str()), (0, "1\n"));
    assert!(answer.stderr.starts_with("warning: only processes are given the arguments"), "{answer:?}");
}

#[test]
fn one_of_several_scripts_is_named() {
    let project = Project::new()
        .skill(".metier/skills/x")
        .file(".metier/skills/x/scripts/a.lua", "return 'a'")
        .file(".metier/skills/x/scripts/b.lua", "return 'b'");
    for script in ["scripts/b.lua", "b.lua", "./scripts/b.lua"] {
        assert_eq!(project.metier(&["run", "x", "--script", script]).stdout, "b\n");
    }
    for (args, code, words) in [
        (&["run", "x"][..], 2, "name one with --script"),
        (&["run", "x", "--script", "c.lua"], 3, "its scripts are scripts/a.lua, scripts/b.lua"),
        (&["run", "x", "--script", "../../../a"], 3, "has no script"),
        (&["run", "x", "--script", "/etc/passwd"], 3, "has no script"),
    ] {
        let answer = project.metier(args);
        assert!(answer.code == code && answer.stderr.contains(words), "{args:?}: {answer:?}");
    }
}

#[test]
fn a_grant_opens_what_the_skill_asks_for_and_nothing_else() {
    let project = Project::new()
        .file(".metier/skills/x/SKILL.md", "---\nname: x\ndescription: d\nallowed-tools: write:out\n---\n")
        .file(".metier/skills/x/scripts/main.lua", "ctx.write(input.to, 'text') return true");
    let inside = ["run", "x", "--input", "{\"to\": \"out/a\"}"];
    let outside = ["run", "x", "--input", "{\"to\": \"a\"}", "--allow", "write"];
    assert_eq!(project.metier(&inside).code, 4);
    assert_eq!(project.metier(&outside).code, 4);
    assert_eq!(project.metier(&[&inside[..], &["--allow", "write"]].concat()).stdout, "true\n");
    assert!(project.path("out/a").is_file() && !project.path("a").exists());
}

#[test]
fn a_permission_nobody_knows_warns_and_grants_nothing() {
    let project = writer();
    for unknown in ["exce", "EXEC", "exec ", "", "*", "exec:all"] {
        let answer = project.metier(&["run", "x", "--allow", unknown]);
        assert_eq!(answer.code, 4, "{unknown}");
        assert!(answer.stderr.starts_with("warning: ") && answer.stderr.contains("nothing is granted by it"));
    }
    assert!(project.metier(&["run", "x", "--allow", "exce"]).stderr.contains("did you mean `exec`?"));
}

#[test]
fn a_refusal_says_once_how_to_lift_it() {
    let answer = writer().metier(&["run", "x"]);
    let expected =
        "error: failed to write a: not permitted; run with --allow write\n  --> scripts/main.lua:1\n";
    assert_eq!((answer.code, answer.stdout.as_str(), answer.stderr.as_str()), (4, "", expected));
}

#[test]
fn a_refusal_the_script_handles_is_no_failure() {
    let project = Project::new().lua("x", "pcall(ctx.write, 'a', 'b') return 'went on'");
    let answer = project.metier(&["run", "x"]);
    assert_eq!((answer.code, answer.stdout.as_str()), (0, "went on\n"));
}

#[test]
fn a_new_skill_of_each_kind_runs_from_a_folder_below() {
    for kind in [
        &["--runtime", "lua"][..],
        &["--runtime", "external", "--script", "run.sh"],
        &["--runtime", "external"],
    ] {
        if kind.len() == 2 && kind[1] == "external" && super::not_run::find_program("python3").is_none() {
            super::not_run::not_run("the new Python skill", "python3 is missing");
            continue;
        }
        let project = Project::new().file("sub/deep/a.txt", "").file(".git/HEAD", "");
        assert_eq!(project.metier_in("sub/deep", &[&["new", "mine"], kind].concat()).code, 0);
        let case = std::fs::read_to_string(project.path(".metier/skills/mine/cases/basic.json")).unwrap();
        let input = serde_json::from_str::<serde_json::Value>(&case).unwrap()["input"].to_string();
        let run = ["run", "mine", "--json", "--sandbox", "best-effort", "--input", &input];
        let answer = project.metier_in("sub/deep", &run);
        assert_eq!(answer.code, 0, "{kind:?}: {answer:?}");
        assert!(!answer.json()["value"].is_null(), "{kind:?}");
    }
}

fn writer() -> Project {
    Project::new()
        .file(".metier/skills/x/SKILL.md", "---\nname: x\ndescription: d\nallowed-tools: write\n---\n")
        .file(".metier/skills/x/scripts/main.lua", "ctx.write('a', 'b')")
}
