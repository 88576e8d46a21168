//! Secrets a run was handed, and their values taken out of everything that leaves it.
//!
//! A value is found as it is, without the blanks around it, and as JSON writes it. One that a script splits over two log
//! lines, encodes or reverses is beyond this: it guards against leaks, not against the skill that was given the secret.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{PoisonError, RwLock};

use serde_json::{Map, Value};

use super::report::ProcessReport;
use crate::error::{Location, SkillError, Violation};

/// The secrets of one run, those of the skills it called included. Without any, nothing is looked at or copied.
#[derive(Default)]
pub(crate) struct Redaction {
    is_needed: AtomicBool,
    /// What is looked for, longest first.
    marked: RwLock<Vec<Marked>>,
}

/// A text that must not leave, and what stands in its place.
#[derive(Clone)]
struct Marked {
    text: String,
    mark: String,
}

impl Redaction {
    /// From now on `value` leaves as `[secret:NAME]`.
    pub(crate) fn learn(&self, name: &str, value: &str) {
        let mut marked = self.marked.write().unwrap_or_else(PoisonError::into_inner);
        for text in forms(value) {
            if !marked.iter().any(|known| known.text == text) {
                marked.push(Marked { text, mark: format!("[secret:{name}]") });
            }
        }
        marked.sort_by_key(|known| std::cmp::Reverse(known.text.len()));
        self.is_needed.store(true, Ordering::Release);
    }

    /// From now on what others were handed leaves by its name as well.
    #[cfg_attr(not(unix), allow(dead_code, reason = "only processes know secrets of earlier runs"))]
    pub(crate) fn learn_from(&self, others: &Self) {
        if !others.is_needed.load(Ordering::Acquire) || std::ptr::eq(self, others) {
            return;
        }
        let others = others.marked.read().unwrap_or_else(PoisonError::into_inner);
        let mut marked = self.marked.write().unwrap_or_else(PoisonError::into_inner);
        for other in others.iter() {
            if !marked.iter().any(|known| known.text == other.text) {
                marked.push(other.clone());
            }
        }
        marked.sort_by_key(|known| std::cmp::Reverse(known.text.len()));
        self.is_needed.store(true, Ordering::Release);
    }

    /// The text without secrets.
    pub(crate) fn text(&self, text: String) -> String {
        if !self.is_needed.load(Ordering::Acquire) {
            return text;
        }
        let marked = self.marked.read().unwrap_or_else(PoisonError::into_inner);
        without(&marked, &text).unwrap_or(text)
    }

    /// The value without secrets, in strings and keys at any depth; a number that spells a secret becomes its mark.
    pub(crate) fn value(&self, value: Value) -> Value {
        if !self.is_needed.load(Ordering::Acquire) {
            return value;
        }
        match value {
            Value::String(text) => Value::String(self.text(text)),
            Value::Array(items) => items.into_iter().map(|item| self.value(item)).collect(),
            Value::Object(entries) => Value::Object(self.entries(entries)),
            Value::Number(number) => match self.mark_of(&number.to_string()) {
                Some(mark) => Value::String(mark),
                None => Value::Number(number),
            },
            other => other,
        }
    }

    /// The error without secrets. What lies underneath is for whoever debugs the host and is left behind.
    pub(crate) fn error(&self, error: SkillError) -> SkillError {
        if !self.is_needed.load(Ordering::Acquire) {
            return error;
        }
        let text = |text: &str| self.text(text.to_owned());
        let traceback = error.traceback().iter().map(|frame| text(frame)).collect();
        let violation = |violation: &Violation| Violation {
            path: text(&violation.path),
            keyword: violation.keyword.clone(),
            expected: text(&violation.expected),
            found: text(&violation.found),
        };
        let mut clean = SkillError::new(error.kind(), text(error.message()))
            .with_traceback(traceback)
            .with_violations(error.violations().iter().map(violation).collect());
        if let Some(help) = error.help() {
            clean = clean.with_help(text(help));
        }
        match error.location() {
            Some(at) => clean.with_location(Location { file: text(&at.file), ..at.clone() }),
            None => clean,
        }
    }

    /// The report with what the process said, without secrets.
    pub(crate) fn process(&self, report: ProcessReport) -> ProcessReport {
        let stream = |text, is_cut| if is_cut { self.beginning(text) } else { self.text(text) };
        ProcessReport {
            stdout: stream(report.stdout, report.stdout_truncated),
            stderr: stream(report.stderr, report.stderr_truncated),
            ..report
        }
    }

