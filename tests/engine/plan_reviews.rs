//! Reviews in plans: what the steps have changed in a copy of the project is applied when a person has agreed to exactly that.

use std::os::fd::AsFd;
use std::sync::{Arc, Mutex};

use metier::audit::{AuditKind, AuditRecord, AuditSink};
use metier::changes::ChangeStore;
use metier::engine::{ChangesReport, Engine, EngineBuilder, Invocation, Outcome, Preview};
use metier::error::{ErrorKind, Result};
use metier::host::{ApprovalNeed, ApprovalRequest, Approver, SkillContext};
use metier::pending::PendingStore;
use metier::policy::Approval;
use serde_json::{Value, json};

use crate::engine::leaks::FixedSecret;
use crate::support::engine::{Project, granted, sentence};
use crate::support::file_states::file_states;
use crate::support::not_run::not_run;

/// What a person does who is asked about changes, by the id of the step, the text and the changes.
type Decide = Box<dyn Fn(&str, &str, &ChangesReport) -> bool + Send + Sync>;

/// A person who records what was asked.
#[derive(Clone)]
struct Person {
    asked: Arc<Mutex<Vec<(String, ChangesReport)>>>,
    decide: Arc<Decide>,
}

impl Person {
    fn new(decide: impl Fn(&str, &str, &ChangesReport) -> bool + Send + Sync + 'static) -> Self {
        Self { asked: Arc::default(), decide: Arc::new(Box::new(decide)) }
    }

    fn asked(&self) -> Vec<(String, Vec<String>)> {
        self.asked.lock().unwrap().iter().map(|(step, report)| (step.clone(), kinds(&report.set))).collect()
    }
}

impl Approver for Person {
    fn approve(&self, _: &SkillContext, request: &ApprovalRequest) -> Result<Approval> {
        let ApprovalNeed::Review { step, text, changes } = &request.need else { return Ok(Approval::No) };
        self.asked.lock().unwrap().push((step.clone(), (**changes).clone()));
        Ok((self.decide)(step, text, changes).into())
    }
}

/// Each change as `kind path`.
fn kinds(set: &Value) -> Vec<String> {
    let text = |change: &Value, key: &str| change[key].as_str().unwrap().to_owned();
    let changes = set["changes"].as_array().unwrap().iter();
    changes.map(|change| format!("{} {}", text(change, "kind"), text(change, "path"))).collect()
}

impl Project {
    fn reviewed(self, name: &str, front: &str, script: &str, text: &str) -> Self {
        let manifest = format!("---\nname: {name}\ndescription: d\n{front}---\n");
        self.file(&format!(".metier/skills/{name}/SKILL.md"), manifest)
            .file(&format!(".metier/skills/{name}/scripts/{script}"), text)
    }

    fn plan(self, steps: &str) -> Self {
        self.reviewed("plan", "allowed-tools: read write\n", "sequence.json", steps)
    }

    fn store(&self) -> ChangeStore {
        ChangeStore::open(self.root().with_file_name("data").join("changes")).unwrap()
    }

    fn engine_builder(&self) -> EngineBuilder {
        Engine::builder(self.root()).changes(self.store())
    }

    /// The outcome, after which nothing is left of the copies; `None` where this machine has none.
    fn run_plan(&self, builder: EngineBuilder, invocation: Invocation) -> Option<Outcome> {
        let outcome = builder.build().unwrap().run(granted(invocation, &["read", "write"]));
        let folder = self.store().previews_folder();
        let left = std::fs::read_dir(folder).map_or(0, Iterator::count);
        assert_eq!(left, 0, "something is left of a copy");
        if kind_of(&outcome) == Some(ErrorKind::SandboxUnavailable) {
            not_run("a plan with a review", &sentence(&outcome));
            return None;
        }
        Some(outcome)
    }
}

fn kind_of(outcome: &Outcome) -> Option<ErrorKind> {
    outcome.result.as_ref().err().map(metier::error::SkillError::kind)
}

fn log(outcome: &Outcome) -> String {
    format!("{:?}", outcome.log)
}

