//! `metier test`: what it runs, what it reports for a case that fails, and what a case cannot do.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::support::cli::{Answer, Project};

const ECHO: &str = "ctx.log('info', 'I was here') return {got = input.x, more = true}";

fn case(project: Project, skill: &str, name: &str, case: &Value) -> Project {
    project.file(&format!(".metier/skills/{skill}/cases/{name}.json"), case.to_string())
}

/// A skill of one Lua script that asks for these permissions, and its one case.
fn one_case_project(permissions: &str, script: &str, content: &Value) -> Project {
    let head = format!("---\nname: x\ndescription: d\nallowed-tools: {permissions}\n---\n");
    let project = Project::new()
        .file(".metier/skills/x/SKILL.md", head)
        .file(".metier/skills/x/scripts/main.lua", script);
    case(project, "x", "one", content)
}

fn test_results(project: &Project) -> Value {
    project.metier(&["test", "x", "--json"]).json()
}

fn assert_passes(project: &Project) {
    let answer = test_results(project);
    assert_eq!(answer["ok"], true, "{answer:#}");
}

#[test]
fn the_builtin_skills_pass_their_cases() {
    let project = Project::new();
    let skills = Path::new(env!("CARGO_MANIFEST_DIR")).join("skills");
    copy(&skills, &project.path(".metier/skills"));
    let answer = project.metier(&["test"]);
    assert_eq!(answer.code, 0, "{}", answer.stdout);
    let summary = answer.stdout.lines().last().unwrap();
    let passed: usize = summary.split(' ').next().unwrap().parse().unwrap();
    assert!(passed >= 31 && summary.ends_with("passed, 0 failed, 0 not run"), "{summary}");
}

/// What a worker process answers is what the script would say here, and where there is none the case is one that failed.
#[cfg(all(feature = "sandboxed", target_os = "linux"))]
#[test]
fn cases_run_in_worker_processes_on_request() {
    let case = json!({"input": {"x": 1}, "expect": {"value": {"got": 1, "more": true}}});
    let project = one_case_project("", ECHO, &case);
    for mode in ["worker", "in-process"] {
        let answer = project.metier(&["test", "x", "--json", "--execution", mode]);
        assert_eq!((answer.code, answer.json()["passed"].take()), (0, json!(1)), "{mode}: {}", answer.stdout);
    }
    assert_eq!(project.metier(&["test", "x", "--execution", "elsewhere"]).code, 2);
    // A process has what a script may have and a room beside it; nothing else shows where it ran.
    let taken = "local t = {} for i = 1, 1e9 do t[i] = ('a'):rep(1e6) .. i end return #t";
    let project = one_case_project("", taken, &json!({"expect": {"error": {"kind": "memory"}}}));
    let answer = project.metier(&["test", "x", "--json", "--execution", "worker"]);
    assert_eq!(answer.code, 0, "{}", answer.stdout);
}

#[test]
fn a_difference_is_shown_with_its_location_both_values_and_the_log() {
    let project = Project::new().lua("x", ECHO);
    let project =
        case(project, "x", "off", &json!({"input": {"x": 1}, "expect": {"value": {"got": 2, "more": true}}}));
    let project = case(project, "x", "on", &json!({"input": {"x": 1}, "expect": {"contains": {"got": 1}}}));
    let Answer { code, stdout, .. } = project.metier(&["test", "x"]);
    let expected =
        "FAILED   x off\n  .got\n    expected 2\n    got      1\n    log: I was here\nok       x on";
    assert!(stdout.starts_with(expected) && stdout.ends_with("1 passed, 1 failed, 0 not run\n"), "{stdout}");
    assert_eq!(code, 1);
    assert_eq!(project.metier(&["test", "x", "--case", "on"]).code, 0);
}

#[test]
fn texts_of_several_lines_are_compared_line_by_line() {
    let project = Project::new().lua("x", "return 'a\\nb\\nc\\n'");
    let project = case(project, "x", "text", &json!({"expect": {"value": "a\nB\nc\n"}}));
    let stdout = project.metier(&["test", "x"]).stdout;
    assert!(stdout.contains("     a\n    -B\n    +b\n     c\n"), "{stdout}");
}

