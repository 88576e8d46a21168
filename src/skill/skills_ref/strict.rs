//! What `strictyaml` refuses of the YAML that a YAML 1.2 parser takes.

use std::ops::Range;

use crate::skill::yaml::{Entry, Node, Style, Tree, Value};

/// A place and what is not allowed there.
type Refusal = (Range<usize>, &'static str);

/// The first thing the strict subset leaves out. `yaml` is where the document lies in `text`.
pub(super) fn refusal(text: &str, yaml: &Range<usize>, tree: &Tree) -> Option<Refusal> {
    if let Some(span) = &tree.property {
        return Some((span.clone(), "anchors, aliases and tags are not allowed"));
    }
    if let Some(at) = stray_tab(text, yaml, tree) {
        return Some((at..at + 1, "a tab cannot start a token"));
    }
    tree.root.as_ref().and_then(in_node)
}

fn in_node(node: &Node) -> Option<Refusal> {
    match &node.value {
        Value::Scalar(_) => None,
        Value::List(_) | Value::Map(_) if node.style == Style::Flow => {
            Some((node.span.clone(), "flow style ([…], {…}) is not allowed"))
        }
        Value::List(items) => items.iter().find_map(in_node),
        Value::Map(entries) => entries.iter().find_map(in_entry).or_else(|| uneven_maps(entries)),
    }
}

fn in_entry(entry: &Entry) -> Option<Refusal> {
    if entry.key == "<<" {
        return Some((entry.key_span.clone(), "merge keys are not allowed"));
    }
    in_node(&entry.node)
}

/// Maps that are values of one map must all be indented alike.
fn uneven_maps(entries: &[Entry]) -> Option<Refusal> {
    let mut maps = entries.iter().map(|entry| &entry.node).filter(|node| matches!(node.value, Value::Map(_)));
    let column = maps.next()?.column;
    let uneven = maps.find(|map| map.column != column)?;
    Some((uneven.span.clone(), "this mapping is indented unlike the one before it"))
}

/// A tab outside quotes, block scalars and comments.
fn stray_tab(text: &str, yaml: &Range<usize>, tree: &Tree) -> Option<usize> {
    if !text[yaml.clone()].contains('\t') {
        return None;
    }
    let mut covered = Vec::new();
    if let Some(root) = &tree.root {
        collect_texts(root, &mut covered);
    }
    let tabs = text[yaml.clone()].match_indices('\t').map(|(at, _)| yaml.start + at);
    let is_covered = |at: &usize| covered.iter().any(|span| span.contains(at));
    tabs.filter(|&at| !is_in_comment(text, at)).find(|at| !is_covered(at))
}

fn is_in_comment(text: &str, at: usize) -> bool {
    let line = text[..at].rfind('\n').map_or(0, |newline| newline + 1);
    let before = &text[line..at];
    before.trim_start().starts_with('#') || before.contains(" #")
}

fn collect_texts(node: &Node, spans: &mut Vec<Range<usize>>) {
    match &node.value {
        Value::Scalar(_) if node.style == Style::Plain => {}
        Value::Scalar(_) => spans.push(node.span.clone()),
        Value::List(items) => items.iter().for_each(|item| collect_texts(item, spans)),
        Value::Map(entries) => entries.iter().for_each(|entry| collect_texts(&entry.node, spans)),
    }
}