fn project() -> Project {
    Project::new().file("a.txt", "one\n").file("b.txt", "two\n").file(".env", "KEY=1\n").reviewed(
        "sh",
        "allowed-tools: read write\n",
        "main.sh",
        "#!/bin/sh\ncat a.txt > seen-by-sh.txt; rm b.txt",
    )
}

const WRITE_A: &str = r#"{"tool": "write", "args": {"path": "a.txt", "content": "new\n"}}"#;
const READ_A: &str = r#"{"id": "last", "tool": "read_file", "args": {"path": "a.txt"}}"#;

#[test]
fn a_plan_changes_a_copy_until_a_person_agrees_and_then_the_project() {
    let steps = format!(
        r#"[{WRITE_A}, {{"skill": "sh"}}, {{"id": "look", "review": "Is it $5?"}},
            {{"tool": "write", "args": {{"path": "c.txt", "content": "c"}}}}, {{"id": "again", "skill": "late"}}, {READ_A}]"#
    );
    let late = "#!/bin/sh\ncat a.txt c.txt > by-late.txt; test ! -e b.txt";
    let project = project().plan(&steps).reviewed("late", "allowed-tools: read write\n", "main.sh", late);
    let (root, before) = (project.root().to_owned(), file_states(project.root()));
    let person = Person::new(move |step, text, report| {
        assert_eq!(file_states(&root), before, "the project is as it was while a person is asked");
        assert_eq!((step, text), ("look", "Is it $5?"));
        let diff = json!({"path": "a.txt", "diff": "@@ -1 +1 @@\n-one\n+new\n"});
        assert!(report.diffs.contains(&diff), "{report:?}");
        true
    });
    let builder = project.engine_builder().approver(person.clone());
    let Some(outcome) = project.run_plan(builder, Invocation::new("plan")) else { return };
    assert_eq!(outcome.result.clone().unwrap(), json!("new\n"), "{outcome:?}");
    let changes = ["changed a.txt", "deleted b.txt", "created seen-by-sh.txt"].map(str::to_owned).to_vec();
    assert_eq!(person.asked(), [("look".to_owned(), changes)]);
    assert_eq!(project.read("seen-by-sh.txt"), "new\n", "a process saw what a function wrote");
    assert_eq!(project.read("by-late.txt"), "new\nc", "steps after the review have the project itself");
    assert!(!project.path("b.txt").exists());
    assert!(log(&outcome).contains("was applied (3 changed paths), and can be undone"), "{outcome:?}");
    // What was agreed to can be taken back.
    let store = project.store();
    let stored = &store.list().unwrap()[0];
    let report = store.undo(&stored.set.id, store.open_project(&stored.set).unwrap().as_fd()).unwrap();
    assert_eq!(report.conflicts, []);
    assert_eq!((project.read("a.txt"), project.read("b.txt")), ("one\n".to_owned(), "two\n".to_owned()));
}

#[test]
fn each_review_shows_what_has_changed_since_the_one_before() {
    let steps = format!(
        r#"[{WRITE_A}, {{"review": "first"}}, {{"skill": "sh"}},
            {{"tool": "write", "args": {{"path": "c.txt", "content": "c"}}}}, {{"id": "second", "review": null}}, {READ_A}]"#
    );
    let project = project().plan(&steps);
    let path = project.path("");
    let person = Person::new(move |step, text, _| {
        let is_first = step == "review";
        assert_eq!(text, if is_first { "first" } else { "" });
        let a = std::fs::read_to_string(path.join("a.txt")).unwrap();
        assert_eq!(a, if is_first { "one\n" } else { "new\n" });
        assert!(!path.join("c.txt").exists() && path.join("b.txt").exists());
        is_first
    });
    let builder = project.engine_builder().approver(person.clone());
    let Some(outcome) = project.run_plan(builder, Invocation::new("plan")) else { return };
    assert_eq!(kind_of(&outcome), Some(ErrorKind::Denied), "{outcome:?}");
    let texts = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect::<Vec<_>>();
    let expected = [
        ("review".to_owned(), texts(&["changed a.txt"])),
        ("second".to_owned(), texts(&["deleted b.txt", "created c.txt", "created seen-by-sh.txt"])),
    ];
    assert_eq!(person.asked(), expected);
    assert_eq!((project.read("a.txt"), project.read("b.txt")), ("new\n".to_owned(), "two\n".to_owned()));
    assert!(!project.path("c.txt").exists(), "what the second review refused is not applied");
    assert_eq!(project.store().list().unwrap().len(), 1, "and not stored either");
}

