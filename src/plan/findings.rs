//! Faults of a plan as they are found, bounded: a hostile file is not worth a list as long as itself.

use super::argument::Place;
use super::reference::Fault;
use crate::skill::yaml::{Node, Value};
use crate::skill::{Diagnostic, Rule};

/// Findings that are kept; what comes after is the same again.
const MOST: usize = 50;

pub(super) struct Findings<'a> {
    text: &'a str,
    found: Vec<Diagnostic>,
}

impl<'a> Findings<'a> {
    pub(super) fn on(text: &'a str) -> Self {
        Self { text, found: Vec::new() }
    }

    pub(super) fn add(
        &mut self,
        rule: &Rule,
        place: &Place,
        message: impl Into<String>,
        help: impl Into<String>,
    ) {
        if self.found.len() < MOST {
            self.found.push(Diagnostic::new(rule, self.text, place, message).with_help(help));
        }
    }

    /// A text that is no reference or condition. Where in the text is not where in the file, since texts are escaped.
    pub(super) fn unreadable(&mut self, rule: &Rule, place: &Place, text: &str, fault: &Fault) {
        let at = text.get(..fault.at).map_or(0, |before| before.chars().count()) + 1;
        let message = format!("{}, at character {at} of {}", fault.message, brief(text));
        self.add(rule, place, message, fault.help);
    }

    /// Whether nothing more is kept, so that looking for more is no use.
    pub(super) fn is_full(&self) -> bool {
        self.found.len() >= MOST
    }

    pub(super) fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    pub(super) fn finish(mut self) -> Vec<Diagnostic> {
        self.found.sort_by_key(|found| (found.line, found.column));
        self.found
    }
}

/// Characters of a stranger's that fit in a sentence.
const WIDTH: usize = 60;

/// A value that a stranger wrote, as JSON and cut to what fits in a sentence.
pub(super) fn brief_value(value: &serde_json::Value) -> String {
    if let serde_json::Value::String(text) = value {
        return brief(text);
    }
    let text = value.to_string();
    let shown: String = text.chars().take(WIDTH).collect();
    let more = if shown.len() < text.len() { "…" } else { "" };
    format!("{shown}{more}")
}

/// What stands at a place of the file: texts quoted, everything else by its kind.
pub(super) fn told(node: &Node) -> String {
    match &node.value {
        Value::Scalar(text) => brief(text),
        Value::List(_) => "a list".to_owned(),
        Value::Map(_) => "a map".to_owned(),
    }
}

/// What a stranger wrote, quoted and cut to what fits in a sentence.
pub(super) fn brief(text: &str) -> String {
    let quoted: String = text.chars().take(WIDTH).collect();
    let more = if quoted.len() < text.len() { "…" } else { "" };
    format!("{}{more}", serde_json::Value::from(quoted))
}

/// The known word that is nearest to one that is not known, as a way out; otherwise all of them.
pub(super) fn nearest<'w>(word: &str, known: impl Iterator<Item = &'w str> + Clone) -> String {
    if let Some(near) = near(word, known.clone()) {
        return format!("did you mean {near}?");
    }
    listed(known)
}

/// The known word that one was probably meant to be.
pub(super) fn near<'w>(word: &str, known: impl Iterator<Item = &'w str>) -> Option<&'w str> {
    let distance = |known: &&str| strsim::osa_distance(known, word);
    let slips = (word.chars().count() / 3).min(2);
    // Comparing takes time with the length of both.
    let near = known.filter(|known| word.len() <= 100 && known.len() <= 100 && distance(known) <= slips);
    near.min_by_key(distance)
}

/// The first of the known words.
pub(super) fn listed<'w>(known: impl Iterator<Item = &'w str> + Clone) -> String {
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
