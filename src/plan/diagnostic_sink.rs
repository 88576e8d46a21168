//! Faults of a plan as they are found, bounded: a hostile file is not worth a list as long as itself.

use crate::plan::model::argument::SourceSpan;
use crate::plan::model::reference::ExpressionError;
use crate::skill::yaml::{Node, Value};
use crate::skill::{Diagnostic, Rule};

/// Findings that are kept; what comes after is the same again.
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

    /// A text that is no reference or condition. Where in the text is not where in the file, since texts are escaped.
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

    /// Whether nothing more is kept, so that looking for more is no use.
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

/// Characters of a stranger's that fit in a sentence.
const MAX_EXCERPT_CHARS: usize = 60;

/// A value that a stranger wrote, as JSON and cut to what fits in a sentence.
pub(super) fn value_excerpt(value: &serde_json::Value) -> String {
    if let serde_json::Value::String(text) = value {
        return quoted_excerpt(text);
    }
    let text = value.to_string();
    let shown: String = text.chars().take(MAX_EXCERPT_CHARS).collect();
    let more = if shown.len() < text.len() { "…" } else { "" };
    format!("{shown}{more}")
}

/// What stands at a place of the file: texts quoted, everything else by its kind.
pub(super) fn describe_node(node: &Node) -> String {
    match &node.value {
        Value::Scalar(text) => quoted_excerpt(text),
        Value::List(_) => "a list".to_owned(),
        Value::Map(_) => "a map".to_owned(),
    }
}

/// What a stranger wrote, quoted and cut to what fits in a sentence.
pub(super) fn quoted_excerpt(text: &str) -> String {
    let quoted: String = text.chars().take(MAX_EXCERPT_CHARS).collect();
    let more = if quoted.len() < text.len() { "…" } else { "" };
    format!("{}{more}", serde_json::Value::from(quoted))
}

/// The known word that is nearest to one that is not known, as a way out; otherwise all of them.
pub(super) fn suggest_name<'w>(word: &str, known: impl Iterator<Item = &'w str> + Clone) -> String {
    if let Some(near) = closest_name(word, known.clone()) {
        return format!("did you mean {near}?");
    }
    list_names(known)
}

/// The known word that one was probably meant to be.
pub(super) fn closest_name<'w>(word: &str, known: impl Iterator<Item = &'w str>) -> Option<&'w str> {
    let distance = |known: &&str| strsim::osa_distance(known, word);
    let slips = (word.chars().count() / 3).min(2);
    // Comparing takes time with the length of both.
    let near = known.filter(|known| word.len() <= 100 && known.len() <= 100 && distance(known) <= slips);
    near.min_by_key(distance)
}

/// The first of the known words.
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
