//! Ctrl-C: the run stops, nothing of it goes on, and the answer still comes.

use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::json;

use super::cli::{Answer, Project};
use super::outcome::in_shape;

fn started(project: &Project, args: &[&str]) -> Child {
    project.command(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn signal(name: &str, process: u32) {
    assert!(Command::new("kill").args(["-s", name, &process.to_string()]).status().unwrap().success());
}

fn until(what: &str, holds: impl Fn() -> bool) {
    let patience = Instant::now() + Duration::from_secs(5);
    while !holds() {
        assert!(Instant::now() < patience, "{what}");
        sleep(Duration::from_millis(10));
    }
}

fn ended(child: Child) -> Answer {
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
        let child = started(&project, &["run", "x", "--json", "--allow", "write"]);
        until("the script begins", || project.path("begun").exists());
        signal(name, child.id());
        let answer = ended(child);
        let outcome = answer.json();
        in_shape(&outcome);
        assert_eq!((answer.code, &outcome["error"]["kind"]), (130, &json!("cancelled")), "{name}");
    }
}

#[test]
fn an_interrupt_ends_a_process_and_all_that_it_started() {
    let sleep = unlike_any_other(1);
    let project = Project::new().shell("x", &format!("{sleep} & echo > begun; echo out; wait; {sleep}"));
    let child = started(&project, &["run", "x", "--allow", "write", "--sandbox", "best-effort"]);
    until("the script begins", || project.path("begun").exists() && lives(&sleep));
    signal("INT", child.id());
    let answer = ended(child);
    assert_eq!((answer.code, answer.stdout.as_str()), (130, ""));
    assert!(answer.stderr.contains("out\n") && answer.stderr.contains("cancelled"), "{answer:?}");
    let script = project.path(".metier/skills/x").display().to_string();
    until("nothing of it goes on", || !lives(&sleep) && !lives(&script));
}

#[test]
fn an_interrupt_of_cases_leaves_no_project_of_theirs() {
    let sleep = unlike_any_other(3);
    let project = Project::new()
        .shell("x", &sleep)
        .file(".metier/skills/x/cases/a.json", r#"{"allow": [], "expect": {"value": 1}}"#)
        .file("tmp/kept", "");
    let mut command = project.command(&["test", "x"]);
    command.env("TMPDIR", project.path("tmp")).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    until("the case begins", || lives(&sleep));
    signal("TERM", child.id());
    let answer = ended(child);
    assert_eq!(answer.code, 130, "{answer:?}");
    let left: Vec<_> =
        std::fs::read_dir(project.path("tmp")).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(left, ["kept"], "{answer:?}");
}

/// A command that sleeps for so long as no other does: in a cage a process has another number than outside.
fn unlike_any_other(test: u32) -> String {
    format!("sleep 300.{test}{}", std::process::id())
}

/// Whether a process with this in its command line runs. One that has ended and waits to be collected does not.
fn lives(part: &str) -> bool {
    let processes =
        Command::new("ps").args(["-A", "-ww", "-o", "stat=", "-o", "args="]).output().unwrap().stdout;
    let processes = String::from_utf8_lossy(&processes);
    processes.lines().any(|process| process.contains(part) && !process.starts_with('Z'))
}

#[test]
fn one_interrupt_is_enough_when_nobody_reads_the_answer() {
    let project = Project::new().lua("x", "ctx.log('info', 'done') return string.rep('x', 1000000)");
    let mut child = started(&project, &["run", "x"]);
    // The pipe fills, and stays full.
    let (stdout, mut said) = (child.stdout.take(), [0]);
    std::io::Read::read_exact(child.stderr.as_mut().unwrap(), &mut said).unwrap();
    sleep(Duration::from_millis(200));
    signal("INT", child.id());
    assert_eq!(ended(child).code, 130);
    drop(stdout);
}

#[test]
fn a_deadline_leaves_no_process_behind() {
    let sleep = unlike_any_other(2);
    let project = Project::new().shell("x", &format!("{sleep} & echo > begun; wait"));
    let answer =
        project.metier(&["run", "x", "--allow", "write", "--sandbox", "best-effort", "--timeout", "300ms"]);
    assert!(answer.code == 5 && project.path("begun").exists());
    until("nothing of it goes on", || !lives(&sleep));
}
