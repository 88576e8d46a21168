//! Builds a tree of limited size from the events of the parser.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use granit_parser::{Event, ScalarStyle, Span, StructureStyle};

use crate::diagnostic_sink::find_control_character;

use super::tree::{Entry, Node, NodeWeight, Style, Tree, TreeLimits, Value, YamlError};
use crate::lint;

/// A tree that is being built.
#[derive(Default)]
pub(super) struct Builder {
    limits: TreeLimits,
    tree: Tree,
    open: Vec<OpenCollection>,
    anchors: HashMap<usize, Node>,
    documents: usize,
    nodes: usize,
    text: usize,
}

/// A list or map that has not ended.
struct OpenCollection {
    node: Node,
    anchor: usize,
    key: Option<(String, Range<usize>)>,
    /// The keys of a map that has many.
    keys: HashSet<String>,
}

impl Builder {
    pub(super) fn new(limits: TreeLimits) -> Self {
        Self { limits, ..Self::default() }
    }

    pub(super) fn handle_event(&mut self, event: Event<'_>, span: &Span) -> Result<(), YamlError> {
        match event {
            Event::DocumentStart(..) => self.start_document(span),
            Event::Scalar(text, style, anchor, tag) => {
                self.note_property(anchor > 0 || tag.is_some(), span);
                refuse_controls(&text, span)?;
                // The parser reports an absent value as `~`.
                let text = if is_absent(style, span) { String::new() } else { text.into_owned() };
                self.add_node(node(span, scalar_style(style), Value::Scalar(text)), anchor)
            }
            Event::SequenceStart(style, anchor, tag) => {
                self.note_property(anchor > 0 || tag.is_some(), span);
                self.open(node(span, collection_style(style), Value::List(Vec::new())), anchor)
            }
            Event::MappingStart(style, anchor, tag) => {
                self.note_property(anchor > 0 || tag.is_some(), span);
                self.open(node(span, collection_style(style), Value::Map(Vec::new())), anchor)
            }
            Event::SequenceEnd | Event::MappingEnd => self.close(span),
            Event::Alias(anchor) => {
                self.note_property(true, span);
                self.expand_alias(anchor, span)
            }
            _ => Ok(()),
        }
    }

    pub(super) fn finish(self) -> Tree {
        self.tree
    }

    fn start_document(&mut self, span: &Span) -> Result<(), YamlError> {
        self.documents += 1;
        if self.documents > 1 {
            return Err(invalid_yaml(byte_range(span), "a second YAML document starts here"));
        }
        Ok(())
    }

    fn note_property(&mut self, present: bool, span: &Span) {
        if present && self.tree.first_property.is_none() {
            self.tree.first_property = Some(byte_range(span));
        }
    }

    fn open(&mut self, node: Node, anchor: usize) -> Result<(), YamlError> {
        if self.open.len() >= self.limits.depth {
            return Err(YamlError::too_deep_error(node.span, self.limits.depth));
        }
        self.open.push(OpenCollection { node, anchor, key: None, keys: HashSet::new() });
        Ok(())
    }

    fn close(&mut self, span: &Span) -> Result<(), YamlError> {
        let Some(OpenCollection { mut node, anchor, .. }) = self.open.pop() else { return Ok(()) };
        node.span.end = byte_range(span).end.max(node.span.start);
        self.add_node(node, anchor)
    }

    /// Adds a finished node to its parent, and keeps a copy if it has an anchor.
    fn add_node(&mut self, node: Node, anchor: usize) -> Result<(), YamlError> {
        let own = match &node.value {
            Value::Scalar(text) => NodeWeight { nodes: 1, text: text.len(), depth: 0 },
            Value::List(_) | Value::Map(_) => NodeWeight::COLLECTION,
        };
        self.charge(own, &node.span)?;
        if anchor > 0 {
            self.charge(node.weight(), &node.span)?;
            self.anchors.insert(anchor, node.clone());
        }
        self.attach(node)
    }

