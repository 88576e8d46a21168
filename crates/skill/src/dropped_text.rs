//! Text that a person probably meant and that YAML leaves out: `Fix issue #12`, `&name …`, `!word …`.
//!
//! A comment with a blank after its `#` is how people write comments, so it is none of them. Neither is what stands behind a number or a
//! flag, or an anchor that an alias uses.

use std::collections::HashSet;
use std::ops::Range;

use crate::diagnostic_sink::DiagnosticSink;
use crate::lint;
use crate::yaml::{Entry, Node, Style, Value};
use metier_core::excerpt::shorten;

/// The most findings of one text, and characters that one of them shows.
const MAX_FOUND: usize = 16;
const MAX_SHOWN_CHARS: usize = 40;

/// Warns about what the values of a map, whose spans are those in the text, have lost.
pub(crate) fn report(text: &str, entries: &[Entry], report: &mut DiagnosticSink<'_>) {
    let mut search = Search { text, aliases: None, found: Vec::new() };
    for entry in entries {
        search.visit_entry(entry);
    }
    for (span, message) in search.found {
        report.add(&lint::YAML_TEXT_DROPPED, &span, message).help("put quotes around the whole value");
    }
}

struct Search<'a> {
    text: &'a str,
    /// The names that aliases use, read when the first anchor is found.
    aliases: Option<HashSet<&'a str>>,
    found: Vec<(Range<usize>, String)>,
}

impl<'a> Search<'a> {
    fn visit_entry(&mut self, Entry { key_span, node, .. }: &Entry) {
        let after_key = self.line_from(key_span.end);
        let start = after_key.find(':').map(|at| key_span.end + at + 1);
        self.visit(node, start);
    }

    /// Visits a value; `start` is the offset behind the colon of its key.
    fn visit(&mut self, node: &Node, start: Option<usize>) {
        if self.found.len() >= MAX_FOUND {
            return;
        }
        match &node.value {
            Value::Map(entries) => entries.iter().for_each(|entry| self.visit_entry(entry)),
            Value::List(items) => items.iter().for_each(|item| self.visit(item, None)),
            Value::Scalar(text) if text.is_empty() && node.style == Style::Plain => {
                if let Some(start) = start {
                    self.check_absent(start);
                }
            }
            Value::Scalar(_) if is_plain_text(node) => self.check_text(&node.span),
            Value::Scalar(_) => {}
        }
    }

    /// A key without a value: all of it may be left out.
    fn check_absent(&mut self, start: usize) {
        let line = self.line_from(start);
        let at = start + line.len() - line.trim_start().len();
        let word = first_word(self.line_from(at));
        self.check_property(at..at + word.len());
        self.check_comment(start);
    }

    fn check_text(&mut self, span: &Range<usize>) {
        // An alias has the text of another value.
        if self.line_from(span.start).starts_with('*') {
            return;
        }
        let above = self.text.get(..span.start).unwrap_or_default();
        let line_start = above.rfind('\n').map_or(0, |at| at + 1);
        let before = above[line_start..].trim_end();
        let separates = |c: char| c.is_whitespace() || matches!(c, '[' | '{' | ',');
        let word_start = before.rfind(separates).map_or(0, |at| at + 1);
        self.check_property(line_start + word_start..line_start + before.len());
        let word = first_word(self.line_from(span.start));
        self.check_property(span.start..span.start + word.len());
        self.check_comment(span.end);
    }

    /// Whether what follows on the line is a comment that does not look like one.
    fn check_comment(&mut self, end: usize) {
        let line = self.line_from(end);
        let comment = line.trim_start();
        let is_meant_as_text =
            comment.strip_prefix('#').is_some_and(|rest| rest.starts_with(char::is_alphanumeric));
        if is_meant_as_text && line.len() > comment.len() {
            let start = end + line.len() - comment.len();
            let shown = shorten(comment.trim_end(), MAX_SHOWN_CHARS);
            let message = format!("`{shown}` is a comment of YAML, so it is left out of the value");
            self.found.push((start..start + comment.trim_end().len(), message));
        }
    }

