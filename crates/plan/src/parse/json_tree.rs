//! Parses JSON into the same tree as YAML, so that one parser reads both kinds of plan, positions included.

use metier_core::suggestion::did_you_mean;
use metier_skill::yaml::{Entry, Node, Style, Value};

use crate::diagnostic_sink::{PlanDiagnosticSink, quoted_excerpt, suggest_name};
use crate::lint;

/// The tree of a text that is known to be valid JSON, nested no deeper than `serde_json` reads.
pub(crate) fn parse_tree(text: &str) -> Node {
    parse_tree_at(text, 0)
}

/// The tree of the valid JSON at this offset of a text.
pub(crate) fn parse_tree_at(text: &str, at: usize) -> Node {
    JsonTreeParser { text, at }.parse_value()
}

struct JsonTreeParser<'a> {
    text: &'a str,
    at: usize,
}

impl JsonTreeParser<'_> {
    fn parse_value(&mut self) -> Node {
        self.skip_blanks();
        let start = self.at;
        let (style, value) = match self.next_byte() {
            Some(b'[') => (Style::Flow, Value::List(self.parse_list())),
            Some(b'{') => (Style::Flow, Value::Map(self.parse_map())),
            Some(b'"') => (Style::Quoted, Value::Scalar(self.parse_string())),
            _ => (Style::Plain, Value::Scalar(self.parse_literal())),
        };
        Node { span: start..self.at, column: 0, style, value }
    }

    fn parse_list(&mut self) -> Vec<Node> {
        let mut items = Vec::new();
        self.at += 1;
        while !self.consume_end(b']') {
            items.push(self.parse_value());
        }
        items
    }

    fn parse_map(&mut self) -> Vec<Entry> {
        let mut entries = Vec::new();
        self.at += 1;
        while !self.consume_end(b'}') {
            let start = self.at;
            let key = self.parse_string();
            let key_span = start..self.at;
            self.skip_blanks();
            self.at += 1;
            entries.push(Entry { key, key_span, node: self.parse_value() });
        }
        entries
    }

    /// Whether the list or map ends here; consumes its end, or the comma before the next item.
    fn consume_end(&mut self, end: u8) -> bool {
        self.skip_blanks();
        match self.next_byte() {
            Some(b',') => {
                self.at += 1;
                self.skip_blanks();
                false
            }
            Some(byte) if byte != end => false,
            _ => {
                self.at = self.text.len().min(self.at + 1);
                true
            }
        }
    }

    fn parse_string(&mut self) -> String {
        let start = self.at;
        let rest = &self.text[start..];
        self.at += metier_core::template::json_string_len(rest).unwrap_or(rest.len());
        serde_json::from_str(&self.text[start..self.at]).unwrap_or_default()
    }

    fn parse_literal(&mut self) -> String {
        let rest = &self.text[self.at..];
        let length = rest.find(|c: char| ",]} \t\r\n".contains(c)).unwrap_or(rest.len());
        self.at += length;
        rest[..length].to_owned()
    }

    fn skip_blanks(&mut self) {
        let rest = &self.text[self.at..];
        self.at += rest.len() - rest.trim_start_matches([' ', '\t', '\r', '\n']).len();
    }

    fn next_byte(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }
}

/// The names that other workflow engines use for the keys of a step.
const OTHER_WORKFLOW_KEYS: [(&str, &str); 10] = [
    ("depends_on", "after"),
    ("needs", "after"),
    ("arguments", "args"),
    ("params", "args"),
    ("parameters", "args"),
    ("input", "args"),
    ("inputs", "args"),
    ("with", "args"),
    ("if", "when"),
    ("condition", "when"),
];

/// The value of a key.
pub(crate) fn find_node<'a>(entries: &'a [Entry], key: &str) -> Option<&'a Node> {
    entries.iter().find(|entry| entry.key == key).map(|entry| &entry.node)
}

/// Reports every key that is not a known one.
pub(crate) fn report_unknown_keys(entries: &[Entry], known: &[&str], findings: &mut PlanDiagnosticSink<'_>) {
    for entry in entries.iter().filter(|entry| !known.contains(&entry.key.as_str())) {
        if findings.is_full() {
            return;
        }
        let message = format!("nothing is called {} here", quoted_excerpt(&entry.key));
        let elsewhere =
            OTHER_WORKFLOW_KEYS.iter().find(|(word, own)| *word == entry.key && known.contains(own));
        let help = elsewhere.map(|(_, own)| did_you_mean(own));
        let help = help.unwrap_or_else(|| suggest_name(&entry.key, known.iter().copied()));
        findings.add(&lint::KEY, &entry.key_span, message, help);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn spans_point_at_what_they_are_of() {
        let text = " [ {\"a b\" : [1, -2.5e3,\"x\\\"y\"], \"c\":{} },null ,[]] ";
        let root = parse_tree(text);
        assert_eq!(root.to_json().unwrap(), json!([{"a b": [1, -2500.0, "x\"y"], "c": {}}, null, []]));
        let Value::List(items) = &root.value else { panic!("a list") };
        let Value::Map(entries) = &items[0].value else { panic!("a map") };
        assert_eq!(&text[entries[0].key_span.clone()], "\"a b\"");
        assert_eq!(&text[entries[1].node.span.clone()], "{}");
        assert_eq!(&text[items[1].span.clone()], "null");
    }

    fn any_json() -> impl Strategy<Value = serde_json::Value> {
        let leaf = prop_oneof![
            Just(json!(null)),
            any::<bool>().prop_map(Into::into),
            any::<i64>().prop_map(Into::into),
            (-1e9..1e9).prop_map(|number: f64| json!(number)),
            any::<String>().prop_map(Into::into),
        ];
        leaf.prop_recursive(4, 40, 6, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..6).prop_map(Into::into),
                prop::collection::btree_map(any::<String>(), inner, 0..6)
                    .prop_map(|entries| serde_json::Value::Object(entries.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn the_tree_says_what_the_text_says(value in any_json(), is_pretty in any::<bool>()) {
            let text = if is_pretty { format!("{value:#}") } else { value.to_string() };
            prop_assert_eq!(parse_tree(&text).to_json(), Ok(value));
        }
    }
}
