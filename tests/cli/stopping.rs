//! Ctrl-C: the run stops, nothing of it continues, and the outcome is still printed.

use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::json;

use super::outcome::assert_shape;
use crate::support::cli::{Answer, Project};

fn start(project: &Project, args: &[&str]) -> Child {
    project.command(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn signal(name: &str, process: u32) {
    assert!(Command::new("kill").args(["-s", name, &process.to_string()]).status().unwrap().success());
}

fn wait_until(what: &str, holds: impl Fn() -> bool) {
    let patience = Instant::now() + Duration::from_secs(5);
    while !holds() {
        assert!(Instant::now() < patience, "{what}");
        sleep(Duration::from_millis(10));
    }
}

fn wait_for_end(child: Child) -> Answer {
    let started = Instant::now();
    let answer = child.wait_with_output().unwrap().into();
    assert!(started.elapsed() < Duration::from_secs(3), "{answer:?}");
    answer
}

#[test]
fn an_interrupt_stops_a_running_script() {
    let script = "ctx.write('begun', '') while true do end";
    let project = Project::new()
        .file(".metier/skills/x/SKILL.md", "---\nname: x\ndescription: d\nallowed-tools: write\n---\n")
        .file(".metier/skills/x/scripts/main.lua", script);
    for name in ["INT", "TERM"] {
        let _ = std::fs::remove_file(project.path("begun"));
        let child = start(&project, &["run", "x", "--json", "--allow", "write"]);
        wait_until("the script begins", || project.path("begun").exists());
        signal(name, child.id());
        let answer = wait_for_end(child);
        let outcome = answer.json();
        assert_shape(&outcome);
        assert_eq!((answer.code, &outcome["error"]["kind"]), (130, &json!("cancelled")), "{name}");
    }
}

#[test]
fn an_interrupt_ends_a_process_and_all_that_it_started() {
    let sleep = unique_sleep(1);
    let project = Project::new().shell("x", &format!("{sleep} & echo > begun; echo out; wait; {sleep}"));
    let child = start(&project, &["run", "x", "--allow", "write", "--sandbox", "best-effort"]);
    wait_until("the script begins", || project.path("begun").exists() && is_running(&sleep));
    signal("INT", child.id());
    let answer = wait_for_end(child);
    assert_eq!((answer.code, answer.stdout.as_str()), (130, "out\n"));
    assert!(answer.stderr.contains("cancelled"), "{answer:?}");
    let script = project.path(".metier/skills/x").display().to_string();
    wait_until("nothing of it continues", || !is_running(&sleep) && !is_running(&script));
}

#[test]
fn an_interrupt_of_cases_leaves_no_project_of_theirs() {
    let sleep = unique_sleep(3);
    let project = Project::new()
        .shell("x", &sleep)
        .file(".metier/skills/x/cases/a.json", r#"{"allow": [], "expect": {"value": 1}}"#)
        .file("tmp/kept", "");
    let mut command = project.command(&["test", "x"]);
    command.env("TMPDIR", project.path("tmp")).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    wait_until("the case begins", || is_running(&sleep));
    signal("TERM", child.id());
    let answer = wait_for_end(child);
    assert_eq!(answer.code, 130, "{answer:?}");
    let left: Vec<_> =
        std::fs::read_dir(project.path("tmp")).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(left, ["kept"], "{answer:?}");
}

/// A command that sleeps for so long as no other does: in a sandbox a process has another number than outside.
fn unique_sleep(test: u32) -> String {
    format!("sleep 300.{test}{}", std::process::id())
}

/// Whether a process with this in its command line runs. One that has ended and waits to be collected does not.
fn is_running(part: &str) -> bool {
    let processes =
        Command::new("ps").args(["-A", "-ww", "-o", "stat=", "-o", "args="]).output().unwrap().stdout;
    let processes = String::from_utf8_lossy(&processes);
    processes.lines().any(|process| process.contains(part) && !process.starts_with('Z'))
}

#[test]
fn one_interrupt_is_enough_if_nobody_reads_the_output() {
    let project = Project::new().lua("x", "ctx.log('info', 'done') return string.rep('x', 1000000)");
    let mut child = start(&project, &["run", "x"]);
    // The pipe fills, and stays full.
    let (stdout, mut said) = (child.stdout.take(), [0]);
    std::io::Read::read_exact(child.stderr.as_mut().unwrap(), &mut said).unwrap();
    sleep(Duration::from_millis(200));
    signal("INT", child.id());
    assert_eq!(wait_for_end(child).code, 130);
    drop(stdout);
}

#[test]
fn a_deadline_leaves_no_process_behind() {
    let sleep = unique_sleep(2);
    let project = Project::new().shell("x", &format!("{sleep} & echo > begun; wait"));
    let answer =
        project.metier(&["run", "x", "--allow", "write", "--sandbox", "best-effort", "--timeout", "300ms"]);
    assert!(answer.code == 5 && project.path("begun").exists());
    wait_until("nothing of it continues", || !is_running(&sleep));
}

/// Longer than any of these may take, and far less than what they ask for.
const PROMPTLY: Duration = Duration::from_secs(10);

#[test]
fn a_run_that_hangs_is_ended_at_its_deadline_or_by_an_interrupt() {
    // Nobody reads standard error, so that writing to it never ends.
    let script = "ctx.write('begun', '') while true do ctx.log('info', string.rep('x', 60000)) end";
    let project = Project::new()
        .file(".metier/skills/x/SKILL.md", "---\nname: x\ndescription: d\nallowed-tools: write\n---\n")
        .file(".metier/skills/x/scripts/main.lua", script);
    for (timeout, code) in [("300ms", 5), ("1h", 130)] {
        let _ = std::fs::remove_file(project.path("begun"));
        let mut child = start(&project, &["run", "x", "--allow", "write", "--timeout", timeout]);
        wait_until("the script begins", || project.path("begun").exists());
        if code == 130 {
            sleep(Duration::from_millis(200));
            signal("INT", child.id());
        }
        let begun = Instant::now();
        let ended = loop {
            match child.try_wait().unwrap() {
                Some(status) => break status,
                None if begun.elapsed() > PROMPTLY => {
                    child.kill().unwrap();
                    panic!("it hangs on");
                }
                None => sleep(Duration::from_millis(10)),
            }
        };
        assert_eq!(ended.code(), Some(code));
    }
}

#[test]
fn a_case_that_hangs_is_ended_and_leaves_no_project() {
    let project = Project::new()
        .lua("x", "while true do ctx.log('info', string.rep('x', 60000)) end")
        .file(".metier/skills/x/skill.yaml", "limits:\n  timeout: 300ms\n")
        .file(".metier/skills/x/cases/a.json", r#"{"expect": {"value": 1}}"#)
        .file("tmp/kept", "");
    let mut command = project.command(&["test", "x", "--json"]);
    let answer: Answer = command.env("TMPDIR", project.path("tmp")).output().unwrap().into();
    assert!(matches!(answer.code, 1 | 5), "{answer:?}");
    let left: Vec<_> =
        std::fs::read_dir(project.path("tmp")).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(left, ["kept"], "{answer:?}");
}

#[test]
fn no_script_continues_after_its_deadline_whatever_it_calls() {
    let texts = "local a, b = ('a'):rep(6e6), ('a'):rep(6e6) .. 'b'\n";
    for (at, script) in [
        "string.find(a, b)",
        "string.find(a, ('a'):rep(3e6) .. 'b', 1, true)",
        "string.split(a, ('a'):rep(3e6) .. 'b')",
        "table.move({}, 1, 2147483000, 5)",
        "local t = {} for i = 1, 4000 do t[i] = i % 2 == 0 and a .. 'c' or b end table.sort(t)",
        "while true do end",
    ]
    .into_iter()
    .enumerate()
    {
        let script = format!("ctx.log('info', 'begun')\n{texts}do {script} end\nwhile true do end");
        let project = Project::new().lua("x", &script);
        for mode in ["in-process", "worker"] {
            let begun = Instant::now();
            let answer = project.metier(&[
                "run",
                "x",
                "--json",
                "--timeout",
                "800ms",
                "--memory",
                "200MB",
                "--execution",
                mode,
            ]);
            assert!(begun.elapsed() < PROMPTLY, "{at}: {:?}", begun.elapsed());
            let outcome = answer.json();
            assert_shape(&outcome);
            // What needs more memory than there is ends for that.
            let ends = [(5, "timeout"), (5, "memory")];
            assert!(
                ends.contains(&(answer.code, outcome["error"]["kind"].as_str().unwrap())),
                "{at}: {outcome:#}"
            );
            assert_eq!(outcome["log"][0]["message"], "begun", "{at}");
            assert_eq!(outcome["limits"]["timeout_ms"], 800, "{at}");
        }
    }
}

#[cfg(all(feature = "sandboxed", target_os = "linux"))]
#[test]
fn a_run_in_a_worker_has_the_same_outcome_as_one_in_process() {
    let project = Project::new()
        .file(
            ".metier/skills/x/SKILL.md",
            "---\nname: x\ndescription: d\nallowed-tools: write skill:y\n---\n",
        )
        .file(
            ".metier/skills/x/scripts/main.lua",
            "print('hi') return ctx[input.call](table.unpack(input.args))",
        )
        .lua("y", "error('deep')")
        .lua("broken", "return (")
        .file("a.txt", "text")
        .file(".env", "SECRET=1");
    for (skill, input) in [
        ("x", json!({"call": "read_file", "args": ["a.txt"]})),
        ("x", json!({"call": "read_file", "args": [".env"]})),
        ("x", json!({"call": "read_file", "args": ["../x"]})),
        ("x", json!({"call": "write", "args": ["b.txt", "x"]})),
        ("x", json!({"call": "skill", "args": ["y", {}]})),
        ("x", json!({"call": "skill", "args": ["z", {}]})),
        ("x", json!({"call": "nothing", "args": []})),
        ("x", json!({"call": "head", "args": ["a.txt", "many"]})),
        ("broken", json!({})),
    ] {
        let of = |mode: &str| {
            let input = input.to_string();
            let args = ["run", skill, "--json", "--allow", "skill:y", "--execution", mode, "--input", &input];
            let mut outcome = project.metier(&args).json();
            assert_shape(&outcome);
            let held = outcome["sandbox"].take();
            assert!(mode == "in-process" || held["level"] != "in-process", "{held}");
            outcome["duration_ms"] = json!(0);
            if skill == "broken" {
                // A worker has its grants before it compiles the script.
                outcome["grants"].take();
            }
            outcome
        };
        assert_eq!(of("worker"), of("in-process"), "{input}");
    }
}
