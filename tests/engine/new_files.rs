//! Scripts that may create a file which does not exist yet: they get that file, and nothing around it.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::sync::Arc;

use metier::changes::ChangeStore;
use metier::engine::{Engine, Invocation, Outcome};
use metier::error::ErrorKind;
use metier::host::{Event, EventKind, Observer};

use crate::support::engine::{Project, granted, kind, sentence};
use crate::support::not_run::not_run;

fn store(project: &Project) -> ChangeStore {
    ChangeStore::open(project.root().with_file_name("data").join("changes")).unwrap()
}

/// A project with a skill `x` that has this script.
fn project(script: &str) -> Project {
    Project::new()
        .skill("x", "")
        .file(".metier/skills/x/scripts/main.sh", format!("#!/bin/sh\n{script}\n"))
        .file("docs/a.txt", "one\n")
        .file("b.txt", "two\n")
        .file("gone.txt", "gone\n")
        .file(".git/config", "[core]\n")
        .file(".env", "KEY=1\n")
}

/// The run with these grants, and the files of the project after it; `None` where this machine has no copies.
fn run(project: &Project, grants: &[&str], invocation: Invocation) -> Option<(Outcome, Vec<String>)> {
    let engine = Engine::builder(project.root()).changes(store(project)).build().unwrap();
    let outcome = engine.run(granted(invocation, grants));
    if outcome.result.as_ref().is_err_and(|error| error.message().contains("opens nothing")) {
        not_run("a run that creates a file", &sentence(&outcome));
        return None;
    }
    let previews = store(project).previews_folder();
    assert!(fs::read_dir(previews).map_or(0, Iterator::count) == 0, "something is left of the copy");
    assert!(store(project).list().unwrap().is_empty(), "a change set is left");
    Some((outcome, files(project)))
}

/// What is in the project besides its skills, each file with its content.
fn files(project: &Project) -> Vec<String> {
    let mut found = Vec::new();
    let mut folders = vec![PathBuf::new()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(project.path(folder.to_str().unwrap())).unwrap().flatten() {
            let path = folder.join(entry.file_name());
            if path.ends_with(".metier") {
                continue;
            }
            if entry.file_type().unwrap().is_dir() {
                folders.push(path);
                continue;
            }
            let text = fs::read_to_string(entry.path()).unwrap_or_default();
            found.push(format!("{} {}", path.display(), text.trim()));
        }
    }
    found.sort();
    found
}

const BEFORE: [&str; 5] =
    [".env KEY=1", ".git/config [core]", "b.txt two", "docs/a.txt one", "gone.txt gone"];

fn with(more: &[&str]) -> Vec<String> {
    let mut all: Vec<String> = BEFORE.iter().chain(more).map(ToString::to_string).collect();
    all.sort();
    all
}

#[test]
fn the_granted_file_is_created_and_what_else_the_script_does_is_reported_as_refused() {
    let project = project(
        "echo new > out.json.tmp && mv out.json.tmp out.json
echo more >> b.txt; rm gone.txt; echo x > other.txt; mkdir made; echo x > made/y; echo x > docs/new.md
echo x >> .git/config; cat .env; rm -f .env; echo done",
    );
    let Some((outcome, files)) = run(&project, &["write:out.json"], Invocation::new("x")) else { return };
    assert!(outcome.result.is_ok(), "{outcome:?}");
    assert_eq!(files, with(&["out.json new"]));
    let refused = outcome.refused.iter().filter_map(|refused| refused.permission.clone());
    let refused: Vec<String> = refused.collect();
    for expected in ["write:b.txt", "write", "write:made", "write:docs"] {
        assert!(refused.iter().any(|permission| permission == expected), "{expected}: {refused:?}");
    }
    assert!(!outcome.process.unwrap().stdout.contains("KEY"));
    // The next time it is there, and no copy is needed.
    fs::write(project.path(".metier/skills/x/scripts/main.sh"), "#!/bin/sh\necho again > out.json\n")
        .unwrap();
    let (outcome, files) = run(&project, &["write:out.json"], Invocation::new("x")).unwrap();
    assert!(outcome.result.is_ok() && files == with(&["out.json again"]), "{files:?} {outcome:?}");
}

#[test]
fn several_files_and_a_granted_folder_are_changed_in_one_run() {
    let project = project("echo 1 > new.txt; echo 2 > docs/new.md; echo 3 >> src/c.txt; rm b.txt; exit 3")
        .file("src/c.txt", "c\n");
    let grants = ["write:new.txt", "write:docs/new.md", "write:src"];
    let Some((outcome, files)) = run(&project, &grants, Invocation::new("x")) else { return };
    // What a script has done before it failed is done.
    assert_eq!(kind(&outcome), ErrorKind::Script);
    assert_eq!(files, with(&["new.txt 1", "docs/new.md 2", "src/c.txt c\n3"]));
}