    /// Whether this word is an anchor that nothing uses, or a tag that is none of YAML's own.
    fn check_property(&mut self, span: Range<usize>) {
        let word = self.text.get(span.clone()).unwrap_or_default();
        let Some(name) = word.strip_prefix(['&', '!']).filter(|name| name.starts_with(char::is_alphanumeric))
        else {
            return;
        };
        let is_anchor = word.starts_with('&');
        if is_anchor && self.aliases().contains(name) {
            return;
        }
        let kind = if is_anchor { "an anchor" } else { "a tag" };
        let shown = shorten(word, MAX_SHOWN_CHARS);
        self.found.push((span, format!("`{shown}` is {kind} of YAML, so it is left out of the value")));
    }

    fn aliases(&mut self) -> &HashSet<&'a str> {
        let text = self.text;
        self.aliases.get_or_insert_with(|| text.split('*').skip(1).map(alias_name).collect())
    }

    fn line_from(&self, at: usize) -> &'a str {
        self.text.get(at..).unwrap_or_default().lines().next().unwrap_or_default()
    }
}

/// Whether a scalar without quotes is neither a number nor a flag.
fn is_plain_text(node: &Node) -> bool {
    node.style == Style::Plain && matches!(node.to_json(), Ok(serde_json::Value::String(_)))
}

fn first_word(line: &str) -> &str {
    line.split(char::is_whitespace).next().unwrap_or_default()
}

fn alias_name(text: &str) -> &str {
    text.split(|c: char| c.is_whitespace() || matches!(c, ',' | ']' | '}')).next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::yaml;

    fn dropped(text: &str) -> Vec<&str> {
        let tree = yaml::parse(text).unwrap();
        let Some(Node { value: Value::Map(entries), .. }) = tree.root else { panic!("a map: {text}") };
        let mut sink = DiagnosticSink::new(text);
        report(text, &entries, &mut sink);
        sink.finish().into_iter().map(|found| &text[found.span]).collect()
    }

    #[test]
    fn what_a_person_meant_as_text_is_reported_where_it_stands() {
        for (text, expected) in [
            ("description: Fix issue #12 and more", "#12 and more"),
            ("description: Fix é #ü  \r\nname: x", "#ü"),
            ("a:\n  - b #1\n", "#1"),
            ("a: {b: c}\nd:\n  e: f\t#tag", "#tag"),
            ("tag: #hash", "#hash"),
            ("description: &name does things", "&name"),
            ("description: !important things", "!important"),
            ("description: !important", "!important"),
            ("description: &all", "&all"),
            ("a: [x, &b c]", "&b"),
            ("a: [&b c]", "&b"),
            ("a:\n  - !x y\n", "!x"),
        ] {
            assert_eq!(dropped(text), [expected], "{text:?}");
        }
    }

    #[test]
    fn what_people_write_as_comments_and_anchors_is_not_reported() {
        for text in [
            "a: b # a comment",
            "a: b ## c",
            "a: b #",
            "a: b #--- rule",
            "a: # why\n  b: c",
            "a: #why\n  b: c",
            "#a\na: b\n#c",
            "a: b#12",
            "a: 'b #12'",
            "a: \"b\" #12",
            "a: |\n  b #12\n",
            "limit: 64 #MB",
            "flag: true #yes",
            "a: &b c\nd: *b",
            "a: !!str 12",
            "a: &b\n  c: d",
            "a: x & y ! z",
            "a: b &c !d",
        ] {
            assert_eq!(dropped(text), [""; 0], "{text:?}");
        }
    }

    #[test]
    fn a_text_full_of_them_has_a_bounded_number_of_findings() {
        let text = "- &a b #1\n".repeat(2000);
        let found = dropped(&format!("x:\n{text}")).len();
        assert!((MAX_FOUND..=MAX_FOUND + 1).contains(&found), "{found}");
    }
}