#[test]
fn each_case_has_a_project_of_its_own() {
    let content = json!({
        "files": {"a/in.txt": "one"},
        "allow": ["write"],
        "expect": {"value": 3, "files": {"out.txt": "one!", "a/in.txt": null}}
    });
    let script = "ctx.write('out.txt', ctx.read_file('a/in.txt') .. '!') ctx.remove('a/in.txt') return #ctx.read_file('out.txt') - 1";
    let project = one_case_project("write", script, &content);
    assert_passes(&project);
    assert_passes(&project);
    assert!(!project.path("out.txt").exists(), "the caller's project is not the case's");
}

#[test]
fn tools_answer_from_the_case_and_their_calls_are_compared_with_it() {
    let script = "ctx.tool('add', {a = 1}) return ctx.tool('add', {a = input.n})";
    let content = |calls: &Value| {
        json!({
            "input": {"n": 2}, "given": {"tools": {"add": 7}}, "allow": ["tool:add"],
            "expect": {"value": 7, "calls": calls}
        })
    };
    let both = json!([{"tool": "add", "args": {"a": 1}}, {"tool": "add", "args": {"a": 2}}]);
    assert_passes(&one_case_project("tool:add", script, &content(&both)));
    let answer = test_results(&one_case_project(
        "tool:add",
        script,
        &content(&json!([{"tool": "add", "args": {"a": 1}}])),
    ));
    assert_eq!(answer["cases"][0]["differences"][0]["path"], "calls[1]");
    assert_eq!(answer["failed"], 1);
}

#[test]
fn the_web_of_a_case_is_never_the_real_one() {
    let script = "return ctx.http('http://127.0.0.1:9/').body";
    let granted = json!({"allow": ["net:127.0.0.1"], "expect": {"error": {"kind": "unavailable"}}});
    assert_passes(&one_case_project("net:127.0.0.1", script, &granted));
    let canned = json!({
        "allow": ["net:127.0.0.1"],
        "given": {"http": {"http://127.0.0.1:9/": {"body": "canned"}}},
        "expect": {"value": "canned"}
    });
    assert_passes(&one_case_project("net:127.0.0.1", script, &canned));
}

#[test]
fn a_case_cannot_grant_what_reaches_outside_of_its_project() {
    for permission in ["net", "shm", "exec:unsandboxed"] {
        let content = json!({"allow": [permission], "expect": {"value": "ran"}});
        let project = Project::new().shell("x", "printf ran");
        let project = case(project, "x", "one", &content);
        let answer = project.metier(&["test", "x"]);
        let reason = format!("not run  x one: it needs {permission}, which leads out of its project");
        assert!(answer.code == 1 && answer.stdout.starts_with(&reason), "{answer:?}");
    }
}

#[test]
fn a_case_writes_and_reads_nothing_outside_of_its_project() {
    let content = json!({"files": {"../stolen": "x"}, "expect": {"value": 1}});
    let answer = test_results(&one_case_project("read", "return 1", &content));
    assert_eq!((&answer["not_run"], &answer["ok"]), (&json!(1), &json!(false)), "{answer}");
    let link = "#!/bin/bash\nln -s /etc/passwd out\n";
    let content = json!({"allow": ["write"], "expect": {"files": {"out": "mine"}}});
    let project = case(Project::new().shell("x", link), "x", "one", &content);
    assert_eq!(
        test_results(&project)["cases"][0]["differences"],
        json!([{"path": "out", "expected": "mine", "actual": null}])
    );
}

const HELM: &str = "
skill:
  name: x
  inputs:
    chart: {type: string, pattern: '^[a-z/.-]+$', required: true}
    dry_run: {type: boolean, default: false}
  outputs:
    valid: {type: boolean}
  examples:
    - description: a good chart
      inputs: {chart: ./charts/app}
      expected_output: {valid: true, chart: {name: ./charts/app}}
    - inputs: {chart: b}
";