#[test]
fn a_called_skill_and_one_that_lists_the_file_create_it_as_well() {
    let contract = "permissions: [\"write:out.json\"]\n";
    let project = project("echo new > out.json; echo x > other.txt")
        .file(".metier/skills/x/skill.yaml", contract)
        .skill("call", "allowed-tools: skill:x write:out.json\n")
        .file(".metier/skills/call/scripts/main.lua", "ctx.skill('x') return ctx.read_file('out.json')");
    let grants = ["write:out.json", "skill:x"];
    let Some((outcome, files)) = run(&project, &grants, Invocation::new("call")) else { return };
    assert_eq!(outcome.result.as_ref().unwrap().as_str(), Some("new\n"), "{outcome:?}");
    assert_eq!(files, with(&["out.json new"]));
}

#[test]
fn only_a_regular_file_is_taken_from_the_copy() {
    for script in [
        "ln -s ../outside/secret out.json",
        "ln -s .env out.json",
        "ln -s .git/hooks/post-commit out.json",
        "mkdir out.json && echo x > out.json/run.sh && chmod 777 out.json/run.sh",
        "git init -q --bare out.json",
        "mkfifo out.json",
    ] {
        let project = project(&format!("{script}; echo x > .git/hooks/new.sh; echo x > .env.new; true"));
        let Some((outcome, files)) = run(&project, &["write:out.json"], Invocation::new("x")) else { return };
        assert_eq!(files, with(&[]), "{script}");
        assert!(project.path("out.json").symlink_metadata().is_err(), "{script}");
        assert!(
            outcome.log.iter().any(|line| line.message.contains("was left out")),
            "{script}: {outcome:?}"
        );
    }
}

/// As before there were copies: the run does not begin.
#[test]
fn hidden_files_links_and_grants_of_other_writers_take_no_copy() {
    let project = project("echo x > \"$1\"").file("own/a.txt", "");
    let outside = project.root().with_file_name("outside");
    fs::create_dir_all(&outside).unwrap();
    fs::create_dir_all(project.path(".vscode")).unwrap();
    symlink(&outside, project.path("out")).unwrap();
    symlink("own", project.path("in")).unwrap();
    let engine = Engine::builder(project.root()).changes(store(&project)).build().unwrap();
    for grants in [
        &["write:.git/new.txt"][..],
        &["write:.vscode/new.json"],
        &["write:.hidden.txt"],
        &["write:in/new.txt"],
        &["write:none/new.txt"],
        &["write:out.json", "own-folder"],
    ] {
        let outcome = engine.run(granted(Invocation::new("x"), grants));
        assert!(sentence(&outcome).contains("opens nothing"), "{grants:?}: {outcome:?}");
    }
    let kept = Invocation::new("x").keep("tmp:k.svg".parse().unwrap());
    assert!(sentence(&engine.run(granted(kept, &["write:out.json"]))).contains("opens nothing"));
    let outcome = engine.run(granted(Invocation::new("x"), &["write:out/new.txt"]));
    assert!(outcome.result.is_err() && fs::read_dir(&outside).unwrap().count() == 0, "{outcome:?}");
}

/// The folder around the file is open to the run that has the copy, and not to what it calls.
#[test]
fn a_called_skill_changes_nothing_but_its_own_file() {
    let contract = "permissions: [\"write:c.json\"]\n";
    let script = "echo c > c.json; { echo x > src/a.txt; echo x > src/new.py; } 2>/dev/null; true";
    let project = project("metier ctx skill c '{}'")
        .skill("c", "")
        .file(".metier/skills/c/skill.yaml", contract)
        .file(".metier/skills/c/scripts/main.sh", format!("#!/bin/sh\n{script}\n"))
        .file("src/a.txt", "a\n");
    let grants = ["write:src", "write:c.json", "skill:c"];
    let Some((_, files)) = run(&project, &grants, Invocation::new("x")) else { return };
    assert!(files.contains(&"src/a.txt a".to_owned()), "{files:?}");
    assert!(!files.iter().any(|file| file.starts_with("src/new.py")), "{files:?}");
}

/// Creates the file as somebody else would, when the script says that it has made its own, and lets the script go on.
struct Rival(PathBuf);

impl Observer for Rival {
    fn on_event(&self, event: &Event) {
        if matches!(&event.kind, EventKind::Output { .. }) && !self.0.exists() {
            fs::write(&self.0, "of somebody else").unwrap();
            fs::write(self.0.with_file_name("docs").join("a.txt"), "go").unwrap();
        }
    }
}

#[test]
fn what_somebody_else_made_there_meanwhile_stays() {
    let project =
        project("echo mine > out.json; echo ready; until grep -q go docs/a.txt; do sleep 0.01; done");
    let rival = Arc::new(Rival(project.path("out.json")));
    let invocation = Invocation::new("x").observer(rival);
    let Some((outcome, files)) = run(&project, &["write:out.json", "write:docs"], invocation) else { return };
    assert_eq!(kind(&outcome), ErrorKind::Io, "{outcome:?}");
    assert!(sentence(&outcome).contains("out.json"), "{outcome:?}");
    assert!(files.contains(&"out.json of somebody else".to_owned()), "{files:?}");
}
