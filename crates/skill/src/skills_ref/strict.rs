//! Finds YAML that a YAML 1.2 parser accepts and `strictyaml` refuses.

use std::ops::Range;

use crate::yaml::{Entry, Node, Style, Tree, Value};

/// A span, and what is not allowed there.
type Refusal = (Range<usize>, &'static str);

/// The first construct outside of the strict subset. `yaml` is where the document lies in `text`.
pub(super) fn first_refusal(text: &str, yaml: &Range<usize>, tree: &Tree) -> Option<Refusal> {
    if let Some(span) = &tree.first_property {
        return Some((span.clone(), "anchors, aliases and tags are not allowed"));
    }
    if let Some(at) = stray_tab(text, yaml, tree) {
        return Some((at..at + 1, "a tab cannot start a token"));
    }
    tree.root.as_ref().and_then(refusal_in_node)
}

fn refusal_in_node(node: &Node) -> Option<Refusal> {
    match &node.value {
        Value::Scalar(_) => None,
        Value::List(_) | Value::Map(_) if node.style == Style::Flow => {
            Some((node.span.clone(), "flow style ([…], {…}) is not allowed"))
        }
        Value::List(items) => items.iter().find_map(refusal_in_node),
        Value::Map(entries) => entries.iter().find_map(refusal_in_entry).or_else(|| uneven_maps(entries)),
    }
}

fn refusal_in_entry(entry: &Entry) -> Option<Refusal> {
    if entry.key == "<<" {
        return Some((entry.key_span.clone(), "merge keys are not allowed"));
    }
    refusal_in_node(&entry.node)
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
        collect_quoted_spans(root, &mut covered);
    }
    // Without aliases the spans are sorted, so each tab takes one binary search.
    let is_covered = |at: usize| {
        let next = covered.partition_point(|span| span.end <= at);
        covered.get(next).is_some_and(|span| span.start <= at)
    };
    tabs_in_code(text, yaml).find(|&at| !is_covered(at))
}

fn tabs_in_code(text: &str, yaml: &Range<usize>) -> impl Iterator<Item = usize> {
    let lines = text[yaml.clone()].split_inclusive('\n').scan(yaml.start, |offset, line| {
        let start = *offset;
        *offset += line.len();
        Some((start, line))
    });
    lines.flat_map(|(start, line)| without_comment(line).match_indices('\t').map(move |(at, _)| start + at))
}

fn without_comment(line: &str) -> &str {
    if line.trim_start().starts_with('#') {
        return "";
    }
    &line[..line.find(" #").unwrap_or(line.len())]
}

fn collect_quoted_spans(node: &Node, spans: &mut Vec<Range<usize>>) {
    match &node.value {
        Value::Scalar(_) if node.style == Style::Plain => {}
        Value::Scalar(_) => spans.push(node.span.clone()),
        Value::List(items) => items.iter().for_each(|item| collect_quoted_spans(item, spans)),
        Value::Map(entries) => entries.iter().for_each(|entry| collect_quoted_spans(&entry.node, spans)),
    }
}