    /// The beginning of a longer text, without secrets, the one included that it ends in the midst of.
    pub(crate) fn beginning(&self, text: String) -> String {
        let mut text = self.text(text);
        if self.is_needed.load(Ordering::Acquire) {
            let marked = self.marked.read().unwrap_or_else(PoisonError::into_inner);
            let begun = marked.iter().map(|known| begun_at_the_end(&text, &known.text)).max().unwrap_or(0);
            text.truncate(text.len() - begun);
        }
        text
    }

    /// Keys that become alike are told apart, so that no entry is lost.
    fn entries(&self, entries: Map<String, Value>) -> Map<String, Value> {
        let mut clean = Map::new();
        for (key, value) in entries {
            let mut key = self.text(key);
            while clean.contains_key(&key) {
                key.push('\'');
            }
            clean.insert(key, self.value(value));
        }
        clean
    }

    fn mark_of(&self, text: &str) -> Option<String> {
        let marked = self.marked.read().unwrap_or_else(PoisonError::into_inner);
        marked.iter().find(|known| known.text == text).map(|known| known.mark.clone())
    }
}

/// The ways a value is written: as it is, without the line's end it was stored with, and inside a JSON string.
fn forms(value: &str) -> Vec<String> {
    let mut forms = Vec::new();
    for plain in [value, value.trim()] {
        forms.extend([
            plain.to_owned(),
            in_json(plain),
            in_json(plain).replace('/', "\\/"),
            in_ascii_json(plain),
        ]);
    }
    forms.retain(|form| !form.is_empty());
    forms
}

/// How many bytes of a secret stand at the very end of the text, which was cut there.
fn begun_at_the_end(text: &str, secret: &str) -> usize {
    let beginnings = secret.char_indices().map(|(at, _)| at).rev();
    beginnings.into_iter().find(|length| text.ends_with(&secret[..*length])).unwrap_or(0)
}

/// As it stands between the quotes of a JSON string.
fn in_json(text: &str) -> String {
    let quoted = Value::from(text).to_string();
    quoted[1..quoted.len() - 1].to_owned()
}

/// As Python and others write it, who escape every letter beyond ASCII.
fn in_ascii_json(text: &str) -> String {
    let mut ascii = String::new();
    for letter in in_json(text).chars() {
        if letter.is_ascii() {
            ascii.push(letter);
        } else {
            ascii.extend(letter.encode_utf16(&mut [0; 2]).iter().map(|unit| format!("\\u{unit:04x}")));
        }
    }
    ascii
}

/// One text that is looked for, and where it stands next.
struct Search<'a> {
    known: &'a Marked,
    next: Option<usize>,
}

impl Search<'_> {
    /// Goes on to the next place, which may overlap this one.
    fn advance(&mut self, text: &str) {
        self.next = self.next.and_then(|at| {
            let from = at + text[at..].chars().next().map_or(1, char::len_utf8);
            text[from..].find(&self.known.text).map(|further| from + further)
        });
    }
}

/// The text with marks, or nothing where no secret is in it.
fn without(marked: &[Marked], text: &str) -> Option<String> {
    let search = |known| -> Search<'_> { Search { known, next: text.find(&known.text) } };
    let mut searches: Vec<Search> =
        marked.iter().map(search).filter(|search| search.next.is_some()).collect();
    if searches.is_empty() {
        return None;
    }
    let (mut clean, mut done) = (String::with_capacity(text.len()), 0);
    while let Some(start) = searches.iter().filter_map(|search| search.next).min() {
        let (end, mark) = covered(&mut searches, text, start);
        clean.push_str(&text[done..start]);
        clean.push_str(mark);
        done = end;
    }
    clean.push_str(&text[done..]);
    Some(clean)
}

