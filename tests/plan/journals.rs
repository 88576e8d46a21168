//! Journals as an editor sees them: a list, what each contains, how a run goes on with one, and how one is removed.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use metier::engine::Invocation;
use metier::error::{ErrorKind, Result};
use metier::host::Fixtures;
use metier::plan::{Journal, JournalState, JournalStep};
use metier::policy::Permission;
use serde_json::{Value, json};

use crate::plan::project::{Project, failure, within_ten_seconds, x};
use crate::support::many_names::create_names;

/// The variable that tells the test binary to be the run that is killed, in the project that it names.
const CHILD_PROJECT: &str = "METIER_TEST_JOURNALS_CHILD";

fn trace(id: &str) -> Value {
    json!({"id": id, "tool": "append", "args": {"path": "trace", "content": format!("{id} ")}})
}

fn resume(path: &Path, grants: &[&str]) -> Result<Invocation> {
    let granted = |run: Invocation, grant: &&str| run.grant(grant.parse::<Permission>().unwrap());
    Ok(grants.iter().fold(Invocation::resume(path)?, granted))
}

type Shown<'a> = (usize, Option<usize>, &'a str, JournalState, Option<Value>);

fn shown(steps: &[JournalStep]) -> Vec<Shown<'_>> {
    steps.iter().map(|step| (step.index, step.item, step.id.as_str(), step.state, step.value())).collect()
}

/// A plan whose second step ends only if `later` exists.
fn project() -> Project {
    let waits = "ctx.append('trace', 'y ') while not pcall(ctx.read_file, 'later') do end return input.n";
    let steps = json!([trace("a"), {"skill": "y", "args": {"n": "$inputs.n"}}, trace("b")]);
    Project::new().sequence("x", "write", &steps).lua("y", "write", waits)
}

#[test]
fn a_killed_run_is_listed_looked_at_and_resumed() {
    if let Some(root) = std::env::var_os(CHILD_PROJECT) {
        let root = std::path::PathBuf::from(root);
        let roots = metier::registry::Roots::empty().with(metier::registry::Root::new(
            metier::registry::Scope::Project,
            ".metier",
            root.join(".metier/skills"),
        ));
        let engine = metier::engine::Engine::builder(&root).roots(roots).build().unwrap();
        engine.run(x(&["write"]).journal(root.join("journal")).input(json!({"n": 7})));
        return;
    }
    let (project, folder) = (project(), |project: &Project| project.path("journal"));
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "plan::journals::a_killed_run_is_listed_looked_at_and_resumed"])
        .env(CHILD_PROJECT, project.root())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    within_ten_seconds(|| project.read("trace") == "a y ");

    let running = Journal::list(&folder(&project)).unwrap().remove(0);
    assert!(running.is_locked && !running.is_finished && running.damage.is_none(), "{running:?}");
    let path = running.path;
    assert_eq!(Journal::discard(&path).unwrap_err().kind(), ErrorKind::Usage, "a run is writing it");
    let (kind, sentence) = failure(&project.engine().run(resume(&path, &["write"]).unwrap()));
    assert!(kind == ErrorKind::Usage && sentence.contains("another run is writing"), "{sentence}");
    child.kill().unwrap();
    child.wait().unwrap();

    let before = fs::read(&path).unwrap();
    let listed = Journal::list(&folder(&project)).unwrap();
    assert_eq!(listed.len(), 1);
    let [summary] = &listed[..] else { panic!("{listed:?}") };
    assert_eq!((summary.skill.as_str(), summary.steps_done, summary.steps), ("x", 1, Some(3)));
    assert_eq!(summary.project, Some(fs::canonicalize(project.root()).unwrap()));
    assert_eq!(
        summary.qualified_name.as_deref().map(|name| name.starts_with("project/.metier:x@")),
        Some(true)
    );
    assert!(
        !summary.is_locked && !summary.is_finished && summary.damage.is_none() && summary.modified.is_some()
    );
    let content = Journal::peek(&path).unwrap();
    assert_eq!(content.input, Some(json!({"n": 7})));
    assert_eq!(
        shown(&content.steps),
        [
            (0, None, "a", JournalState::Done, Some(Value::Null)),
            (1, None, "y", JournalState::Interrupted, None),
        ]
    );
    assert_eq!(fs::read(&path).unwrap(), before, "looking changes nothing");

    let project = project.file("later", "");
    let outcome = project.engine().run(resume(&path, &["write"]).unwrap());
    assert_eq!(outcome.result.unwrap(), Value::Null);
    assert_eq!(project.read("trace"), "a y y b ");
    let content = Journal::peek(&path).unwrap();
    assert!(content.summary.is_finished);
    assert_eq!((content.summary.steps_done, content.steps[1].value()), (3, Some(json!(7))));
    let length = fs::read(&path).unwrap().len();
    project.engine().run(resume(&path, &["write"]).unwrap()).result.unwrap();
    assert_eq!(fs::read(&path).unwrap().len(), length, "a finished run records nothing more");
    Journal::discard(&path).unwrap();
    assert!(Journal::list(&folder(&project)).unwrap().is_empty());
}