#[test]
fn without_a_yes_nothing_is_changed_and_no_later_step_runs() {
    let canary = r#"{"id": "canary", "tool": "write", "args": {"path": "canary.txt", "content": "ran"}}"#;
    let project = project().plan(&format!(r#"[{WRITE_A}, {{"skill": "sh"}}, {{"review": "?"}}, {canary}]"#));
    let before = file_states(project.root());
    let person = Person::new(|_, _, _| false);
    let asked = project.engine_builder().approver(person.clone());
    for (builder, why) in [(asked, "was not approved"), (project.engine_builder(), "nobody can be asked")] {
        let Some(outcome) = project.run_plan(builder, Invocation::new("plan")) else { return };
        assert_eq!(kind_of(&outcome), Some(ErrorKind::Denied), "{outcome:?}");
        assert!(sentence(&outcome).contains(why), "{outcome:?}");
        assert!(sentence(&outcome).contains("step 3 of 4 (id review, review) failed"), "{outcome:?}");
        assert_eq!(file_states(project.root()), before);
        assert!(project.store().list().unwrap().is_empty(), "nothing is stored");
    }
    assert_eq!(person.asked().len(), 1);
}

#[test]
fn a_yes_to_changes_that_no_longer_fit_applies_none_of_them() {
    let project = project().plan(&format!(r#"[{WRITE_A}, {{"skill": "sh"}}, {{"review": "?"}}, {READ_A}]"#));
    let path = project.path("b.txt");
    let person = Person::new(move |_, _, _| {
        std::fs::write(&path, "somebody else's\n").unwrap();
        true
    });
    let builder = project.engine_builder().approver(person);
    let Some(outcome) = project.run_plan(builder, Invocation::new("plan")) else { return };
    assert!(
        sentence(&outcome).contains("nothing was applied, since the project has changed meanwhile"),
        "{outcome:?}"
    );
    assert!(sentence(&outcome).contains("b.txt"), "{outcome:?}");
    assert_eq!((project.read("a.txt"), project.read("b.txt")), ("one\n".into(), "somebody else's\n".into()));
    assert!(!project.path("seen-by-sh.txt").exists());
}

#[test]
fn a_step_leaves_nothing_that_changes_what_a_person_was_shown() {
    // The process would go on writing, and the link leads out of the project.
    let script = "#!/bin/sh\necho shown > late.txt; ln -s /etc etc; ln -s ../.. up; echo x >> .git/config\n\
                  (setsid sh -c 'while :; do echo hidden >> late.txt; done' >/dev/null 2>&1 &) ; true";
    let project = Project::new()
        .file(".git/config", "[core]\n")
        .plan(r#"[{"skill": "sh"}, {"review": "?"}, {"tool": "write", "args": {"path": "etc/x", "content": "x"}}]"#)
        .reviewed("sh", "allowed-tools: read write\n", "main.sh", script);
    let shown = Arc::new(Mutex::new(Value::Null));
    let seen = shown.clone();
    let person = Person::new(move |_, _, report| {
        *seen.lock().unwrap() = report.set.clone();
        true
    });
    let builder = project.engine_builder().approver(person);
    let Some(outcome) = project.run_plan(builder, Invocation::new("plan")) else { return };
    let shown = shown.lock().unwrap().clone();
    assert_eq!(kinds(&shown), ["created late.txt"], "{outcome:?}");
    let refused: Vec<&str> =
        shown["refused"].as_array().unwrap().iter().map(|one| one["path"].as_str().unwrap()).collect();
    assert_eq!(refused, ["etc", "up"]);
    let size = shown["changes"][0]["after"]["size"].as_u64().unwrap();
    assert_eq!(std::fs::metadata(project.path("late.txt")).unwrap().len(), size, "exactly what was shown");
    assert_eq!(project.read("etc/x"), "x", "the link was not applied, so this is a folder of the project");
    assert_eq!(project.read(".git/config"), "[core]\n");
}

#[test]
fn a_preview_of_the_plan_shows_everything_and_asks_nobody() {
    let project = project().plan(&format!(
        r#"[{WRITE_A}, {{"review": "?"}}, {{"tool": "write", "args": {{"path": "c.txt", "content": "c"}}}}]"#
    ));
    let before = file_states(project.root());
    let person = Person::new(|_, _, _| panic!("nobody is asked"));
    let builder = project.engine_builder().approver(person);
    let Some(outcome) = project.run_plan(builder, Invocation::new("plan").preview(Preview::Report)) else {
        return;
    };
    assert!(outcome.result.is_ok(), "{outcome:?}");
    assert_eq!(kinds(&outcome.changes.as_ref().unwrap().set), ["changed a.txt", "created c.txt"]);
    assert!(log(&outcome).contains("the review review was passed over"), "{outcome:?}");
    assert_eq!(file_states(project.root()), before);
}

#[test]
fn a_plan_that_ends_before_its_review_says_what_was_discarded() {
    let fails =
        r#"{"id": "fails", "tool": "read_file", "args": {"path": "nowhere"}, "on_failure": "skip_rest"}"#;
    let project = project().plan(&format!(r#"[{WRITE_A}, {fails}, {{"review": "?"}}]"#));
    let before = file_states(project.root());
    let Some(outcome) = project.run_plan(project.engine_builder(), Invocation::new("plan")) else { return };
    assert!(outcome.result.is_ok(), "{outcome:?}");
    assert!(log(&outcome).contains("the plan ended before a review, so the copy"), "{outcome:?}");
    assert!(log(&outcome).contains("with 1 changed paths"), "{outcome:?}");
    assert_eq!(file_states(project.root()), before);
}

#[test]
fn a_journal_cannot_hold_steps_that_ran_in_a_copy() {
    let project = project().plan(&format!(r#"[{WRITE_A}, {{"review": "?"}}]"#));
    let journal = project.root().with_file_name("journal");
    let invocation = Invocation::new("plan").journal(&journal);
    let Some(outcome) = project.run_plan(project.engine_builder(), invocation) else { return };
    assert_eq!(kind_of(&outcome), Some(ErrorKind::Usage), "{outcome:?}");
    assert!(sentence(&outcome).contains("a plan with a review has no journal"), "{outcome:?}");
    assert!(outcome.steps.is_empty() && !journal.exists());
}

#[test]
fn a_review_does_not_wait_for_a_person_who_comes_later() {
    let project = project().plan(&format!(r#"[{WRITE_A}, {{"id": "look", "review": "?"}}]"#));
    let pending = PendingStore::new(project.root().with_file_name("pending"));
    let builder = project.engine_builder().pending(pending.clone());
    let Some(outcome) = project.run_plan(builder, Invocation::new("plan").park("a test")) else { return };
    assert_eq!(kind_of(&outcome), Some(ErrorKind::Denied), "{outcome:?}");
    assert!(
        sentence(&outcome).contains("the review look cannot wait for a person: the steps"),
        "{outcome:?}"
    );
    assert_eq!(pending.list().unwrap(), []);
    assert_eq!(project.read("a.txt"), "one\n");
}

#[derive(Clone, Default)]
struct Records(Arc<Mutex<Vec<AuditRecord>>>);

impl AuditSink for Records {
    fn write(&self, record: &AuditRecord) -> Result<()> {
        self.0.lock().unwrap().push(record.clone());
        Ok(())
    }
}

#[test]
fn question_and_answer_are_recorded_with_the_digest_of_the_changes() {
    let project = project().plan(&format!(r#"[{WRITE_A}, {{"id": "look", "review": "?"}}]"#));
    let (records, person) = (Records::default(), Person::new(|_, _, _| true));
    let builder = project.engine_builder().approver(person.clone()).audit(records.clone());
    let Some(outcome) = project.run_plan(builder, Invocation::new("plan")) else { return };
    let digest = outcome.result.clone().unwrap()["digest"].as_str().unwrap().to_owned();
    let records = records.0.lock().unwrap();
    for (kind, answer) in [(AuditKind::Question, None), (AuditKind::Answer, Some("once"))] {
        let record = records.iter().find(|record| record.kind == kind).unwrap();
        assert_eq!((record.gate.as_deref(), record.target.as_deref()), (Some("review"), Some("look")));
        assert_eq!((record.change_set.as_deref(), record.outcome.as_deref()), (Some(&*digest), answer));
    }
}

#[test]
fn what_a_run_would_ask_is_known_before_it() {
    let project =
        project().plan(&format!(r#"[{WRITE_A}, {{"id": "look", "review": "?"}}, {{"review": "?"}}]"#));
    let explained = project.engine_builder().build().unwrap().explain(&Invocation::new("plan")).unwrap();
    assert_eq!(explained.reviews, ["look", "review"]);
}

#[test]
fn only_the_plan_that_was_started_has_reviews() {
    let lua =
        "ctx.write('by-lua.txt', 'x') local ok, why = pcall(ctx.skill, 'plan', nil) return tostring(why)";
    let project = project()
        .plan(&format!(r#"[{WRITE_A}, {{"review": "?"}}]"#))
        .reviewed("lua", "allowed-tools: read write skill:plan\n", "main.lua", lua)
        .reviewed("middle", "allowed-tools: read write\n", "sequence.json", r#"[{"skill": "plan"}]"#)
        .reviewed(
            "outer",
            "allowed-tools: read write\n",
            "sequence.json",
            r#"[{"tool": "write", "args": {"path": "canary.txt", "content": "ran"}}, {"skill": "middle"}]"#,
        );
    let person = Person::new(|_, _, _| panic!("nobody is asked"));
    let builder = || project.engine_builder().approver(person.clone());
    for name in ["middle", "outer"] {
        let Some(outcome) = project.run_plan(builder(), Invocation::new(name)) else { return };
        assert_eq!(kind_of(&outcome), Some(ErrorKind::InvalidSkill), "{outcome:?}");
        assert!(
            sentence(&outcome).contains("plan has a review, so no other skill can call it"),
            "{outcome:?}"
        );
        assert!(!project.path("canary.txt").exists(), "it was checked before the first step");
    }
    let invocation = granted(Invocation::new("lua"), &["skill:plan"]);
    let Some(outcome) = project.run_plan(builder(), invocation) else { return };
    let why = outcome.result.clone().unwrap();
    assert!(why.as_str().unwrap().contains("so no other skill can call it"), "{outcome:?}");
    assert_eq!(project.read("a.txt"), "one\n");
}

#[test]
fn a_question_has_no_secret_of_the_run() {
    let steps = r#"[{"id": "key", "tool": "secret", "args": {"name": "KEY"}},
        {"tool": "write", "args": {"path": "out.txt", "content": "${steps.key.outputs} is it"}}, {"review": "?"}]"#;
    let front = "allowed-tools: write secret:KEY\n";
    let project = Project::new().reviewed("plan", front, "sequence.json", steps);
    let person = Person::new(|_, _, report| {
        let text = serde_json::to_string(report).unwrap();
        assert!(text.contains("out.txt") && text.contains("is it"), "{text}");
        assert!(!text.contains("sesame-sesame-1234"), "{text}");
        true
    });
    let builder = project
        .engine_builder()
        .approver(person.clone())
        .secrets(FixedSecret("sesame-sesame-1234".to_owned()));
    let invocation = granted(Invocation::new("plan"), &["secret:KEY"]);
    let Some(outcome) = project.run_plan(builder, invocation) else { return };
    assert!(outcome.result.is_ok(), "{outcome:?}");
    assert_eq!(person.asked().len(), 1);
    assert_eq!(project.read("out.txt"), "sesame-sesame-1234 is it", "the file has it");
}
