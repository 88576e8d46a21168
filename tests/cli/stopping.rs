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
    let script = "sleep 300 & echo $! > child; echo $$ > begun; echo out; wait; sleep 300";
    let project = Project::new().shell("x", script);
    let child = started(&project, &["run", "x", "--allow", "write", "--sandbox", "best-effort"]);
    let id = |file: &str| std::fs::read_to_string(project.path(file)).unwrap_or_default().trim().to_owned();
    until("the script begins", || !id("begun").is_empty());
    signal("INT", child.id());
    let answer = ended(child);
    assert_eq!((answer.code, answer.stdout.as_str()), (130, ""));
    assert!(answer.stderr.contains("out\n") && answer.stderr.contains("cancelled"), "{answer:?}");
    for file in ["begun", "child"] {
        until("nothing of it goes on", || !is_alive(&id(file)));
    }
}

/// A process that has ended and waits to be collected does not run.
fn is_alive(process: &str) -> bool {
    let state = Command::new("ps").args(["-o", "stat=", "-p", process]).output().unwrap().stdout;
    let state = String::from_utf8(state).unwrap();
    !state.trim().is_empty() && !state.starts_with('Z')
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
    let project = Project::new().shell("x", "sleep 300 & echo $! > child; wait");
    let answer =
        project.metier(&["run", "x", "--allow", "write", "--sandbox", "best-effort", "--timeout", "300ms"]);
    assert_eq!(answer.code, 5);
    let child = std::fs::read_to_string(project.path("child")).unwrap();
    until("nothing of it goes on", || !is_alive(child.trim()));
}
