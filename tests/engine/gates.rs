//! The gates before a run, in their order: input, authorizer, autonomy, person. What does not pass one has not begun, in whichever way it
//! was called.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use metier::engine::{AutonomyReport, Engine, EngineBuilder, Invocation, Outcome};
use metier::error::{ErrorKind, Result, SkillError};
use metier::host::{
    ApprovalNeed, ApprovalRequest, Approver, AuthorizationRequest, Authorizer, ConsentReason, SkillContext,
};
use metier::policy::Approval;
use serde_json::json;

use crate::support::engine::{Project, granted, kind, sentence, value};

/// What a skill leaves that ran.
const CANARY: &str = "ctx.write('canary', 'it ran') return 'ran'";

/// A project with a skill `x` that writes the canary, with these lines in its contract, and one that calls it.
fn project(contract: &str) -> Project {
    Project::lua_with_tools("write", CANARY)
        .file(
            ".metier/skills/x/skill.yaml",
            format!("inputs: {{n: {{type: integer, required: false}}}}\n{contract}"),
        )
        .skill("caller", "allowed-tools: skill:x write\n")
        .file(".metier/skills/caller/scripts/main.lua", "return ctx.skill('x', input)")
        .file(".metier/skills/caller/skill.yaml", "metadata: {risk_level: none}")
        .skill("plan", "allowed-tools: skill:x write\n")
        .file(
            ".metier/skills/plan/skill.yaml",
            "metadata: {risk_level: none}\nsteps: [{id: call, skill: x, args: {n: 1}}]",
        )
}

/// Writes down who was asked, and answers as it was told.
#[derive(Clone, Default)]
struct Gatekeeper {
    refuses: Option<&'static str>,
    answers_at_once: bool,
    asked: Arc<Mutex<Vec<String>>>,
    requests: Arc<Mutex<Vec<ApprovalRequest>>>,
}

impl Gatekeeper {
    fn refusing(gate: &'static str) -> Self {
        Self { refuses: Some(gate), ..Self::default() }
    }

    fn take_asked(&self) -> Vec<String> {
        std::mem::take(&mut self.asked.lock().unwrap())
    }

    fn builder(&self, project: &Project) -> EngineBuilder {
        project.builder().authorizer(self.clone()).approver(self.clone())
    }
}

