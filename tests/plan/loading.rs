//! What is found before the first step: nothing ran when a plan is refused.

use metier::error::ErrorKind;
use serde_json::{Value, json};

use crate::plan::project::{Project, error, failure};

/// The place and the sentence of a refusal; the first step would have left a trace.
#[track_caller]
fn refused(project: &Project) -> String {
    let outcome = project.run(&["write", "tool:echo", "tool:fail"]);
    let error = error(&outcome);
    assert_eq!(error.kind(), ErrorKind::InvalidSkill, "{error}");
    assert!(!project.path("trace").exists(), "a step ran");
    let place = error.location().unwrap_or_else(|| panic!("{error} has no place"));
    format!("{}:{}: {error}", place.file, place.line.unwrap())
}

fn sequence(second: &Value) -> Project {
    Project::new().sequence(
        "x",
        "write",
        &json!([{"tool": "write", "args": {"path": "trace", "content": "1"}}, second]),
    )
}

fn contract(steps: &str) -> Project {
    let first = "- {id: first, tool: write, args: {path: trace, content: x}}";
    Project::new()
        .lua("y", "", "return {}")
        .file(".metier/skills/y/skill.yaml", "inputs:\n  a: {type: string, required: true}\n  n: {type: integer}\noutputs:\n  out: {type: string}\n")
        .contract("x", "write", &format!("inputs:\n  name: {{type: string}}\nsteps:\n{first}\n{steps}\n"))
}

#[test]
fn ar_t12_a_reference_to_a_later_step_is_refused_with_its_line() {
    let told = refused(&contract(
        "- {id: a, skill: y, args: {a: $steps.b.outputs.out}}\n- {id: b, skill: y, args: {a: x}}",
    ));
    assert_eq!(told, "skill.yaml:5: $steps.b.outputs.out names a later step");
    let told = refused(&sequence(&json!({"tool": "echo", "args": {"a": "$result[1]"}})));
    assert_eq!(told, "scripts/sequence.json:1: $result[1] names the step itself");
    assert!(
        refused(&sequence(&json!({"tool": "echo", "args": {"a": "$result[7]"}}))).contains("names no step")
    );
}

#[test]
fn what_a_skill_declares_is_validated_against_the_plan() {
    for (steps, words) in [
        ("- {skill: y, args: {}}", "skill.yaml:5: skill y must be given \"a\""),
        ("- {skill: y, args: {a: x, b: x}}", "skill y has no parameter \"b\""),
        ("- {skill: y, args: {a: x, n: many}}", "n of skill y cannot be"),
        ("- {skill: y, args: {a: $inputs.nam}}", "$inputs.nam: the input of the skill has no \"nam\""),
        (
            "- {skill: y, args: {a: x}}\n- {tool: echo, args: {a: $steps.y.outputs.ouch}}",
            "skill.yaml:6: $steps.y.outputs.ouch: what y answers with has no \"ouch\"",
        ),
        ("- {skill: nobody}", "nobody"),
        ("- {tool: ecko}", "no function and no tool is called `ecko`"),
        ("- {id: first, tool: tree}", "the steps 1 and 2 both have the id first"),
        ("- {tool: grep, args: {patern: x}}", "grep"),
    ] {
        let told = refused(&contract(steps));
        assert!(told.contains(words), "{told}");
    }
}

#[test]
fn a_circle_of_skills_is_refused_before_anything_runs() {
    let write = json!({"tool": "write", "args": {"path": "trace", "content": "1"}});
    let project = Project::new()
        .sequence("x", "write", &json!([write, {"skill": "y"}]))
        .sequence("y", "write", &json!([write, {"skill": "z"}]))
        .sequence("z", "write", &json!([write, {"skill": "x"}]));
    assert!(refused(&project).contains("circle: x > y > z > x"));
    assert!(
        refused(&Project::new().sequence("x", "write", &json!([write, {"skill": "x"}])))
            .contains("circle: x > x")
    );
}

#[test]
fn a_deep_chain_of_skills_ends_with_the_number_that_is_allowed() {
    let chain = (0..10).fold(Project::new().sequence("x", "", &json!([{"skill": "s0"}])), |project, at| {
        project.sequence(&format!("s{at}"), "", &json!([{"skill": format!("s{}", at + 1)}]))
    });
    let (_, sentence) = failure(&chain.sequence("s10", "", &json!([])).run(&[]));
    assert!(sentence.contains("skills may call one another 8 deep"), "{sentence}");
}

#[test]
fn a_skill_with_steps_runs_them_whatever_helpers_lie_beside_it() {
    let project = Project::new()
        .contract("x", "", "steps:\n- {tool: glob, args: {pattern: '*.none'}}\n")
        .file(".metier/skills/x/scripts/helper.lua", "return 'helper'");
    assert_eq!(project.value(json!({})), json!([]));
    let entered = Project::new()
        .contract("x", "", "entrypoint: scripts/helper.lua\nsteps:\n- {tool: tree}\n")
        .file(".metier/skills/x/scripts/helper.lua", "return 'helper'");
    assert_eq!(entered.value(json!({})), json!("helper"));
}

#[test]
fn a_byte_order_mark_is_no_part_of_a_plan() {
    let load = |file: &str, text: &str| {
        let folder = ".metier/skills/x";
        let skill = Project::new().file(&format!("{folder}/SKILL.md"), "---\nname: x\ndescription: d\n---\n");
        skill.file(&format!("{folder}/{file}"), text).run(&[])
    };
    for (file, text) in [
        ("scripts/sequence.json", r#"[{"tool": "tree"}]"#),
        ("skill.yaml", "steps: [{id: a, tool: tree}]\n"),
        ("skill.yaml", "\nsteps:\n  - id: a\n    tool: tree\n"),
    ] {
        assert_eq!(load(file, text).steps.len(), 1, "{file}");
        assert_eq!(load(file, &format!("\u{feff}{text}")).steps.len(), 1, "{file}");
    }
    for (file, text) in [
        ("scripts/sequence.json", r#"[{"tool": "tree", "args": []}]"#),
        ("scripts/sequence.json", r#"[{"tool" "tree"}]"#),
        ("skill.yaml", "steps: [{id: a, tool: tree, args: []}]\n"),
    ] {
        let place = |text: &str| error(&load(file, text)).location().map(|at| (at.line, at.column));
        assert!(place(text).is_some(), "{text}");
        assert_eq!(place(&format!("\u{feff}{text}")), place(text), "{text}");
    }
}

#[test]
fn sy_t15_a_sequence_that_is_none_does_not_load() {
    for text in [
        "",
        "{}",
        "null",
        "[1]",
        r#"[{"args": {}}]"#,
        r#"[{"tool": "tree", "args": []}]"#,
        "[",
        "\u{feff}\u{feff}[]",
    ] {
        let project =
            Project::new().sequence("x", "", &json!([])).file(".metier/skills/x/scripts/sequence.json", text);
        assert_eq!(error(&project.run(&[])).kind(), ErrorKind::InvalidSkill, "{text}");
    }
    let outcome = Project::new().sequence("x", "", &json!([{"tool": "tree"}, {"tool": "tree"}])).run(&[]);
    assert_eq!(outcome.steps.len(), 2);
    assert!(Project::new().sequence("x", "", &json!([])).run(&[]).steps.is_empty());
}
