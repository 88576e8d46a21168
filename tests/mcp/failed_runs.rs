//! What a model reads of a run that failed: the error with its place, and what the script wrote.

use serde_json::{Value, json};

use crate::support::cli::Project;

#[track_caller]
fn text(result: &Value) -> &str {
    assert_eq!(result["isError"], true, "{result}");
    result["content"][0]["text"].as_str().unwrap()
}

fn error(result: &Value) -> &Value {
    &result["_meta"]["metier/error"]
}

#[test]
fn a_script_in_the_server_has_its_place_and_its_log() {
    let project = Project::new()
        .lua("breaks", "print('looked at a.md')\nctx.log('warn', 'odd')\nerror('it broke at home')")
        .lua("quiet", "error('nothing to add')")
        .lua("spins", "print('begun')\nwhile true do end")
        .lua("eats", "local t = {} while true do t[#t + 1] = string.rep('x', 1e6) .. #t end")
        .trusted();
    let mut client = project.client(&["--timeout", "5s", "--memory", "64MiB"]);
    let result = client.call("breaks", json!({}));
    let shown = text(&result);
    assert!(shown.starts_with("it broke at home\nat scripts/main.lua:3\nkind: script\n"), "{shown}");
    assert!(shown.contains("\n\nlog:\nlooked at a.md\nwarn: odd"), "{shown}");
    assert_eq!(error(&result)["location"], json!({"file": "scripts/main.lua", "line": 3, "column": null}));
    assert_eq!(text(&client.call("quiet", json!({}))), "nothing to add\nat scripts/main.lua:1\nkind: script");
    let spun = client.call("spins", json!({}));
    let start = "the run did not end before its deadline of 5 s\nat scripts/main.lua:2\nhelp: ";
    assert!(text(&spun).starts_with(start) && text(&spun).ends_with("log:\nbegun"), "{spun}");
    let eaten = client.call("eats", json!({}));
    assert!(text(&eaten).contains("needed more than its 64 MiB of memory"), "{eaten}");
}

#[test]
fn a_violation_stands_once_and_no_command_stands_for_a_model() {
    let project = Project::new()
        .lua("typed", "return {items = 1}")
        .file(
            ".metier/skills/typed/skill.yaml",
            "inputs: {n: {type: integer, required: true}}\noutputs: {items: {type: array}}",
        )
        .trusted();
    let mut client = project.client(&[]);
    for arguments in [json!({"n": "x"}), json!({"n": 1})] {
        let result = client.call("typed", arguments);
        let shown = text(&result);
        assert_eq!(shown.matches("expected ").count(), 1, "{shown}");
        assert!(!shown.contains("metier show") && !shown.contains("help:"), "{shown}");
        assert_eq!(result.get("structuredContent"), None);
    }
}

#[cfg(all(feature = "sandboxed", target_os = "linux"))]
mod processes {
    use super::*;

    const LINT: &str = "echo 'a.md:1 heading missing'; echo 'a.md:7 line too long'; echo 'b.md:3 dead link'\necho '3 problems'\nexit 1";

    /// Scripts that fail, what a model reads of them, and what it does not.
    const FAILURES: [(&str, &str, &[&str], &[&str]); 12] = [
        (
            "lint",
            LINT,
            &[
                "exited with code 1: 3 problems\n",
                "\nexit code: 1",
                "standard output:\na.md:1 heading missing\na.md:7",
            ],
            &["standard error"],
        ),
        (
            "warned",
            "echo 'a.md:1 x'; echo 'b.md:2 y'; echo 'old configuration' >&2; exit 1",
            &["code 1: old configuration", "standard output:\na.md:1 x\nb.md:2 y"],
            &["standard error"],
        ),
        (
            "partial",
            "printf '{\"a\": [1,\\n2'; echo 'limit reached' >&2; echo 'stopped' >&2; exit 2",
            &["exit code: 2", "standard output:\n{\"a\": [1,\n2", "standard error:\nlimit reached\nstopped"],
            &[],
        ),
        (
            "trap",
            "trap 'echo done >&2' EXIT\necho first\nset -e\ncat nothing-here",
            &[
                "nothing-here: No such file or directory\n",
                "standard output:\nfirst",
                "standard error:\ncat: ",
                "\ndone",
            ],
            &["code 1: done"],
        ),
        ("killed", "echo half; kill -9 $$", &["signal: 9", "(SIGKILL): half"], &["exit code", "standard"]),
        (
            "late",
            "echo begun; echo waits >&2; sleep 60",
            &["deadline of 3 s", "standard output:\nbegun", "standard error:\nwaits", "kind: timeout"],
            &[],
        ),
        (
            "flood",
            "while :; do echo flood; done",
            &["wrote more than 64 KiB to standard output", "standard output:\nflood\nflood", "kind: output"],
            &[],
        ),
        (
            "colours",
            "printf '\\033[1m\\033[31ma.md\\033[0m:1 x\\n\\033]0;title\\007b\\n'; printf '\\033[0m\\033[1m\\033[31merror\\033[0m: JSR package\\n' >&2; exit 1",
            &["code 1: error: JSR package", "standard output:\na.md:1 x\nb"],
            &["[0m", "[31m", "title"],
        ),
        ("silent", "exit 3", &["exited with code 3", "exit code: 3"], &["standard output", "standard error"]),
        ("single", "echo 'no luck' >&2; exit 1", &["code 1: no luck"], &["standard error"]),
        (
            "hidden",
            "printf 'a\\342\\200\\256b\\nc\\n'; exit 1",
            &["standard output:\na\\u{202e}b\nc"],
            &["\u{202e}"],
        ),
        (
            "line",
            "echo a\nnot-a-command",
            &["not-a-command", "\nat scripts/main.sh:2\n", "exit code: 127"],
            &[],
        ),
    ];