impl Authorizer for Gatekeeper {
    fn authorize(&self, _: &SkillContext, request: &AuthorizationRequest) -> Result<()> {
        self.asked.lock().unwrap().push(format!("authorizer of {}", request.skill));
        match self.refuses {
            Some("authorizer") => Err(SkillError::new(ErrorKind::Unavailable, "not on a Sunday")),
            Some("panic") => panic!("a defect"),
            Some("late") => {
                std::thread::sleep(Duration::from_secs(2));
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn time_limit(&self) -> Option<Duration> {
        let limit = Duration::from_millis(if self.refuses == Some("late") { 50 } else { 10_000 });
        (!self.answers_at_once).then_some(limit)
    }
}

impl Approver for Gatekeeper {
    fn approve(&self, _: &SkillContext, request: &ApprovalRequest) -> Result<Approval> {
        self.asked.lock().unwrap().push(format!("person about {}", request.skill));
        self.requests.lock().unwrap().push(request.clone());
        Ok(if self.refuses == Some("person") {
            Approval::No
        } else {
            Approval::Always(metier::policy::ArgumentPattern::any())
        })
    }
}

/// A way to call `x`, and its name.
type Face = (&'static str, fn(&Engine) -> Outcome);

/// Calls `x` in each way that there is, for a model.
fn calls() -> [Face; 4] {
    fn run(skill: &str) -> Invocation {
        granted(Invocation::new(skill).input(json!({"n": 1})).for_model(), &["write", "skill:x"])
    }
    [
        ("run", |engine| engine.run(run("x"))),
        ("async", |engine| block_on(engine.run_async(run("x")))),
        ("callee", |engine| engine.run(run("caller"))),
        ("plan", |engine| engine.run(run("plan"))),
    ]
}

fn block_on<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
}

#[test]
fn an_authorizer_without_a_time_limit_answers_on_the_thread_of_the_run() {
    struct Here(Arc<Mutex<Vec<std::thread::ThreadId>>>, Option<&'static str>);

    impl Authorizer for Here {
        fn authorize(&self, _: &SkillContext, _: &AuthorizationRequest) -> Result<()> {
            self.0.lock().unwrap().push(std::thread::current().id());
            match self.1 {
                Some("a defect") => panic!("a defect"),
                Some(reason) => Err(SkillError::new(ErrorKind::Unavailable, reason)),
                None => Ok(()),
            }
        }

        fn time_limit(&self) -> Option<Duration> {
            None
        }
    }

    for refuses in [None, Some("not on a Sunday"), Some("a defect")] {
        let (project, threads) = (project("metadata: {risk_level: none}"), Arc::default());
        let engine = project.builder().authorizer(Here(Arc::clone(&threads), refuses)).build().unwrap();
        let outcome = engine.run(granted(Invocation::new("x").input(json!({"n": 1})), &["write"]));
        assert_eq!(*threads.lock().unwrap(), [std::thread::current().id()]);
        assert_eq!(project.path("canary").exists(), refuses.is_none());
        match refuses {
            None => assert_eq!(value(outcome), json!("ran")),
            Some(words) => {
                assert_eq!(kind(&outcome), ErrorKind::Denied);
                assert!(sentence(&outcome).contains(words), "{:?}", outcome.result);
            }
        }
    }
}

#[test]
fn a_run_that_was_stopped_while_its_authorizer_answered_does_not_begin() {
    struct Stopping;

    impl Authorizer for Stopping {
        fn authorize(&self, ctx: &SkillContext, _: &AuthorizationRequest) -> Result<()> {
            ctx.cancel().cancel();
            Ok(())
        }

        fn time_limit(&self) -> Option<Duration> {
            None
        }
    }

    let project = project("metadata: {risk_level: none}");
    let engine = project.builder().authorizer(Stopping).build().unwrap();
    let outcome = engine.run(granted(Invocation::new("x").input(json!({"n": 1})), &["write"]));
    assert_eq!(kind(&outcome), ErrorKind::Cancelled);
    assert!(!project.path("canary").exists());
}

#[test]
fn what_a_gate_refuses_has_not_begun_whoever_calls() {
    // CU-T08
    for (contract, autonomy, refuses, ends, words) in [
        ("", 100, "authorizer", ErrorKind::Denied, "was not authorized: not on a Sunday"),
        ("", 100, "panic", ErrorKind::Denied, "was not authorized"),
        ("", 100, "late", ErrorKind::Denied, "was not authorized"),
        (
            "",
            69,
            "nothing",
            ErrorKind::Autonomy,
            "states no risk, so a model needs an autonomy of 70 to call it by itself, and has 69",
        ),
        ("metadata: {risk_level: low}", 59, "nothing", ErrorKind::Autonomy, "has the risk 60"),
        ("metadata: {risk_level: critical}", 89, "person", ErrorKind::Autonomy, "an autonomy of 90"),
        ("metadata: {risk_level: critical}", 90, "person", ErrorKind::Denied, "has a critical risk"),
    ] {
        for ((face, call), answers_at_once) in
            calls().into_iter().flat_map(|face| [(face, false), (face, true)])
        {
            if refuses == "late" && answers_at_once {
                continue;
            }
            let project = project(contract);
            let gatekeeper = Gatekeeper { answers_at_once, ..Gatekeeper::refusing(refuses) };
            let engine = gatekeeper.builder(&project).autonomy(autonomy).build().unwrap();
            let outcome = call(&engine);
            let case =
                format!("{contract} {autonomy} {refuses} {face} {answers_at_once}: {:?}", outcome.result);
            assert_eq!(kind(&outcome), ends, "{case}");
            assert!(sentence(&outcome).contains(words), "{case}");
            assert!(!project.path("canary").exists(), "{case}");
        }
    }
}

#[test]
fn the_gates_are_asked_in_their_order_and_nobody_behind_a_closed_one() {
    let critical = "metadata: {risk_level: critical}";
    let refused_input = |engine: &Engine| {
        let call = granted(Invocation::new("x").input(json!({"n": "one"})).for_model(), &["write"]);
        engine.run(call)
    };
    let keeper = Gatekeeper::default();
    let project = project(critical);
    let engine = keeper.builder(&project).autonomy(95).build().unwrap();
    assert_eq!(kind(&refused_input(&engine)), ErrorKind::InvalidInput);
    assert_eq!(keeper.take_asked(), [""; 0], "its input does not fit");
    let run = || granted(Invocation::new("x").input(json!({"n": 1})).for_model(), &["write"]);
    assert_eq!(value(engine.run(run())), "ran");
    assert_eq!(keeper.take_asked(), ["authorizer of x", "person about x"]);
    for (gate, asked) in
        [("authorizer", &["authorizer of x"][..]), ("person", &["authorizer of x", "person about x"])]
    {
        let keeper = Gatekeeper::refusing(gate);
        keeper.builder(&project).autonomy(95).build().unwrap().run(run()).result.unwrap_err();
        assert_eq!(keeper.take_asked(), asked);
    }
    let keeper = Gatekeeper::default();
    keeper.builder(&project).autonomy(60).build().unwrap().run(run()).result.unwrap_err();
    assert_eq!(keeper.take_asked(), ["authorizer of x"], "the autonomy is too low to ask anybody");
}

#[test]
fn a_critical_skill_is_a_question_each_time_a_model_runs_it() {
    let keeper = Gatekeeper::default();
    let project = project("metadata: {risk_level: irreversible}");
    let engine = keeper.builder(&project).build().unwrap();
    let run = |n| granted(Invocation::new("x").input(json!({"n": n})), &["write"]);
    for count in 1..=3 {
        assert_eq!(value(engine.run(run(count).for_model().confirmed())), "ran");
        let request = keeper.requests.lock().unwrap().pop().unwrap();
        let need = ApprovalNeed::Call { permissions: Vec::new(), reason: ConsentReason::CriticalSkill };
        assert_eq!((request.need, request.input), (need, Some(json!({"n": count}))));
        assert!(request.digest.is_some() && request.tool.is_none());
    }
    keeper.take_asked();
    assert_eq!(value(engine.run(run(1))), "ran", "a person who types it has agreed");
    assert_eq!(keeper.take_asked(), ["authorizer of x"]);
    let nobody = project.engine().run(run(1).for_model());
    assert_eq!(kind(&nobody), ErrorKind::Denied);
    assert!(sentence(&nobody).contains("and nobody can be asked"), "{nobody:?}");
}

#[test]
fn the_risk_of_a_tool_counts_before_that_of_its_skill() {
    let contract = "metadata: {risk_level: critical}\ntools:\n  - {name: look, entrypoint: scripts/main.lua, risk_level: read-only}\n  - {name: act, entrypoint: scripts/main.lua}\n";
    let project = project(contract);
    let engine = project.builder().autonomy(60).build().unwrap();
    let call = |tool: &str| granted(Invocation::new("x").tool(tool).for_model(), &["write"]);
    assert_eq!(value(engine.run(call("look"))), "ran");
    let refused = engine.run(call("act"));
    assert_eq!(kind(&refused), ErrorKind::Autonomy);
    assert!(sentence(&refused).contains("the tool act of skill x has the risk 90"), "{refused:?}");
}

#[test]
fn an_elevated_skill_skips_the_autonomy_and_asks_a_person_each_time() {
    // CU-23, CU-26
    let manifest = json!({"name": "x", "description": "d", "version": "1.0.0", "action_risk": "critical", "sensitivity": "elevated", "permissions": ["x:y"]});
    let project = Project::new().file(".metier/skills/x/skill.json", manifest.to_string()).file(
        ".metier/skills/x/handler.js",
        "export default {execute: () => ({success: true, data: 'ran'})}",
    );
    for (refuses, ends) in [("person", Some(ErrorKind::Denied)), ("nothing", None)] {
        let keeper = Gatekeeper::refusing(refuses);
        let engine = keeper.builder(&project).autonomy(0).build().unwrap();
        for _ in 0..2 {
            let outcome = engine.run(Invocation::new("x").for_model());
            let kind =
                outcome.result.as_ref().err().map(SkillError::kind).filter(|kind| *kind == ErrorKind::Denied);
            assert_eq!(kind, ends, "{outcome:?}");
            assert_eq!(keeper.take_asked(), ["authorizer of x", "person about x"]);
        }
        let request = keeper.requests.lock().unwrap().pop().unwrap();
        let need = ApprovalNeed::Call { permissions: Vec::new(), reason: ConsentReason::ElevatedSkill };
        assert_eq!(request.need, need);
    }
    let granted = project.engine().run(granted(Invocation::new("x").for_model(), &["net", "exec"]));
    assert_eq!(kind(&granted), ErrorKind::Denied, "a grant is no consent");
}

#[test]
fn an_explanation_names_the_gates() {
    let project = project("metadata: {risk_level: critical}");
    let engine = project.builder().autonomy(75).build().unwrap();
    let explained = engine.explain(&Invocation::new("x").for_model()).unwrap();
    assert_eq!(
        explained.gates.autonomy.map(|AutonomyReport { score, required, .. }| (score, required)),
        Some((75, 90))
    );
    assert_eq!(explained.gates.consent, Some(ConsentReason::CriticalSkill));
    assert_eq!(explained.reason.unwrap().kind(), ErrorKind::Autonomy);
    let by_person = engine.explain(&Invocation::new("x")).unwrap();
    assert_eq!((by_person.gates.autonomy, by_person.gates.consent), (None, None));
    let through =
        engine.explain(&granted(Invocation::new("plan").for_model(), &["skill:x", "write"])).unwrap();
    assert_eq!(
        through.callees[0].reason.as_ref().map(SkillError::kind),
        Some(ErrorKind::Autonomy),
        "{through:?}"
    );
}

#[test]
fn the_lower_number_of_program_and_configuration_counts() {
    use metier::config::Configuration;
    let project = project("metadata: {risk_level: high}");
    for (program, configured, passes) in [
        (None, Some(80), true),
        (None, Some(79), false),
        (Some(79), Some(100), false),
        (Some(100), Some(80), true),
        (Some(79), None, false),
        (None, None, true),
    ] {
        let mut builder = project.builder();
        if let Some(score) = program {
            builder = builder.autonomy(score);
        }
        if let Some(score) = configured {
            builder = builder.configuration(Configuration::new().with("autonomy", score).unwrap());
        }
        let run = granted(Invocation::new("x").input(json!({"n": 1})).for_model(), &["write"]);
        let outcome = builder.build().unwrap().run(run);
        assert_eq!(outcome.result.is_ok(), passes, "{program:?} {configured:?} {outcome:?}");
    }
}
