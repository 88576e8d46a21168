//! Parses the values in a plan's file, with the references in their texts.

use serde_json::Value as Json;

use crate::diagnostic_sink::PlanDiagnosticSink;
use crate::lint;
use crate::model::argument::{Argument, NamedArgument};
use metier_core::template::Template;
use metier_skill::yaml::{Entry, Node, Value};

/// Parses a value with its name.
pub(crate) fn parse_named_argument(
    entry: &Entry,
    findings: &mut PlanDiagnosticSink<'_>,
) -> Option<NamedArgument> {
    let value = parse_argument(&entry.node, findings)?;
    Some(NamedArgument { name: entry.key.clone(), value, span: entry.key_span.clone() })
}

/// Parses a value with the references in its texts; a value without any is one constant.
pub(crate) fn parse_argument(node: &Node, findings: &mut PlanDiagnosticSink<'_>) -> Option<Argument> {
    match &node.value {
        Value::Scalar(text) => parse_scalar(node, text, findings),
        Value::List(items) => {
            let items: Vec<Argument> =
                items.iter().map(|item| parse_argument(item, findings)).collect::<Option<_>>()?;
            Some(match constant_values(&items) {
                Some(values) => Argument::Constant(values.into()),
                None => Argument::List(items),
            })
        }
        Value::Map(entries) => {
            let parameters: Vec<NamedArgument> =
                entries.iter().map(|entry| parse_named_argument(entry, findings)).collect::<Option<_>>()?;
            let constant = |NamedArgument { name, value, .. }: &NamedArgument| match value {
                Argument::Constant(value) => Some((name.clone(), value.clone())),
                _ => None,
            };
            Some(match parameters.iter().map(constant).collect::<Option<serde_json::Map<_, _>>>() {
                Some(entries) => Argument::Constant(Json::Object(entries)),
                None => Argument::Object(parameters),
            })
        }
    }
}

fn constant_values(items: &[Argument]) -> Option<Vec<Json>> {
    items
        .iter()
        .map(|item| match item {
            Argument::Constant(value) => Some(value.clone()),
            _ => None,
        })
        .collect()
}

fn parse_scalar(node: &Node, text: &str, findings: &mut PlanDiagnosticSink<'_>) -> Option<Argument> {
    match node.to_json() {
        Ok(Json::String(_)) => {}
        Ok(value) => return Some(Argument::Constant(value)),
        Err(untyped) => {
            findings.add(&lint::ARGS, &untyped.span, untyped.message, "write a number that JSON has");
            return None;
        }
    }
    match text.parse::<Template>() {
        Ok(Template::Literal(text)) => Some(Argument::Constant(Json::String(text))),
        Ok(template) => Some(Argument::Text(template, node.span.clone())),
        Err(fault) => {
            findings.add_expression_error(&lint::REFERENCE, &node.span, text, &fault);
            None
        }
    }
}
