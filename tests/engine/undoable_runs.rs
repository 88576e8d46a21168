//! `undo = true` in the configuration: what skills that write have changed can be taken back, and where it cannot, they run as before.

use std::os::fd::AsFd;
use std::path::PathBuf;

use metier::changes::ChangeStore;
use metier::config::Configuration;
use metier::engine::{EngineBuilder, Invocation, Outcome, Preview};
use metier::error::ErrorKind;
use metier::host::ClosureTools;
use metier::policy::SandboxMode;
use serde_json::json;

use crate::support::engine::{Project, granted, kind, sentence, write};
use crate::support::not_run::not_run;

fn data(project: &Project) -> PathBuf {
    project.root().with_file_name("data").join("changes")
}

fn store(project: &Project) -> ChangeStore {
    ChangeStore::open(data(project)).unwrap()
}

fn builder(project: &Project) -> EngineBuilder {
    let configuration = Configuration::new().with("undo", true).unwrap();
    project.builder().configuration(configuration).changes(store(project))
}

fn shell(project: Project, name: &str, script: &str) -> Project {
    project
        .skill(name, "allowed-tools: read write write:.git exec:unsandboxed\n")
        .file(&format!(".metier/skills/{name}/scripts/main.sh"), format!("#!/bin/sh\n{script}\n"))
}

fn project() -> Project {
    let lua = "ctx.write('a.txt', 'new\\n') ctx.skill('sh', nil) return ctx.read_file('by-sh.txt')";
    let project = Project::new()
        .file("a.txt", "one\n")
        .file("b.txt", "two\n")
        .file(".git/config", "[core]\n")
        .skill("lua", "allowed-tools: read write skill:sh\n")
        .file(".metier/skills/lua/scripts/main.lua", lua);
    shell(project, "sh", "cat a.txt > by-sh.txt; rm -f b.txt")
}

fn log(outcome: &Outcome) -> String {
    format!("{:?}", outcome.log)
}

/// Whether this machine had a copy for the run.
fn had_copy(outcome: &Outcome) -> bool {
    let log = log(outcome);
    if log.contains("cannot be undone: failed to run in a copy") {
        not_run("a run that can be undone", &log);
        return false;
    }
    true
}

const LUA: [&str; 3] = ["read", "write", "skill:sh"];

#[test]
fn what_a_run_and_its_callees_changed_is_applied_and_taken_back() {
    let project = project();
    let outcome = builder(&project).build().unwrap().run(granted(Invocation::new("lua"), &LUA));
    assert_eq!(outcome.result.clone().unwrap(), json!("new\n"), "{outcome:?}");
    if !had_copy(&outcome) {
        return;
    }
    assert_eq!((project.read("a.txt"), project.read("by-sh.txt")), ("new\n".into(), "new\n".into()));
    assert!(!project.path("b.txt").exists());
    let stored = store(&project).list().unwrap();
    assert_eq!(stored.len(), 1, "one for all of them");
    let id = &stored[0].set.id;
    let line = format!("the changes of the run can be undone: change set {id} (3 changed paths)");
    assert_eq!(log(&outcome).matches(&line).count(), 1, "{outcome:?}");
    let opened = store(&project).open_project(&stored[0].set).unwrap();
    assert_eq!(store(&project).undo(id, opened.as_fd()).unwrap().conflicts, []);
    assert_eq!((project.read("a.txt"), project.read("b.txt")), ("one\n".into(), "two\n".into()));
    assert!(!project.path("by-sh.txt").exists());
    assert_eq!(std::fs::read_dir(store(&project).previews_folder()).unwrap().count(), 0);
}

#[test]
fn a_run_that_fails_can_be_undone_as_well() {
    let project = shell(project(), "fails", "echo half > a.txt; exit 3");
    let invocation = granted(Invocation::new("fails"), &["read", "write"]);
    let outcome = builder(&project).build().unwrap().run(invocation);
    assert!(outcome.result.is_err() || outcome.process.as_ref().unwrap().exit_code == Some(3), "{outcome:?}");
    assert_eq!(project.read("a.txt"), "half\n");
    if had_copy(&outcome) {
        assert_eq!(store(&project).list().unwrap().len(), 1, "{outcome:?}");
    }
}

#[test]
fn a_skill_that_may_not_write_has_no_copy() {
    let project = project();
    let engine = builder(&project).build().unwrap();
    let outcome = engine.run(granted(Invocation::new("lua"), &["read", "skill:sh"]));
    assert_eq!(kind(&outcome), ErrorKind::Denied, "{outcome:?}");
    assert!(!log(&outcome).contains("undone"), "{outcome:?}");
    assert!(!store(&project).previews_folder().exists(), "nothing was begun");
}

