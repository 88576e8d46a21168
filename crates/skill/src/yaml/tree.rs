//! The tree: a document's nodes with their spans, and its limits.

use std::ops::Range;

use crate::lint;
use crate::lint::Rule;

/// The maximum depth of nested lists and maps.
pub const MAX_DEPTH: usize = 32;
/// The maximum number of scalars, lists and maps, after aliases are expanded.
pub const MAX_NODES: usize = 10_000;
/// The maximum number of bytes of text, after aliases are expanded.
pub const MAX_TEXT: usize = 256 * 1024;

/// How large a tree may be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TreeLimits {
    /// The maximum depth of nested lists and maps.
    pub(crate) depth: usize,
    /// The maximum number of scalars, lists and maps, after aliases are expanded.
    pub(crate) nodes: usize,
    /// The maximum number of bytes of text, after aliases are expanded.
    pub(crate) text: usize,
}

/// The limits of what belongs to a skill.
impl Default for TreeLimits {
    fn default() -> Self {
        Self { depth: MAX_DEPTH, nodes: MAX_NODES, text: MAX_TEXT }
    }
}

/// A value and its span, in bytes of the text it was parsed from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// Its bytes in the text.
    pub span: Range<usize>,
    /// The column it starts in, from 0.
    pub column: usize,
    /// How it is written.
    pub style: Style,
    /// Its value.
    pub value: Value,
}

/// The value of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// A text, which may mean a number, a truth value or nothing.
    Scalar(String),
    /// A list.
    List(Vec<Node>),
    /// A mapping, in the order of the text.
    Map(Vec<Entry>),
}

/// How a value was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// A scalar without quotes.
    Plain,
    /// A scalar in single or double quotes.
    Quoted,
    /// A literal or folded scalar, an indented list or map.
    Block,
    /// `[a]` or `{a: b}`.
    Flow,
}

/// An entry of a mapping.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its key.
    pub key: String,
    /// The bytes of the key in the text.
    pub key_span: Range<usize>,
    /// Its value.
    pub node: Node,
}

/// One YAML document.
#[derive(Debug, Default)]
pub struct Tree {
    /// `None` if there are only comments and blanks.
    pub root: Option<Node>,
    /// The first anchor, alias or tag, which stricter parsers refuse.
    pub(crate) first_property: Option<Range<usize>>,
}

/// The error of a text that is not accepted YAML.
#[derive(Debug)]
pub struct YamlError {
    /// The rule that the text breaks.
    pub rule: &'static Rule,
    /// The bytes that break it.
    pub span: Range<usize>,
    /// What is wrong, as a sentence.
    pub message: String,
}

pub(super) fn map_span(span: &Range<usize>, place: &impl Fn(usize) -> usize) -> Range<usize> {
    place(span.start)..place(span.end)
}

impl Tree {
    /// Maps every span with this function.
    pub(crate) fn relocate(&mut self, place: &impl Fn(usize) -> usize) {
        self.first_property = self.first_property.as_ref().map(|span| map_span(span, place));
        if let Some(root) = &mut self.root {
            root.relocate(place);
        }
    }
}

impl Node {
    /// The text of a scalar.
    pub fn text(&self) -> Option<&str> {
        match &self.value {
            Value::Scalar(text) => Some(text),
            Value::List(_) | Value::Map(_) => None,
        }
    }

    /// Whether YAML 1.2 reads it as null: it is empty, `~` or `null`, without quotes.
    pub(crate) fn is_null(&self) -> bool {
        self.style == Style::Plain && matches!(self.text(), Some("" | "~" | "null" | "Null" | "NULL"))
    }

    fn relocate(&mut self, place: &impl Fn(usize) -> usize) {
        self.span = map_span(&self.span, place);
        match &mut self.value {
            Value::Scalar(_) => {}
            Value::List(items) => items.iter_mut().for_each(|item| item.relocate(place)),
            Value::Map(entries) => entries.iter_mut().for_each(|entry| entry.relocate(place)),
        }
    }

    /// The number of its values including itself, their bytes of text, and its depth.
    pub(super) fn weight(&self) -> NodeWeight {
        match &self.value {
            Value::Scalar(text) => NodeWeight { nodes: 1, text: text.len(), depth: 0 },
            Value::List(items) => {
                items.iter().map(Self::weight).fold(NodeWeight::COLLECTION, NodeWeight::plus_child)
            }
            Value::Map(entries) => {
                entries.iter().map(Entry::weight).fold(NodeWeight::COLLECTION, NodeWeight::plus_child)
            }
        }
    }
}

impl Entry {
    fn relocate(&mut self, place: &impl Fn(usize) -> usize) {
        self.key_span = map_span(&self.key_span, place);
        self.node.relocate(place);
    }

    fn weight(&self) -> NodeWeight {
        let NodeWeight { nodes, text, depth } = self.node.weight();
        NodeWeight { nodes: nodes + 1, text: text + self.key.len(), depth }
    }
}

#[derive(Clone, Copy)]
pub(super) struct NodeWeight {
    pub(super) nodes: usize,
    pub(super) text: usize,
    pub(super) depth: usize,
}

impl NodeWeight {
    pub(super) const COLLECTION: Self = Self { nodes: 1, text: 0, depth: 1 };

    fn plus_child(self, inner: Self) -> Self {
        let depth = self.depth.max(inner.depth + 1);
        Self { nodes: self.nodes + inner.nodes, text: self.text + inner.text, depth }
    }
}

impl YamlError {
    /// What would mend it.
    pub fn help(&self) -> &'static str {
        match *self.rule {
            lint::YAML_DUPLICATE_KEY => "keep one of them",
            lint::YAML_TOO_DEEP | lint::YAML_TOO_BIG => "move the data to a file beside SKILL.md",
            _ => {
                "put quotes around text that holds `: ` or ` #`, starts with a bracket, or has one inside `{}` or `[]`"
            }
        }
    }

    pub(super) fn too_deep_error(span: Range<usize>, max_depth: usize) -> Self {
        let message = format!("lists and maps are nested more than {max_depth} deep");
        Self { rule: &lint::YAML_TOO_DEEP, span, message }
    }
}
