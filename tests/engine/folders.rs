//! An engine with several folders, such as an editor's workspace: each run works on one of them.

use std::path::Path;
use std::sync::{Arc, Mutex};

use metier::engine::{Engine, EngineBuilder, Invocation};
use metier::error::ErrorKind;
use metier::host::{Event, EventKind};
use metier::registry::Roots;
use serde_json::json;

use crate::project::{Project, granted, kind, sentence, value};

const READS: &str = "return ctx.read_file('own.txt')";

/// Folders `a` and `b`, each with a file of its own.
fn workspace() -> Project {
    Project::new().file("a/own.txt", "of a").file("b/own.txt", "of b").file("c/own.txt", "of c")
}

impl Project {
    fn skill_in(self, folder: &str, name: &str, asks: &str, script: &str) -> Self {
        let text = format!("---\nname: {name}\ndescription: d\n{asks}---\n");
        self.file(&format!("{folder}/.metier/skills/{name}/SKILL.md"), text)
            .file(&format!("{folder}/.metier/skills/{name}/scripts/main.lua"), script)
    }

    fn workspace_builder(&self) -> EngineBuilder {
        let (a, b) = (self.path("a"), self.path("b"));
        let roots = Roots::empty().with_project("metier", &a).with_project("metier", &b);
        Engine::builder(&a).folder(&b).folder(&a).roots(roots)
    }
}

#[test]
fn a_run_works_on_the_folder_in_which_its_skill_was_found() {
    let project = workspace().skill_in("a", "in-a", "", READS).skill_in("b", "in-b", "", READS);
    let engine = project.workspace_builder().build().unwrap();
    let folders: Vec<&Path> = engine.folders().collect();
    assert_eq!(folders.len(), 2, "a folder that is named twice counts once: {folders:?}");
    let run = |name: &str| engine.run(Invocation::new(name));
    assert_eq!((value(run("in-a")), value(run("in-b"))), (json!("of a"), json!("of b")));
    let in_b = |name: &str| engine.run(Invocation::new(name).folder(project.path("b/../b")));
    assert_eq!((value(in_b("in-a")), value(in_b("in-b"))), (json!("of b"), json!("of b")));
    let seen = Arc::new(Mutex::new(None));
    let observer = seen.clone();
    let observe = move |event: &Event| {
        if let EventKind::Started { project, .. } = &event.kind {
            observer.lock().unwrap().clone_from(project);
        }
    };
    engine.run(Invocation::new("in-b").observer(Arc::new(observe)));
    assert_eq!(seen.lock().unwrap().as_deref(), Some(folders[1]), "events say it");
    let explained = engine.explain(&Invocation::new("in-b")).unwrap();
    assert_eq!(explained.project, folders[1]);
    for other in ["c", "none", "a/.metier", "."] {
        let outcome = engine.run(Invocation::new("in-a").folder(project.path(other)));
        assert_eq!(kind(&outcome), ErrorKind::Usage, "{other}");
        let help = outcome.result.unwrap_err().help().unwrap().to_owned();
        assert!(help.contains(&folders[1].display().to_string()), "{help}");
    }
}

#[test]
fn the_standard_roots_of_every_folder_are_searched_and_the_first_name_counts() {
    let project = workspace().skill_in("a", "both", "", READS).skill_in("b", "both", "", READS);
    let engine = Engine::builder(project.path("a")).folder(project.path("b")).build().unwrap();
    assert_eq!(value(engine.run(Invocation::new("both"))), json!("of a"));
    assert_eq!(value(engine.run(Invocation::new("project/.metier-2:both"))), json!("of b"));
    let registry = engine.registry();
    let shadowed: Vec<String> = registry
        .skills()
        .iter()
        .filter(|skill| skill.name() == "both" && skill.shadowed_by().is_some())
        .map(metier::registry::Skill::qualified_name)
        .collect();
    assert_eq!(shadowed, ["project/.metier-2:both@0.0.0"]);
    let missing = Engine::builder(project.path("a")).folder(project.path("none")).build();
    assert_eq!(missing.map(drop).unwrap_err().kind(), ErrorKind::Io);
}

#[test]
fn a_skill_reaches_no_file_of_another_folder() {
    let script = "local b = input.b local reached = {}
        for _, path in {b .. '/own.txt', '../b/own.txt', 'link/own.txt', 'file'} do
            table.insert(reached, (pcall(ctx.read_file, path)))
            table.insert(reached, (pcall(ctx.write, path .. '.new', 'x')))
        end
        return reached";
    let project = workspace().skill_in("a", "x", "allowed-tools: read write\n", script);
    let project = project.link("../b", "a/link").link("../b/own.txt", "a/file");
    let engine = project.workspace_builder().build().unwrap();
    let input = json!({"b": project.path("b")});
    let outcome = engine.run(granted(Invocation::new("x").input(input), &["read", "write"]));
    let mut expected = vec![false; 8];
    // `file.new` is a file of folder a.
    expected[7] = true;
    assert_eq!(value(outcome), json!(expected));
    assert_eq!(std::fs::read_dir(project.path("b")).unwrap().count(), 1);
}

