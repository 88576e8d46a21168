//! Can it run now? One answer, with a reason for each item.

use metier::engine::Invocation;
use metier::error::{ErrorKind, SkillError};
use serde_json::json;

use crate::support::engine::{Project, granted, kind, sentence, value};

impl Project {
    /// Adds a skill in Lua that returns 1, with this contract.
    fn needing(self, name: &str, contract: &str) -> Self {
        self.skill(name, "")
            .file(&format!(".metier/skills/{name}/skill.yaml"), contract)
            .file(&format!(".metier/skills/{name}/scripts/main.lua"), "return 1")
    }

    /// Why the skill cannot run: the same sentence from the availability, an explanation and a run.
    fn reason(&self, name: &str) -> String {
        let engine = self.engine();
        let registry = engine.registry();
        let reason = engine.availability(registry.find(name).unwrap()).reason;
        let reason = reason.map_or_else(String::new, |reason| reason.message().to_owned());
        let run = engine.run(Invocation::new(name));
        let explained = engine.explain(&Invocation::new(name)).unwrap().reason;
        if reason.is_empty() {
            assert!(run.result.is_ok() && explained.is_none(), "{run:?}, {explained:?}");
        } else {
            assert_eq!((sentence(&run), explained.unwrap().message()), (reason.clone(), reason.as_str()));
            assert!(matches!(kind(&run), ErrorKind::Unavailable | ErrorKind::InvalidSkill));
        }
        reason
    }
}

#[test]
fn ar_15_an_environment_variable_that_is_not_set_is_missing() {
    let project = Project::new().needing(
        "x",
        "dependencies:\n  infrastructure: [{name: index, kind: env, target: NO_SUCH_VARIABLE, reason: Names the index}]",
    );
    assert_eq!(
        project.reason("x"),
        "skill x cannot run: the environment variable NO_SUCH_VARIABLE of index is not set (Names the index)"
    );
}

#[test]
fn ar_t09_a_program_that_is_too_old_is_unavailable() {
    let needs = |range: &str| {
        Project::new().needing("x", &format!("dependencies:\n  tools: [{{name: git, version: '{range}'}}]"))
    };
    let reason = needs(">=99.0").reason("x");
    assert!(reason.starts_with("skill x cannot run: git >=99.0 is here as "), "{reason}");
    assert_eq!(needs(">=1.0").reason("x"), "");
}

#[test]
fn a_skill_whose_own_dependency_is_missing_is_not_available_to_others() {
    let project = Project::new()
        .needing("a", "dependencies: {skills: [b]}")
        .needing("b", "dependencies: {tools: [no-such-program]}");
    assert_eq!(
        project.reason("a"),
        "skill a cannot run: b is here and cannot run itself: no-such-program is not on PATH"
    );
}

#[test]
fn skills_that_need_each_other_are_an_error_with_the_circle() {
    // AR-22
    let project = Project::new()
        .needing("a", "dependencies: {skills: [b]}")
        .needing("b", "dependencies: {skills: [c]}")
        .needing("c", "dependencies: {skills: [a]}");
    assert_eq!(
        project.reason("a"),
        "skill a cannot run: skills need each other in a circle: a -> b -> c -> a"
    );
    assert_eq!(
        project.reason("b"),
        "skill b cannot run: skills need each other in a circle: b -> c -> a -> b"
    );
}

#[test]
fn a_skill_outside_of_a_circle_that_needs_one_in_it_is_unavailable() {
    let project = Project::new()
        .needing("a", "dependencies: {skills: [b]}")
        .needing("b", "dependencies: {skills: [a]}")
        .needing("c", "dependencies: {skills: [{name: a, required: false}]}")
        .needing("d", "dependencies: {skills: [a]}");
    assert_eq!(
        project.reason("d"),
        "skill d cannot run: a is here and cannot run itself: skills need each other in a circle: a -> b -> a"
    );
    assert_eq!(project.reason("c"), "");
    let engine = project.engine();
    let registry = engine.registry();
    let skills: Vec<_> = registry.skills().iter().collect();
    let answers = engine.availabilities(&skills);
    assert_eq!(answers[0].reason.as_ref().unwrap().kind(), ErrorKind::InvalidSkill);
    assert_eq!(answers[3].reason.as_ref().unwrap().kind(), ErrorKind::Unavailable);
    // What is checked together has the same answers as what is checked alone.
    for (skill, answer) in skills.iter().zip(answers) {
        let reason = |reason: Option<&SkillError>| reason.map(|reason| reason.message().to_owned());
        let alone = engine.availability(skill);
        assert_eq!(reason(answer.reason.as_ref()), reason(alone.reason.as_ref()), "{}", skill.name());
        assert_eq!((answer.requirements, answer.warnings), (alone.requirements, alone.warnings));
    }
}

#[test]
fn a_skill_may_wish_for_one_that_needs_it() {
    let project = Project::new()
        .needing("a", "dependencies: {skills: [{name: b, required: false}]}")
        .needing("b", "dependencies: {skills: [a]}")
        .needing("itself", "dependencies: {skills: [itself]}");
    assert_eq!((project.reason("a"), project.reason("b")), (String::new(), String::new()));
    assert_eq!(
        project.reason("itself"),
        "skill itself cannot run: skills need each other in a circle: itself -> itself"
    );
}