#[test]
fn examples_of_a_contract_are_tests_ar_18() {
    let script = "return {valid = not input.dry_run, chart = {name = input.chart, more = 1}, errors = {}}";
    let project = Project::new().lua("x", script).file(".metier/skills/x/skill.yaml", HELM);
    let answer = project.metier(&["test", "x"]);
    assert!(answer.stdout.starts_with("ok       x example 1: a good chart  "), "{answer:?}");
    assert!(answer.stdout.ends_with("2 passed, 0 failed, 0 not run\n") && answer.code == 0, "{answer:?}");
    let wrong = Project::new().lua("x", "return {valid = false}").file(".metier/skills/x/skill.yaml", HELM);
    let answer = test_results(&wrong);
    let places: Vec<_> =
        answer["cases"][0]["differences"].as_array().unwrap().iter().map(|one| &one["path"]).collect();
    assert_eq!(places, [".valid", ".chart"], "{answer:#}");
    assert_eq!((&answer["passed"], &answer["failed"]), (&json!(1), &json!(1)));
}

#[test]
fn a_case_without_grants_has_what_the_skill_requests() {
    let script = "ctx.write('out.txt', 'x') return 1";
    assert_passes(&one_case_project("write", script, &json!({"expect": {"value": 1}})));
    let refused = json!({"allow": [], "expect": {"error": {"kind": "denied"}}});
    assert_passes(&one_case_project("write", script, &refused));
    let network = Project::new()
        .file(".metier/skills/x/SKILL.md", "---\nname: x\ndescription: d\nallowed-tools: net\n---\n")
        .file(".metier/skills/x/scripts/main.sh", "echo ran");
    let network = case(network, "x", "one", &json!({"expect": {"value": "ran"}}));
    assert_eq!(test_results(&network)["not_run"], 1, "what leads out is the caller's to grant");
}

#[test]
fn files_of_the_folder_project_are_there_in_every_case() {
    let project = one_case_project(
        "write",
        "return ctx.read_file('docs/a.md') .. ctx.read_file('b')",
        &json!({
            "files": {"b": "own"}, "expect": {"value": "common own"}
        }),
    );
    assert_passes(&project.file(".metier/skills/x/cases/project/docs/a.md", "common "));
}

#[test]
fn a_failure_is_expected_by_its_kind_and_a_part_of_its_message() {
    let script = "ctx.write('a', 'b')";
    let content = json!({"allow": [], "expect": {"error": {"kind": "denied", "message": "write a"}}});
    assert_passes(&one_case_project("write", script, &content));
    let other = one_case_project("write", script, &json!({"allow": [], "expect": {"error": {"kind": "io"}}}));
    assert_eq!(test_results(&other)["cases"][0]["differences"][0]["actual"]["kind"], "denied");
}

#[test]
fn a_case_that_needs_a_missing_command_is_not_run() {
    let content = json!({"needs": ["no-such-command"], "expect": {"value": 1}});
    let answer = one_case_project("read", "return 1", &content).metier(&["test", "x"]);
    assert!(answer.stdout.contains("not run  x one: no-such-command is not on PATH\n"), "{answer:?}");
    assert_eq!(answer.code, 1);
}

#[test]
fn an_invalid_case_is_reported_under_its_skill_and_stops_no_other() {
    let project = Project::new()
        .lua("x", ECHO)
        .lua("y", "return 1")
        .file(".metier/skills/x/cases/bad.json", "{\n  \"expect\": 1\n}")
        .file(".metier/skills/x/cases/list.json", "[]");
    let project = case(project, "y", "good", &json!({"expect": {"value": 1}}));
    let answer = project.metier(&["test"]);
    assert!(answer.stdout.contains("not run  x bad: cases/bad.json is not a case: "), "{answer:?}");
    assert!(answer.stdout.contains(" (line 2)\n"), "{answer:?}");
    assert!(
        answer.stdout.contains("not run  x list: cases/list.json is not a case: it is a list"),
        "{answer:?}"
    );
    assert!(answer.stdout.contains("ok       y good "), "{answer:?}");
    assert!(answer.stdout.ends_with("1 passed, 0 failed, 2 not run\n") && answer.code == 1, "{answer:?}");
    assert!(!answer.stdout.contains("struct"), "{answer:?}");
    let report = test_results(&project);
    assert_eq!(
        (&report["cases"][0]["skill"], &report["cases"][0]["status"]),
        (&json!("x"), &json!("not-run"))
    );
    assert_eq!(project.metier(&["test", "--case", "good"]).code, 0, "only what was asked for");
}

