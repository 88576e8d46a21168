//! Makes texts and values of a run fit to be read by a model: without secrets that are known by their form, without encoded forms of the
//! run's own secrets, without orders to a terminal, and with what nobody sees spelled out.
//!
//! All else stays as it is, byte by byte. A value is changed text by text, so it keeps its structure. What was changed once is not changed
//! again. Secrets are known only where they begin and end like words: this guards against leaks, not against a script that hides them.

mod edit;
mod known_secrets;
mod private_key;
mod secret_family;
mod unseen;

use std::borrow::Cow;
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use self::edit::{Edit, apply, apply_to_lines};
use self::known_secrets::known_secret_edits;
use self::secret_family::Surroundings;
use self::unseen::unseen_edits;
use crate::error::SkillError;
use crate::host::{EncodedSecrets, LogLine, ProcessReport, Redaction, StepReport};
use crate::unicode::spell_out;

/// Changes what a model reads of one run, and counts the places.
#[derive(Default)]
pub struct Sanitizer {
    encoded: Option<EncodedSecrets>,
    changes: Cell<u64>,
}

impl Sanitizer {
    /// Also replaces the encoded forms of all secrets that this redaction knows by now.
    pub fn for_secrets_of(redaction: &Redaction) -> Self {
        Self { encoded: redaction.encoded_secrets(), changes: Cell::new(0) }
    }

    /// How many places were changed so far.
    pub fn changes(&self) -> u64 {
        self.changes.get()
    }

    /// The text as a model may read it.
    pub fn text(&self, text: String) -> String {
        self.cut_text(text, false)
    }

    /// The same; if the text was cut at its end, the beginning of a secret there is removed.
    pub fn cut_text(&self, text: String, is_cut: bool) -> String {
        match self.edits(&text, is_cut) {
            edits if edits.is_empty() => text,
            edits => apply(&text, &edits),
        }
    }

    /// Consecutive lines, of which a secret may take several.
    pub fn lines(&self, lines: Vec<String>) -> Vec<String> {
        match self.edits(&lines.join("\n"), false) {
            edits if edits.is_empty() => lines,
            edits => apply_to_lines(&lines, &edits),
        }
    }

    /// The value, with its texts and keys changed at any depth. Keys that become equal get numbers.
    pub fn value(&self, mut value: Value) -> Value {
        self.change_value(&mut value, false);
        value
    }

    /// The same; if the value is a text that was cut at its end, the beginning of a secret there is removed.
    pub fn cut_value(&self, mut value: Value, is_cut: bool) -> Value {
        self.change_value(&mut value, is_cut);
        value
    }

    /// The log.
    pub fn log(&self, log: Vec<LogLine>) -> Vec<LogLine> {
        let (levels, messages): (Vec<_>, Vec<_>) =
            log.into_iter().map(|line| (line.level, line.message)).unzip();
        let messages = self.lines(messages);
        levels.into_iter().zip(messages).map(|(level, message)| LogLine { level, message }).collect()
    }

    /// The report, with its texts changed.
    pub fn process(&self, mut report: ProcessReport) -> ProcessReport {
        report.stdout = self.cut_text(report.stdout, report.stdout_truncated);
        report.stderr = self.text(report.stderr);
        for refused in report.network.iter_mut().flat_map(|network| &mut network.refused) {
            for text in [&mut refused.host, &mut refused.reason].into_iter().chain(&mut refused.permission) {
                *text = self.text(std::mem::take(text));
            }
        }
        report
    }

    /// The reports, with their texts changed.
    pub fn steps(&self, mut steps: Vec<StepReport>) -> Vec<StepReport> {
        for step in &mut steps {
            self.change_value(&mut step.value, false);
            self.change_value(&mut step.input, false);
            step.error = step.error.take().map(|error| self.text(error));
        }
        steps
    }

    /// The error, with its texts changed.
    pub fn error(&self, error: SkillError) -> SkillError {
        let before = self.changes();
        let changed = error.map_texts(|text| self.text(text.to_owned()));
        if self.changes() == before { error } else { changed }
    }

    fn change_value(&self, value: &mut Value, is_cut: bool) {
        match value {
            Value::String(text) => {
                let edits = self.edits(text, is_cut);
                if !edits.is_empty() {
                    *text = apply(text, &edits);
                }
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.change_value(item, false)),
            Value::Object(entries) => {
                entries.values_mut().for_each(|value| self.change_value(value, false));
                self.change_keys(entries);
            }
            _ => {}
        }
    }

    fn change_keys(&self, entries: &mut Map<String, Value>) {
        let edits: Vec<Vec<Edit>> = entries.keys().map(|key| self.edits(key, false)).collect();
        if edits.iter().all(Vec::is_empty) {
            return;
        }
        // A key that stays as it is keeps its name.
        let unchanged = entries.keys().zip(&edits).filter(|(_, edits)| edits.is_empty());
        let mut names: BTreeSet<String> = unchanged.map(|(key, _)| key.clone()).collect();
        let mut counts: BTreeMap<String, u64> = BTreeMap::new();
        let rename = |((key, value), edits): ((String, Value), Vec<Edit>)| {
            if edits.is_empty() {
                return (key, value);
            }
            let plain = apply(&key, &edits);
            let count = counts.entry(plain.clone()).or_insert(1);
            let mut name = plain.clone();
            while !names.insert(name.clone()) {
                *count += 1;
                name = format!("{plain} ({count})");
            }
            (name, value)
        };
        *entries = std::mem::take(entries).into_iter().zip(edits).map(rename).collect();
    }