#[test]
fn however_skills_need_each_other_the_check_ends() {
    // A chain that is deeper than any stack would take, and a web in which everybody needs everybody.
    let number = 300;
    let mut project = Project::new();
    for at in 0..number {
        let needs = format!("dependencies: {{skills: [chain-{}]}}", at + 1);
        project =
            project.needing(&format!("chain-{at}"), if at + 1 == number { "version: 1.0.0" } else { &needs });
    }
    let everybody: Vec<String> = (0..40).map(|at| format!("web-{at}")).collect();
    for name in &everybody {
        project = project.needing(name, &format!("dependencies: {{skills: [{}]}}", everybody.join(", ")));
    }
    let engine = project.engine();
    let registry = engine.registry();
    let skills: Vec<_> = registry.skills().iter().collect();
    for (skill, answer) in skills.iter().zip(engine.availabilities(&skills)) {
        let reason = answer.reason.map_or_else(String::new, |reason| reason.message().to_owned());
        match skill.name().split_once('-').unwrap() {
            ("web", _) => assert!(reason.contains("in a circle: "), "{reason}"),
            (_, at) if at.parse::<usize>().unwrap() < number - 32 => {
                assert!(reason.contains("more than 32 deep"), "{at}: {reason}");
            }
            (_, at) => assert_eq!(reason, "", "{at}"),
        }
    }
}

#[test]
fn every_requirement_has_a_state() {
    // AR-12, AR-14
    let contract = "
dependencies:
  tools: [sh, {name: no-such-program, required: false, reason: Colours}]
  skills: [{name: y@^1, reason: Signs in}]
  infrastructure: [{name: db, kind: tcp, target: 'localhost:1'}, {name: HOME, kind: env, target: REGION_OF_TESTS, required: false}]
config:
  region: {required: true, default: north}
  TOKEN: {secret: true, description: Signs in}";
    let project = Project::new().needing("x", contract).needing("y", "version: 1.4.0");
    let engine = project.engine();
    let answer = engine.availability(engine.registry().find("x").unwrap());
    assert!(answer.is_runnable(), "{:?}", answer.reason);
    assert_eq!(
        answer.warnings,
        [
            "no-such-program is not on PATH (Colours)",
            "the environment variable REGION_OF_TESTS of HOME is not set"
        ]
    );
    let states = json!(
        answer
            .requirements
            .iter()
            .map(|found| json!([found.kind, found.name, found.state, found.required, found.found]))
            .collect::<Vec<_>>()
    );
    assert_eq!(
        states,
        json!([
            ["runtime", "lua", "available", true, null],
            ["program", "sh", "available", true, null],
            ["program", "no-such-program", "missing", false, null],
            ["skill", "y", "available", true, "1.4.0"],
            ["infrastructure", "db", "unchecked", true, null],
            ["infrastructure", "HOME", "missing", false, null],
            ["setting", "region", "available", true, null],
            ["secret", "TOKEN", "missing", false, null],
        ])
    );
    assert_eq!(
        serde_json::to_value(&answer.requirements[3]).unwrap(),
        json!({
            "kind": "skill", "name": "y", "version": "^1", "required": true, "state": "available",
            "found": "1.4.0", "purpose": "Signs in", "reason": null,
        })
    );
}

#[test]
fn ar_24_several_versions_stand_side_by_side_and_a_range_finds_its_own() {
    let version = |folder: &str, version: &str, script: &str, project: Project| {
        let head = format!("---\nname: y\ndescription: d\nmetadata:\n  version: \"{version}\"\n---\n");
        project
            .file(&format!(".metier/skills/{folder}/SKILL.md"), head)
            .file(&format!(".metier/skills/{folder}/scripts/main.lua"), script)
    };
    let project = version("y", "2.0.0", "return 2", Project::new());
    let project = version("y-1", "1.5.0", "return 1", project)
        .needing("needs-1", "dependencies: {skills: [y@^1]}")
        .needing("needs-3", "dependencies: {skills: [{name: y, version: ^3}]}")
        .skill("calls-1", "allowed-tools: skill:y@^1\n")
        .file(".metier/skills/calls-1/scripts/main.lua", "return ctx.skill('y@^1')")
        .skill("plans-1", "allowed-tools: skill:y@^1\n")
        .file(".metier/skills/plans-1/scripts/sequence.json", r#"[{"skill": "y@^1"}]"#);
    assert_eq!(project.reason("needs-1"), "");
    assert_eq!(project.reason("needs-3"), "skill needs-3 cannot run: y ^3 is here as 2.0.0");
    let engine = project.engine();
    for (name, answer) in [("y", 2), ("y@^2", 2), ("y@^1", 1), ("y@1.5.0", 1), ("y@>=1, <2", 1)] {
        assert_eq!(value(engine.run(Invocation::new(name))), json!(answer), "{name}");
        assert!(engine.explain(&Invocation::new(name)).unwrap().reason.is_none(), "{name}");
    }
    let called = engine.run(granted(Invocation::new("calls-1"), &["skill:y@^1"]));
    assert_eq!(value(called), json!(1));
    assert_eq!(value(engine.run(Invocation::new("plans-1"))), json!(1));
    // AR-T14: never silently another version.
    let refused = engine.run(Invocation::new("y@^4"));
    assert_eq!(kind(&refused), ErrorKind::UnknownSkill);
    assert_eq!(sentence(&refused), "no skill `y` has a version that fits `^4`");
    let help = refused.result.unwrap_err().help().unwrap().to_owned();
    assert!(help.contains("y@2.0.0") && help.contains("y@1.5.0"), "{help}");
}
