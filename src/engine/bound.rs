//! The cap on the value: refused beyond it, or cut where it is a text and the caller wants it cut.

use std::cell::Cell;

use serde_json::Value;

use crate::error::{ErrorKind, Result, SkillError};
use crate::host::{ProcessReport, Redacted, Redaction};
use crate::policy::{Limits, OutputPolicy};

/// The cap of one run.
pub(super) struct Bound {
    cap: u64,
    /// Whether a text may be cut: what a process said, where the caller wants the beginning of it.
    cuts: bool,
    /// Whether standard output was cut, so that the value is the beginning of a text.
    is_beginning: bool,
    was_cut: Cell<bool>,
}

impl Bound {
    pub(super) fn of(limits: &Limits, process: Option<&ProcessReport>) -> Self {
        let is_beginning = process.is_some_and(|report| report.stdout_truncated);
        let was_cut = process.is_some_and(|report| report.stdout_truncated || report.stderr_truncated);
        Self {
            cap: limits.output,
            cuts: process.is_some() && limits.on_output == OutputPolicy::Truncate,
            is_beginning,
            was_cut: Cell::new(was_cut),
        }
    }

    /// The value without secrets, the one included that it ends in the midst of.
    pub(super) fn redacted(&self, redaction: &Redaction, value: Value) -> Redacted<Value> {
        match value {
            Value::String(text) if self.is_beginning => redaction.beginning(text).map(Value::from),
            value => redaction.value(value),
        }
    }

    /// Refuses a value whose JSON is larger than the cap, whichever runtime made it, or cuts it.
    pub(super) fn hold(&self, value: Redacted<Value>) -> Result<Redacted<Value>> {
        if is_within(value.shown(), self.cap) {
            return Ok(value);
        }
        match value.shown() {
            Value::String(text) if self.cuts => {
                self.was_cut.set(true);
                let end = beginning(text, self.cap).len();
                Ok(value.map(|value| Value::from(&value.as_str().unwrap_or_default()[..end])))
            }
            _ => {
                let sentence = format!("the value is larger than {} bytes", self.cap);
                Err(SkillError::new(ErrorKind::Output, sentence)
                    .with_help("answer with less, or raise the output limit"))
            }
        }
    }

    /// Whether anything was cut at the cap.
    pub(super) fn was_cut(&self) -> bool {
        self.was_cut.get()
    }
}

fn is_within(value: &Value, cap: u64) -> bool {
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

/// As much of a text as fits into so many bytes of JSON.
fn beginning(text: &str, cap: u64) -> &str {
    const QUOTES: u64 = 2;
    let mut left = cap.saturating_sub(QUOTES);
    let end = text.char_indices().find(|(_, letter)| {
        let size = in_json(*letter);
        let fits = size <= left;
        left = left.saturating_sub(size);
        !fits
    });
    &text[..end.map_or(text.len(), |(at, _)| at)]
}

/// Bytes of a letter in a JSON string.
fn in_json(letter: char) -> u64 {
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
            let cut = Value::from(beginning(&text, cap));
            assert!(is_within(&cut, cap), "{cap}: {cut}");
            let more = cut.as_str().unwrap().chars().count() + 1;
            let longer: String = text.chars().take(more).collect();
            assert!(longer == text || !is_within(&longer.into(), cap), "{cap}: more would have fitted");
        }
        assert_eq!(beginning(&text, 1 << 20), text);
    }

    #[test]
    fn only_what_a_process_said_is_cut_and_only_where_that_is_wanted() {
        let hold = |policy, process: Option<&ProcessReport>, value: Value| {
            let bound = Bound::of(&Limits::default().output(6).on_output(policy), process);
            let held = bound.hold(Redaction::default().value(value));
            (held.map(Redacted::into_shown).map_err(|error| error.kind()), bound.was_cut())
        };
        let (said, refused) = (ProcessReport::default(), Err(ErrorKind::Output));
        let long = || Value::from("abcdefgh");
        assert_eq!(hold(OutputPolicy::Truncate, Some(&said), long()), (Ok("abcd".into()), true));
        assert_eq!(hold(OutputPolicy::Truncate, None, long()), (refused.clone(), false));
        assert_eq!(hold(OutputPolicy::Kill, Some(&said), long()), (refused.clone(), false));
        assert_eq!(hold(OutputPolicy::Truncate, Some(&said), vec![1; 9].into()), (refused, false));
    }
}
