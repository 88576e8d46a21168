//! Parses text into a [`Plan`], or into the diagnostics that explain why it is not one.

use std::collections::HashMap;
use std::sync::Arc;

use crate::diagnostic_sink::PlanDiagnosticSink;
use crate::model::step::Argument;
use crate::parse::json_tree;
use crate::parse::json_tree::{find_node, report_unknown_keys};
use crate::parse::markdown::numbered_steps;
use crate::parse::step::{StepParser, parse_argument};
use crate::{Plan, PlanForm, lint};
use metier_core::byte_order_mark::mark_len;
use metier_core::strict_json;
use metier_core::template::{Reference, ReferenceRoot, Template};
use metier_skill::Diagnostic;
use metier_skill::yaml::{self, Node, Value};

/// Parses the plan in a `sequence.json`: a list of `{tool, args}`, or an object with that list under `steps`.
///
/// `file` is its path in the skill's folder. Never panics; hostile text produces at most fifty diagnostics.
pub fn from_sequence(source: &[u8], file: &str) -> Result<Plan, Vec<Diagnostic>> {
    let text = decode_source(source)?;
    let (mut findings, start) = (PlanDiagnosticSink::for_text(text), mark_len(text));
    if let Err(strict_json::ParseError { reason, offset: at }) =
        strict_json::parse_with_offset(&text[start..])
    {
        findings.add(
            &lint::SYNTAX,
            &(start + at..start + at),
            reason,
            "the file is a JSON list of {\"tool\": …, \"args\": {…}}",
        );
        return Err(findings.into_sorted());
    }
    let root = json_tree::parse_tree_at(text, start);
    let parts = match &root.value {
        Value::Map(entries) => {
            report_unknown_keys(entries, &["steps", "outputs_from"], &mut findings);
            PlanNodes {
                steps: find_node(entries, "steps"),
                outputs: find_node(entries, "outputs_from"),
                concurrency: None,
            }
        }
        _ => PlanNodes { steps: Some(&root), outputs: None, concurrency: None },
    };
    build_plan(text, file, PlanForm::Sequence, &root, &parts, findings)
}

/// Parses the plan in a numbered list of a Markdown file; each item names a tool in code.
pub fn from_markdown(source: &[u8], file: &str) -> Result<Plan, Vec<Diagnostic>> {
    let text = decode_source(source)?;
    let mut findings = PlanDiagnosticSink::for_text(text);
    let Some(root) = numbered_steps(text, &mut findings) else {
        findings.add(
            &lint::SHAPE,
            &(0..0),
            "there is no numbered list of steps",
            "write one, such as 1. `grep {\"pattern\": \"TODO\"}`, or scripts/sequence.json",
        );
        return Err(findings.into_sorted());
    };
    let parts = PlanNodes { steps: Some(&root), outputs: None, concurrency: None };
    build_plan(text, file, PlanForm::Sequence, &root, &parts, findings)
}

/// Parses the plan in a `skill.yaml`, under `steps` or `composed_of`, at the top or under `skill`; `None` if it has neither.
pub fn from_contract(source: &[u8], file: &str) -> Result<Option<Plan>, Vec<Diagnostic>> {
    let text = decode_source(source)?;
    let mut findings = PlanDiagnosticSink::for_text(text);
    let tree = yaml::parse(text).map_err(|fault| {
        vec![Diagnostic::new(fault.rule, text, &fault.span, &*fault.message).with_help(fault.help())]
    })?;
    let Some(Node { value: Value::Map(entries), .. }) = &tree.root else { return Ok(None) };
    let entries = match find_node(entries, "skill").map(|node| &node.value) {
        Some(Value::Map(inner)) => inner,
        _ => entries,
    };
    let (form, steps) = match (find_node(entries, "steps"), find_node(entries, "composed_of")) {
        (None, None) => return Ok(None),
        (Some(steps), None) => (PlanForm::Steps, steps),
        (None, Some(steps)) => (PlanForm::ComposedOf, steps),
        (Some(_), Some(twice)) => {
            let message = "a skill has steps or composed_of, not both";
            findings.add(&lint::SHAPE, &twice.span, message, "keep one of them");
            return Err(findings.into_sorted());
        }
    };
    let parts = PlanNodes {
        steps: Some(steps),
        outputs: find_node(entries, "outputs_from"),
        concurrency: find_node(entries, "concurrency"),
    };
    build_plan(text, file, form, steps, &parts, findings).map(Some)
}

/// The nodes that make up a plan.
struct PlanNodes<'a> {
    steps: Option<&'a Node>,
    outputs: Option<&'a Node>,
    concurrency: Option<&'a Node>,
}

