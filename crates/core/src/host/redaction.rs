//! Removes the values of secrets that a run received from everything that leaves it.
//!
//! Everything that leaves is [`Redacted`], which only a [`Redaction`] creates: text is truncated, split into lines or filtered
//! only afterwards, since a part of a secret would not be recognized. What a script encodes, reverses or takes apart is not
//! covered: this guards against leaks, not against the skill that was given the secret.

mod finder;
mod forms;
mod quoting;
mod redacted;
mod search;
#[cfg(unix)]
mod stream;

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use serde_json::Value;

pub use self::redacted::Redacted;
use self::redacted::Secret;
pub use self::search::EncodedSecrets;
use self::search::SecretSearch;
#[cfg(unix)]
pub use self::stream::RedactedStream;
use super::leftovers::Leftover;
use super::refused_access::RefusedAccess;
use super::report::{NetworkReport, ProcessReport};
use super::steps::StepReport;
use crate::error::{ErrorContext, SkillError};
use crate::host::refused_texts;
use crate::unicode::strip_escape_sequences;

/// The secrets of one run, including those of the skills it called. If there are none, nothing is searched or copied.
#[derive(Default)]
pub struct Redaction {
    has_secrets: AtomicBool,
    secrets: RwLock<KnownSecrets>,
}

#[derive(Default)]
struct KnownSecrets {
    secrets: Vec<Secret>,
    /// Built on first use after a secret was added.
    search: Option<Arc<SecretSearch>>,
}

impl Redaction {
    /// The secrets that are known now, for what is shown after the run.
    pub fn snapshot(&self) -> Self {
        let known = self.secrets.read().unwrap_or_else(PoisonError::into_inner);
        let secrets = KnownSecrets { secrets: known.secrets.clone(), search: known.search.clone() };
        let has_secrets = AtomicBool::new(self.has_secrets.load(Ordering::Acquire));
        Self { has_secrets, secrets: RwLock::new(secrets) }
    }

    /// Maximum characters of a text in an error.
    pub const MAX_ERROR_CHARS: usize = 4096;

    /// From now on, `[secret:NAME]` replaces `value` in output.
    pub(crate) fn learn(&self, name: &str, value: &str) {
        self.learn_all(&[Secret { value: value.to_owned(), placeholder: format!("[secret:{name}]") }]);
    }

    /// Whether there is anything to remove.
    pub(super) fn has_secrets(&self) -> bool {
        self.has_secrets.load(Ordering::Acquire)
    }

    /// All secrets, if there are more than this many.
    #[cfg(unix)]
    fn secrets_beyond(&self, count: usize) -> Option<Vec<Secret>> {
        let known = self.secrets.read().unwrap_or_else(PoisonError::into_inner);
        (known.secrets.len() > count).then(|| known.secrets.clone())
    }

    /// Whether this text is or contains a known secret.
    pub fn contains_secret(&self, text: &str) -> bool {
        self.has_secrets() && self.text(text.to_owned()).as_inner().as_str() != text
    }

    /// Whether a known secret is somewhere in this value.
    pub fn holds_secret(&self, value: &Value) -> bool {
        self.has_secrets() && self.value(value.clone()).as_inner() != value
    }

    /// The encoded forms of all secrets so far; `None` if there are none.
    pub fn encoded_secrets(&self) -> Option<EncodedSecrets> {
        let known = self.secrets.read().unwrap_or_else(PoisonError::into_inner);
        (!known.secrets.is_empty()).then(|| EncodedSecrets::new(&known.secrets))
    }

    /// From now on, the secrets that were given to other runs are replaced by their names as well.
    #[cfg_attr(not(unix), allow(dead_code, reason = "only processes know secrets of earlier runs"))]
    pub fn learn_from(&self, others: &Self) {
        if !others.has_secrets() || std::ptr::eq(self, others) {
            return;
        }
        let others = others.secrets.read().unwrap_or_else(PoisonError::into_inner).secrets.clone();
        self.learn_all(&others);
    }

    fn learn_all(&self, secrets: &[Secret]) {
        let mut known = self.secrets.write().unwrap_or_else(PoisonError::into_inner);
        for secret in secrets.iter().filter(|secret| !secret.value.trim().is_empty()) {
            if !known.secrets.iter().any(|known| known.value == secret.value) {
                known.secrets.push(secret.clone());
                known.search = None;
                self.has_secrets.store(true, Ordering::Release);
            }
        }
    }

