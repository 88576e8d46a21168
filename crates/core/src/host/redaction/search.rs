//! The search for all secrets of a run in texts and values, and their replacement by placeholders.

use std::collections::BTreeMap;
use std::ops::Range;

use serde_json::{Map, Value};

use super::finder::{SecretFinder, SecretMatch, WhitespaceMode, push_merged, significant_chars};
use super::forms::{MIN_SECRET_LINE_CHARS, base64_forms, encoded_forms};
use super::redacted::Secret;
use crate::unicode::parts_between_colours;

/// The search for all secrets.
pub(super) struct SecretSearch {
    /// Secrets so short that they are searched for exactly.
    short: Option<SecretFinder>,
    long: Option<SecretFinder>,
    placeholders: Vec<String>,
}

impl SecretSearch {
    pub(super) fn new(secrets: &[Secret]) -> Self {
        Self::with_forms(secrets, encoded_forms)
    }

    /// The search for what base64 makes of them.
    fn for_base64(secrets: &[Secret]) -> Self {
        Self::with_forms(secrets, base64_forms)
    }

    fn with_forms(secrets: &[Secret], forms: fn(&str) -> Vec<String>) -> Self {
        let forms = secrets.iter().map(|secret| forms(&secret.value));
        let forms: Vec<(String, usize)> =
            forms.enumerate().flat_map(|(at, forms)| forms.into_iter().map(move |form| (form, at))).collect();
        let (long, short): (Vec<_>, Vec<_>) =
            forms.into_iter().partition(|(form, _)| significant_chars(form) >= MIN_SECRET_LINE_CHARS);
        let finder = |forms: &[(String, usize)], whitespace| {
            SecretFinder::new(forms.iter().map(|(form, secret)| (form.as_str(), *secret)), whitespace)
        };
        Self {
            short: finder(&short, WhitespaceMode::Significant),
            long: finder(&long, WhitespaceMode::Ignored),
            placeholders: secrets.iter().map(|secret| secret.placeholder.clone()).collect(),
        }
    }

    /// The secrets in the text as it is, and as it is where orders to a terminal are left out: one may have a colour in its midst.
    pub(super) fn find_matches(&self, text: &str, is_cut: bool) -> Vec<SecretMatch> {
        let mut matches = self.find_unbroken(text, is_cut);
        if let Some(parts) = parts_between_colours(text) {
            matches = merge_matches(matches, self.find_in_parts(text, parts, is_cut));
        }
        if !matches.is_empty() {
            let placeholders = self.placeholders_in(text);
            // Otherwise a secret that is part of a name would grow each time the same text is redacted.
            let is_placeholder = |found: &SecretMatch| {
                placeholders.iter().any(|(start, end)| *start <= found.start && found.end <= *end)
            };
            matches.retain(|found| !is_placeholder(found));
        }
        matches
    }

    fn find_unbroken(&self, text: &str, is_cut: bool) -> Vec<SecretMatch> {
        let matches = |finder: &Option<SecretFinder>| {
            finder.as_ref().map_or_else(Vec::new, |finder| finder.find_matches(text, is_cut))
        };
        let (short, long) = (matches(&self.short), matches(&self.long));
        match (short.is_empty(), long.is_empty()) {
            (true, _) => long,
            (_, true) => short,
            _ => merge_matches(short, long),
        }
    }

    /// The secrets in these parts of the text together, each with what stands between its parts.
    fn find_in_parts(
        &self,
        text: &str,
        parts: impl Iterator<Item = Range<usize>>,
        is_cut: bool,
    ) -> Vec<SecretMatch> {
        let (mut plain, mut places) = (String::with_capacity(text.len()), Vec::new());
        for part in parts.filter(|part| !part.is_empty()) {
            places.push((plain.len(), part.start));
            plain.push_str(&text[part]);
        }
        let place_of = |at: usize| {
            let (start, place) = places[places.partition_point(|(start, _)| *start <= at) - 1];
            place + (at - start)
        };
        let in_text = |mut found: SecretMatch| {
            (found.start, found.end) = (place_of(found.start), place_of(found.end - 1) + 1);
            found
        };
        self.find_unbroken(&plain, is_cut).into_iter().map(in_text).collect()
    }

    /// The ranges that placeholders already occupy.
    fn placeholders_in(&self, text: &str) -> Vec<(usize, usize)> {
        let is_one = |rest: &str| {
            self.placeholders.iter().find(|text| rest.starts_with(text.as_str())).map(String::len)
        };
        let starts = text.match_indices("[secret:");
        starts.filter_map(|(at, _)| Some((at, at + is_one(&text[at..])?))).collect()
    }

    pub(super) fn placeholder(&self, found: &SecretMatch) -> &str {
        found.secret.map_or("", |secret| &self.placeholders[secret])
    }

    pub(super) fn redact_text(&self, text: String, is_cut: bool) -> String {
        let matches = self.find_matches(&text, is_cut);
        self.replace_matches(text, matches)
    }

    pub(super) fn replace_matches(&self, text: String, matches: Vec<SecretMatch>) -> String {
        if matches.is_empty() {
            return text;
        }
        let (mut clean, mut done) = (String::with_capacity(text.len()), 0);
        for found in matches {
            clean.push_str(&text[done..found.start]);
            clean.push_str(self.placeholder(&found));
            done = found.end;
        }
        clean.push_str(&text[done..]);
        clean
    }

