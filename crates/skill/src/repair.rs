//! The only repair that the guide for clients asks for: quotes around values that are not YAML without them.
//!
//! `description: Use when: a PDF …` is common and not YAML. Only quotes are inserted, so every position in the
//! repaired text has one in the original.

use std::ops::Range;

use super::yaml::{self, Style, Value};

/// A text with quotes inserted.
pub(super) struct RepairedYaml {
    pub(super) text: String,
    /// Where a quote was inserted, in bytes of the repaired text, ascending.
    inserted_quotes: Vec<usize>,
}

impl RepairedYaml {
    /// The offset in the original text for an offset in the repaired one.
    pub(super) fn original_offset(&self, offset: usize) -> usize {
        offset - self.inserted_quotes.partition_point(|&quote| quote < offset)
    }
}

/// The text with single quotes around each `key: value` whose value is no YAML by itself; `None` if there is no such value.
pub(super) fn quote_values(text: &str) -> Option<RepairedYaml> {
    let mut repaired =
        RepairedYaml { text: String::with_capacity(text.len() + 16), inserted_quotes: Vec::new() };
    let mut copied = 0;
    for value in values(text) {
        if is_valid_yaml(&text[value.clone()]) {
            continue;
        }
        repaired.text.push_str(&text[copied..value.start]);
        repaired.insert_quote();
        for character in text[value.clone()].chars() {
            repaired.text.push(character);
            if character == '\'' {
                repaired.insert_quote();
            }
        }
        repaired.insert_quote();
        copied = value.end;
    }
    repaired.text.push_str(&text[copied..]);
    (!repaired.inserted_quotes.is_empty()).then_some(repaired)
}

impl RepairedYaml {
    fn insert_quote(&mut self) {
        self.inserted_quotes.push(self.text.len());
        self.text.push('\'');
    }
}

/// The values that start on the line of their key, with the more indented lines that continue them.
fn values(text: &str) -> Vec<Range<usize>> {
    let mut values = Vec::new();
    let mut lines = lines(text).peekable();
    while let Some(line) = lines.next() {
        let Some(value) = value_in(text, &line) else { continue };
        let indent = indent_of(&text[line.clone()]);
        let mut end = value.end;
        while let Some(next) = lines.next_if(|next| continues(&text[next.clone()], indent)) {
            let trimmed = text[next.clone()].trim_end();
            if !trimmed.is_empty() {
                end = next.start + trimmed.len();
            }
        }
        if !text[value.clone()].starts_with(['|', '>']) {
            values.push(value.start..end);
        }
    }
    values
}

fn lines(text: &str) -> impl Iterator<Item = Range<usize>> {
    text.split_inclusive('\n').scan(0, |offset, line| {
        let range = *offset..*offset + line.len();
        *offset = range.end;
        Some(range)
    })
}

/// The value of a `key: value` line, if that is what it is.
fn value_in(text: &str, line: &Range<usize>) -> Option<Range<usize>> {
    let content = text[line.clone()].trim_end();
    let (key, value) = content.split_once(": ")?;
    let is_key = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.');
    let value = value.trim_start();
    if value.is_empty() || value.starts_with('#') || !key.trim_start().chars().all(is_key) {
        return None;
    }
    let end = line.start + content.len();
    Some(end - value.len()..end)
}

fn continues(line: &str, indent: usize) -> bool {
    line.trim().is_empty() || indent_of(line) > indent
}

fn indent_of(line: &str) -> usize {
    line.len() - line.trim_start_matches(' ').len()
}

/// Whether YAML can take the value where it stands: alone it is a scalar, or a list or map in flow style.
fn is_valid_yaml(value: &str) -> bool {
    let Ok(yaml::Tree { root: Some(root), .. }) = yaml::parse(value) else { return false };
    matches!(root.value, Value::Scalar(_)) || root.style == Style::Flow
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn becomes(text: &str, expected: &str) {
        let repaired = quote_values(text).expect("something to repair");
        assert_eq!(repaired.text, expected);
        let kept: String = (0..text.len()).filter_map(|at| text.get(at..=at)).collect();
        let back: String = repaired
            .text
            .bytes()
            .enumerate()
            .filter(|(at, _)| !repaired.inserted_quotes.contains(at))
            .map(|(at, byte)| {
                assert_eq!(text.as_bytes()[repaired.original_offset(at)], byte);
                char::from(byte)
            })
            .collect();
        assert_eq!(back, kept);
    }

    #[test]
    fn a_value_with_a_colon_is_quoted() {
        becomes("name: x\ndescription: Use when: it's late", "name: x\ndescription: 'Use when: it''s late'");
        becomes("a: b: c\n", "a: 'b: c'\n");
    }

    #[test]
    fn continued_lines_belong_to_the_value() {
        becomes("d: Use: a\n  b: c\n\n  d\ne: f\n", "d: 'Use: a\n  b: c\n\n  d'\ne: f\n");
    }

    #[test]
    fn other_values_yaml_cannot_take_are_quoted_too() {
        becomes("hint: [a] [b]\n", "hint: '[a] [b]'\n");
        becomes("x: *bold* text\n", "x: '*bold* text'\n");
        becomes("x: \"a\" and b\n", "x: '\"a\" and b'\n");
    }

    #[test]
    fn what_is_yaml_stays() {
        for text in
            ["a: b", "a: {b: c}", "a: 'b: c'", "a: |\n  b: c: d", "a: # b: c", "- x: y: z", "a:\n  b: c"]
        {
            assert!(quote_values(text).is_none(), "{text}");
        }
    }
}