#[test]
fn a_skill_with_an_invalid_contract_is_reported() {
    let examples = "examples: [{inputs: {}}]";
    let project = Project::new()
        .lua("good", "return 1")
        .file(".metier/skills/good/skill.yaml", examples)
        .lua("broken", "return 1")
        .file(
            ".metier/skills/broken/skill.yaml",
            format!("inputs: {{a: {{type: strng, required: true}}}}\n{examples}"),
        );
    let answer = project.metier(&["test", "--json"]);
    let report = answer.json();
    assert_eq!(
        (answer.code, &report["ok"], &report["passed"], &report["not_run"]),
        (1, &json!(false), &json!(1), &json!(1))
    );
    assert_eq!(
        (&report["cases"][0]["skill"], &report["cases"][0]["case"]),
        (&json!("broken"), &json!("skill.yaml"))
    );
    assert!(
        report["cases"][0]["reason"].as_str().unwrap().contains("skill.yaml:1:20: `strng` is not a type"),
        "{report}"
    );
    let named = project.metier(&["test", "broken"]);
    assert_eq!(named.code, 1);
    assert!(
        named.stdout.starts_with("not run  broken skill.yaml: the skill `broken` does not run: "),
        "{named:?}"
    );
    let lazily = Project::new().lua("broken", "return 1").file(
        ".metier/skills/broken/skill.yaml",
        "inputs: {a: {type: string, pattern: '(?=x)', required: true}}",
    );
    let answer = lazily.metier(&["test"]);
    assert!(answer.code == 1 && answer.stdout.ends_with("0 passed, 0 failed, 1 not run\n"), "{answer:?}");
}

#[test]
fn a_skill_that_does_not_load_is_reported() {
    let project =
        Project::new().lua("good", "return 1").file(".metier/skills/bad/SKILL.md", "---\nname: bad\n");
    let project = case(project, "good", "one", &json!({"expect": {"value": 1}}));
    assert!(project.metier(&["test"]).stderr.contains("bad/SKILL.md:1:1: "));
}

#[test]
fn testing_nothing_is_an_error() {
    let project = Project::new().lua("x", ECHO);
    for args in [&["test"][..], &["test", "x"], &["test", "nobody"]] {
        assert!(project.metier(args).code >= 2, "{args:?}");
    }
}

#[test]
fn a_new_skill_passes_its_own_case() {
    let project = Project::new();
    assert_eq!(project.metier(&["new", "count-files", "--runtime", "lua"]).code, 0);
    let answer = project.metier(&["test"]);
    assert_eq!(answer.stdout.lines().last(), Some("1 passed, 0 failed, 0 not run"), "{answer:?}");
}

#[test]
fn the_log_of_a_script_is_escaped() {
    let project = Project::new().lua("x", "ctx.log('info', '\\27[2J') return '\\27]0;owned\\7'");
    let project = case(project, "x", "one", &json!({"expect": {"value": 1}}));
    let stdout = project.metier(&["test", "x"]).stdout;
    assert!(stdout.contains("FAILED") && !stdout.contains('\u{1b}'), "{stdout:?}");
}

fn copy(from: &Path, to: &Path) {
    for entry in walkdir::WalkDir::new(from).min_depth(1).sort_by_file_name() {
        let entry = entry.unwrap();
        let place = to.join(entry.path().strip_prefix(from).unwrap());
        if entry.file_type().is_dir() {
            fs::create_dir_all(place).unwrap();
        } else {
            fs::create_dir_all(place.parent().unwrap()).unwrap();
            fs::copy(entry.path(), place).unwrap();
        }
    }
}

#[test]
fn a_plan_is_granted_the_tools_that_its_steps_name() {
    let plan = "steps:\n- {tool: add, args: {a: 1}}\n- {tool: write, args: {path: o, content: x}}\noutputs_from: '$result[0]'\n";
    let head = "---\nname: x\ndescription: d\nallowed-tools: write\n---\n";
    let project =
        Project::new().file(".metier/skills/x/SKILL.md", head).file(".metier/skills/x/skill.yaml", plan);
    let content = json!({"given": {"tools": {"add": 3}}, "expect": {"value": 3, "files": {"o": "x"}}});
    let project = case(project, "x", "one", &content);
    assert_passes(&project);
    let shown = project.metier(&["show", "x", "--json"]).json();
    assert_eq!(shown["requested_permissions"], json!(["read", "write", "tool:add"]));
}

