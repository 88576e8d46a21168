//! A run that is taken up again: what finished is not repeated, and nothing is lost.

use std::path::Path;

use metier::engine::{Invocation, Outcome};
use metier::error::ErrorKind;
use metier::host::{
    ApprovalNeed, ApprovalRequest, Approver, Providers, SecretProvider, SkillContext, StepStatus,
};
use metier::policy::{Approval, CancelToken};
use serde_json::{Value, json};

use crate::plan::project::{Project, failure, within_ten_seconds, x};

/// Runs `x` with a journal beside the project's skills.
fn run(project: &Project, grants: &[&str], input: Value) -> Outcome {
    project.engine().run(invocation_with_journal(project, grants).input(input))
}

fn invocation_with_journal(project: &Project, grants: &[&str]) -> Invocation {
    x(grants).journal(project.path("journal"))
}

fn trace(id: &str) -> Value {
    json!({"id": id, "tool": "append", "args": {"path": "trace", "content": format!("{id} ")}})
}

const WRITE: [&str; 2] = ["write", "tool:echo"];

#[test]
fn a_run_goes_on_where_it_failed_and_repeats_nothing() {
    let steps = json!([trace("a"), {"id": "r", "tool": "read_file", "args": {"path": "later"}}, {"id": "e", "tool": "echo", "args": {"a": "$steps.r.outputs", "n": 0.1}}, trace("b")]);
    let project = Project::new().sequence("x", "write", &json!({"steps": steps, "outputs_from": "e"}));
    let (kind, _) = failure(&run(&project, &WRITE, json!({})));
    assert_eq!((kind, project.read("trace")), (ErrorKind::Io, "a ".into()));
    let project = project.file("later", "here");
    let outcome = run(&project, &WRITE, json!({}));
    assert_eq!(outcome.result.unwrap(), json!({"a": "here", "n": 0.1}));
    assert_eq!(project.read("trace"), "a b ");
    let statuses: Vec<StepStatus> = outcome.steps.iter().map(|step| step.status).collect();
    assert_eq!(statuses, [StepStatus::Resumed, StepStatus::Ok, StepStatus::Ok, StepStatus::Ok]);
    let again = run(&project, &WRITE, json!({}));
    assert_eq!(again.result.unwrap(), json!({"a": "here", "n": 0.1}), "a finished run answers again");
    assert!(again.steps.iter().all(|step| step.status == StepStatus::Resumed && step.attempts == 0));
    assert_eq!(project.read("trace"), "a b ");
}

#[test]
fn a_changed_input_plan_or_callee_is_not_resumed() {
    let project =
        Project::new().sequence("x", "write", &json!([trace("a"), {"skill": "y"}])).lua("y", "", "return 1");
    run(&project, &WRITE, json!({"n": 1})).result.unwrap();
    let (kind, sentence) = failure(&run(&project, &WRITE, json!({"n": 2})));
    assert_eq!(kind, ErrorKind::Usage);
    assert!(
        sentence.contains("was begun with another input, so the run is not taken up again"),
        "{sentence}"
    );
    let project = project.lua("y", "", "return 2");
    assert!(failure(&run(&project, &WRITE, json!({"n": 1}))).1.contains("before the skill y changed"));
    let project =
        project.lua("y", "", "return 1").sequence("x", "write", &json!([trace("z"), {"skill": "y"}]));
    assert!(failure(&run(&project, &WRITE, json!({"n": 1}))).1.contains("before the plan of x changed"));
    assert_eq!(project.read("trace"), "a ");
}