    pub(super) fn redact_value(&self, value: Value) -> Value {
        match value {
            Value::String(text) => Value::String(self.redact_text(text, false)),
            Value::Array(items) => items.into_iter().map(|item| self.redact_value(item)).collect(),
            Value::Object(entries) => Value::Object(self.redact_entries(entries)),
            Value::Number(number) => match self.placeholder_for(&number.to_string()) {
                Some(placeholder) => Value::String(placeholder),
                None => Value::Number(number),
            },
            other => other,
        }
    }

    /// Keys that become equal get different names, so that no entry is lost.
    fn redact_entries(&self, entries: Map<String, Value>) -> Map<String, Value> {
        let mut clean = Map::new();
        let mut alike: BTreeMap<String, usize> = BTreeMap::new();
        for (key, value) in entries {
            let key = self.redact_text(key, false);
            let mut own = key.clone();
            let count = alike.entry(key).or_default();
            own.extend(std::iter::repeat_n('\'', *count));
            while clean.contains_key(&own) {
                own.push('\'');
                *count += 1;
            }
            *count += 1;
            clean.insert(own, self.redact_value(value));
        }
        clean
    }

    fn placeholder_for(&self, text: &str) -> Option<String> {
        match self.find_matches(text, false)[..] {
            [ref found] if (found.start, found.end) == (0, text.len()) => {
                Some(self.placeholder(found).to_owned())
            }
            _ => None,
        }
    }
}

/// Whether a text has nothing but blanks and orders to a terminal, or the beginning of one.
pub(super) fn is_blank(text: &str) -> bool {
    match parts_between_colours(text) {
        Some(mut parts) => parts.all(|part| significant_chars(&text[part]) == 0),
        None => significant_chars(text) == 0,
    }
}

/// Both lists, in the order of the text; overlapping matches become one.
fn merge_matches(some: Vec<SecretMatch>, others: Vec<SecretMatch>) -> Vec<SecretMatch> {
    let mut all = [some, others].concat();
    all.sort_by_key(|found| (found.end, found.start));
    let mut matches = Vec::with_capacity(all.len());
    for found in all {
        push_merged(&mut matches, found);
    }
    matches
}

/// The search for the secrets of a run in what is encoded.
pub struct EncodedSecrets(SecretSearch);

impl EncodedSecrets {
    pub(super) fn new(secrets: &[Secret]) -> Self {
        Self(SecretSearch::for_base64(secrets))
    }

    /// Where they are in a text, in its order, each with its placeholder; `is_cut` if the text was cut at its end.
    pub fn find(&self, text: &str, is_cut: bool) -> Vec<(Range<usize>, String)> {
        let matches = self.0.find_matches(text, is_cut);
        matches.iter().map(|found| (found.start..found.end, self.0.placeholder(found).to_owned())).collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::error::{ErrorKind, SkillError};
    use crate::host::ProcessReport;
    use crate::host::redaction::Redaction;

    #[test]
    fn a_secret_with_a_colour_after_each_letter_leaves_in_nothing() {
        let value = "s3cret-value-of-mine";
        let redaction = Redaction::default();
        redaction.learn("KEY", value);
        for colour in
            ["\u{1b}[1;31m", "\u{9b}0m", "\u{1b}]8;;https://x\u{7}", r"\u001b[31m", r"\x1b[K", r"\\u001b[m"]
        {
            let coloured: String =
                value.chars().flat_map(|c| std::iter::once(c).chain(colour.chars())).collect();
            let text = format!("a {coloured} b");
            let clean = format!("a [secret:KEY]{colour} b");
            let own = || text.clone();
            assert_eq!(redaction.text(own()).as_inner(), &clean);
            assert_eq!(redaction.lines(vec!["x".into(), own()]).as_inner(), &["x", &clean]);
            let value = redaction.value(json!({"k": [own()], own(): 1})).into_inner();
            assert_eq!(value, json!({"k": [clean], clean.clone(): 1}));
            assert_eq!(redaction.text_prefix(text[..text.len() - 4].into()).as_inner().find("s3"), None);
            let error = SkillError::new(ErrorKind::Tool, own()).with_help(own()).with_traceback(vec![own()]);
            let error = redaction.error(error).into_inner();
            let texts = [error.message(), error.help().unwrap(), &error.traceback()[0]];
            assert_eq!(texts, [clean.as_str(); 3]);
            let report = ProcessReport { stdout: own(), stderr: own(), ..ProcessReport::default() };
            let report = redaction.process(report).into_inner();
            assert_eq!([&report.stdout, &report.stderr], [&clean; 2]);
            assert!(redaction.contains_secret(&text) && redaction.holds_secret(&json!([own()])));
            let letters: Vec<char> = text.chars().collect();
            for size in 1..=letters.len() {
                let (mut held, mut shown) = (String::new(), String::new());
                for piece in letters.chunks(size) {
                    shown += redaction.take_decided(&mut held, &String::from_iter(piece)).as_inner();
                }
                shown += redaction.text(held).as_inner();
                assert_eq!(shown, clean, "pieces of {size}");
            }
        }
    }
}