    /// Adds a copy of the anchored node.
    fn expand_alias(&mut self, anchor: usize, span: &Span) -> Result<(), YamlError> {
        let Some(original) = self.anchors.get(&anchor) else {
            return Err(invalid_yaml(byte_range(span), "the alias stands inside what it refers to"));
        };
        let weight = original.weight();
        if self.open.len() + weight.depth > self.limits.depth {
            return Err(YamlError::too_deep_error(byte_range(span), self.limits.depth));
        }
        self.charge(weight, &byte_range(span))?;
        let Some(mut copy) = self.anchors.get(&anchor).cloned() else { return Ok(()) };
        copy.span = byte_range(span);
        self.attach(copy)
    }

    fn charge(&mut self, weight: NodeWeight, span: &Range<usize>) -> Result<(), YamlError> {
        self.nodes += weight.nodes;
        self.text += weight.text;
        let TreeLimits { nodes, text, .. } = self.limits;
        if self.nodes <= nodes && self.text <= text {
            return Ok(());
        }
        let message = format!("there are more than {nodes} values or {} KiB of text", text / 1024);
        Err(YamlError { rule: &lint::YAML_TOO_BIG, span: span.clone(), message })
    }

    fn attach(&mut self, node: Node) -> Result<(), YamlError> {
        let Some(parent) = self.open.last_mut() else {
            self.tree.root = Some(node);
            return Ok(());
        };
        match &mut parent.node.value {
            Value::Scalar(_) => {}
            Value::List(items) => items.push(node),
            Value::Map(entries) => match parent.key.take() {
                Some((key, key_span)) => entries.push(Entry { key, key_span, node }),
                None => parent.key = Some(take_key(node, entries, &mut parent.keys)?),
            },
        }
        Ok(())
    }
}

/// Up to this many keys of a map are compared one by one, which takes less than a set of them.
const MAX_COMPARED_KEYS: usize = 16;

fn take_key(
    node: Node,
    entries: &[Entry],
    keys: &mut HashSet<String>,
) -> Result<(String, Range<usize>), YamlError> {
    let span = node.span;
    let Value::Scalar(key) = node.value else {
        let message = "a key must be text, not a list or a map".to_owned();
        return Err(YamlError { rule: &lint::YAML_KEY_NOT_TEXT, span, message });
    };
    let is_repeated = if entries.len() < MAX_COMPARED_KEYS {
        entries.iter().any(|entry| entry.key == key)
    } else {
        if keys.is_empty() {
            keys.extend(entries.iter().map(|entry| entry.key.clone()));
        }
        !keys.insert(key.clone())
    };
    if is_repeated {
        let message = format!("the key `{key}` appears twice");
        return Err(YamlError { rule: &lint::YAML_DUPLICATE_KEY, span, message });
    }
    Ok((key, span))
}

/// An escape may stand for a control character that the source itself must not contain.
fn refuse_controls(text: &str, span: &Span) -> Result<(), YamlError> {
    let Some(control) = find_control_character(text).and_then(|at| text[at..].chars().next()) else {
        return Ok(());
    };
    let message = format!("an escape stands for the control character U+{:04X}", u32::from(control));
    Err(YamlError { rule: &lint::CONTROL_CHARACTER, span: byte_range(span), message })
}

fn invalid_yaml(span: Range<usize>, message: &str) -> YamlError {
    YamlError { rule: &lint::YAML_INVALID, span, message: message.to_owned() }
}

fn node(span: &Span, style: Style, value: Value) -> Node {
    Node { span: byte_range(span), column: span.start.col(), style, value }
}

fn is_absent(style: ScalarStyle, span: &Span) -> bool {
    style == ScalarStyle::Plain && byte_range(span).is_empty()
}

fn byte_range(span: &Span) -> Range<usize> {
    span.byte_range().unwrap_or_default()
}

fn scalar_style(style: ScalarStyle) -> Style {
    match style {
        ScalarStyle::Plain => Style::Plain,
        ScalarStyle::SingleQuoted | ScalarStyle::DoubleQuoted => Style::Quoted,
        ScalarStyle::Literal | ScalarStyle::Folded => Style::Block,
    }
}

fn collection_style(style: StructureStyle) -> Style {
    match style {
        StructureStyle::Block => Style::Block,
        StructureStyle::Flow => Style::Flow,
    }
}
