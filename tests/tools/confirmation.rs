//! A tool whose calls a person must agree to: each call is a question, and nothing answers it but a person.

use std::sync::{Arc, Mutex};

use metier::engine::Invocation;
use metier::error::{ErrorKind, Result};
use metier::host::{ApprovalNeed, ApprovalRequest, Approver, ConsentReason, SkillContext};
use metier::policy::Approval;
use serde_json::json;

use crate::support::engine::{Project, granted, kind, sentence, value};

const CONTRACT: &str = "
permissions: ['write:out']
metadata: {risk_level: low}
tools:
  - {name: delete, entrypoint: scripts/delete.lua, risk_level: critical}
  - {name: ask, entrypoint: scripts/delete.lua, requires_confirmation: true}
  - {name: free, entrypoint: scripts/delete.lua, risk_level: high}
";

fn project() -> Project {
    Project::offering(CONTRACT, &[("delete.lua", "ctx.log('info', 'it runs') return 'deleted'")])
}

/// Answers every question with the same, and records it.
#[derive(Clone)]
struct Person {
    answer: Approval,
    requests: Arc<Mutex<Vec<ApprovalRequest>>>,
}

impl Person {
    fn new(answer: impl Into<Approval>) -> Self {
        Self { answer: answer.into(), requests: Arc::default() }
    }

    fn requests(&self) -> Vec<ApprovalRequest> {
        self.requests.lock().unwrap().clone()
    }
}

impl Approver for Person {
    fn approve(&self, _: &SkillContext, request: &ApprovalRequest) -> Result<Approval> {
        self.requests.lock().unwrap().push(request.clone());
        Ok(self.answer.clone())
    }
}

#[test]
fn without_anybody_to_ask_it_is_not_called() {
    // AK-T9, AK-04, AK-09
    let project = project();
    let engine = project.engine();
    for tool in ["delete", "ask"] {
        let outcome = engine.run(Invocation::new("weather").tool(tool));
        assert_eq!((kind(&outcome), outcome.log.len()), (ErrorKind::Denied, 0), "{tool}");
        assert!(sentence(&outcome).contains("only if a person agrees"), "{outcome:?}");
        let grants = ["write:out", &format!("tool:weather.{tool}"), "skill:weather"];
        let outcome = engine.run(granted(Invocation::new("weather").tool(tool), &grants));
        assert_eq!(kind(&outcome), ErrorKind::Denied, "a grant is no consent to a call");
    }
    assert_eq!(value(engine.run(Invocation::new("weather").tool("free"))), "deleted");
}

#[test]
fn each_call_is_a_question_with_the_risk_of_the_tool() {
    for answer in [Approval::Once, Approval::Session] {
        let person = Person::new(answer);
        let project = project();
        let engine = project.builder().approver(person.clone()).build().unwrap();
        for count in 1..=3 {
            let call = Invocation::new("weather").tool("delete").input(json!({"path": "a"}));
            assert_eq!(value(engine.run(call)), "deleted");
            assert_eq!(person.requests().len(), count, "a yes is for one call");
        }
        let request = person.requests().remove(0);
        assert_eq!(request.need, ApprovalNeed::Call { permissions: Vec::new(), reason: ConsentReason::Tool });
        let tool = request.tool.unwrap();
        assert_eq!((tool.name.as_str(), tool.risk_level.as_deref()), ("delete", Some("critical")));
        assert_eq!((tool.risk_score, tool.requires_confirmation), (Some(90), true));
        assert_eq!(request.input, Some(json!({"path": "a"})));
        engine.run(Invocation::new("weather").tool("ask"));
        let of_skill = person.requests().pop().unwrap().tool.unwrap();
        assert_eq!(
            of_skill.risk_level.as_deref(),
            Some("low"),
            "a tool without a risk has that of its skill"
        );
    }
}

#[test]
fn a_no_ends_the_call_before_anything_of_it_runs() {
    let project = project();
    let engine = project.builder().approver(Person::new(false)).build().unwrap();
    let outcome = engine.run(Invocation::new("weather").tool("delete"));
    assert_eq!((kind(&outcome), outcome.log.len()), (ErrorKind::Denied, 0));
    assert!(sentence(&outcome).contains("was not approved"), "{outcome:?}");
}