#[test]
fn an_example_with_an_unknown_key_is_not_run() {
    let project = Project::new().lua("x", "return {b = 2}").file(
        ".metier/skills/x/skill.yaml",
        "examples:\n- {inputs: {}, expected: {b: 1}}\n- {inputs: {}, expected_output: {b: 2}}\n",
    );
    let answer = project.metier(&["test", "x"]);
    assert_eq!(answer.code, 1, "{answer:?}");
    assert!(answer.stdout.contains("`expected` is not a key of an example"), "{}", answer.stdout);
    assert!(answer.stdout.contains("did you mean `expected_output`?"), "{}", answer.stdout);
    assert!(answer.stdout.contains("(line 2)"), "{}", answer.stdout);
    assert!(answer.stdout.ends_with("1 passed, 0 failed, 1 not run\n"), "{}", answer.stdout);
    assert_eq!(project.metier(&["run", "x"]).code, 0, "the skill itself runs");
}

#[test]
fn null_means_that_the_file_does_not_exist() {
    let content = json!({"allow": ["write"], "expect": {"files": {"gone": null}}});
    for (script, is_gone) in [
        ("return 1", true),
        ("ctx.mkdir('gone') return 1", false),
        ("ctx.write('gone/inside', 'x') return 1", false),
        ("ctx.write('gone', '') return 1", false),
        ("ctx.write('other', '') return 1", true),
    ] {
        let answer = test_results(&one_case_project("write", script, &content));
        assert_eq!(answer["ok"], is_gone, "{script}: {answer:#}");
    }
    let answer = test_results(&one_case_project("write", "ctx.mkdir('gone') return 1", &content));
    assert_eq!(answer["cases"][0]["differences"][0]["actual"], "a folder", "{answer:#}");
}

#[test]
fn a_file_among_the_cases_that_is_not_read_is_reported() {
    let project = Project::new().lua("x", "return 1");
    let content = json!({"expect": {"value": 1}});
    let project = case(case(project, "x", "one", &content), "x", "sub/deep/q", &content)
        .file(".metier/skills/x/cases/cased.JSON", content.to_string())
        .file(".metier/skills/x/cases/notes.md", "read me")
        .file(".metier/skills/x/cases/project/data/some.json", "{}");
    let answer = project.metier(&["test", "x"]);
    assert_eq!(answer.code, 1, "{answer:?}");
    assert!(answer.stdout.ends_with("1 passed, 0 failed, 2 not run\n"), "{}", answer.stdout);
    for message in ["cases/sub/deep/q.json is not read", "cases/cased.JSON is not read"] {
        assert!(answer.stdout.contains(message), "{}", answer.stdout);
    }
}

/// A script of the shell prints a number; the cases and the example expect it without quotes, in these forms.
#[cfg(unix)]
#[test]
fn a_number_that_is_expected_without_quotes_is_what_a_process_prints_in_that_form() {
    let passes = |printed: &str, expected: &str, contract: &str| {
        let example = format!("{contract}examples: [{{inputs: {{}}, expected_output: {expected}}}]\n");
        let mut project = Project::new()
            .file(".metier/skills/x/SKILL.md", "---\nname: x\ndescription: d\n---\n")
            .file(".metier/skills/x/scripts/main.sh", format!("#!/bin/sh\necho '{printed}'\n"))
            .file(".metier/skills/x/skill.yaml", example);
        for key in ["value", "contains"] {
            let case = format!(r#"{{"expect": {{"{key}": {expected}}}}}"#);
            project = project.file(&format!(".metier/skills/x/cases/{key}.json"), case);
        }
        let answer = test_results(&project);
        let passed = answer["passed"].as_u64().unwrap();
        assert!(passed == 0 || passed == 3, "{printed} {expected}: {answer:#}");
        passed == 3
    };
    for number in ["1.10", "100.00", "1e5", "-0", "1.5", "42"] {
        assert!(passes(number, number, ""), "{number}");
    }
    for (printed, expected) in
        [("1.10", "1.1"), ("1.10", "1.100"), ("1e5", "100000"), ("1.10 x", "1.10"), ("\"1.10\"", "1.10")]
    {
        assert!(!passes(printed, expected, ""), "{printed} {expected}");
    }
    assert!(passes("1.10", "1.1", "outputs: {type: number}\n"));
    assert!(!passes("1.10", "\"1.1\"", ""));
}
