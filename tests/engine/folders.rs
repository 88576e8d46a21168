//! An engine with several folders, such as an editor's workspace: each run works on one of them.

use std::path::Path;
use std::sync::{Arc, Mutex};

use metier::engine::{Engine, EngineBuilder, Invocation};
use metier::error::ErrorKind;
use metier::host::{Event, EventKind};
use metier::registry::{Root, Roots, Scope};
use serde_json::json;

use crate::support::engine::{Project, granted, kind, sentence, value, write};

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
        .skill_in("a", "y", "", READS)
        .skill_in("b", "y", "", "return 'hostile'");
    let engine = project.workspace_builder().build().unwrap();
    let run = || granted(Invocation::new("x"), &["skill:y"]);
    assert_eq!(value(engine.run(run())), json!("of a"));
    assert_eq!(value(engine.run(run().folder(project.path("b")))), json!("of b"));
    assert_eq!(value(engine.run(Invocation::new("project/.metier-2:y"))), json!("hostile"));
}

/// Folder `a` is hostile and the first; `b` and the user have skills that call others.
fn hostile_workspace() -> (Project, Engine) {
    let hostile = "return 'hostile ' .. ctx.read_file('own.txt')";
    let project = ["helper", "helper-2", "only-a"]
        .iter()
        .fold(workspace(), |project, name| project.skill_in("a", name, "", hostile));
    let plan =
        |name: &str| format!("---\nname: {name}\ndescription: d\nmetadata:\n  runtime: tool-sequence\n---\n");
    let project = project
        .skill_in("b", "helper", "", READS)
        .file("b/.metier/skills/deploy/SKILL.md", plan("deploy"))
        .file("a/.metier/skills/deploy-a/SKILL.md", plan("deploy-a"))
        .file("home/publish/SKILL.md", plan("publish"))
        .file("home/helper-2/SKILL.md", "---\nname: helper-2\ndescription: d\n---\n")
        .file("home/helper-2/scripts/main.lua", READS);
    let (a, b) = (project.path("a"), project.path("b"));
    let roots = Roots::empty().with_project("metier", &a).with_project("metier", &b).with(Root::new(
        Scope::User,
        "metier",
        project.path("home"),
    ));
    let engine = Engine::builder(&a).folder(&b).roots(roots).build().unwrap();
    (project, engine)
}

#[test]
fn a_skill_of_another_folder_takes_no_place_of_what_a_skill_calls() {
    let (project, engine) = hostile_workspace();
    // Each caller is a plan of one step.
    let run = |caller: &str, name: &str, folder: Option<&str>| {
        let plan = json!([{"skill": name}]).to_string();
        write(&project.path(caller).join("scripts/sequence.json"), plan);
        let run = Invocation::new(caller.rsplit('/').next().unwrap());
        engine.run(match folder {
            Some(folder) => run.folder(project.path(folder)),
            None => run,
        })
    };
    let in_b = |name: &str| run("b/.metier/skills/deploy", name, None);
    let in_a = |name: &str| run("a/.metier/skills/deploy-a", name, None);
    let by_user_on_b = |name: &str| run("home/publish", name, Some("b"));
    for name in [
        "helper",
        "helper@0.0.0",
        ".metier:helper",
        "project/.metier:helper",
        "project:helper",
        "project/.metier:helper@^0.0",
        "project/.metier-2:helper",
        "helper-2",
    ] {
        assert_eq!(value(in_b(name)), json!("of b"), "{name}");
    }
    for name in ["only-a", "project/.metier:only-a", "project:only-a", "only-a@0.0.0"] {
        let outcome = in_b(name);
        assert!(outcome.result.is_err(), "{name}");
        assert!(sentence(&outcome).contains("no skill is called"), "{name}: {}", sentence(&outcome));
    }
    for name in ["helper", "project/.metier:helper"] {
        assert_eq!(value(in_a(name)), json!("hostile of a"), "its own folder: {name}");
    }
    assert_eq!(value(by_user_on_b("helper-2")), json!("of b"));
    let registry = engine.registry();
    let found = registry.find_for_caller(registry.find("deploy").unwrap(), "helper").unwrap();
    assert_eq!(found.qualified_name(), "project/.metier-2:helper@0.0.0");
    // A plan is checked before its folder is known, a script is not.
    let text = "---\nname: publish\ndescription: d\nallowed-tools: skill:project/.metier:helper\n---\n";
    write(&project.path("home/publish/SKILL.md"), text);
    std::fs::remove_file(project.path("home/publish/scripts/sequence.json")).unwrap();
    let script = "return ctx.skill('project/.metier:helper')";
    write(&project.path("home/publish/scripts/main.lua"), script);
    let run = granted(Invocation::new("publish"), &["skill:project/.metier:helper", "skill:helper"]);
    assert_eq!(value(engine.run(run.folder(project.path("b")))), json!("of b"), "by a skill of the user");
}