/// Where the secrets end that begin at `start` or overlap there, and the mark of the longest. They are one stretch, so that
/// no rest of any is left.
fn covered<'a>(searches: &mut [Search<'a>], text: &str, start: usize) -> (usize, &'a str) {
    let (mut end, mut longest, mut mark) = (start, 0, "");
    let overlaps = |search: &Search, end| search.next.is_some_and(|at| at == start || at < end);
    while let Some(search) = searches.iter_mut().find(|search| overlaps(search, end)) {
        let length = search.known.text.len();
        end = end.max(search.next.unwrap_or_default() + length);
        if length > longest {
            (longest, mark) = (length, &search.known.mark);
        }
        search.advance(text);
    }
    (end, mark)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;
    use serde_json::json;

    fn redaction(secrets: &[(&str, &str)]) -> Redaction {
        let redaction = Redaction::default();
        for (name, value) in secrets {
            redaction.learn(name, value);
        }
        redaction
    }

    #[track_caller]
    fn leaves(secrets: &[(&str, &str)], text: &str, expected: &str) {
        assert_eq!(redaction(secrets).text(text.into()), expected);
    }

    #[test]
    fn a_secret_leaves_as_its_name() {
        leaves(&[("KEY", "s3cret")], "Bearer s3cret, s3cret", "Bearer [secret:KEY], [secret:KEY]");
        leaves(&[("KEY", "s3cret")], "S3CRET", "S3CRET");
        leaves(&[], "s3cret", "s3cret");
    }

    #[test]
    fn a_secret_that_was_cut_in_its_midst_leaves_no_beginning() {
        let redaction = redaction(&[("KEY", "s3cret"), ("OTHER", "t-o-k-é-n")]);
        for (text, left) in [
            ("it is s3cre", "it is "),
            ("it is s", "it is "),
            ("it is s3cret", "it is [secret:KEY]"),
            ("s3crets3cr", "[secret:KEY]"),
            ("t-o-k-é", ""),
            ("nothing", "nothing"),
            ("", ""),
        ] {
            assert_eq!(redaction.beginning(text.into()), left, "{text}");
        }
    }

    #[test]
    fn one_secret_inside_or_across_another_leaves_no_rest() {
        leaves(&[("A", "abc"), ("B", "xabcx")], "xabcx abc", "[secret:B] [secret:A]");
        leaves(&[("A", "abcX"), ("B", "Xdef")], "abcXdef", "[secret:A]");
        leaves(&[("A", "aba")], "ababab", "[secret:A]b");
        leaves(&[("A", "ää")], "äää", "[secret:A]");
        leaves(&[("A", "ab")], "abab", "[secret:A][secret:A]");
        leaves(&[("A", "secret"), ("B", "longer")], "longer secret", "[secret:B] [secret:A]");
    }

    #[test]
    fn a_secret_is_known_as_json_writes_it_and_without_the_blanks_around_it() {
        let value = "a\"b\\c\n/grüße😀";
        let redaction = redaction(&[("KEY", value)]);
        let plain = json!({"k": value}).to_string();
        for text in [
            plain.clone(),
            plain.replace('/', "\\/"),
            plain.replace("üß", "\\u00fc\\u00df").replace('😀', "\\ud83d\\ude00"),
        ] {
            assert_eq!(redaction.text(text), r#"{"k":"[secret:KEY]"}"#);
        }
        leaves(&[("KEY", "token\n")], "token\n token", "[secret:KEY] [secret:KEY]");
    }

    #[test]
    fn values_lose_secrets_in_strings_keys_and_numbers_and_nothing_else() {
        let redaction = redaction(&[("PIN", "4711"), ("KEY", "s3cret")]);
        let value =
            json!({"s3cret": [{"deep": {"s3cret!": null}}, 4711, 47110, true], "[secret:KEY]": "4711."});
        let clean = redaction.value(value);
        assert_eq!(
            clean,
            json!({
                "[secret:KEY]": "[secret:PIN].",
                "[secret:KEY]'": [{"deep": {"[secret:KEY]!": null}}, "[secret:PIN]", 47110, true],
            })
        );
    }

    #[test]
    fn errors_lose_secrets_in_every_part() {
        let at = Location { file: "s3cret.lua".into(), line: Some(3), column: None };
        let error = SkillError::new(ErrorKind::Tool, "no s3cret")
            .with_help("say s3cret")
            .with_location(at)
            .with_traceback(vec!["s3cret:3".into()])
            .with_source(std::io::Error::other("s3cret"));
        let clean = redaction(&[("KEY", "s3cret")]).error(error);
        assert!(!serde_json::to_string(&clean).unwrap().contains("s3cret"), "{clean:?}");
        assert!(std::error::Error::source(&clean).is_none());
        assert_eq!((clean.kind(), clean.location().unwrap().line), (ErrorKind::Tool, Some(3)));
    }

    proptest::proptest! {
        #[test]
        fn no_secret_is_left_whatever_overlaps(
            secrets in proptest::collection::vec("[abé]{1,4}", 1..5),
            text in "[abé ]{0,60}",
        ) {
            let named: Vec<(&str, &str)> = secrets.iter().map(|secret| ("N", secret.as_str())).collect();
            let clean = redaction(&named).text(text.clone());
            for secret in &secrets {
                assert!(!clean.contains(secret), "{secret:?} in {clean:?}, from {text:?}");
            }
            let rest: String = clean.split("[secret:N]").collect();
            assert!(text.matches(' ').eq(rest.matches(' ')), "nothing beside is lost");
        }
    }
}
