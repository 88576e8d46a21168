//! Calls that wait for a person: exactly the call that was approved is made, once.

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};

use metier::engine::{Engine, Invocation, Outcome};
use metier::error::{ErrorKind, Hint};
use metier::pending::{PendingCall, PendingState, PendingStore};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::project::{Project, granted, kind, sentence, value, write};

/// Says which call it was, in a file that tells how often it ran.
const SCRIPT: &str = "
local seen = #ctx.glob('out/ran') > 0 and ctx.read_file('out/ran') or ''
ctx.write('out/ran', seen .. 'x')
return 'ran'
";

struct Stage {
    project: Project,
    folder: TempDir,
}

impl Stage {
    fn new() -> Self {
        let plan = "metadata: {risk_level: none}\nsteps:\n- {id: first, skill: note, args: {}}\n- {id: second, skill: x, args: {n: 1}, on_failure: continue}\n- {id: third, skill: note, args: {}}\n";
        let note = "local seen = #ctx.glob('out/notes') > 0 and ctx.read_file('out/notes') or '' ctx.write('out/notes', seen .. 'n') return 1";
        let project = Project::lua_with_tools("read write", SCRIPT)
            .file(".metier/skills/x/skill.yaml", "metadata: {risk_level: critical}")
            .skill("plan", "allowed-tools: read write skill:x skill:note\n")
            .file(".metier/skills/plan/skill.yaml", plan)
            .skill("note", "allowed-tools: read write\n")
            .file(".metier/skills/note/skill.yaml", "metadata: {risk_level: none}")
            .file(".metier/skills/note/scripts/main.lua", note)
            .skill("asks", "allowed-tools: read write\n")
            .file(".metier/skills/asks/scripts/main.lua", SCRIPT)
            .file("out/keep", "");
        Self { project, folder: tempfile::tempdir().unwrap() }
    }

    fn store(&self) -> PendingStore {
        PendingStore::new(self.folder.path().join("pending"))
    }

    fn engine(&self) -> Engine {
        self.project.builder().pending(self.store()).build().unwrap()
    }

    fn call(input: Value) -> Invocation {
        granted(Invocation::new("x").input(input), &["read", "write"]).for_model().park("a test")
    }

    fn run(&self, input: Value) -> Outcome {
        self.engine().run(Self::call(input))
    }

    /// How often the script ran.
    fn runs(&self) -> usize {
        std::fs::read(self.project.path("out/ran")).map_or(0, |text| text.len())
    }

    #[track_caller]
    fn waiting(&self) -> PendingCall {
        let [call] = <[PendingCall; 1]>::try_from(self.store().list().unwrap()).unwrap();
        call
    }

    fn file_of(&self, call: &PendingCall) -> PathBuf {
        self.store().folder().join(format!("{}.json", call.id))
    }
}

#[track_caller]
fn assert_pending(outcome: &Outcome) -> String {
    assert_eq!(kind(outcome), ErrorKind::Pending, "{outcome:?}");
    match outcome.result.as_ref().unwrap_err().hint() {
        Some(Hint::Pending(id)) => id.clone(),
        hint => panic!("{hint:?}"),
    }
}

#[test]
fn a_call_waits_and_is_made_once_when_it_is_approved() {
    let stage = Stage::new();
    let id = assert_pending(&stage.run(json!({"n": 1})));
    assert_eq!(assert_pending(&stage.run(json!({"n": 1}))), id, "the same call waits once");
    assert_eq!(stage.runs(), 0);
    let call = stage.waiting();
    assert_eq!((call.id.as_str(), call.state), (id.as_str(), PendingState::Waiting));
    assert_eq!((call.input.clone(), call.caller.as_str()), (Some(json!({"n": 1})), "a test"));
    assert_eq!((call.reason.as_deref(), call.permissions.len()), (Some("critical_skill"), 0));
    assert_eq!(call.grants, ["read", "write"]);
    let approved = stage.store().approve(&id).unwrap();
    assert_eq!(approved.state, PendingState::Approved);
    assert_eq!(stage.runs(), 0, "to approve is not to run");
    assert_eq!(value(stage.run(json!({"n": 1}))), "ran");
    assert_eq!(stage.runs(), 1);
    assert!(stage.store().list().unwrap().is_empty());
    assert_eq!(assert_pending(&stage.run(json!({"n": 1}))), id, "the next one asks again");
    assert_eq!(stage.runs(), 1);
}