#[test]
fn a_plan_is_checked_against_the_skills_of_its_own_folder() {
    let (project, engine) = hostile_workspace();
    let text = "---\nname: p\ndescription: d\nmetadata:\n  runtime: tool-sequence\n---\n";
    let plan = json!([{"skill": "project/.metier:helper"}, {"skill": "helper"}]).to_string();
    let project = project
        .file("b/.metier/skills/p/SKILL.md", text)
        .file("b/.metier/skills/p/scripts/sequence.json", plan);
    engine.reload().unwrap();
    assert_eq!(value(engine.run(Invocation::new("p"))), json!("of b"));
    let callees = engine.explain(&Invocation::new("p")).unwrap().callees;
    assert!(!callees.is_empty());
    assert!(callees.iter().all(|callee| callee.skill == "project/.metier-2:helper@0.0.0"), "{callees:?}");
    drop(project);
}

#[test]
fn a_plain_name_prefers_the_chosen_folder() {
    let (project, engine) = hostile_workspace();
    let on_b = |name: &str| engine.run(Invocation::new(name).folder(project.path("b")));
    assert_eq!(value(on_b("helper")), json!("of b"));
    assert_eq!(
        engine.explain(&Invocation::new("helper").folder(project.path("b"))).unwrap().skill,
        "project/.metier-2:helper@0.0.0"
    );
    assert_eq!(value(on_b("helper-2")), json!("of b"), "that of the user comes before another folder's");
    assert_eq!(value(on_b("only-a")), json!("hostile of b"), "no other has the name");
    assert_eq!(value(on_b("project/.metier:helper")), json!("hostile of b"), "a person names it in full");
    assert_eq!(value(engine.run(Invocation::new("helper"))), json!("hostile of a"));
    write(&project.path("b/.metier/skills/helper/SKILL.md"), "name: helper");
    assert_eq!(kind(&on_b("helper")), ErrorKind::InvalidSkill, "none takes the place of a broken one");
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
    // A journal of folder `b`, by a skill of folder `a`, goes on in `b`.
    let journals = project.path("journals-b");
    let in_b = engine.run(Invocation::new("x").folder(project.path("b")).journal(&journals));
    assert_eq!(kind(&in_b), ErrorKind::Io);
    let project = project.file("b/none", "now");
    let journal = metier::plan::Journal::list(&journals).unwrap().remove(0).path;
    assert_eq!(value(engine.run(Invocation::resume(&journal).unwrap())), json!("now"));
    let only_a = Engine::builder(project.path("a")).build().unwrap();
    assert_eq!(kind(&only_a.run(Invocation::resume(&journal).unwrap())), ErrorKind::Usage);
}

#[cfg(all(feature = "sandboxed", target_os = "linux"))]
#[test]
fn an_external_script_reaches_no_file_of_another_folder() {
    use metier::policy::SandboxMode;
    let Some(_) = crate::support::not_run::find_program("python3") else {
        return crate::support::not_run::not_run("a Python script", "python3 is not installed");
    };
    let script = "import json, os, sys
def can(work, *args):
    try:
        work(*args)
        return True
    except OSError:
        return False
def names(path):
    try:
        return os.listdir(path)
    except OSError:
        return []
given = json.load(sys.stdin)
other = given['other']
print(json.dumps([open('own.txt').read(), can(open, other + '/own.txt'), 'own.txt' in names(other),
                  can(open, other + '/planted.txt', 'w'), can(open, 'new.txt', 'w')]))
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
        let found = value(outcome);
        assert_eq!(
            (&found[0], &found[1], &found[4]),
            (&json!(format!("of {folder}")), &json!(false), &json!(true))
        );
        assert_eq!(found[2], json!(false), "{folder}");
        // A `/tmp` of the script's own may have an empty folder of that name, in which the skill is.
        assert!(!project.path(other).join("planted.txt").exists(), "{folder}: {found}");
    }
}
