//! Collects the diagnostics of a plan, at most fifty: a hostile file must not produce a list as long as itself.

use crate::model::step::SourceSpan;
use metier_core::excerpt::shorten;
use metier_core::suggestion::{closest, did_you_mean};
use metier_core::template::ExpressionError;
use metier_skill::yaml::{Node, Value};
use metier_skill::{Diagnostic, Rule};

/// The maximum number of diagnostics; later ones are likely to repeat them.
const MAX_DIAGNOSTICS: usize = 50;

pub(super) struct PlanDiagnosticSink<'a> {
    text: &'a str,
    diagnostics: Vec<Diagnostic>,
}

impl<'a> PlanDiagnosticSink<'a> {
    pub(super) fn for_text(text: &'a str) -> Self {
        Self { text, diagnostics: Vec::new() }
    }

    pub(super) fn add(
        &mut self,
        rule: &Rule,
        place: &SourceSpan,
        message: impl Into<String>,
        help: impl Into<String>,
    ) {
        if self.diagnostics.len() < MAX_DIAGNOSTICS {
            self.diagnostics.push(Diagnostic::new(rule, self.text, place, message).with_help(help));
        }
    }

    /// Adds the error of a text that is not a reference or condition. Its offset in the text is not one in the file, since texts
    /// are escaped.
    pub(super) fn add_expression_error(
        &mut self,
        rule: &Rule,
        place: &SourceSpan,
        text: &str,
        fault: &ExpressionError,
    ) {
        let at = text.get(..fault.at).map_or(0, |before| before.chars().count()) + 1;
        let message = format!("{}, at character {at} of {}", fault.message, quoted_excerpt(text));
        self.add(rule, place, message, fault.help);
    }

    /// Whether no further diagnostic is stored, so that the search can end.
    pub(super) fn is_full(&self) -> bool {
        self.diagnostics.len() >= MAX_DIAGNOSTICS
    }

    pub(super) fn is_empty(&self) -> bool {
        self.diagnostics.is_empty()
    }

    pub(super) fn into_sorted(mut self) -> Vec<Diagnostic> {
        self.diagnostics.sort_by_key(|found| (found.line, found.column));
        self.diagnostics
    }
}

/// The maximum number of characters of untrusted text in a message.
const MAX_EXCERPT_CHARS: usize = 60;

/// An untrusted value as JSON, cut to fit in a message.
pub(super) fn value_excerpt(value: &serde_json::Value) -> String {
    match value {
        serde_json::Value::String(text) => quoted_excerpt(text),
        other => shorten(&other.to_string(), MAX_EXCERPT_CHARS),
    }
}

/// Describes a node of the file: texts are quoted, everything else is named by its kind.
pub(super) fn describe_node(node: &Node) -> String {
    match &node.value {
        Value::Scalar(text) => quoted_excerpt(text),
        Value::List(_) => "a list".to_owned(),
        Value::Map(_) => "a map".to_owned(),
    }
}

/// Untrusted text, quoted and cut to fit in a message.
pub(super) fn quoted_excerpt(text: &str) -> String {
    serde_json::Value::from(shorten(text, MAX_EXCERPT_CHARS)).to_string()
}

/// A hint for an unknown word: the known word that is closest to it; otherwise all of them.
pub(super) fn suggest_name<'w>(word: &str, known: impl Iterator<Item = &'w str> + Clone) -> String {
    if let Some(near) = closest(word, known.clone()) {
        return did_you_mean(near);
    }
    list_names(known)
}

/// The first few known words, as a list.
pub(super) fn list_names<'w>(known: impl Iterator<Item = &'w str> + Clone) -> String {
    const SHOWN: usize = 12;
    let shown: Vec<&str> = known.clone().take(SHOWN).collect();
    match (shown.len(), known.count()) {
        (0, _) => "there are none".into(),
        (shown_count, count) if count > shown_count => {
            format!("there are {} and {} more", shown.join(", "), count - shown_count)
        }
        _ => format!("there are {}", shown.join(", ")),
    }
}
