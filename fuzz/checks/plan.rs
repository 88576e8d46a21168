//! References, conditions and plans: what is read prints as what reads back the same, and runs to an end.

use metier::plan::{Plan, PlanForm};
use metier_plan::{
    Condition, NoCallees, Template, check, diagnostics, from_contract, from_markdown, from_sequence,
};
use serde_json::json;

use super::run::{is_brief, run};
use super::schema::is_told;
use super::skill::lie_within;

const FILE: &str = "scripts/sequence.json";

/// A text with references, or a condition.
pub fn reference(source: &[u8]) {
    let Ok(text) = std::str::from_utf8(source) else { return };
    let template = text.parse::<Template>();
    match &template {
        Ok(template) => {
            assert_eq!(template.to_string().parse().as_ref(), Ok(template), "{text}");
            for reference in template.references() {
                assert_eq!(
                    reference.to_string().parse(),
                    Ok(Template::Reference(reference.clone())),
                    "{text}"
                );
            }
        }
        Err(fault) => assert!(text.is_char_boundary(fault.at), "{text} {fault:?}"),
    }
    let condition = text.parse::<Condition>();
    match &condition {
        Ok(condition) => {
            assert_eq!(condition.to_string().parse().as_ref(), Ok(condition), "{text}");
            assert!(condition.references().len() <= text.len());
        }
        Err(fault) => assert!(text.is_char_boundary(fault.at), "{text} {fault:?}"),
    }
    let mut steps = vec![json!({"id": "b", "tool": "echo", "args": {"f": [{"a b": 1}], "n": 0}})];
    if template.is_ok() {
        steps.push(json!({"id": "text", "tool": "echo", "args": {"text": text}}));
        steps.push(
            json!({"tool": "echo", "for_each": {"in": "$inputs.l", "as": "item"}, "args": {"text": text}}),
        );
    }
    if condition.is_ok() {
        steps.push(json!({"id": "when", "tool": "echo", "when": text}));
    }
    let plan = json!({"steps": steps, "outputs_from": "b"}).to_string();
    let plan = from_sequence(plan.as_bytes(), FILE).unwrap_or_else(|found| panic!("{text}: {found:?}"));
    if check(&plan, "", None, &NoCallees).iter().all(|found| !found.blocks) {
        run(&plan);
    }
    if let Ok(Template::Literal(literal)) = template {
        let plan = json!([{"tool": "echo", "args": {"text": text}}]).to_string();
        let plan = from_sequence(plan.as_bytes(), FILE).unwrap_or_else(|found| panic!("{text}: {found:?}"));
        // Nothing is what it comes to where the text is longer than what a plan may answer with.
        assert!(run(&plan).is_none_or(|value| value["text"] == *literal), "{text}");
    }
}

/// Any bytes as a sequence: a plan that can be shown and run, or reasons why there is none.
pub fn sequence(source: &[u8]) {
    let read = [
        from_sequence(source, FILE).map(Some),
        from_contract(source, "skill.yaml"),
        from_markdown(source, "SKILL.md").map(Some),
    ];
    for read in read {
        match read {
            Ok(plan) => plan.iter().for_each(reads_back),
            Err(found) => is_told(source, &found),
        }
    }
    for file in [FILE, "skill.yaml", "SKILL.md"] {
        lie_within(source, &diagnostics(source, file, None));
        lie_within(
            source,
            &diagnostics(source, file, Some(&json!({"properties": {"a": {"type": "string"}}}))),
        );
    }
}

/// What a plan tells of itself is the same plan when it is written again, and it runs to its end.
pub fn reads_back(plan: &Plan) {
    assert!(plan.to_string().starts_with(plan.file()));
    let told = plan.json();
    let mut again = json!({"steps": told["steps"]});
    if !told["outputs_from"].is_null() {
        again["outputs_from"] = told["outputs_from"].clone();
    }
    if plan.form() != PlanForm::Sequence {
        again["concurrency"] = told["concurrency"].clone();
    }
    let written = again.to_string();
    let read = if plan.form() == PlanForm::Sequence {
        from_sequence(written.as_bytes(), plan.file())
    } else {
        let called = written.replacen(
            "\"steps\":",
            if plan.form() == PlanForm::Steps { "\"steps\":" } else { "\"composed_of\":" },
            1,
        );
        // JSON is YAML, but for what YAML would cut short; that is looked at by reading sequences.
        match from_contract(called.as_bytes(), plan.file()) {
            Ok(plan) => plan.ok_or_else(Vec::new),
            Err(_) => return,
        }
    };
    let read = read.unwrap_or_else(|found| panic!("{written}: {found:?}"));
    assert_eq!(read.json(), told, "{written}");
    let is_fine = check(plan, "", None, &NoCallees).iter().all(|found| !found.blocks);
    if is_fine && is_brief(plan) {
        run(plan);
    }
}
