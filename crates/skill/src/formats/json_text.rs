//! JSON text as a tree of nodes with their spans, under the same limits as YAML.
//!
//! `serde_json` keeps no positions, lets the last of two equal keys win, and rounds numbers; a definition must not depend on any of
//! that.

use std::collections::HashSet;
use std::ops::Range;

use crate::diagnostic_sink::find_control_character;
use crate::lint;
use crate::yaml::{Entry, MAX_DEPTH, MAX_NODES, MAX_TEXT, Node, Style, Tree, Value, YamlError};

/// Parses a part of a larger text; the spans are those in the larger text.
pub(super) fn parse_within(text: &str, part: &Range<usize>) -> Result<Tree, YamlError> {
    let mut reader = Reader { text: &text[..part.end], at: part.start, nodes: 0, bytes: 0 };
    let mut tree = Tree::default();
    reader.skip_blanks();
    if reader.peek().is_none() {
        return Ok(tree);
    }
    tree.root = Some(reader.value(0)?);
    reader.skip_blanks();
    match reader.peek() {
        None => Ok(tree),
        Some(_) => Err(reader.error("there is more text after the value")),
    }
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
    nodes: usize,
    bytes: usize,
}

impl Reader<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn skip_blanks(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn error(&self, message: &str) -> YamlError {
        self.error_at(self.at, message)
    }

    fn error_at(&self, at: usize, message: &str) -> YamlError {
        let is_comment = self.text[at..].starts_with('/') || self.text[at..].starts_with('#');
        let message = if is_comment { "JSON has no comments" } else { message };
        YamlError { rule: &lint::JSON_INVALID, span: at..at, message: message.to_owned() }
    }

    fn charge(&mut self, text: usize, at: usize) -> Result<(), YamlError> {
        self.nodes += 1;
        self.bytes += text;
        if self.nodes <= MAX_NODES && self.bytes <= MAX_TEXT {
            return Ok(());
        }
        let message = format!("there are more than {MAX_NODES} values or {} KiB of text", MAX_TEXT / 1024);
        Err(YamlError { rule: &lint::YAML_TOO_BIG, span: at..at, message })
    }

    fn value(&mut self, depth: usize) -> Result<Node, YamlError> {
        self.skip_blanks();
        let start = self.at;
        let (style, value) = match self.peek() {
            Some(b'{' | b'[') if depth >= MAX_DEPTH => {
                let message = format!("lists and maps are nested more than {MAX_DEPTH} deep");
                return Err(YamlError { rule: &lint::YAML_TOO_DEEP, span: start..start, message });
            }
            Some(b'{') => (Style::Flow, Value::Map(self.object(depth)?)),
            Some(b'[') => (Style::Flow, Value::List(self.array(depth)?)),
            Some(b'"') => (Style::Quoted, Value::Scalar(self.string()?)),
            Some(b'-' | b'0'..=b'9') => (Style::Plain, Value::Scalar(self.number()?)),
            Some(b't' | b'f' | b'n') => (Style::Plain, Value::Scalar(self.word()?)),
            Some(_) => return Err(self.error("a value is expected here")),
            None => return Err(self.error("the text ends where a value is expected")),
        };
        let text = if let Value::Scalar(text) = &value { text.len() } else { 0 };
        self.charge(text, start)?;
        Ok(Node { span: start..self.at, column: 0, style, value })
    }

    fn object(&mut self, depth: usize) -> Result<Vec<Entry>, YamlError> {
        let (mut entries, mut keys) = (Vec::new(), HashSet::new());
        self.at += 1;
        self.skip_blanks();
        if self.take(b'}') {
            return Ok(entries);
        }
        loop {
            self.skip_blanks();
            let start = self.at;
            if self.peek() != Some(b'"') {
                return Err(self.error("a key in double quotes is expected here"));
            }
            let key = self.string()?;
            let key_span = start..self.at;
            self.charge(key.len(), start)?;
            if !keys.insert(key.clone()) {
                let message = format!("the key `{}` appears twice", metier_core::excerpt::shorten(&key, 60));
                return Err(YamlError { rule: &lint::YAML_DUPLICATE_KEY, span: key_span, message });
            }
            self.skip_blanks();
            if !self.take(b':') {
                return Err(self.error("a colon is expected after the key"));
            }
            let node = self.value(depth + 1)?;
            entries.push(Entry { key, key_span, node });
            self.skip_blanks();
            if self.take(b'}') {
                return Ok(entries);
            }
            if !self.take(b',') {
                return Err(self.error("a comma or `}` is expected here"));
            }
        }
    }

    fn array(&mut self, depth: usize) -> Result<Vec<Node>, YamlError> {
        let mut items = Vec::new();
        self.at += 1;
        self.skip_blanks();
        if self.take(b']') {
            return Ok(items);
        }
        loop {
            items.push(self.value(depth + 1)?);
            self.skip_blanks();
            if self.take(b']') {
                return Ok(items);
            }
            if !self.take(b',') {
                return Err(self.error("a comma or `]` is expected here"));
            }
        }
    }

    fn take(&mut self, byte: u8) -> bool {
        let is_there = self.peek() == Some(byte);
        self.at += usize::from(is_there);
        is_there
    }

    /// The text of a string, whose syntax `serde_json` checks.
    fn string(&mut self) -> Result<String, YamlError> {
        let start = self.at;
        let mut at = start + 1;
        let bytes = self.text.as_bytes();
        while at < bytes.len() && bytes[at] != b'"' {
            at += if bytes[at] == b'\\' { 2 } else { 1 };
        }
        let end = at + 1;
        let Some(written) = self.text.get(start..end) else {
            return Err(self.error_at(start, "the string does not end"));
        };
        let text: String = serde_json::from_str(written)
            .map_err(|_| self.error_at(start, "the string has a wrong escape or a control character"))?;
        if find_control_character(&text).is_some() {
            return Err(self.error_at(start, "the string has a control character, written as an escape"));
        }
        self.at = end;
        Ok(text)
    }

    fn number(&mut self) -> Result<String, YamlError> {
        let rest = &self.text[self.at..];
        let is_part = |c: char| c.is_ascii_digit() || "+-.eE".contains(c);
        let written = &rest[..rest.find(|c| !is_part(c)).unwrap_or(rest.len())];
        if serde_json::from_str::<serde_json::Number>(written).is_err() {
            return Err(self.error("the number is not written as in JSON"));
        }
        self.at += written.len();
        Ok(written.to_owned())
    }

    fn word(&mut self) -> Result<String, YamlError> {
        let rest = &self.text[self.at..];
        let written = &rest[..rest.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(rest.len())];
        if !["true", "false", "null"].contains(&written) {
            return Err(self.error("text stands in double quotes in JSON"));
        }
        self.at += written.len();
        Ok(written.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value as Json;

    use super::*;

    fn rule_of(text: &str) -> &'static str {
        parse_within(text, &(0..text.len())).expect_err(text).rule.code
    }

    #[test]
    fn json_is_read_as_serde_json_reads_it() {
        for text in [
            r#"{"a": [1, -2.5, 1e3, true, false, null, "x\u00e9\n\ud83d\ude00"], "b": {}, "": []}"#,
            "\t[\r\n{} , [ ]]\n",
            "0",
            "\"ü\"",
        ] {
            let tree = parse_within(text, &(0..text.len())).unwrap();
            let json: Json = serde_json::from_str(text).unwrap();
            assert_eq!(tree.root.unwrap().to_json().unwrap(), json, "{text}");
        }
    }

    #[test]
    fn what_is_no_json_is_refused_where_it_stands() {
        for text in [
            "{",
            "[1,]",
            "{\"a\":1,}",
            "{'a': 1}",
            "{a: 1}",
            "[01]",
            "[1.]",
            "[+1]",
            "[.5]",
            "[NaN]",
            "\"\\x\"",
            "\"\\ud800\"",
            "\"a\nb\"",
            "[1] 2",
            "{\"a\" 1}",
            "\"",
            "\"\\",
            "// x\n{}",
            "{} # x",
            "[tru]",
            "\"\\u0000\"",
            "\u{a0}1",
        ] {
            assert_eq!(rule_of(text), "json-invalid", "{text}");
        }
        assert_eq!(rule_of(r#"{"a": 1, "\u0061": 2}"#), "yaml-duplicate-key");
        assert_eq!(rule_of(&"[".repeat(100_000)), "yaml-too-deep");
        assert_eq!(rule_of(&format!("[{}0]", "0,".repeat(MAX_NODES))), "yaml-too-big");
        assert_eq!(rule_of(&format!("[\"{}\"]", "x".repeat(MAX_TEXT + 1))), "yaml-too-big");
    }

    #[test]
    fn spans_are_those_of_the_text() {
        let text = "é {\"name\": \"x y\"}";
        let tree = parse_within(text, &("é".len()..text.len())).unwrap();
        let Some(Node { value: Value::Map(entries), .. }) = tree.root else { panic!("a map") };
        assert_eq!(&text[entries[0].key_span.clone()], "\"name\"");
        assert_eq!(&text[entries[0].node.span.clone()], "\"x y\"");
    }
}
