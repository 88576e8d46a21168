//! YAML as a tree of nodes with their spans.
//!
//! It is built from the events of `granit-parser`, because deserializing would lose what diagnostics and verdicts need: spans,
//! the source text of scalars (`1.10`, `yes`, dates), and whether flow style, anchors or tags were used. Limits apply while the
//! tree is built: the scanner limits nesting, every added node counts against the limits of nodes and text, and an alias counts
//! in full before it is copied.

mod builder;
mod core_schema;
mod layout;
mod tree;

use std::ops::Range;

use granit_parser::{ErrorKind, Parser, ScanError, options};

use self::builder::Builder;
use self::tree::map_span;
use crate::lint;

pub(crate) use self::tree::TreeLimits;
pub use self::tree::{Entry, MAX_DEPTH, MAX_NODES, MAX_TEXT, Node, Style, Tree, Value, YamlError};

/// Reads a text of one YAML document.
pub fn parse(text: &str) -> Result<Tree, YamlError> {
    parse_with_limits(text, TreeLimits::default())
}

/// Reads a text of one YAML document that may be as large as these limits say.
pub(crate) fn parse_with_limits(text: &str, limits: TreeLimits) -> Result<Tree, YamlError> {
    let options = options! {
        emit_comments: false,
        flow_nesting_limit: limits.depth,
        block_nesting_limit: limits.depth,
    };
    let mut builder = Builder::new(limits);
    for event in Parser::new_from_str_with_options(text, options) {
        let (event, span) = event.map_err(|error| YamlError::from_scan_error(&error, limits.depth))?;
        builder.handle_event(event, &span)?;
    }
    Ok(builder.finish())
}

/// Parses a part of a larger text; the spans are those in the larger text.
pub(crate) fn parse_within(text: &str, part: &Range<usize>) -> Result<Tree, YamlError> {
    let place = |offset| part.start + offset;
    match parse(&text[part.clone()]) {
        Ok(mut tree) => {
            tree.relocate(&place);
            Ok(tree)
        }
        Err(fault) => Err(YamlError { span: map_span(&fault.span, &place), ..fault }),
    }
}

impl YamlError {
    /// What would mend it in the text in which it is.
    pub(crate) fn help_in(&self, text: &str) -> String {
        self.layout_help_in(text).unwrap_or_else(|| self.help().to_owned())
    }

    /// The same where the layout of its lines is at fault.
    pub(crate) fn layout_help_in(&self, text: &str) -> Option<String> {
        layout::help(text, (&self.message, self.span.start)).filter(|_| *self.rule == lint::YAML_INVALID)
    }

    fn from_scan_error(error: &ScanError, max_depth: usize) -> Self {
        let at = error.marker().byte_offset().unwrap_or_default();
        match error.kind() {
            ErrorKind::RecursionLimitExceeded => Self::too_deep_error(at..at, max_depth),
            kind => Self { rule: &lint::YAML_INVALID, span: at..at, message: kind.to_string() },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::billion_laughs;

    fn rule_of(text: &str) -> &'static str {
        parse(text).expect_err("refused").rule.code
    }

    #[test]
    fn scalars_keep_their_source_text() {
        let tree = parse("a: 1.10\nb: 2024-01-01\nc: yes\nd: 0x1F\ne: '1'").unwrap();
        let Some(Node { value: Value::Map(entries), .. }) = tree.root else { panic!("a map") };
        let texts: Vec<_> = entries.iter().filter_map(|entry| entry.node.text()).collect();
        assert_eq!(texts, ["1.10", "2024-01-01", "yes", "0x1F", "1"]);
    }

    #[test]
    fn spans_count_bytes_of_the_source_with_any_line_end() {
        let text = "é: ü\r\nname: 'x y'\r\n";
        let Some(Node { value: Value::Map(entries), .. }) = parse(text).unwrap().root else {
            panic!("a map")
        };
        assert_eq!(&text[entries[1].key_span.clone()], "name");
        assert_eq!(&text[entries[1].node.span.clone()], "'x y'");
    }

    #[test]
    fn nesting_is_capped_in_every_style() {
        assert_eq!(rule_of(&"[".repeat(60_000)), "yaml-too-deep");
        assert_eq!(rule_of(&"{a: ".repeat(16_000)), "yaml-too-deep");
        assert_eq!(rule_of(&"- ".repeat(30_000)), "yaml-too-deep");
        assert_eq!(rule_of(&"? ".repeat(30_000)), "yaml-too-deep");
    }

    #[test]
    fn aliases_are_paid_for_before_they_are_copied() {
        assert_eq!(rule_of(&billion_laughs()), "yaml-too-big");
        let long = format!("a: &a {}\nb: [{}]", "x".repeat(30_000), vec!["*a"; 100].join(", "));
        assert_eq!(rule_of(&long), "yaml-too-big");
        assert_eq!(rule_of("a: &a [*a]"), "yaml-invalid");
    }

    #[test]
    fn aliases_cannot_stack_what_nesting_forbids() {
        let rungs =
            ('a'..='y').zip('b'..='z').map(|(before, next)| format!("{next}: &{next} [[[[*{before}]]]]"));
        let ladder = rungs.collect::<Vec<_>>().join("\n");
        assert_eq!(rule_of(&format!("a: &a x\n{ladder}")), "yaml-too-deep");
    }

    #[test]
    fn wide_documents_are_capped() {
        assert_eq!(rule_of(&"- a\n".repeat(16_000)), "yaml-too-big");
        assert_eq!(rule_of(&format!("[{}]", "a,".repeat(30_000))), "yaml-too-big");
    }

    #[test]
    fn a_duplicate_key_is_found_at_its_second_place_in_maps_of_any_size() {
        for count in [1, 15, 16, 17, 40] {
            let keys = (0..count).map(|number| format!("key{number}: 1\n")).collect::<Vec<_>>().concat();
            let error = parse(&format!("{keys}key0: 2\nkey: [\n")).expect_err("refused");
            assert_eq!((error.rule.code, error.span), ("yaml-duplicate-key", keys.len()..keys.len() + 4));
            assert!(parse(&format!("{keys}key: 2\n")).is_ok());
        }
    }

    #[test]
    fn duplicate_and_compound_keys_and_second_documents_are_refused() {
        assert_eq!(rule_of("a: 1\nb: 2\na: 3"), "yaml-duplicate-key");
        assert_eq!(rule_of("x: {a: 1, 'a': 2}"), "yaml-duplicate-key");
        assert_eq!(rule_of("[a]: b"), "yaml-key-not-text");
        assert_eq!(rule_of("a: b\n...\nc: d"), "yaml-invalid");
    }
}