    /// The text without secrets.
    pub fn text(&self, text: String) -> Redacted<String> {
        Redacted(self.redact_text(text, false))
    }

    /// What a process wrote, as a reader sees it: without the orders to a terminal and without secrets, including the beginning of
    /// one at the end of a stream that was cut.
    #[cfg_attr(not(unix), allow(dead_code, reason = "only processes write to streams"))]
    pub fn plain_text(&self, text: &str, is_cut: bool) -> Redacted<String> {
        Redacted(self.redact_text(strip_escape_sequences(text).into_owned(), is_cut))
    }

    /// The beginning of a longer text without secrets, including a secret that is cut off at its end.
    pub fn text_prefix(&self, text: String) -> Redacted<String> {
        Redacted(self.redact_text(text, true))
    }

    /// Adds a piece to a text that is not complete, and takes its beginning from it without secrets: as much as no continuation can
    /// make a part of a secret.
    pub(super) fn take_decided(&self, text: &mut String, piece: &str) -> Redacted<String> {
        let was_held = !text.is_empty();
        text.push_str(piece);
        let Some(search) = self.search() else { return Redacted(std::mem::take(text)) };
        if was_held && finder::significant_chars(piece) == 0 {
            // It decides nothing, and a flood of it would be searched again and again.
            return Redacted(String::new());
        }
        let mut matches = search.find_matches(text, true);
        // A match that reaches the end may be the beginning of a longer one.
        let mut undecided = text.len();
        while let Some(found) = matches.pop_if(|found| search::is_blank(&text[found.end..])) {
            undecided = found.start;
        }
        let rest = text.split_off(undecided);
        Redacted(search.replace_matches(std::mem::replace(text, rest), matches))
    }

    /// Consecutive lines without secrets, including secrets that span several lines.
    pub(crate) fn lines(&self, lines: Vec<String>) -> Redacted<Vec<String>> {
        let Some(search) = self.search().filter(|_| !lines.is_empty()) else { return Redacted(lines) };
        let text = lines.join("\n");
        let matches = search.find_matches(&text, false);
        if matches.is_empty() {
            return Redacted(lines);
        }
        let (mut start, mut matches) = (0, matches.into_iter().peekable());
        let clean = lines.iter().map(|line| {
            let end = start + line.len();
            let mut clean = String::new();
            let mut done = start;
            while let Some(found) = matches.peek().filter(|found| found.start < end) {
                // The placeholder goes into the line in which the secret begins.
                if found.start >= start {
                    clean.push_str(&text[done..found.start]);
                    clean.push_str(search.placeholder(found));
                }
                done = found.end.min(end);
                if found.end > end {
                    break;
                }
                matches.next();
            }
            clean.push_str(&text[done..end]);
            start = end + 1;
            clean
        });
        Redacted(clean.collect())
    }

    /// The value without secrets, in strings and keys at any depth; a number that spells a secret becomes its placeholder.
    pub fn value(&self, value: Value) -> Redacted<Value> {
        match self.search() {
            Some(search) => Redacted(search.redact_value(value)),
            None => Redacted(value),
        }
    }

    /// The error without secrets, truncated to the maximum length of an error. The underlying error is only for people who debug
    /// the host and is dropped.
    pub fn error(&self, error: SkillError) -> Redacted<SkillError> {
        let is_short = |text: &str| text.len() <= Self::MAX_ERROR_CHARS;
        let texts = || error.help().into_iter().chain(error.traceback().iter().map(String::as_str));
        let is_bounded = is_short(error.message()) && texts().all(is_short);
        if is_bounded && !self.has_secrets() {
            return Redacted(error);
        }
        let text = |text: &str| {
            let owned = text.to_owned();
            // A worker process has cut longer texts, which may leave the beginning of a secret at the end.
            let clean = if is_short(text) { self.text(owned) } else { self.text_prefix(owned) };
            clean.truncate(Self::MAX_ERROR_CHARS).0
        };
        Redacted(error.map_texts(text))
    }

    /// The process report, with secrets removed from its output.
    pub fn process(&self, report: ProcessReport) -> Redacted<ProcessReport> {
        Redacted(ProcessReport {
            stdout: self.redact_text(report.stdout, report.stdout_truncated),
            stderr: self.redact_text(report.stderr, report.stderr_truncated),
            network: report.network.map(|network| self.network(network)),
            left: report.left.into_iter().map(|file| self.leftover(file)).collect(),
            ..report
        })
    }