/// What differs, and a call that is not the approved one.
type OtherCall = (&'static str, fn(&Stage) -> Outcome);

#[test]
fn an_approval_is_for_nothing_but_that_call() {
    let others: [OtherCall; 7] = [
        ("another input", |stage| stage.run(json!({"n": 2}))),
        ("no input", |stage| {
            stage.engine().run(granted(Invocation::new("x"), &["read", "write"]).for_model().park("a test"))
        }),
        ("other arguments", |stage| stage.engine().run(Stage::call(json!({"n": 1})).args(["a"]))),
        ("another grant", |stage| {
            let call = granted(Invocation::new("x").input(json!({"n": 1})), &["read"]);
            stage.engine().run(call.for_model().park("a test"))
        }),
        ("a callee", |stage| {
            stage.engine().run(
                granted(Invocation::new("plan"), &["read", "write", "skill:x", "skill:note"])
                    .for_model()
                    .park("a test"),
            )
        }),
        ("another file", |stage| {
            write(&stage.project.path(".metier/skills/x/notes.md"), "new");
            stage.run(json!({"n": 1}))
        }),
        ("another project at the same path", |stage| {
            stage.project.replace();
            stage.run(json!({"n": 1}))
        }),
    ];
    for (what, other) in others {
        let stage = Stage::new();
        let id = assert_pending(&stage.run(json!({"n": 1})));
        stage.store().approve(&id).unwrap();
        other(&stage);
        assert_eq!(stage.runs(), 0, "{what}");
        let states: Vec<_> =
            stage.store().list().unwrap().into_iter().map(|call| (call.id == id, call.state)).collect();
        assert!(states.contains(&(true, PendingState::Approved)), "{what} took the approval: {states:?}");
        assert!(!states.contains(&(false, PendingState::Approved)), "{what}: {states:?}");
    }
}

#[test]
fn a_refused_call_stays_refused_and_an_approval_can_be_taken_back() {
    let stage = Stage::new();
    let id = assert_pending(&stage.run(json!({"n": 1})));
    stage.store().approve(&id).unwrap();
    stage.store().deny(&id).unwrap();
    for _ in 0..2 {
        let refused = stage.run(json!({"n": 1}));
        assert_eq!(kind(&refused), ErrorKind::Denied);
        assert!(sentence(&refused).contains("a person has refused"), "{refused:?}");
    }
    for error in [stage.store().approve(&id).unwrap_err(), stage.store().deny(&id).unwrap_err()] {
        assert!(error.kind() == ErrorKind::Usage && error.message().contains("already"), "{error}");
    }
    assert_eq!(stage.runs(), 0);
}

#[test]
fn an_id_that_is_none_opens_nothing() {
    let stage = Stage::new();
    let id = assert_pending(&stage.run(json!({"n": 1})));
    write(
        &stage.folder.path().join("aaaaaaaaaaaaaaaa.json"),
        std::fs::read(stage.file_of(&stage.waiting())).unwrap(),
    );
    let other = PendingStore::new(stage.folder.path().join("other"));
    for (store, id) in [
        (stage.store(), "../aaaaaaaaaaaaaaaa"),
        (stage.store(), "aaaaaaaaaaaaaaaa"),
        (stage.store(), ""),
        (stage.store(), "pending.lock"),
        (stage.store(), &id.to_uppercase().replace(|c: char| c.is_ascii_digit(), "A")),
        (other, &id),
    ] {
        let error = store.approve(id).unwrap_err();
        assert!(
            error.kind() == ErrorKind::Usage && error.message().contains("there is no pending call"),
            "{id}: {error}"
        );
    }
}

#[test]
fn of_two_runs_and_two_approvers_at_once_one_counts() {
    for _ in 0..10 {
        let stage = Stage::new();
        let id = assert_pending(&stage.run(json!({"n": 1})));
        let approvals = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    approvals.fetch_add(usize::from(stage.store().approve(&id).is_ok()), Ordering::SeqCst)
                });
            }
        });
        assert_eq!(approvals.into_inner(), 1);
        let ran = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    ran.fetch_add(usize::from(stage.run(json!({"n": 1})).result.is_ok()), Ordering::SeqCst)
                });
            }
        });
        assert_eq!((ran.into_inner(), stage.runs()), (1, 1));
    }
}

