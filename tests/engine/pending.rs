//! Calls that wait for a person: exactly the call that was approved is made, once.

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};

use metier::engine::{Engine, Invocation, Outcome};
use metier::error::{ErrorKind, Hint};
use metier::pending::{PendingCall, PendingState, PendingStore};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::engine::{Project, granted, kind, sentence, value, write};

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

    /// Approves what has that id, as somebody who was shown it.
    fn approve(&self, id: &str) -> metier::error::Result<PendingCall> {
        let store = self.store();
        store.find(id).and_then(|shown| store.approve(&shown))
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
    let approved = stage.approve(&id).unwrap();
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
        stage.approve(&id).unwrap();
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
    stage.approve(&id).unwrap();
    stage.store().deny(&id).unwrap();
    for _ in 0..2 {
        let refused = stage.run(json!({"n": 1}));
        assert_eq!(kind(&refused), ErrorKind::Denied);
        assert!(sentence(&refused).contains("a person has refused"), "{refused:?}");
    }
    for error in [stage.approve(&id).unwrap_err(), stage.store().deny(&id).unwrap_err()] {
        assert!(error.kind() == ErrorKind::Usage && error.message().contains("already"), "{error}");
    }
    assert_eq!(stage.runs(), 0);
}

#[test]
fn an_id_that_is_none_opens_nothing() {
    let stage = Stage::new();
    let id = assert_pending(&stage.run(json!({"n": 1})));
    write(
        &stage.folder.path().join("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.json"),
        std::fs::read(stage.file_of(&stage.waiting())).unwrap(),
    );
    let other = PendingStore::new(stage.folder.path().join("other"));
    for (store, id) in [
        (stage.store(), "../aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"),
        (stage.store(), "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"),
        (stage.store(), ""),
        (stage.store(), "pending.lock"),
        (stage.store(), &id.to_uppercase().replace(|c: char| c.is_ascii_digit(), "A")),
        (other, &id),
    ] {
        let error = store.find(id).unwrap_err();
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
                scope
                    .spawn(|| approvals.fetch_add(usize::from(stage.approve(&id).is_ok()), Ordering::SeqCst));
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
    stage.approve(&id).unwrap();
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
    stage.approve(&id).unwrap();
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
    stage.approve(&id).unwrap();
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
        &text.replace(&id, "0123456789abcdef0123456789abcdef"),
    ] {
        write(&file, damaged);
        assert!(stage.run(json!({"n": 1})).result.is_err());
        assert!(stage.approve(&id).is_err(), "{damaged}");
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

/// A project whose skill has two scripts and a setting, and writes what it was given.
#[cfg(all(target_os = "linux", feature = "sandboxed"))]
fn shell_stage() -> Stage {
    let script = |word: &str| format!("printf '%s %s %s|' {word} \"$WORD\" \"$(cat)\" >> out/ran\n");
    let contract =
        "metadata: {risk_level: critical}\nconfig: {color: {type: string, default: red}}\nenv: [WORD]\n";
    let stage = Stage::new();
    for (name, text) in [
        ("skill.yaml", contract.to_owned()),
        ("SKILL.md", "---\nname: sh\ndescription: d\nallowed-tools: read write env:WORD\n---\n".to_owned()),
        ("scripts/show.sh", script("show")),
        ("scripts/wipe.sh", script("wipe")),
    ] {
        write(&stage.project.path(&format!(".metier/skills/sh/{name}")), text);
    }
    stage
}

#[test]
#[cfg(all(target_os = "linux", feature = "sandboxed"))]
fn an_approval_is_for_one_script_with_one_set_of_variables_settings_and_rules() {
    use metier::policy::{Permission, SandboxMode};
    let call = || {
        granted(Invocation::new("sh"), &["read", "write"])
            .grant(Permission::env("WORD").unwrap())
            .sandbox_mode(SandboxMode::Required)
            .script("scripts/show.sh")
            .env("WORD", "good")
            .input_text("1.50")
            .input(1.5)
            .for_model()
            .park("a test")
    };
    let others: [(&str, Invocation); 6] = [
        ("another script", call().script("scripts/wipe.sh")),
        ("another variable", call().env("WORD", "evil")),
        ("another text of the same input", call().input_text("15e-1")),
        ("no sandbox", call().sandbox_mode(SandboxMode::Off)),
        ("a weaker sandbox", call().sandbox_mode(SandboxMode::BestEffort)),
        ("a stream", call().stdin(std::io::Cursor::new("evil"))),
    ];
    for (what, other) in others {
        let stage = shell_stage();
        let id = assert_pending(&stage.engine().run(call()));
        let shown = stage.waiting();
        assert_eq!((shown.script.as_str(), shown.sandbox_mode.as_str()), ("scripts/show.sh", "required"));
        assert_eq!(shown.variables, ["WORD"]);
        stage.approve(&id).unwrap();
        let outcome = stage.engine().run(other);
        assert!(outcome.result.is_err(), "{what}: {outcome:?}");
        assert!(!stage.project.path("out/ran").exists(), "{what}");
        assert!(stage.engine().run(call()).result.is_ok(), "{what}");
        assert_eq!(std::fs::read_to_string(stage.project.path("out/ran")).unwrap(), "show good 1.50|");
    }
}

#[test]
fn a_setting_that_changed_makes_another_call() {
    use metier::config::Configuration;
    let stage = Stage::new();
    let contract = "metadata: {risk_level: critical}\nconfig: {color: {type: string, default: red}}";
    write(&stage.project.path(".metier/skills/x/skill.yaml"), contract);
    let run = |color: &str| {
        let configuration = Configuration::new().with("skills.x.config.color", color).unwrap();
        let builder = stage.project.builder().configuration(configuration).pending(stage.store());
        builder.build().unwrap().run(Stage::call(json!({})))
    };
    let id = assert_pending(&run("blue"));
    stage.approve(&id).unwrap();
    assert_ne!(assert_pending(&run("green")), id);
    assert_eq!(value(run("blue")), "ran");
}

#[test]
fn what_is_approved_is_what_was_shown() {
    let stage = Stage::new();
    let id = assert_pending(&stage.run(json!({"n": 1})));
    let shown = stage.waiting();
    let file = stage.file_of(&shown);
    let text = std::fs::read_to_string(&file).unwrap();
    // Another call under its id, while somebody reads.
    write(&file, text.replace("{\"n\":1}", "{\"n\":2}"));
    let error = stage.store().approve(&shown).unwrap_err();
    assert!(error.message().contains("is another one than the one that was shown"), "{error}");
    write(&file, &text);
    stage.store().approve(&shown).unwrap();
    // A time that this program never writes: a store that was filled by somebody else.
    for forged in [
        text.replace("\"expires\":\"20", "\"expires\":\"29"),
        text.replace("\"created\":\"20", "\"created\":\"29"),
    ] {
        write(&file, forged.replace("\"waiting\"", "\"approved\""));
        assert!(stage.store().find(&id).is_err());
        assert_pending(&stage.run(json!({"n": 1})));
    }
}

#[test]
fn one_caller_does_not_lock_out_another_and_refusing_makes_room() {
    let stage = Stage::new();
    let engine = stage.engine();
    let call = |number: usize, caller: &str| {
        let invocation = granted(Invocation::new("x").input(json!({"n": number})), &["read", "write"]);
        engine.run(invocation.for_model().park(caller))
    };
    for number in 0..100 {
        assert_pending(&call(number, "one"));
    }
    let full = call(100, "one");
    assert_eq!(kind(&full), ErrorKind::Denied);
    assert!(sentence(&full).contains("100 calls of this caller wait for a decision already"), "{full:?}");
    assert_pending(&call(101, "another"));
    let refused = stage.store().list().unwrap().into_iter().find(|call| call.caller == "one").unwrap();
    stage.store().deny(&refused.id).unwrap();
    assert_pending(&call(100, "one"));
}

#[test]
fn a_plan_does_not_ask_again_for_a_step_that_was_made() {
    let stage = Stage::new();
    let plan = "metadata: {risk_level: none}\nsteps:\n- {id: a, skill: x, args: {n: 1}}\n- {id: b, skill: x, args: {n: 2}}\n";
    write(&stage.project.path(".metier/skills/plan/skill.yaml"), plan);
    let journal = tempfile::tempdir().unwrap();
    let run = || {
        let call = granted(Invocation::new("plan"), &["read", "write", "skill:x", "skill:note"]);
        stage.engine().run(call.for_model().park("the night").journal(journal.path()))
    };
    for step in 1..=2 {
        let id = assert_pending(&run());
        assert_eq!(stage.waiting().input, Some(json!({"n": step})));
        stage.approve(&id).unwrap();
    }
    assert!(run().result.is_ok());
    assert_eq!(stage.runs(), 2);
    assert!(run().result.is_ok(), "a finished plan has its value");
    assert_eq!((stage.runs(), stage.store().list().unwrap().len()), (2, 0));
}