    /// The same without secrets in its path.
    fn leftover(&self, file: Leftover) -> Leftover {
        let text = |path: String| self.redact_text(path, false);
        Leftover { path: text(file.path), copied_to: file.copied_to.map(text), ..file }
    }

    /// The same without secrets in names that the script looked up.
    fn network(&self, mut report: NetworkReport) -> NetworkReport {
        for refused in &mut report.refused {
            for text in [&mut refused.host, &mut refused.reason].into_iter().chain(&mut refused.permission) {
                *text = self.redact_text(std::mem::take(text), false);
            }
        }
        report
    }

    /// The reports without secrets.
    pub(crate) fn steps(&self, steps: Vec<StepReport>) -> Redacted<Vec<StepReport>> {
        let clean = |step: StepReport| StepReport {
            value: self.value(step.value).0,
            input: self.value(step.input).0,
            error: step.error.map(|error| self.text(error).truncate(StepReport::MAX_ERROR_CHARS).0),
            ..step
        };
        Redacted(steps.into_iter().map(clean).collect())
    }

    /// The accesses without secrets in what the script wanted.
    pub(crate) fn refused_accesses(&self, mut refused: Vec<RefusedAccess>) -> Redacted<Vec<RefusedAccess>> {
        for text in refused.iter_mut().flat_map(refused_texts) {
            *text = self.redact_text(std::mem::take(text), false);
        }
        Redacted(refused)
    }

    fn redact_text(&self, text: String, is_cut: bool) -> String {
        match self.search() {
            Some(search) => search.redact_text(text, is_cut),
            None => text,
        }
    }

    /// The search, if there is a secret to search for.
    fn search(&self) -> Option<Arc<SecretSearch>> {
        if !self.has_secrets() {
            return None;
        }
        if let Some(search) = &self.secrets.read().unwrap_or_else(PoisonError::into_inner).search {
            return Some(search.clone());
        }
        let mut known = self.secrets.write().unwrap_or_else(PoisonError::into_inner);
        let search = known.search.take().unwrap_or_else(|| Arc::new(SecretSearch::new(&known.secrets)));
        known.search = Some(search.clone());
        Some(search)
    }
}

impl fmt::Debug for Redaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Redaction")
    }
}

