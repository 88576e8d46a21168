//! The output cap of the value: a larger value is refused, or truncated where it is text and the caller allows it.

use std::cell::Cell;

use serde_json::Value;

use metier_core::error::{ErrorKind, Hint, LimitKind, Result, SkillError};
use metier_core::excerpt::byte_size;
use metier_core::host::{ProcessReport, Redacted, Redaction};
use metier_core::policy::{Limits, OutputPolicy};

/// The output cap of one run.
pub(super) struct OutputCap {
    cap: u64,
    /// Whether text may be truncated: the output of a process, where the caller wants the beginning of it.
    can_truncate: bool,
    /// Whether standard output was truncated, so that the value is the beginning of a text.
    is_stdout_truncated: bool,
    was_truncated: Cell<bool>,
}

impl OutputCap {
    pub(super) fn new(limits: &Limits, process: Option<&ProcessReport>) -> Self {
        let is_beginning = process.is_some_and(|report| report.stdout_truncated);
        let was_cut = process.is_some_and(|report| report.stdout_truncated || report.stderr_truncated);
        Self {
            cap: limits.output,
            can_truncate: process.is_some() && limits.on_output == OutputPolicy::Truncate,
            is_stdout_truncated: is_beginning,
            was_truncated: Cell::new(was_cut),
        }
    }

    /// Whether a value that is a text is only the beginning of it.
    pub(super) fn is_beginning(&self) -> bool {
        self.is_stdout_truncated
    }

    /// The value without secrets, including one that is cut off at its end.
    pub(super) fn redact(&self, redaction: &Redaction, value: Value) -> Redacted<Value> {
        match value {
            Value::String(text) if self.is_stdout_truncated => redaction.text_prefix(text).map(Value::from),
            value => redaction.value(value),
        }
    }

    /// Refuses or truncates a value whose JSON is larger than the cap, whichever runtime made it.
    pub(super) fn enforce(&self, value: Redacted<Value>) -> Result<Redacted<Value>> {
        if fits_cap(value.as_inner(), self.cap) {
            return Ok(value);
        }
        match value.as_inner() {
            Value::String(text) if self.can_truncate => {
                self.was_truncated.set(true);
                let end = truncate_to_json_size(text, self.cap).len();
                Ok(value.map(|value| Value::from(&value.as_str().unwrap_or_default()[..end])))
            }
            _ => {
                let sentence = format!("the value is larger than {}", byte_size(self.cap));
                Err(SkillError::new(ErrorKind::Output, sentence)
                    .with_help("answer with less, or raise the output limit")
                    .with_hint(Hint::Limit(LimitKind::Output)))
            }
        }
    }

    /// Whether anything was truncated at the cap.
    pub(super) fn was_truncated(&self) -> bool {
        self.was_truncated.get()
    }
}

fn fits_cap(value: &Value, cap: u64) -> bool {
    struct Counter(u64);
    impl std::io::Write for Counter {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            let left = self.0.checked_sub(bytes.len() as u64).ok_or(std::io::ErrorKind::FileTooLarge)?;
            self.0 = left;
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    serde_json::to_writer(Counter(cap), value).is_ok()
}

/// The longest prefix of a text that fits into `cap` bytes of JSON.
fn truncate_to_json_size(text: &str, cap: u64) -> &str {
    const QUOTES: u64 = 2;
    let mut left = cap.saturating_sub(QUOTES);
    let end = text.char_indices().find(|(_, letter)| {
        let size = json_size(*letter);
        let fits = size <= left;
        left = left.saturating_sub(size);
        !fits
    });
    &text[..end.map_or(text.len(), |(at, _)| at)]
}

/// Bytes of a character in a JSON string.
fn json_size(letter: char) -> u64 {
    match letter {
        '"' | '\\' | '\n' | '\r' | '\t' | '\u{8}' | '\u{c}' => 2,
        '\0'..='\u{1f}' => 6,
        letter => letter.len_utf8() as u64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_beginning_of_a_text_fits_exactly() {
        let text = "a\"\\\n\u{1}é€\u{7f}𝄞".repeat(3);
        for cap in 2..=Value::from(text.as_str()).to_string().len() as u64 {
            let cut = Value::from(truncate_to_json_size(&text, cap));
            assert!(fits_cap(&cut, cap), "{cap}: {cut}");
            let more = cut.as_str().unwrap().chars().count() + 1;
            let longer: String = text.chars().take(more).collect();
            assert!(longer == text || !fits_cap(&longer.into(), cap), "{cap}: more would have fitted");
        }
        assert_eq!(truncate_to_json_size(&text, 1 << 20), text);
    }

    #[test]
    fn only_what_a_process_said_is_cut_and_only_where_that_is_wanted() {
        let hold = |policy, process: Option<&ProcessReport>, value: Value| {
            let bound = OutputCap::new(&Limits::default().output(6).on_output(policy), process);
            let held = bound.enforce(Redaction::default().value(value));
            (held.map(Redacted::into_inner).map_err(|error| error.kind()), bound.was_truncated())
        };
        let (said, refused) = (ProcessReport::default(), Err(ErrorKind::Output));
        let long = || Value::from("abcdefgh");
        assert_eq!(hold(OutputPolicy::Truncate, Some(&said), long()), (Ok("abcd".into()), true));
        assert_eq!(hold(OutputPolicy::Truncate, None, long()), (refused.clone(), false));
        assert_eq!(hold(OutputPolicy::Kill, Some(&said), long()), (refused.clone(), false));
        assert_eq!(hold(OutputPolicy::Truncate, Some(&said), vec![1; 9].into()), (refused, false));
    }
}