#[test]
fn the_caller_may_confirm_the_call_that_it_starts_and_no_other() {
    let project = project()
        .offer("other", "tools: [{name: t, entrypoint: scripts/t.lua, requires_confirmation: true, permissions: ['tool:weather.delete']}]\npermissions: ['tool:weather.delete']", &[
            ("t.lua", "return ctx.tool('weather.delete')"),
        ]);
    let engine = project.engine();
    assert_eq!(value(engine.run(Invocation::new("weather").tool("delete").confirmed())), "deleted");
    let nested = Invocation::new("other").tool("t").confirmed();
    let outcome = engine.run(granted(nested, &["tool:weather.delete"]));
    assert_eq!(kind(&outcome), ErrorKind::Denied);
    assert!(sentence(&outcome).contains("the tool delete of skill weather"), "{outcome:?}");
    let for_model = Invocation::new("weather").tool("delete").confirmed().for_model();
    assert_eq!(kind(&engine.run(for_model)), ErrorKind::Denied, "a model confirms nothing");
}

#[test]
fn a_nested_call_is_asked_about_by_its_callers() {
    let person = Person::new(true);
    let project = project().caller("tool:weather.delete", "return ctx.tool('weather.delete', {n = input.n})");
    let engine = project.builder().approver(person.clone()).build().unwrap();
    let run = Invocation::new("x").input(json!({"n": 1}));
    assert_eq!(value(engine.run(granted(run, &["tool:weather.delete"]))), "deleted");
    let request = person.requests().remove(0);
    assert_eq!((request.callers, request.input), (vec!["x".to_owned()], Some(json!({"n": 1}))));
}

#[test]
fn one_question_is_about_the_call_and_all_that_it_lacks() {
    let person = Person::new(true);
    let project = Project::offering(CONTRACT, &[("delete.lua", "ctx.write('out/a', 'x') return 'deleted'")]);
    let engine = project.builder().approver(person.clone()).build().unwrap();
    assert_eq!(value(engine.run(Invocation::new("weather").tool("delete").ask_first())), "deleted");
    let [request] = <[ApprovalRequest; 1]>::try_from(person.requests()).unwrap();
    assert_eq!(
        request.need,
        ApprovalNeed::Call { permissions: vec!["write:out".parse().unwrap()], reason: ConsentReason::Tool }
    );
}

#[test]
fn a_script_cannot_wear_a_person_down() {
    let person = Person::new(false);
    let script = "for _ = 1, 200 do pcall(ctx.tool, 'weather.delete', {}) end return 'over'";
    let project = project().caller("tool:weather.delete", script);
    let engine = project.builder().approver(person.clone()).build().unwrap();
    assert_eq!(value(engine.run(granted(Invocation::new("x"), &["tool:weather.delete"]))), "over");
    assert!(person.requests().len() <= 16, "{} questions", person.requests().len());
}

#[test]
fn consent_to_a_call_is_that_of_a_person_for_a_sensitive_skill() {
    // CU-07: who approves the call has looked at it.
    let person = Person::new(true);
    let project = project();
    let engine = project.builder().approver(person.clone()).build().unwrap();
    let outcome = engine.run(Invocation::new("weather").tool("delete").for_model().ask_first());
    assert_eq!(value(outcome), "deleted");
    assert_eq!(person.requests().len(), 1);
}

#[test]
fn a_tool_without_a_risk_of_its_own_has_that_of_its_skill() {
    let contract = "
metadata: {risk_level: destructive}
tools:
  - {name: silent, entrypoint: scripts/t.lua}
  - {name: low, entrypoint: scripts/t.lua, risk_level: low}
";
    let project = Project::offering(contract, &[("t.lua", "return 1")]);
    let engine = project.engine();
    assert_eq!(kind(&engine.run(Invocation::new("weather").tool("silent"))), ErrorKind::Denied);
    assert_eq!(value(engine.run(Invocation::new("weather").tool("silent").confirmed())), 1);
    let waived = contract.replace("silent,", "silent, requires_confirmation: false,");
    let project = Project::offering(&waived, &[("t.lua", "return 1")]);
    assert_eq!(
        kind(&project.engine().run(Invocation::new("weather").tool("silent"))),
        ErrorKind::InvalidSkill
    );
}