    fn project() -> Project {
        let project =
            FAILURES.iter().fold(Project::new(), |project, (name, script, ..)| project.shell(name, script));
        project
            .file(".metier/skills/lint/skill.yaml", "outputs: {items: {type: array}}")
            .shell("unfit", "echo 'checked 2 files'; echo '{\"items\": 3}'")
            .file(".metier/skills/unfit/skill.yaml", "outputs: {items: {type: array}}")
            .shell("long", "i=0; while [ $i -lt 9000 ]; do echo \"finding number $i\"; i=$((i+1)); done; echo last words >&2; exit 1")
    }

    #[test]
    fn a_failed_script_has_what_it_wrote() {
        let project = project().trusted();
        let mut client = project.client(&["--timeout", "3s", "--output", "64KiB"]);
        for (name, _, shown, hidden) in FAILURES {
            let result = client.call(name, json!({}));
            let text = text(&result);
            for part in shown {
                assert!(text.contains(part), "{name}, {part}: {text}");
            }
            for part in hidden {
                assert!(!text.contains(part), "{name}, {part}: {text}");
            }
            assert!(text.len() < 41_000 && result.get("structuredContent").is_none(), "{name}: {text}");
        }
        assert_eq!(error(&client.call("partial", json!({})))["exit_code"], 2);
        assert_eq!(error(&client.call("killed", json!({})))["signal"], 9);
        let unfit = client.call("unfit", json!({}));
        assert!(text(&unfit).contains("exit code: 0\n\nstandard output:\nchecked 2 files"), "{unfit}");
    }

    #[test]
    fn what_is_cut_is_read_by_its_link() {
        let project = project().trusted();
        let mut client = project.client(&[]);
        let result = client.call("long", json!({}));
        let shown = text(&result);
        assert!(shown.contains("finding number 0\n") && shown.contains("finding number 8999"), "{shown}");
        assert!(shown.contains("code 1: last words") && shown.len() < 20_000, "{}", shown.len());
        let uri = result["content"][2]["uri"].as_str().unwrap();
        assert!(result["content"][1]["text"].as_str().unwrap().contains("of standard output are left out"));
        let whole = client.result("resources/read", json!({"uri": uri}))["contents"][0]["text"].clone();
        assert_eq!(whole.as_str().unwrap().lines().count(), 9000);
        let other = project.client(&[]).call("read_result", json!({"uri": uri}));
        assert_eq!(other["isError"], true, "another client");
    }

    #[test]
    fn the_failure_of_a_skill_that_another_calls_has_what_that_one_wrote() {
        let calls = "---\nname: NAME\ndescription: d\nallowed-tools: skill:lint\n---\n";
        let mut project = project()
            .lua("calls", "print('calls it')\nreturn ctx.skill('lint')")
            .lua(
                "catches",
                "local ok, e = pcall(ctx.skill, 'lint')\nreturn {code = e.output.exit_code, out = e.output.stdout, kind = e.kind}",
            )
            .file(".metier/skills/plan/scripts/sequence.json", json!([{"id": "one", "skill": "lint", "args": {}}]).to_string());
        for name in ["calls", "catches", "plan"] {
            project = project.file(&format!(".metier/skills/{name}/SKILL.md"), calls.replace("NAME", name));
        }
        let project = project.trusted();
        let mut client = project.client(&["--allow", "skill:lint"]);
        for name in ["calls", "plan"] {
            let result = client.call(name, json!({}));
            let shown = text(&result);
            assert!(
                shown.contains("exited with code 1: 3 problems") && shown.contains("\nexit code: 1"),
                "{shown}"
            );
            let output =
                "standard output of the skill that failed:\na.md:1 heading missing\na.md:7 line too long\n";
            assert!(shown.contains(output), "{name}: {shown}");
            assert_eq!(error(&result)["exit_code"], 1);
        }
        let caught = client.call("catches", json!({}));
        assert_eq!(caught["structuredContent"]["code"], 1, "{caught}");
        assert!(caught["structuredContent"]["out"].as_str().unwrap().starts_with("a.md:1 heading missing\n"));
    }

    #[test]
    fn a_task_that_failed_has_what_its_script_wrote() {
        let project = project().trusted();
        let mut client = project.modern_client(&["--task-after", "0"]).with_tasks(&json!({}));
        let created = client.call("partial", json!({}));
        let result = match created["taskId"].as_str() {
            Some(id) => client.task_in_state(id, "completed")["result"].clone(),
            None => created,
        };
        let shown = text(&result);
        assert!(
            shown.contains("standard output:\n{\"a\": [1,\n2") && shown.contains("exit code: 2"),
            "{shown}"
        );
        assert!(shown.contains("standard error:\nlimit reached\nstopped"), "{shown}");
    }
}
