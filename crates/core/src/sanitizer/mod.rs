//! Makes texts and values of a run fit to be read by a model: without secrets that are known by their form, without encoded forms of the
//! run's own secrets, without orders to a terminal, and with what nobody sees spelled out.
//!
//! All else stays as it is, byte by byte. A value is changed text by text, so it keeps its structure. What was changed once is not changed
//! again. Secrets are known only where they begin and end like words: this guards against leaks, not against a script that hides them.

mod edit;
mod known_secrets;
mod profile;
mod unseen;

use std::borrow::Cow;
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use self::edit::{Edit, apply, apply_to_lines};
use self::known_secrets::known_secret_edits;
pub use self::profile::SanitizeProfile;
use self::profile::without_role_tags;
use self::unseen::unseen_edits;
use crate::error::{ErrorContext, SkillError};
use crate::host::{EncodedSecrets, LogLine, ProcessReport, Redaction, StepReport};
use crate::secret_family::Surroundings;
use crate::unicode::spell_out;

/// Changes what a model reads of one run, and counts the places.
#[derive(Default)]
pub struct Sanitizer {
    encoded: Option<EncodedSecrets>,
    profile: Option<SanitizeProfile>,
    changes: Cell<u64>,
}

/// Maximum characters of the texts of a value together, and what stands in place of the rest, for Curia.
const MAX_CURIA_CHARS: usize = 10_000;
const TRUNCATED: &str = "[truncated]";

impl Sanitizer {
    /// Also replaces the encoded forms of all secrets that this redaction knows by now.
    pub fn for_secrets_of(redaction: &Redaction) -> Self {
        Self { encoded: redaction.encoded_secrets(), ..Self::default() }
    }

    /// The same with the changes of a profile.
    pub fn with_profile(self, profile: Option<SanitizeProfile>) -> Self {
        Self { profile, ..self }
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
        self.changed(&text, is_cut).unwrap_or(text)
    }

    /// Consecutive lines, of which a secret may take several.
    pub fn lines(&self, lines: Vec<String>) -> Vec<String> {
        let lines = match self.edits(&lines.join("\n"), false) {
            edits if edits.is_empty() => lines,
            edits => apply_to_lines(&lines, &edits),
        };
        let without_tags = |line: String| self.without_role_tags(&line).unwrap_or(line);
        lines.into_iter().map(without_tags).collect()
    }

    /// The value, with its texts and keys changed at any depth. Keys that become equal get numbers.
    pub fn value(&self, value: Value) -> Value {
        self.cut_value(value, false)
    }

    /// The same; if the value is a text that was cut at its end, the beginning of a secret there is removed.
    pub fn cut_value(&self, mut value: Value, is_cut: bool) -> Value {
        self.change_value(&mut value, is_cut);
        if self.profile.is_some() {
            let mut left = MAX_CURIA_CHARS;
            self.truncate_texts(&mut value, &mut left);
        }
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
        for file in &mut report.left {
            file.path = self.text(std::mem::take(&mut file.path));
        }
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
        let change = |text: &str| match self.text(text.to_owned()) {
            changed if self.profile.is_some() && text == error.message() => {
                self.count(1);
                format!("<tool_error>{}</tool_error>", changed.replace('<', "&lt;"))
            }
            changed => changed,
        };
        let changed = error.map_texts(change);
        if self.changes() == before { error } else { changed }
    }

    fn change_value(&self, value: &mut Value, is_cut: bool) {
        match value {
            Value::String(text) => {
                if let Some(changed) = self.changed(text, is_cut) {
                    *text = changed;
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
        let changed: Vec<Option<String>> = entries.keys().map(|key| self.changed(key, false)).collect();
        if changed.iter().all(Option::is_none) {
            return;
        }
        // A key that stays as it is keeps its name.
        let unchanged = entries.keys().zip(&changed).filter(|(_, changed)| changed.is_none());
        let mut names: BTreeSet<String> = unchanged.map(|(key, _)| key.clone()).collect();
        let mut counts: BTreeMap<String, u64> = BTreeMap::new();
        let rename = |((key, value), changed): ((String, Value), Option<String>)| {
            let Some(plain) = changed else { return (key, value) };
            let count = counts.entry(plain.clone()).or_insert(1);
            let mut name = plain.clone();
            while !names.insert(name.clone()) {
                *count += 1;
                name = format!("{plain} ({count})");
            }
            (name, value)
        };
        *entries = std::mem::take(entries).into_iter().zip(changed).map(rename).collect();
    }

    /// The text with all that is changed in it; `None` if that is nothing.
    fn changed(&self, text: &str, is_cut: bool) -> Option<String> {
        let clean = match self.edits(text, is_cut) {
            edits if edits.is_empty() => None,
            edits => Some(apply(text, &edits)),
        };
        self.without_role_tags(clean.as_deref().unwrap_or(text)).or(clean)
    }

    fn without_role_tags(&self, text: &str) -> Option<String> {
        let (clean, removed) = self.profile.and_then(|_| without_role_tags(text))?;
        self.count(removed);
        Some(clean)
    }

    /// Cuts the texts of a value that have more characters together than are left, and counts what they have.
    fn truncate_texts(&self, value: &mut Value, left: &mut usize) {
        match value {
            Value::String(text) => match text.char_indices().nth(*left) {
                Some((end, _)) => {
                    self.count(1);
                    text.replace_range(end.., TRUNCATED);
                    *left = 0;
                }
                None => *left -= text.chars().count(),
            },
            Value::Array(items) => items.iter_mut().for_each(|item| self.truncate_texts(item, left)),
            Value::Object(entries) => entries.values_mut().for_each(|item| self.truncate_texts(item, left)),
            _ => {}
        }
    }

    fn count(&self, places: u64) {
        self.changes.set(self.changes.get() + places);
    }

    /// The changes that a text needs, in its order.
    fn edits(&self, text: &str, is_cut: bool) -> Vec<Edit> {
        let unseen = unseen_edits(text);
        let edits = if unseen.is_empty() {
            self.secret_edits(text, None, is_cut)
        } else {
            self.edits_of_seen(text, unseen, is_cut)
        };
        self.count(edits.len() as u64);
        edits
    }

    /// The same for a text with characters that nobody sees: they may stand in the midst of a secret, or where it begins or ends.
    fn edits_of_seen(&self, text: &str, unseen: Vec<Edit>, is_cut: bool) -> Vec<Edit> {
        let seen = SeenText::new(text, &unseen);
        let secrets = self.secret_edits(&seen.text, Some(&|at| seen.is_junction(at)), is_cut);
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

    fn secret_edits(
        &self,
        text: &str,
        is_junction: Option<&dyn Fn(usize) -> bool>,
        is_cut: bool,
    ) -> Vec<Edit> {
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
    match known_secret_edits(text, &Surroundings { is_junction: None, is_cut: false }) {
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
