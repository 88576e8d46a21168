//! References as other templates write them, in double braces, which are only text here.

use serde_json::Value;

use super::Checker;
use crate::plan::findings::brief;
use crate::plan::reference::{Body, Reference, Root, read};
use crate::plan::{Argument, Parameter, Piece, Template, rule};

impl Checker<'_> {
    pub(super) fn braces(&mut self, parameter: &Parameter) {
        let Some(meant) = braced(&parameter.value) else { return };
        let message = format!("{{{{…}}}} in {} is only text", brief(&parameter.name));
        let help = format!("write {meant} for its value, or ${{{}}} beside other text", Body(&meant));
        self.findings.add(&rule::BRACES, &parameter.place, message, help);
    }
}

/// The first reference that stands in double braces somewhere in a value.
fn braced(value: &Argument) -> Option<Reference> {
    match value {
        Argument::Constant(constant) => in_constant(constant),
        Argument::Text(Template::Literal(text), _) => in_text(text),
        Argument::Text(Template::Whole(_), _) => None,
        Argument::Text(Template::Pieces(pieces), _) => pieces.iter().find_map(|piece| match piece {
            Piece::Text(text) => in_text(text),
            Piece::Reference(_) => None,
        }),
        Argument::List(items) => items.iter().find_map(braced),
        Argument::Object(entries) => entries.iter().find_map(|entry| braced(&entry.value)),
    }
}

fn in_constant(value: &Value) -> Option<Reference> {
    match value {
        Value::String(text) => in_text(text),
        Value::Array(items) => items.iter().find_map(in_constant),
        Value::Object(entries) => entries.values().find_map(in_constant),
        _ => None,
    }
}

/// `{{inputs.x}}`, with blanks or without. Other words in braces mean something to somebody else.
fn in_text(text: &str) -> Option<Reference> {
    text.match_indices("{{").find_map(|(at, braces)| {
        let inside = text[at + braces.len()..].trim_start();
        let (reference, end) = read(inside, 0).ok()?;
        let is_ours = !matches!(reference.root, Root::Variable(_));
        (is_ours && inside[end..].trim_start().starts_with("}}")).then_some(reference)
    })
}