#[test]
fn a_run_whose_plan_or_callee_changed_is_not_resumed() {
    let project = project().file("later", "");
    let run = x(&["write"]).journal(project.path("journal")).input(json!({"n": 1}));
    project.engine().run(run).result.unwrap();
    let path = project.path("journal/x.journal");
    let project = project.lua("y", "write", "return 1");
    let (kind, sentence) = failure(&project.engine().run(resume(&path, &["write"]).unwrap()));
    assert!(kind == ErrorKind::Usage && sentence.contains("before the skill y changed"), "{sentence}");
    let project = project.sequence("x", "write", &json!([trace("z")]));
    let (_, sentence) = failure(&project.engine().run(resume(&path, &["write"]).unwrap()));
    assert!(sentence.contains("before the plan of x changed"), "{sentence}");
    assert!(!project.read("trace").contains('z'));
    assert_eq!(Invocation::resume(project.path("none")).err().unwrap().kind(), ErrorKind::Io);
}

#[test]
fn loops_skipped_steps_and_failures_are_distinguished_and_counted() {
    let steps = json!([
        {"id": "each", "tool": "echo", "for_each": "$inputs.l", "args": {"i": "$item"}},
        {"id": "never", "tool": "tree", "when": "false"},
        {"id": "fails", "tool": "read_file", "args": {"path": "none"}, "on_failure": "continue"},
        {"id": "ends", "tool": "read_file", "args": {"path": "later"}},
    ]);
    let project = Project::new().sequence("x", "tool:echo", &steps);
    let run = || x(&["tool:echo"]).journal(project.path("j")).input(json!({"l": [1, 2]}));
    assert!(project.engine().run(run()).result.is_err());
    let content = Journal::peek(&project.path("j/x.journal")).unwrap();
    let states: Vec<_> = content.steps.iter().map(|step| (step.id.as_str(), step.item, step.state)).collect();
    assert_eq!(
        states,
        [
            ("each", None, JournalState::Done),
            ("each", Some(0), JournalState::Done),
            ("each", Some(1), JournalState::Done),
            ("never", None, JournalState::Skipped),
            ("fails", None, JournalState::Failed),
        ]
    );
    assert_eq!(
        (content.summary.steps_done, content.summary.steps, content.summary.is_finished),
        (3, Some(4), false)
    );
    assert!(content.steps[4].value().unwrap().as_str().unwrap().contains("failed to read none"));
    let length = fs::metadata(project.path("j/x.journal")).unwrap().len();
    assert!(project.engine().run(run()).result.is_err());
    assert_eq!(fs::metadata(project.path("j/x.journal")).unwrap().len(), length, "nothing is recorded twice");
}

