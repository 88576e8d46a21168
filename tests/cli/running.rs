//! `metier run`: the value on standard output, everything else on standard error.

use crate::support::cli::Project;

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
fn the_log_of_a_run_never_mixes_with_its_value() {
    let script = "print('a') ctx.log('warn', 'b') ctx.progress('c', 1, 2) return 'value'";
    let answer = Project::new().lua("x", script).metier(&["run", "x"]);
    assert_eq!(answer.stdout, "value\n");
    assert_eq!(answer.stderr, "info: a\nwarning: b\n");
}

#[test]
fn a_process_receives_its_arguments_its_input_and_the_project() {
    let script = "cat; printf '[%s]' \"$@\"; echo \" $PWD\" >&2";
    let project = Project::new().shell("x", script).file("sub/a", "");
    let args = ["run", "x", "--sandbox", "best-effort", "--input", "[1]", "--", "--json", "two words", ""];
    let answer = project.metier_in("sub", &args);
    assert_eq!((answer.code, answer.stdout.as_str()), (0, "[1][--json][two words][]\n"));
    let root = project.path(".").canonicalize().unwrap();
    assert!(answer.stderr.ends_with(&format!(" {}\n", root.display())), "{}", answer.stderr);
}

#[test]
fn arguments_that_no_script_receives_are_reported() {
    let answer = Project::new().lua("x", "return 1").metier(&["run", "x", "--", "a"]);
    assert_eq!((answer.code, answer.stdout.as_str()), (0, "1\n"));
    assert!(
        answer.stderr.starts_with("warning: the arguments after -- are passed to external scripts only"),
        "{answer:?}"
    );
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
        (&["run", "x"][..], 2, "help: name one of them (--script)"),
        (&["run", "x", "--script", "c.lua"], 3, "its scripts are scripts/a.lua, scripts/b.lua"),
        (&["run", "x", "--script", "../../../a"], 3, "has no script"),
        (&["run", "x", "--script", "/etc/passwd"], 3, "has no script"),
    ] {
        let answer = project.metier(args);
        assert!(answer.code == code && answer.stderr.contains(words), "{args:?}: {answer:?}");
    }
}

#[test]
fn a_grant_allows_what_the_skill_requests_and_nothing_else() {
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
fn an_unknown_permission_is_reported_and_grants_nothing() {
    let project = writer();
    for unknown in ["exce", "EXEC", "exec ", "", "*", "exec:all"] {
        let answer = project.metier(&["run", "x", "--allow", unknown]);
        assert_eq!(answer.code, 4, "{unknown}");
        assert!(
            answer.stderr.starts_with("warning: ") && answer.stderr.contains("this --allow grants nothing")
        );
    }
    assert!(project.metier(&["run", "x", "--allow", "exce"]).stderr.contains("did you mean `exec`?"));
}

#[test]
fn an_error_says_once_which_grant_is_missing() {
    let answer = writer().metier(&["run", "x"]);
    let expected =
        "error: failed to write a: not permitted; run with --allow write\n  --> scripts/main.lua:1\n";
    assert_eq!((answer.code, answer.stdout.as_str(), answer.stderr.as_str()), (4, "", expected));
}

#[test]
fn a_script_may_handle_a_missing_permission() {
    let project = Project::new().lua("x", "pcall(ctx.write, 'a', 'b') return 'went on'");
    let answer = project.metier(&["run", "x"]);
    assert_eq!((answer.code, answer.stdout.as_str()), (0, "went on\n"));
}

#[test]
fn a_new_skill_runs_from_a_folder_below() {
    let project = Project::new().file("sub/deep/a.txt", "").file(".git/HEAD", "");
    assert_eq!(project.metier_in("sub/deep", &["new", "mine"]).code, 0);
    let answer =
        project.metier_in("sub/deep", &["run", "mine", "--json", "--input", r#"{"pattern": "**/*.txt"}"#]);
    assert_eq!(answer.json()["value"]["files"], serde_json::json!(["sub/deep/a.txt"]), "{answer:?}");
}

fn writer() -> Project {
    Project::new()
        .file(".metier/skills/x/SKILL.md", "---\nname: x\ndescription: d\nallowed-tools: write\n---\n")
        .file(".metier/skills/x/scripts/main.lua", "ctx.write('a', 'b')")
}