#[test]
fn a_callee_works_on_the_folder_of_its_caller() {
    let project = workspace()
        .skill_in("a", "x", "allowed-tools: skill:y\n", "return ctx.skill('y')")
        .skill_in("b", "y", "", READS);
    let engine = project.workspace_builder().build().unwrap();
    let run = || granted(Invocation::new("x"), &["skill:y"]);
    assert_eq!(value(engine.run(run())), json!("of a"));
    assert_eq!(value(engine.run(run().folder(project.path("b")))), json!("of b"));
    assert_eq!(value(engine.run(Invocation::new("y"))), json!("of b"), "called by nobody");
}

#[test]
fn the_skills_of_every_folder_are_protected_in_it() {
    let script = "return {(pcall(ctx.write, input.path, 'x'))}";
    let project = workspace().skill_in("b", "x", "allowed-tools: write\n", script);
    let engine = project.workspace_builder().build().unwrap();
    for (path, may) in [
        (".metier/skills/new/SKILL.md", false),
        (".agents/skills/new/SKILL.md", false),
        (".claude/skills/new/SKILL.md", false),
        (".env", false),
        ("src/new.txt", true),
    ] {
        for folder in ["a", "b"] {
            let run = Invocation::new("x").input(json!({"path": path})).folder(project.path(folder));
            assert_eq!(value(engine.run(granted(run, &["write"]))), json!([may]), "{folder}/{path}");
        }
    }
}

#[test]
fn an_edited_skill_stays_in_its_folder() {
    let project = workspace().skill_in("b", "x", "", READS);
    let engine = project.workspace_builder().build().unwrap();
    assert_eq!(value(engine.run(Invocation::new("x"))), json!("of b"));
    let project = project.skill_in("b", "x", "allowed-tools: read\n", READS).skill_in("b", "new", "", READS);
    assert_eq!(value(engine.run(Invocation::new("x"))), json!("of b"));
    engine.reload().unwrap();
    assert_eq!(value(engine.run(Invocation::new("new"))), json!("of b"));
    drop(project);
    assert_eq!(engine.reload().unwrap_err().kind(), ErrorKind::Io);
}

#[test]
fn a_journal_belongs_to_the_folder_of_its_run() {
    let steps = r#"[{"tool": "read_file", "args": {"path": "own.txt"}}, {"tool": "read_file", "args": {"path": "none"}}]"#;
    let text = "---\nname: x\ndescription: d\nmetadata:\n  runtime: tool-sequence\n---\n";
    let project = workspace()
        .file("a/.metier/skills/x/SKILL.md", text)
        .file("a/.metier/skills/x/scripts/sequence.json", steps);
    let engine = project.workspace_builder().build().unwrap();
    let run = |folder: &str| {
        let run = Invocation::new("x").folder(project.path(folder)).journal(project.path("journals"));
        engine.run(run)
    };
    for (folder, expected) in [("a", ErrorKind::Io), ("a", ErrorKind::Io), ("b", ErrorKind::Usage)] {
        let outcome = run(folder);
        assert_eq!(kind(&outcome), expected, "{folder}: {}", sentence(&outcome));
    }
}

#[cfg(all(feature = "sandboxed", target_os = "linux"))]
#[test]
fn an_external_script_reaches_no_file_of_another_folder() {
    use metier::policy::SandboxMode;
    let Some(_) = crate::not_run::find_program("python3") else {
        return crate::not_run::not_run("a Python script", "python3 is not installed");
    };
    let script = "import json, os, sys
def can(work, *args):
    try:
        work(*args)
        return True
    except OSError:
        return False
given = json.load(sys.stdin)
other = given['other']
print(json.dumps([open('own.txt').read(), can(open, other + '/own.txt'), can(os.listdir, other),
                  can(open, other + '/new.txt', 'w'), can(open, 'new.txt', 'w')]))
";
    let text = "---\nname: x\ndescription: d\nallowed-tools: read write\n---\n";
    let project = workspace()
        .file("a/.metier/skills/x/SKILL.md", text)
        .file("a/.metier/skills/x/scripts/main.py", script);
    let engine = project.workspace_builder().sandbox_mode(SandboxMode::Required).build().unwrap();
    for (folder, other) in [("a", "b"), ("b", "a")] {
        let run =
            Invocation::new("x").folder(project.path(folder)).input(json!({"other": project.path(other)}));
        let outcome = engine.run(granted(run, &["read", "write"]));
        assert!(outcome.result.is_ok(), "{}", sentence(&outcome));
        assert_eq!(value(outcome), json!([format!("of {folder}"), false, false, false, true]), "{folder}");
    }
}