#[test]
fn an_input_with_a_secret_is_not_saved() {
    let inner = json!([{"tool": "tree"}]);
    let steps = json!([{"id": "k", "tool": "secret", "args": {"name": "KEY"}}, {"skill": "x", "args": {"key": "$steps.k.outputs"}}]);
    let project = Project::new().sequence("x", "", &inner).sequence("outer", "secret:KEY", &steps);
    let secrets = Fixtures::new(r#"{"secrets": {"KEY": "hunter2-hunter2"}}"#).unwrap();
    let engine = project.builder().secrets(secrets).build().unwrap();
    let run = Invocation::new("outer").grant("secret:KEY".parse().unwrap()).journal(project.path("j"));
    engine.run(run).result.unwrap();
    for entry in fs::read_dir(project.path("j")).unwrap() {
        let text = fs::read_to_string(entry.unwrap().path()).unwrap();
        assert!(!text.contains("hunter2"), "{text}");
    }
    let nested = project.path("j/outer.1.journal");
    assert_eq!(Journal::peek(&nested).unwrap().input, None);
    let refused = Invocation::resume(&nested).err().unwrap();
    assert!(refused.message().contains("does not have the input of its run"), "{refused}");
    assert_eq!(
        Journal::list(&project.path("j")).unwrap().len(),
        1,
        "the journal of a called plan is a part of it"
    );
    Journal::discard(&project.path("j/outer.journal")).unwrap();
    assert_eq!(fs::read_dir(project.path("j")).unwrap().count(), 0, "it goes with the other");
}

#[test]
fn what_is_no_journal_of_a_called_plan_is_not_removed() {
    let (project, path) = finished();
    let text = fs::read_to_string(&path).unwrap();
    let kept = [
        "x.notes.journal",
        "x.2024-01-02.journal",
        "x..journal",
        "x.-.journal",
        "x.1-.journal",
        "y.1.journal",
    ];
    let project = kept.iter().fold(project, |project, name| project.file(&format!("j/{name}"), &text));
    let project = project.file("j/x.1.journal", &text).file("j/x.1-0.2.journal", &text);
    let names = || {
        let entries = fs::read_dir(project.path("j")).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect::<Vec<_>>()
    };
    let all = names().len();
    fs::write(project.path("j/x.7.journal"), "my own notes\n").unwrap();
    let refused = Journal::discard(&path).unwrap_err();
    assert!(refused.message().contains("x.7.journal is not a journal of metier"), "{refused}");
    assert_eq!(names().len(), all + 1, "nothing is removed");
    fs::remove_file(project.path("j/x.7.journal")).unwrap();
    fs::create_dir(project.path("j/x.7.journal")).unwrap();
    assert_eq!(Journal::discard(&path).unwrap_err().kind(), ErrorKind::Usage);
    fs::remove_dir(project.path("j/x.7.journal")).unwrap();
    let running = fs::File::open(project.path("j/x.1-0.2.journal")).unwrap();
    running.lock().unwrap();
    let refused = Journal::discard(&path).unwrap_err();
    assert!(refused.message().contains("another run is writing the journal"), "{refused}");
    assert_eq!(names().len(), all);
    running.unlock().unwrap();
    Journal::discard(&path).unwrap();
    let mut left = names();
    left.sort_unstable();
    let mut kept = kept.map(str::to_owned);
    kept.sort_unstable();
    assert_eq!(left, kept);
}

/// Runs a plan of one step in a fresh project, and returns the project and its journal.
fn finished() -> (Project, std::path::PathBuf) {
    let project = Project::new().sequence("x", "write", &json!([trace("a")]));
    project.engine().run(x(&["write"]).journal(project.path("j"))).result.unwrap();
    let path = project.path("j/x.journal");
    (project, path)
}

#[test]
fn a_hostile_folder_of_journals_is_bounded_and_nothing_in_it_is_followed() {
    let (project, good) = finished();
    let folder = project.path("j");
    let text = fs::read_to_string(&good).unwrap();
    let project = project
        .file("j/damaged.journal", text.replacen("\"done\"", "\"DONE\"", 1))
        .file("j/empty.journal", "")
        .file("j/notes.journal", "my own notes\n")
        .file("j/other.txt", &text)
        .file("outside/x.journal", &text)
        .link("../outside/x.journal", "j/link.journal")
        .link("/dev/zero", "j/zero.journal");
    fs::create_dir(folder.join("dir.journal")).unwrap();
    let fifo = folder.join("fifo.journal");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let huge = fs::File::create(folder.join("huge.journal")).unwrap();
    huge.set_len(1 << 30).unwrap();
    let listed = Journal::list(&folder).unwrap();
    let found: Vec<(String, bool, String)> = listed
        .iter()
        .map(|journal| {
            let name = journal.path.file_stem().unwrap().to_string_lossy().into_owned();
            let damage = journal.damage.as_ref().map_or(String::new(), |error| error.message().to_owned());
            (name, journal.is_finished, damage)
        })
        .collect();
    for (name, is_finished, words) in [
        ("x", true, ""),
        ("damaged", false, "is damaged before its last line"),
        ("empty", false, ""),
        ("notes", false, "is not a journal of metier"),
        ("link", false, "is not a journal of metier"),
        ("zero", false, "is not a journal of metier"),
        ("dir", false, "is not a journal of metier"),
        ("fifo", false, "is not a journal of metier"),
        ("huge", false, "is too large to look at"),
    ] {
        let (_, finished, damage) = found.iter().find(|(found, ..)| found == name).expect(name);
        assert_eq!((*finished, damage.is_empty()), (is_finished, words.is_empty()), "{name}: {damage}");
        assert!(damage.contains(words), "{name}: {damage}");
    }
    assert_eq!(found.len(), 9);
    let damaged = Journal::peek(&folder.join("damaged.journal")).unwrap();
    assert_eq!(damaged.summary.skill, "x", "what comes before the damage is shown");
    assert!(damaged.steps.iter().all(|step| step.state == JournalState::Interrupted), "{damaged:?}");
    assert!(Invocation::resume(folder.join("damaged.journal")).is_err());
    for name in ["notes", "link", "zero", "dir", "fifo", "huge"] {
        let path = folder.join(format!("{name}.journal"));
        assert!(Journal::peek(&path).is_err() && Journal::discard(&path).is_err(), "{name}");
        assert!(path.symlink_metadata().is_ok(), "{name} is left as it is");
    }
    assert_eq!(project.read("outside/x.journal"), text);
    Journal::discard(&folder.join("damaged.journal")).unwrap();

    let many = project.path("many");
    fs::create_dir(&many).unwrap();
    create_names((0..10_001).map(|at| many.join(at.to_string())));
    let refused = Journal::list(&many).unwrap_err();
    assert!(refused.message().contains("has more than 10000 entries"), "{refused}");
    assert_eq!(Journal::list(&project.path("none")).unwrap_err().kind(), ErrorKind::Io);
}
