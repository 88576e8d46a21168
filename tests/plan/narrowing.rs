//! A step's callee can do nothing that its caller was not granted, also two levels down.

use metier::error::ErrorKind;
use metier::host::{ClosureTools, SecretProvider, SkillContext};
use serde_json::json;

use crate::plan::project::{Project, failure, x};

struct Secrets;

impl SecretProvider for Secrets {
    fn secret(&self, _: &SkillContext, name: &str) -> metier::error::Result<Option<String>> {
        Ok(Some(format!("the secret {name}")))
    }
}

/// What a callee tries, the permission that takes, and a script that tries it.
const ATTEMPTS: [(&str, &str); 4] = [
    ("write", "ctx.write('out.txt', 'x') return 'done'"),
    ("tool:probe", "return ctx.tool('probe', {})"),
    ("secret:key", "return #ctx.secret('key')"),
    ("net:localhost", "return ctx.http('http://localhost:9/').status"),
];

/// Runs `x`, which calls `y`, which calls `z`, which tries; each asks for what is named.
fn run_chain(asks: [&str; 3], script: &str, grants: &[&str]) -> metier::engine::Outcome {
    let project = Project::new()
        .sequence("x", asks[0], &json!([{"skill": "y"}]))
        .contract("y", asks[1], "steps:\n- {skill: z}\n")
        .lua("z", asks[2], script);
    let tools = ClosureTools::new().tool("probe", "d", json!({}), |_, _| Ok(json!("called")));
    project.builder().tools(tools).secrets(Secrets).build().unwrap().run(x(grants))
}

#[test]
fn a_callee_needs_the_word_of_everybody_above_it_and_a_grant() {
    for (power, script) in ATTEMPTS {
        let refusals = [
            (["", power, power], vec![power]),
            ([power, "", power], vec![power]),
            ([power, power, ""], vec![power]),
            ([power, power, power], vec![]),
        ];
        for (asks, grants) in refusals {
            let outcome = run_chain(asks, script, &grants);
            assert_eq!(failure(&outcome).0, ErrorKind::Denied, "{power} {asks:?} {grants:?}");
        }
        let outcome = run_chain([power, power, power], script, &[power]);
        let is_denied = outcome.result.as_ref().is_err_and(|error| error.kind() == ErrorKind::Denied);
        assert!(!is_denied, "{power}: {:?}", outcome.result);
    }
}

#[test]
fn a_process_leaves_its_sandbox_by_the_callers_grant_and_by_nothing_that_skills_request() {
    let free = "exec:unsandboxed";
    for (asks, grants, is_free) in [
        ([free, free, free], &[free][..], true),
        ([free, free, free], &["exec", "write"], false),
        ([free, free, free], &[], false),
    ] {
        let project = Project::new()
            .sequence("x", asks[0], &json!([{"skill": "y"}]))
            .contract("y", asks[1], "steps:\n- {skill: z}\n")
            .shell("z", asks[2], "echo free");
        let outcome = project.run(grants);
        let ran_free =
            outcome.result.is_ok() && outcome.sandbox.is_some_and(|held| held.level.name() == "none");
        assert_eq!(ran_free, is_free, "{asks:?} {grants:?}: {outcome:?}");
    }
}

#[test]
fn a_step_needs_no_grant_for_the_skill_it_names_and_a_script_does() {
    let named = Project::new().sequence("x", "", &json!([{"skill": "y"}])).lua("y", "", "return 1");
    assert_eq!(named.run(&[]).result.unwrap(), json!(1));
    let by_function = Project::new()
        .sequence("x", "", &json!([{"tool": "skill", "args": {"name": "y"}}]))
        .lua("y", "", "return 1");
    assert_eq!(failure(&by_function.run(&[])).0, ErrorKind::Denied);
    let by_script = Project::new()
        .sequence("x", "", &json!([{"skill": "y"}]))
        .lua("y", "", "return ctx.skill('z')")
        .lua("z", "", "return 1");
    assert_eq!(failure(&by_script.run(&["skill:z"])).0, ErrorKind::Denied);
}

#[test]
fn a_plan_asks_for_the_tools_it_names_and_still_needs_the_grant() {
    let steps = json!([{"tool": "echo", "args": {"a": 1}}]);
    let project = Project::new().sequence("x", "", &steps);
    assert_eq!(project.run(&["tool:echo"]).result.unwrap(), json!({"a": 1}));
    let (kind, sentence) = failure(&project.run(&[]));
    assert_eq!(kind, ErrorKind::Denied);
    assert!(sentence.contains("grant tool:echo"), "{sentence}");
    assert_eq!(failure(&project.run(&["tool:other"])).0, ErrorKind::Denied);
    let write =
        Project::new().sequence("x", "", &json!([{"tool": "write", "args": {"path": "a", "content": "b"}}]));
    assert_eq!(failure(&write.run(&["write"])).0, ErrorKind::Denied, "everything else is listed in SKILL.md");
}

#[test]
fn what_a_caller_s_plan_names_is_not_its_callee_s() {
    let project = Project::new().sequence("x", "", &json!([{"tool": "echo"}, {"skill": "y"}])).lua(
        "y",
        "tool:fail tool:echo",
        "return ctx.tool('fail', {})",
    );
    assert_eq!(failure(&project.run(&["tool:echo", "tool:fail"])).0, ErrorKind::Denied);
}