#[test]
fn what_is_missing_is_asked_for_with_the_call_and_not_in_its_midst() {
    let stage = Stage::new();
    let call = || Invocation::new("asks").park("a test");
    let id = assert_pending(&stage.engine().run(call()));
    assert_eq!(stage.waiting().permissions, ["write"]);
    stage.store().approve(&id).unwrap();
    assert_eq!(value(stage.engine().run(call())), "ran");
    assert_eq!(stage.runs(), 1);
    assert_pending(&stage.engine().run(call()));
}

#[test]
fn a_plan_with_a_journal_stops_at_the_call_and_goes_on_there() {
    let stage = Stage::new();
    let journal = tempfile::tempdir().unwrap();
    let run = || {
        let call = granted(Invocation::new("plan"), &["read", "write", "skill:x", "skill:note"]);
        stage.engine().run(call.for_model().park("the night").journal(journal.path()))
    };
    let notes = || std::fs::read_to_string(stage.project.path("out/notes")).unwrap_or_default();
    let id = assert_pending(&run());
    assert_eq!(
        (notes().as_str(), stage.runs()),
        ("n", 0),
        "the third step waits too, whatever the second one says"
    );
    assert_eq!(assert_pending(&run()), id);
    assert_eq!(stage.waiting().callers, ["plan"]);
    stage.store().approve(&id).unwrap();
    assert!(run().result.is_ok());
    assert_eq!((notes().as_str(), stage.runs()), ("nn", 1), "no step was made twice");
}

#[test]
fn secrets_are_not_written_down_and_still_tell_calls_apart() {
    let stage = Stage::new();
    let call = |secret: &str| {
        stage.engine().run(
            Stage::call(json!({"token": secret}))
                .secret_env("TOKEN", secret)
                .grant("env:TOKEN".parse().unwrap()),
        )
    };
    let id = assert_pending(&call("hunter2hunter2"));
    let text = std::fs::read_to_string(stage.file_of(&stage.waiting())).unwrap();
    assert!(!text.contains("hunter2hunter2"), "{text}");
    stage.store().approve(&id).unwrap();
    assert_ne!(assert_pending(&call("hunter3hunter3")), id);
    assert_eq!(value(call("hunter2hunter2")), "ran");
}

#[test]
fn a_damaged_or_foreign_file_permits_nothing() {
    let stage = Stage::new();
    let id = assert_pending(&stage.run(json!({"n": 1})));
    let file = stage.file_of(&stage.waiting());
    let text = std::fs::read_to_string(&file).unwrap();
    for damaged in [
        "",
        "{}",
        &text[..text.len() / 2],
        &text.replace("\"version\":1", "\"version\":2"),
        &text.replace(&id, "0123456789abcdef"),
    ] {
        write(&file, damaged);
        assert!(stage.run(json!({"n": 1})).result.is_err());
        assert!(stage.store().approve(&id).is_err(), "{damaged}");
    }
    // An approval of another call under the name of this one.
    write(&file, text.replace("\"waiting\"", "\"approved\"").replace("\"call\":\"", "\"call\":\"0"));
    assert_pending(&stage.run(json!({"n": 1})));
    assert_eq!(stage.runs(), 0);
    std::fs::remove_dir_all(stage.store().folder()).unwrap();
    std::os::unix::fs::symlink(stage.folder.path(), stage.store().folder()).unwrap();
    assert_eq!(kind(&stage.run(json!({"n": 1}))), ErrorKind::Denied, "a link is no store");
}

#[test]
fn without_a_store_and_with_an_approver_nothing_waits() {
    let stage = Stage::new();
    let outcome = stage.project.engine().run(Stage::call(json!({})));
    assert_eq!(kind(&outcome), ErrorKind::Usage);
    let outcome = stage.engine().run(granted(Invocation::new("x"), &["read", "write"]).for_model());
    assert_eq!(kind(&outcome), ErrorKind::Denied, "it did not ask to wait");
    assert!(stage.store().list().unwrap().is_empty());
}