#[cfg(test)]
mod tests {
    use super::super::steps::StepStatus;
    use super::*;
    use crate::error::{ErrorKind, Location, Violation};
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
        assert_eq!(redaction(secrets).text(text.into()).as_inner(), expected);
    }

    #[test]
    fn a_secret_leaves_as_its_name() {
        leaves(&[("KEY", "s3cret")], "Bearer s3cret, s3cret", "Bearer [secret:KEY], [secret:KEY]");
        leaves(&[("KEY", "s3cret")], "S3CRET", "S3CRET");
        leaves(&[], "s3cret", "s3cret");
    }

    #[test]
    fn the_error_of_a_step_is_cut_once_it_has_no_secret() {
        let error = format!("{}s3cret-of-many-letters", "x".repeat(StepReport::MAX_ERROR_CHARS - 8));
        let step = StepReport {
            index: 0,
            id: "one".into(),
            call: "read_file".into(),
            status: StepStatus::Failed,
            attempts: 1,
            duration: std::time::Duration::from_millis(1),
            input: Value::Null,
            error: Some(error),
            value: Value::Null,
        };
        let steps = redaction(&[("KEY", "s3cret-of-many-letters")]).steps(vec![step]).into_inner();
        let shown = steps[0].error.as_deref().unwrap();
        assert!(shown.ends_with("x[secret:…"), "{shown}");
    }

    #[test]
    fn a_secret_with_colours_in_its_midst_is_known() {
        let secrets = [("KEY", "s3cret-value-of-mine")];
        leaves(&secrets, "a \u{1b}[31mb\u{1b}[0m", "a \u{1b}[31mb\u{1b}[0m");
        leaves(&secrets, "\u{1b}[1ms3cret-value-of-mine\u{1b}[0m", "\u{1b}[1m[secret:KEY]\u{1b}[0m");
        leaves(&secrets, "a s3cret-\u{1b}[01;31m\u{1b}[Kvalue\u{1b}[m\u{1b}[K-of-mine b", "a [secret:KEY] b");
        leaves(&secrets, r#"{"a": "s3cret-\u001b[31mvalue\u001b[0m-of-mine"}"#, r#"{"a": "[secret:KEY]"}"#);
        let plain = redaction(&secrets).plain_text("\u{1b}[1ms3cret-\u{1b}[mvalue-of-mi", true);
        assert_eq!(plain.as_inner(), "");
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
            assert_eq!(redaction.text_prefix(text.into()).as_inner(), left, "{text}");
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
            assert_eq!(redaction.text(text).as_inner(), r#"{"k":"[secret:KEY]"}"#);
        }
        leaves(&[("KEY", "token\n")], "token\n token", "[secret:KEY] [secret:KEY]");
    }

    #[test]
    fn values_lose_secrets_in_strings_keys_and_numbers_and_nothing_else() {
        let redaction = redaction(&[("PIN", "4711"), ("KEY", "s3cret")]);
        let value =
            json!({"s3cret": [{"deep": {"s3cret!": null}}, 4711, 47110, true], "[secret:KEY]": "4711."});
        let clean = redaction.value(value).into_inner();
        assert_eq!(
            clean,
            json!({
                "[secret:KEY]": [{"deep": {"[secret:KEY]!": null}}, "[secret:PIN]", 47110, true],
                "[secret:KEY]'": "[secret:PIN].",
            })
        );
    }

    #[test]
    fn errors_lose_secrets_in_every_part() {
        let at = Location::new("s3cret.lua", Some(3), None).with_path(Some("/s3cret.lua".into()));
        let error = SkillError::new(ErrorKind::Tool, "no s3cret")
            .with_help("say s3cret")
            .with_location(at)
            .with_traceback(vec!["s3cret:3".into()])
            .with_source(std::io::Error::other("s3cret"));
        let clean = redaction(&[("KEY", "s3cret")]).error(error).into_inner();
        assert!(!serde_json::to_string(&clean).unwrap().contains("s3cret"), "{clean:?}");
        assert!(std::error::Error::source(&clean).is_none());
        let place = clean.location().unwrap();
        assert_eq!((clean.kind(), place.line, place.path()), (ErrorKind::Tool, Some(3), None));
    }

    #[test]
    fn a_name_that_stands_for_a_secret_stays_as_it_is() {
        let redaction = redaction(&[("KEY", "secret"), ("E", "e"), ("LONG", "[secret:KEY]-and-more")]);
        for (text, expected) in [
            ("secret", "[secret:KEY]"),
            ("he", "h[secret:E]"),
            ("[secret:KEY]-and-more", "[secret:LONG]"),
            ("[secret:NOBODY]", "[[secret:KEY]:NOBODY]"),
        ] {
            let once = redaction.text(text.into()).into_inner();
            assert_eq!(once, expected);
            assert_eq!(redaction.text(once.clone()).as_inner(), &once, "a second look changes nothing");
        }
    }

    #[test]
    fn a_secret_is_known_whatever_filters_make_of_it() {
        let value = "abcd\tefgh\r\nijkl mn\u{200b}op";
        for text in [
            "abcdefghijkl mnop",
            "abcd efgh ijkl mnop",
            "abcd\u{fffd}efgh\u{fffd}\u{fffd}ijkl mn\u{200b}op",
            "abcd\n  efgh\n  ijkl\n  mn\u{200b}op",
            "abcd\u{ad}efghijklmnop",
            r"abcd\tefgh\r\nijkl mn\u{200b}op",
            r"abcd\tefgh\r\nijkl mn\u200bop",
            "abcd%09efgh%0D%0Aijkl%20mn%E2%80%8Bop",
            "abcd%09efgh%0d%0aijkl%20mn%e2%80%8bop",
            "abcd%09efgh%0D%0Aijkl+mn%E2%80%8Bop",
        ] {
            leaves(&[("KEY", value)], text, "[secret:KEY]");
        }
        leaves(&[("KEY", "A1B2C3D4")], "https://a1b2c3d4.example", "https://[secret:KEY].example");
        leaves(&[("KEY", "abcd//efgh/./ijkl/../mnop")], "read abcd/efgh/mnop", "read [secret:KEY]");
        leaves(&[("KEY", "it's <a & \"b\">")], "it&#39;s &lt;a &amp; &quot;b&quot;&gt;", "[secret:KEY]");
        leaves(&[("KEY", "it's all mine")], r"'it'\''s all mine'", "'[secret:KEY]'");
        leaves(&[("KEY", "say \"no\"\nnow")], "\"say \\\"no\\\"\\\nnow\"", "\"[secret:KEY]\"");
    }

    #[test]
    fn lines_lose_what_runs_over_several() {
        let lines = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        let redaction = redaction(&[("KEY", "0123456789")]);
        for (said, left) in [
            (&["a 0123", "456", "789 b", "c"][..], &["a [secret:KEY]", "", " b", "c"][..]),
            (&["0123456789", "", "x"], &["[secret:KEY]", "", "x"]),
            (&["x", "0123", "4567"], &["x", "0123", "4567"]),
            (&["a0123456789b01234", "56789c0123456789"], &["a[secret:KEY]b[secret:KEY]", "c[secret:KEY]"]),
        ] {
            assert_eq!(redaction.lines(lines(said)).into_inner(), left);
        }
        assert_eq!(Redaction::default().lines(lines(&["0123456789"])).into_inner(), ["0123456789"]);
    }

    #[test]
    fn what_is_cut_after_a_sign_loses_the_beginning_of_a_secret() {
        let secrets = [("KEY", "s3cret-value-of-mine")];
        leaves(&secrets, "it is s3cret-va… and on", "it is … and on");
        leaves(&secrets, "it is s3c…", "it is s3c…");
        leaves(&secrets, "it is s3cret-value-of-mine…", "it is [secret:KEY]…");
    }

    /// As other programs write it, by their known output and not by our own functions.
    #[test]
    fn a_secret_is_known_in_every_spelling_that_is_usual() {
        let secret = "Pa~s/w\u{f6}rd \"x\" & 'y' <z> \\ +1\tq?=#";
        for spelled in [
            secret,
            // In lower case, as hosts are shown.
            "pa~s/w\u{f6}rd \"x\" & 'y' <z> \\ +1\tq?=#",
            // JSON: with escaped slashes, without characters beyond ASCII, in capitals, and JSON within JSON.
            r#"Pa~s/wörd \"x\" & 'y' <z> \\ +1\tq?=#"#,
            r#"Pa~s\/wörd \"x\" & 'y' <z> \\ +1\tq?=#"#,
            r#"Pa~s/w\u00f6rd \"x\" & 'y' <z> \\ +1\tq?=#"#,
            r#"Pa~s/w\u00F6rd \"x\" & 'y' <z> \\ +1\tq?=#"#,
            r#"Pa~s\/w\u00f6rd \"x\" & 'y' <z> \\ +1\tq?=#"#,
            r#"Pa~s/wörd \\\"x\\\" & 'y' <z> \\\\ +1\\tq?=#"#,
            r#"Pa~s/w\\u00f6rd \\\"x\\\" & 'y' <z> \\\\ +1\\tq?=#"#,
            // Escapes of Rust, C, Python and Lua.
            r#"Pa~s/wörd \"x\" & \'y\' <z> \\ +1\tq?=#"#,
            r#"Pa~s/w\u{f6}rd \"x\" & \'y\' <z> \\ +1\tq?=#"#,
            r#"Pa~s/wörd "x" & 'y' <z> \\ +1\tq?=#"#,
            r#"Pa~s/wörd "x" & \'y\' <z> \\ +1\tq?=#"#,
            "Pa~s/w\u{f6}rd \\\"x\\\" & 'y' <z> \\\\ +1\tq?=#",
            // URLs and forms.
            "Pa~s%2Fw%C3%B6rd%20%22x%22%20%26%20%27y%27%20%3Cz%3E%20%5C%20%2B1%09q%3F%3D%23",
            "Pa~s/w%C3%B6rd%20%22x%22%20%26%20%27y%27%20%3Cz%3E%20%5C%20%2B1%09q%3F%3D%23",
            "Pa%7Es%2Fw%C3%B6rd+%22x%22+%26+%27y%27+%3Cz%3E+%5C+%2B1%09q%3F%3D%23",
            "Pa~s/w%C3%B6rd%20%22x%22%20&%20'y'%20%3Cz%3E%20%5C%20+1%09q?=#",
            "Pa~s%2fw%c3%b6rd%20%22x%22%20%26%20%27y%27%20%3cz%3e%20%5c%20%2b1%09q%3f%3d%23",
            // Shells.
            "Pa~s/w\u{f6}rd \"x\" & '\\''y'\\'' <z> \\ +1\tq?=#",
            "Pa~s/w\u{f6}rd \"x\" & '\"'\"'y'\"'\"' <z> \\ +1\tq?=#",
            // HTML pages.
            "Pa~s/w\u{f6}rd &quot;x&quot; &amp; &#39;y&#39; &lt;z&gt; \\ +1\tq?=#",
            "Pa~s/w\u{f6}rd &quot;x&quot; &amp; &#x27;y&#x27; &lt;z&gt; \\ +1\tq?=#",
            "Pa~s/w\u{f6}rd \"x\" &amp; 'y' &lt;z&gt; \\ +1\tq?=#",
            // A JSON pointer; and what filters turn a tab into.
            "Pa~0s~1w\u{f6}rd \"x\" & 'y' <z> \\ +1\tq?=#",
            "Pa~s/w\u{f6}rd \"x\" & 'y' <z> \\ +1q?=#",
            "Pa~s/w\u{f6}rd \"x\" & 'y' <z> \\ +1 q?=#",
            "Pa~s/w\u{f6}rd \"x\" & 'y' <z> \\ +1?q?=#",
            "Pa~s/w\u{f6}rd \"x\" & 'y' <z> \\ +1\u{fffd}q?=#",
        ] {
            leaves(&[("KEY", secret)], &format!("a {spelled} b"), "a [secret:KEY] b");
        }
        leaves(&[("KEY", "home/./secret//of/../of/mine")], "/home/secret/of/mine", "/[secret:KEY]");
        leaves(&[("KEY", "a\r\nb")], "a\nb, a\r\nb", "[secret:KEY], [secret:KEY]");
        leaves(&[("KEY", "a\nb")], "a\r\nb", "[secret:KEY]");
        // A short secret is searched for exactly, so its filtered forms count as separate spellings.
        let filtered = "a\t\tb, ab, a  b, a b, a??b, a\u{fffd}\u{fffd}b";
        leaves(&[("KEY", "a\t\tb")], filtered, &["[secret:KEY]"; 6].join(", "));
    }

    #[test]
    fn the_end_of_a_long_secret_is_known_by_itself() {
        let long = (0..20_000_u32).map(|number| number.to_string()).collect::<Vec<_>>().join("-");
        let tail = &long[long.len() - 100..];
        let left = redaction(&[("KEY", &long)]).text(format!("it ends in {tail}")).into_inner();
        assert!(left.ends_with("[secret:KEY]") && left.len() < 80, "{left}");
    }

    #[test]
    fn no_part_of_an_error_shows_a_secret() {
        let secret = "s3cret-value-of-mine";
        let said = |what: &str| format!("{what} {secret} end");
        let violation = Violation {
            path: said("at"),
            keyword: "type".into(),
            expected: said("expected"),
            found: said("found"),
        };
        let error = SkillError::new(ErrorKind::Script, said("failed"))
            .with_help(said("help"))
            .with_location(Location::new(said("file"), Some(1), None))
            .with_traceback(vec![said("frame")])
            .with_violations(vec![violation]);
        let shown = json!(redaction(&[("KEY", secret)]).error(error).into_inner()).to_string();
        assert!(!shown.contains("s3cret"), "{shown}");
        for what in ["failed", "help", "file", "frame", "at", "expected", "found"] {
            assert!(shown.contains(&format!("{what} [secret:KEY] end")), "{what}: {shown}");
        }
    }

    #[test]
    fn long_texts_and_long_secrets_take_time_by_their_length() {
        let started = std::time::Instant::now();
        let long = "a".repeat(1 << 20);
        let nested: Vec<String> = (1..100).map(|count| format!("{}b", "a".repeat(count))).collect();
        let mut secrets: Vec<(&str, &str)> = nested.iter().map(|secret| ("N", secret.as_str())).collect();
        secrets.push(("LONG", &long));
        let redaction = redaction(&secrets);
        assert_eq!(redaction.text("a".repeat(2 << 20)).as_inner(), "[secret:LONG]");
        let pieces = format!("{}z", "a".repeat(20_000)).repeat(50);
        let left = redaction.text(pieces).into_inner();
        assert_eq!(left.matches('z').count(), 50);
        assert_eq!(left.matches("[secret:").count(), 50, "of a long one its beginning is known");
        assert!(started.elapsed().as_secs() < 60, "{:?}", started.elapsed());
    }

    proptest::proptest! {
        #[test]
        fn no_secret_is_left_whatever_overlaps(
            secrets in proptest::collection::vec("[abé]{1,4}", 1..5),
            text in "[abé ]{0,60}",
        ) {
            let named: Vec<(&str, &str)> = secrets.iter().map(|secret| ("N", secret.as_str())).collect();
            let clean = redaction(&named).text(text.clone()).into_inner();
            for secret in &secrets {
                assert!(!clean.contains(secret), "{secret:?} in {clean:?}, from {text:?}");
            }
            let rest: String = clean.split("[secret:N]").collect();
            assert!(text.matches(' ').eq(rest.matches(' ')), "nothing beside is lost");
        }
    }
}