    /// The changes that a text needs, in its order.
    fn edits(&self, text: &str, is_cut: bool) -> Vec<Edit> {
        let unseen = unseen_edits(text);
        let edits = if unseen.is_empty() {
            self.secret_edits(text, &|_| false, is_cut)
        } else {
            self.edits_of_seen(text, unseen, is_cut)
        };
        self.changes.set(self.changes.get() + edits.len() as u64);
        edits
    }

    /// The same for a text with characters that nobody sees: they may stand in the midst of a secret, or where it begins or ends.
    fn edits_of_seen(&self, text: &str, unseen: Vec<Edit>, is_cut: bool) -> Vec<Edit> {
        let seen = SeenText::new(text, &unseen);
        let secrets = self.secret_edits(&seen.text, &|at| seen.is_junction(at), is_cut);
        let secrets: Vec<Edit> = secrets.into_iter().map(|edit| seen.in_whole_text(edit)).collect();
        let mut edits = Vec::with_capacity(unseen.len() + secrets.len());
        let mut unseen = unseen.into_iter().peekable();
        for secret in secrets {
            while let Some(edit) = unseen.next_if(|edit| edit.range.start < secret.range.end) {
                if edit.range.start < secret.range.start {
                    edits.push(edit);
                }
            }
            edits.push(secret);
        }
        edits.extend(unseen);
        edits
    }

    fn secret_edits(&self, text: &str, is_junction: &dyn Fn(usize) -> bool, is_cut: bool) -> Vec<Edit> {
        let mut edits = known_secret_edits(text, &Surroundings { is_junction, is_cut });
        if let Some(encoded) = &self.encoded {
            let found = encoded.find(text, is_cut);
            edits.extend(found.into_iter().map(|(range, name)| Edit::new(range, name)));
            edits.sort_by_key(|edit| (edit.range.start, edit.range.end));
            edits.dedup_by(|next, edit| {
                let is_overlap = next.range.start < edit.range.end;
                if is_overlap {
                    edit.range.end = edit.range.end.max(next.range.end);
                }
                is_overlap
            });
        }
        edits
    }
}

/// A text that is not the result of a run, such as the description of a skill, as a model may read it: secrets that are known by their
/// form are replaced, and everything that nobody sees is spelled out, orders to a terminal too.
pub fn text_for_model(text: &str) -> String {
    spell_out(&without_known_secrets(text))
}

/// A text in which names stand for secrets that are known by their form.
pub fn without_known_secrets(text: &str) -> Cow<'_, str> {
    match known_secret_edits(text, &Surroundings { is_junction: &|_| false, is_cut: false }) {
        edits if edits.is_empty() => Cow::Borrowed(text),
        edits => apply(text, &edits).into(),
    }
}

/// [`text_for_model`] for all texts in a value, and for the names of its fields. In a schema a name or a choice that is changed is
/// another one, which no call can name: what a model cannot be shown as it is, it cannot choose.
pub fn json_for_model(value: Value) -> Value {
    match value {
        Value::String(text) => Value::String(text_for_model(&text)),
        Value::Array(items) => items.into_iter().map(json_for_model).collect(),
        Value::Object(fields) => {
            fields.into_iter().map(|(name, value)| (text_for_model(&name), json_for_model(value))).collect()
        }
        other => other,
    }
}

/// A text without what nobody sees, and where its parts come from.
struct SeenText {
    text: String,
    /// Where each part begins in it, and in the whole text.
    parts: Vec<(usize, usize)>,
}

impl SeenText {
    fn new(whole: &str, unseen: &[Edit]) -> Self {
        let (mut text, mut parts, mut done) = (String::with_capacity(whole.len()), Vec::new(), 0);
        let end = whole.len()..whole.len();
        for range in unseen.iter().map(|edit| &edit.range).chain(std::iter::once(&end)) {
            if range.start > done {
                parts.push((text.len(), done));
                text.push_str(&whole[done..range.start]);
            }
            done = range.end;
        }
        Self { text, parts }
    }

    /// Whether something was taken out there.
    fn is_junction(&self, at: usize) -> bool {
        self.parts.binary_search_by_key(&at, |(start, _)| *start).is_ok()
    }

    fn in_whole_text(&self, edit: Edit) -> Edit {
        let place = |at: usize| {
            let (start, place) = self.parts[self.parts.partition_point(|(start, _)| *start <= at) - 1];
            place + (at - start)
        };
        // It has at least one character.
        Edit { range: place(edit.range.start)..place(edit.range.end - 1) + 1, ..edit }
    }
}

#[cfg(test)]
mod tests;