#[test]
fn the_order_of_keys_and_other_grants_make_no_other_run() {
    let project = Project::new().sequence(
        "x",
        "write",
        &json!([trace("a"), {"tool": "echo", "args": {"i": "$inputs"}}]),
    );
    let first = project.engine().run(
        invocation_with_journal(&project, &["write"])
            .input(serde_json::from_str::<Value>(r#"{"a": 1, "b": 2}"#).unwrap()),
    );
    assert_eq!(failure(&first).0, ErrorKind::Denied);
    let input = serde_json::from_str::<Value>(r#"{"b": 2, "a": 1}"#).unwrap();
    assert_eq!(run(&project, &WRITE, input).result.unwrap(), json!({"i": {"a": 1, "b": 2}}));
    assert_eq!(project.read("trace"), "a ");
}

#[test]
fn a_plan_that_a_step_runs_is_taken_up_again_too() {
    let inner = json!([trace("i1"), {"tool": "read_file", "args": {"path": "later"}}, trace("i2")]);
    let project = Project::new()
        .sequence("x", "write", &json!([trace("a"), {"skill": "y"}, trace("b")]))
        .sequence("y", "write", &inner);
    assert!(run(&project, &WRITE, json!({})).result.is_err());
    assert_eq!(project.read("trace"), "a i1 ");
    let project = project.file("later", "");
    run(&project, &WRITE, json!({})).result.unwrap();
    assert_eq!(project.read("trace"), "a i1 i2 b ");
}

#[test]
fn items_of_a_loop_are_remembered_one_by_one() {
    let each = json!({"tool": "skill", "for_each": "$inputs.l", "args": {"name": "y", "input": "$item"}});
    let project = Project::new().sequence("x", "write skill:y", &json!([each])).lua("y", "write", "ctx.append('trace', input .. ' ') if input == 'b' and not pcall(ctx.read_file, 'later') then error('not yet') end return input");
    let grants = ["write", "skill:y"];
    let input = json!({"l": ["a", "b", "c"]});
    assert!(run(&project, &grants, input.clone()).result.is_err());
    let project = project.file("later", "");
    let outcome = run(&project, &grants, input);
    assert_eq!(outcome.result.unwrap(), json!(["a", "b", "c"]));
    assert_eq!(project.read("trace"), "a b b c ", "b had not finished");
    assert!(outcome.log.is_empty(), "it failed, and nothing interrupted it: {:?}", outcome.log);
}

/// A project whose only step was interrupted, and would end now.
fn interrupted() -> Project {
    let script =
        "ctx.append('trace', 'y ') if not pcall(ctx.read_file, 'later') then while true do end end return 1";
    let project = Project::new().sequence("x", "write", &json!([{"skill": "y"}])).lua("y", "write", script);
    let token = CancelToken::new();
    let invocation = invocation_with_journal(&project, &WRITE).cancel(token.clone());
    std::thread::scope(|scope| {
        let run = scope.spawn(|| project.engine().run(invocation));
        within_ten_seconds(|| !project.read("trace").is_empty());
        token.cancel();
        assert_eq!(failure(&run.join().unwrap()).0, ErrorKind::Cancelled);
    });
    project.file("later", "")
}

#[test]
fn a_step_that_was_interrupted_is_reported_when_it_runs_again() {
    let outcome = run(&interrupted(), &WRITE, json!({}));
    assert_eq!(outcome.result.unwrap(), json!(1));
    assert!(
        outcome.log.iter().any(|line| line.message.contains("step y was interrupted")),
        "{:?}",
        outcome.log
    );
}

#[test]
fn an_approver_decides_whether_an_interrupted_step_is_done_again() {
    struct Answers(bool);
    impl Approver for Answers {
        fn approve(&self, _: &SkillContext, request: &ApprovalRequest) -> metier::error::Result<Approval> {
            let ApprovalNeed::RepeatedStep { step, item, call, .. } = &request.need else {
                panic!("asked {request:?}")
            };
            assert_eq!((&step[..], *item, &call[..]), ("y", None, "skill y"));
            Ok(self.0.into())
        }
    }
    let project = interrupted();
    for answer in [false, true] {
        let providers = Providers::default().approver(Answers(answer));
        let invocation = invocation_with_journal(&project, &WRITE).input(json!({})).providers(providers);
        let outcome = project.engine().run(invocation);
        if answer {
            assert_eq!(outcome.result.unwrap(), json!(1));
        } else {
            assert_eq!(failure(&outcome).0, ErrorKind::Denied);
        }
        assert_eq!(project.read("trace"), if answer { "y y " } else { "y " });
    }
}

#[test]
fn a_failure_that_was_passed_over_is_not_tried_again() {
    for word in ["continue", "skip_rest"] {
        let failing = json!({"id": "f", "tool": "read_file", "args": {"path": "later"}, "on_failure": word});
        let steps = json!({"steps": [trace("a"), failing, trace("b")], "outputs_from": ["$steps.f.outputs"]});
        let project = Project::new().sequence("x", "write", &steps);
        assert_eq!(run(&project, &WRITE, json!({})).result.unwrap(), json!([null]));
        let left = project.read("trace");
        let project = project.file("later", "here now");
        let outcome = run(&project, &WRITE, json!({}));
        assert_eq!(outcome.result.unwrap(), json!([null]), "{word}");
        assert_eq!(project.read("trace"), left);
        assert_eq!(outcome.steps[1].status, StepStatus::Failed);
        assert!(outcome.log.is_empty(), "what was said once is not said again");
    }
}

struct Secrets;

impl SecretProvider for Secrets {
    fn secret(&self, _: &SkillContext, _name: &str) -> metier::error::Result<Option<String>> {
        Ok(Some("hunter2".into()))
    }
}

#[test]
fn a_secret_is_never_written_down() {
    let steps = json!([
        {"id": "get", "tool": "secret", "args": {"name": "k"}},
        {"id": "say", "tool": "echo", "args": {"said": "<$steps.get.outputs>"}},
        {"id": "last", "tool": "read_file", "args": {"path": "later"}},
    ]);
    let project = Project::new().sequence("x", "secret:k", &steps);
    let grants = ["secret:k", "tool:echo"];
    let engine = || project.builder().secrets(Secrets).build().unwrap();
    assert!(engine().run(invocation_with_journal(&project, &grants)).result.is_err());
    let journal = std::fs::read_to_string(project.path("journal/x.journal")).unwrap();
    assert!(!journal.contains("hunter2"), "{journal}");
    assert!(journal.contains("\"withheld\""));
    let outcome = engine().run(invocation_with_journal(&project, &grants));
    let (kind, sentence) = failure(&outcome);
    assert_eq!(kind, ErrorKind::Unavailable);
    assert!(sentence.contains("held a secret, which is not written down"), "{sentence}");
}

#[test]
fn a_secret_is_read_again_by_a_run_that_goes_on() {
    let steps = json!([
        {"id": "get", "tool": "secret", "args": {"name": "k"}},
        {"id": "said", "tool": "append", "args": {"path": "trace", "content": "<${steps.get.outputs}>"}},
        {"id": "file", "tool": "read_file", "args": {"path": "later"}},
        {"id": "last", "tool": "echo", "args": {"key": "$steps.get.outputs"}},
    ]);
    let project = Project::new().sequence("x", "write secret:k", &steps);
    let grants = ["write", "secret:k", "tool:echo"];
    let engine = || project.builder().secrets(Secrets).build().unwrap();
    assert!(engine().run(invocation_with_journal(&project, &grants)).result.is_err());
    std::fs::write(project.path("later"), "").unwrap();
    let outcome = engine().run(invocation_with_journal(&project, &grants));
    assert_eq!(outcome.result.unwrap(), json!({"key": "[secret:k]"}));
    assert_eq!(project.read("trace"), "<hunter2>");
    assert!(outcome.log.is_empty(), "{:?}", outcome.log);
}

#[test]
fn only_plans_keep_a_journal() {
    let project = Project::new().lua("x", "", "return 1");
    let (kind, sentence) = failure(&run(&project, &[], json!({})));
    assert_eq!(kind, ErrorKind::Usage);
    assert!(sentence.contains("runs no plan"), "{sentence}");
    assert!(!project.path("journal").exists());
}

#[test]
fn a_journal_that_cannot_be_written_fails_the_run_before_it_starts() {
    let project = Project::new().sequence("x", "write", &json!([trace("a")])).file("journal", "a file");
    assert_eq!(failure(&run(&project, &WRITE, json!({}))).0, ErrorKind::Io);
    assert!(!Path::exists(&project.path("trace")));
}

#[test]
fn a_changed_file_of_the_skill_or_of_one_it_comes_to_is_not_resumed() {
    let asset = |name: &str| format!(".metier/skills/{name}/assets/a.txt");
    let project = Project::new()
        .sequence(
            "x",
            "write",
            &json!([trace("a"), {"skill": "y"}, {"tool": "read_file", "args": {"path": "later"}}]),
        )
        .sequence("y", "", &json!([{"skill": "z"}]))
        .lua("z", "", "return ctx.asset('assets/a.txt')");
    let project = ["x", "y", "z"].iter().fold(project, |project, name| project.file(&asset(name), "one"));
    assert_eq!(failure(&run(&project, &WRITE, json!({}))).0, ErrorKind::Io);
    for (name, told) in [
        ("x", "a file in the folder of x changed"),
        ("y", "the skill y changed, which the plan calls"),
        ("z", "the skill z changed"),
    ] {
        let changed = project.path(&asset(name));
        std::fs::write(&changed, "two").unwrap();
        let (kind, sentence) = failure(&run(&project, &WRITE, json!({})));
        assert_eq!(kind, ErrorKind::Usage, "{sentence}");
        assert!(sentence.contains(told), "{sentence}");
        std::fs::write(&changed, "one").unwrap();
    }
    let project = project.file("later", "here");
    assert_eq!(run(&project, &WRITE, json!({})).result.unwrap(), json!("here"));
    let described = "---\nname: x\ndescription: another\nallowed-tools: write\n---\n";
    let project = project.file(".metier/skills/x/SKILL.md", described);
    assert!(failure(&run(&project, &WRITE, json!({}))).1.contains("a file in the folder of x changed"));
}

#[test]
fn a_journal_serves_the_project_it_was_begun_in() {
    let steps = json!([{"tool": "read_file", "args": {"path": "f"}}]);
    let (one, two) = (Project::new().sequence("x", "", &steps), Project::new().sequence("x", "", &steps));
    let (one, two) = (one.file("f", "of one"), two.file("f", "of two"));
    let invocation = || x(&[]).journal(one.path("journal"));
    assert_eq!(one.engine().run(invocation()).result.unwrap(), json!("of one"));
    let (kind, sentence) = failure(&two.engine().run(invocation()));
    assert_eq!(kind, ErrorKind::Usage);
    assert!(sentence.contains("belongs to the project "), "{sentence}");
}

#[test]
fn a_crowd_of_skills_that_call_one_another_is_looked_at_once() {
    let each = |next: usize| {
        let names: Vec<Value> =
            (0..30).map(|at| json!({"skill": format!("s{next}-{at}"), "when": "false"})).collect();
        Value::from(names)
    };
    let mut project = Project::new().sequence("x", "", &each(0));
    for level in 0..4 {
        for at in 0..30 {
            let steps = if level < 3 { each(level + 1) } else { json!([]) };
            project = project.sequence(&format!("s{level}-{at}"), "", &steps);
        }
    }
    run(&project, &[], json!({})).result.unwrap();
}

#[test]
fn a_changed_skill_that_is_called_by_a_permission_is_not_resumed() {
    for step in [
        json!({"id": "a", "tool": "skill", "args": {"name": "z"}}),
        json!({"id": "a", "tool": "skill", "args": {"name": "$inputs.name"}}),
        json!({"id": "a", "skill": "lua"}),
        json!({"id": "a", "skill": "shell"}),
    ] {
        let steps = json!([step, {"tool": "read_file", "args": {"path": "later"}}]);
        let project = Project::new()
            .sequence("x", "skill:z", &steps)
            .lua("lua", "skill:z", "return ctx.skill('z')")
            .shell("shell", "", "echo 1")
            .lua("z", "", "return 'v1'");
        let run = |project: &Project| run(project, &["skill:z"], json!({"name": "z"}));
        assert_eq!(failure(&run(&project)).0, ErrorKind::Io, "{step}");
        let project = project.file("later", "here").lua("z", "", "return 'v2'");
        let (kind, sentence) = failure(&run(&project));
        assert_eq!(kind, ErrorKind::Usage, "{step}: {sentence}");
        assert!(sentence.contains("before the skill z changed"), "{sentence}");
        let project = project.lua("z", "", "return 'v1'");
        assert_eq!(run(&project).result.unwrap(), json!("here"), "{step}");
    }
}

#[test]
fn a_skill_that_nobody_may_call_or_that_takes_another_grant_makes_no_other_run() {
    let steps = json!([trace("a"), {"skill": "y"}, {"tool": "skill", "args": {"name": "w"}}]);
    let project = Project::new()
        .sequence("x", "write skill:w", &steps)
        .lua("y", "skill:z", "return (pcall(ctx.skill, 'z'))")
        .lua("z", "", "return 'v1'")
        .lua("w", "", "return 'w'");
    assert_eq!(failure(&run(&project, &["write", "skill:z"], json!({}))).0, ErrorKind::Denied);
    let project = project.lua("z", "", "return 'v2'");
    assert_eq!(run(&project, &["write", "skill:w"], json!({})).result.unwrap(), json!("w"));
    assert_eq!(project.read("trace"), "a ");
}

#[test]
fn a_plan_that_is_tried_again_goes_on_where_it_failed() {
    let inner = json!([trace("y"), {"tool": "read_file", "args": {"path": "never"}}]);
    let steps = json!([{"skill": "y", "on_failure": "retry(2, 1ms)"}]);
    let project = Project::new().sequence("x", "write", &steps).sequence("y", "write", &inner);
    assert_eq!(failure(&project.run(&WRITE)).0, ErrorKind::Io);
    assert_eq!(project.read("trace"), "y y y ", "without a journal all of it is done again");
    std::fs::remove_file(project.path("trace")).unwrap();
    assert_eq!(failure(&run(&project, &WRITE, json!({}))).0, ErrorKind::Io);
    assert_eq!(project.read("trace"), "y ");
}

#[test]
fn an_input_with_its_keys_in_another_order_is_the_same_run_and_values_keep_theirs() {
    let steps = json!([{"id": "e", "tool": "echo", "args": {"z": "$inputs.v", "a": 1}}, {"id": "r", "tool": "read_file", "args": {"path": "later"}}]);
    let project = Project::new().sequence("x", "write", &json!({"steps": steps, "outputs_from": "e"}));
    let input = |text: &str| serde_json::from_str::<Value>(text).unwrap();
    let (kind, _) = failure(&run(&project, &WRITE, input(r#"{"v": {"b": 1, "a": 2}, "c": 3}"#)));
    assert_eq!(kind, ErrorKind::Io);
    let project = project.file("later", "here");
    let outcome = run(&project, &WRITE, input(r#"{"c": 3, "v": {"a": 2, "b": 1}}"#));
    let statuses: Vec<StepStatus> = outcome.steps.iter().map(|step| step.status).collect();
    assert_eq!(statuses, [StepStatus::Resumed, StepStatus::Ok]);
    assert_eq!(outcome.result.unwrap().to_string(), r#"{"z":{"b":1,"a":2},"a":1}"#, "as the journal has it");
}
