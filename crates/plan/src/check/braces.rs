//! Finds references in double braces, the syntax of other template languages, which is plain text here.

use serde_json::Value;

use super::Checker;
use crate::diagnostic_sink::quoted_excerpt;
use crate::{Argument, NamedArgument, lint};
use metier_core::template::{Reference, ReferenceBody, ReferenceRoot, parse_reference_body};
use metier_core::template::{Template, TemplatePiece};

impl Checker<'_> {
    pub(super) fn check_braces(&mut self, parameter: &NamedArgument) {
        let Some(meant) = find_braced_reference(&parameter.value) else { return };
        let message = format!("{{{{…}}}} in {} is only text", quoted_excerpt(&parameter.name));
        let help =
            format!("write {meant} for its value, or ${{{}}} beside other text", ReferenceBody(&meant));
        self.diagnostics.add(&lint::BRACES, &parameter.span, message, help);
    }
}

/// The first reference in double braces anywhere in a value.
fn find_braced_reference(value: &Argument) -> Option<Reference> {
    match value {
        Argument::Constant(constant) => find_in_constant(constant),
        Argument::Text(Template::Literal(text), _) => find_in_text(text),
        Argument::Text(Template::Reference(_), _) => None,
        Argument::Text(Template::Pieces(pieces), _) => {
            pieces.iter().flat_map(TemplatePiece::texts).find_map(find_in_text)
        }
        Argument::List(items) => items.iter().find_map(find_braced_reference),
        Argument::Object(entries) => entries.iter().find_map(|entry| find_braced_reference(&entry.value)),
    }
}

fn find_in_constant(value: &Value) -> Option<Reference> {
    match value {
        Value::String(text) => find_in_text(text),
        Value::Array(items) => items.iter().find_map(find_in_constant),
        Value::Object(entries) => entries.values().find_map(find_in_constant),
        _ => None,
    }
}

/// `{{inputs.x}}`, with blanks or without. Other words in braces belong to other template languages.
fn find_in_text(text: &str) -> Option<Reference> {
    text.match_indices("{{").find_map(|(at, braces)| {
        let inside = text[at + braces.len()..].trim_start();
        let (reference, end) = parse_reference_body(inside, 0).ok()?;
        let is_ours = !matches!(reference.root, ReferenceRoot::Variable(_));
        (is_ours && inside[end..].trim_start().starts_with("}}")).then_some(reference)
    })
}