#[test]
fn where_there_can_be_no_copy_the_run_goes_on_with_one_warning() {
    let run = |name: &str, grants: &[&str]| granted(Invocation::new(name), grants);
    let plan = r#"[{"tool": "write", "args": {"path": "a.txt", "content": "new\n"}}]"#;
    let with_plan = |project: Project| {
        project
            .skill("plan", "allowed-tools: read write\n")
            .file(".metier/skills/plan/scripts/sequence.json", plan)
    };
    let change = "echo new > a.txt";
    for (name, grants, why) in [
        ("plan", &["read", "write"][..], "it has a journal"),
        ("git", &["read", "write", "write:.git"], "it may change .git"),
        ("out", &["read", "write", "exec:unsandboxed"], "a script without a sandbox would leave the copy"),
        ("off", &["read", "write"], "a script without a sandbox would leave the copy"),
        ("no-folder", &["read", "write"], "failed to make a folder for what the run changes"),
    ] {
        let project = with_plan(
            ["git", "out", "off", "no-folder"]
                .iter()
                .fold(project(), |project, name| shell(project, name, change)),
        );
        let invocation = run(name, grants);
        let invocation = match name {
            "plan" => invocation.journal(project.root().with_file_name("journal")),
            "off" => invocation.sandbox_mode(SandboxMode::Off),
            _ => invocation,
        };
        if name == "no-folder" {
            write(&store(&project).previews_folder(), "a file");
        }
        let outcome = builder(&project).build().unwrap().run(invocation);
        assert!(outcome.result.is_ok(), "{name}: {outcome:?}");
        assert_eq!(project.read("a.txt"), "new\n", "{name}");
        let log = log(&outcome);
        assert_eq!(log.matches("the changes of this run cannot be undone: ").count(), 1, "{name}: {log}");
        assert!(log.contains(why), "{name}: {log}");
        assert!(store(&project).list().unwrap().is_empty(), "{name}");
    }
}

#[test]
fn what_somebody_else_changed_meanwhile_stays_and_the_run_says_so() {
    let lua = "ctx.write('a.txt', 'of the run\\n') ctx.tool('edit', {}) ctx.write('b.txt', 'of the run\\n') return 1";
    let project = project()
        .skill("edits", "allowed-tools: read write tool:edit\n")
        .file(".metier/skills/edits/scripts/main.lua", lua);
    let path = project.path("b.txt");
    let tools = ClosureTools::new().tool("edit", "Edits a file", json!({}), move |_, _| {
        std::fs::write(&path, "somebody else's\n").unwrap();
        Ok(json!(null))
    });
    let engine = builder(&project).tools(tools).build().unwrap();
    let outcome = engine.run(granted(Invocation::new("edits"), &["read", "write", "tool:edit"]));
    if !had_copy(&outcome) {
        return;
    }
    assert_eq!(kind(&outcome), ErrorKind::Io, "{outcome:?}");
    assert!(sentence(&outcome).contains("not applied to the project, since"), "{outcome:?}");
    assert!(sentence(&outcome).contains("b.txt; the change set"), "{outcome:?}");
    assert_eq!(
        (project.read("a.txt"), project.read("b.txt")),
        ("of the run\n".into(), "somebody else's\n".into())
    );
    assert_eq!(store(&project).list().unwrap()[0].applied.len(), 1);
}

#[test]
fn what_cannot_be_applied_is_named_and_a_preview_stays_one() {
    let project = shell(project(), "links", "ln -s /etc etc; echo new > a.txt");
    let invocation = || granted(Invocation::new("links"), &["read", "write"]);
    let engine = builder(&project).build().unwrap();
    let outcome = engine.run(invocation().preview(Preview::Report));
    assert_eq!(project.read("a.txt"), "one\n");
    if kind_is_unavailable(&outcome) {
        return;
    }
    assert!(!log(&outcome).contains("undone"), "{outcome:?}");
    let outcome = engine.run(invocation());
    assert_eq!(project.read("a.txt"), "new\n");
    assert!(!project.path("etc").exists());
    assert!(log(&outcome).contains("not applied to the project: etc ("), "{outcome:?}");
}

fn kind_is_unavailable(outcome: &Outcome) -> bool {
    outcome.result.as_ref().is_err_and(|error| error.kind() == ErrorKind::SandboxUnavailable)
}

#[test]
fn a_file_that_a_script_was_granted_can_be_undone() {
    let project = shell(project(), "makes", "echo made > made.txt");
    let outcome =
        builder(&project).build().unwrap().run(granted(Invocation::new("makes"), &["write:made.txt"]));
    if kind_is_unavailable(&outcome) {
        not_run("a run that creates a file", &sentence(&outcome));
        return;
    }
    assert!(outcome.result.is_ok(), "{outcome:?}");
    let stored = store(&project).list().unwrap();
    assert_eq!(project.read("made.txt"), "made\n");
    let opened = store(&project).open_project(&stored[0].set).unwrap();
    store(&project).undo(&stored[0].set.id, opened.as_fd()).unwrap();
    assert!(!project.path("made.txt").exists());
}