fn build_plan(
    text: &str,
    file: &str,
    form: PlanForm,
    root: &Node,
    parts: &PlanNodes<'_>,
    mut findings: PlanDiagnosticSink<'_>,
) -> Result<Plan, Vec<Diagnostic>> {
    let items = match parts.steps.map(|steps| &steps.value) {
        Some(Value::List(items)) if items.len() <= Plan::MAX_STEPS => items.as_slice(),
        Some(Value::List(items)) => {
            let message =
                format!("the plan has {} steps, more than the {} it may have", items.len(), Plan::MAX_STEPS);
            findings.add(&lint::TOO_LARGE, &root.span, message, "split it into skills that call one another");
            &[]
        }
        _ => {
            findings.add(
                &lint::SHAPE,
                &root.span,
                "a plan is a list of steps",
                "write a list, or the list under `steps`",
            );
            &[]
        }
    };
    let mut reader = StepParser::new(form);
    let mut ids = HashMap::new();
    let mut steps = Vec::new();
    for (at, item) in items.iter().enumerate() {
        let Some(step) = reader.step(at, item, &mut findings) else { continue };
        if let Some(first) = ids.insert(step.id.clone(), at) {
            let message = format!("the steps {} and {} both have the id {}", first + 1, at + 1, step.id);
            findings.add(&lint::ID_TWICE, &step.places.id, message, "give one of them an `id` of its own");
        }
        steps.push(step);
    }
    let concurrency =
        parts.concurrency.map_or(Plan::DEFAULT_CONCURRENCY, |node| parse_concurrency(node, &mut findings));
    let outputs_at = parts.outputs.map_or(0..0, |node| node.span.clone());
    let outputs = parts.outputs.and_then(|node| parse_outputs(node, &ids, &mut findings));
    if !findings.is_empty() {
        return Err(findings.into_sorted());
    }
    Ok(Plan {
        file: file.to_owned(),
        text: Arc::from(text),
        form,
        steps,
        index_by_id: ids,
        outputs,
        outputs_span: outputs_at,
        concurrency,
    })
}

fn parse_concurrency(node: &Node, findings: &mut PlanDiagnosticSink<'_>) -> usize {
    let number =
        node.to_json().ok().and_then(|value| value.as_u64()).and_then(|number| usize::try_from(number).ok());
    number.filter(|number| (1..=Plan::MAX_CONCURRENCY).contains(number)).unwrap_or_else(|| {
        let message = format!("concurrency is a whole number from 1 to {}", Plan::MAX_CONCURRENCY);
        findings.add(&lint::BOUND, &node.span, message, "write concurrency: 4");
        Plan::DEFAULT_CONCURRENCY
    })
}

/// Parses the output of the plan. The plain id of a step stands for all of its outputs.
fn parse_outputs(
    node: &Node,
    ids: &HashMap<String, usize>,
    findings: &mut PlanDiagnosticSink<'_>,
) -> Option<Argument> {
    let outputs = parse_argument(node, findings)?;
    match &outputs {
        Argument::Constant(serde_json::Value::String(id)) if ids.contains_key(id) => {
            let reference = Reference { root: ReferenceRoot::Step(id.clone()), path: Vec::new() };
            Some(Argument::Text(Template::Reference(reference), node.span.clone()))
        }
        Argument::Constant(_) => {
            let message = "outputs_from names outputs of steps";
            findings.add(
                &lint::OUTPUTS_FROM,
                &node.span,
                message,
                "write $steps.ID.outputs, or the id of a step",
            );
            None
        }
        _ => Some(outputs),
    }
}

/// The source as text, if it is UTF-8 and not too large.
fn decode_source(source: &[u8]) -> Result<&str, Vec<Diagnostic>> {
    let refuse = |rule, text, message: String, help: &str| {
        let mut findings = PlanDiagnosticSink::for_text(text);
        findings.add(rule, &(text.len()..text.len()), message, help);
        Err(findings.into_sorted())
    };
    if source.len() > Plan::MAX_BYTES {
        let message =
            format!("the file has {} bytes, more than the {} a plan may have", source.len(), Plan::MAX_BYTES);
        return refuse(
            &lint::TOO_LARGE,
            "",
            message,
            "keep data in files of the skill and let a step read them",
        );
    }
    std::str::from_utf8(source).or_else(|error| {
        let valid = source.utf8_chunks().next().map_or("", |chunk| chunk.valid());
        refuse(
            &lint::NOT_UTF8,
            valid,
            format!("the file is not UTF-8 at byte {}", error.valid_up_to()),
            "save it as UTF-8",
        )
    })
}
