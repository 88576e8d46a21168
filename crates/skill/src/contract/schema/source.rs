//! A schema as it was read from `skill.yaml`, and where its parts stand in the text.

use std::ops::Range;

use serde_json::Value as Json;

use super::errors;
use super::keywords::{self, KeywordTypo};
use crate::yaml::{Node, Value};

/// Whether a schema describes what goes in or what comes out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SchemaRole {
    Inputs,
    Outputs,
    /// The inputs of a declared tool, under this key: a JSON Schema and no list of parameters.
    Tool(&'static str),
}

impl SchemaRole {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Inputs => "inputs",
            Self::Outputs => "outputs",
            Self::Tool(key) => key,
        }
    }
}

/// JSON that was read as a schema and is not checked yet.
pub(super) struct SchemaDraft<'a> {
    pub(super) json: Json,
    /// The names of its properties, in written order.
    pub(super) property_names: Vec<String>,
    pub(super) source: SchemaSource<'a>,
}

/// Where the parts of a schema stand in the text.
pub(in crate::contract) enum SchemaSource<'a> {
    /// The text is the schema, so each part stands where the same part of the node does.
    JsonSchema(&'a Node),
    /// The schema was compiled from parameters; the parts that were written are listed by their JSON Pointers.
    Parameters { whole: Range<usize>, spans: Vec<(String, Range<usize>)> },
}

impl SchemaSource<'_> {
    /// Up to `max` keys that look like misspelled keywords. Parameters have none: an unknown constraint is an error there.
    pub(in crate::contract) fn keyword_typos(&self, max: usize) -> Vec<KeywordTypo> {
        match self {
            Self::JsonSchema(node) => keywords::find_typos(node, max),
            Self::Parameters { .. } => Vec::new(),
        }
    }

    /// Where the part at that JSON Pointer stands, or else the nearest part around it.
    pub(in crate::contract) fn span(&self, pointer: &str) -> Range<usize> {
        match self {
            Self::JsonSchema(node) => span_in_node(node, pointer),
            Self::Parameters { whole, spans } => {
                let is_around = |part: &str| {
                    pointer.strip_prefix(part).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
                };
                let around = spans.iter().filter(|(part, _)| is_around(part));
                let nearest = around.max_by_key(|(part, _)| part.len());
                nearest.map_or_else(|| whole.clone(), |(_, span)| span.clone())
            }
        }
    }
}

fn span_in_node(root: &Node, pointer: &str) -> Range<usize> {
    let mut node = root;
    for token in errors::tokens(pointer) {
        let child = match &node.value {
            Value::Map(entries) => entries.iter().find(|entry| entry.key == token).map(|entry| &entry.node),
            Value::List(items) => token.parse::<usize>().ok().and_then(|at| items.get(at)),
            Value::Scalar(_) => None,
        };
        let Some(child) = child else { break };
        node = child;
    }
    node.span.clone()
}
