//! Slips in the keywords of a JSON Schema. What no keyword is called lets everything through, and nobody is told.

use std::ops::Range;

use super::super::super::yaml::{Entry, Node, Value};
use super::keywords::{Holds, KEYWORDS, holds};

/// The keywords that hold no schemas, in the dialects that are known.
const OTHERS: [&str; 40] = [
    "$anchor",
    "$comment",
    "$dynamicAnchor",
    "$dynamicRef",
    "$id",
    "$recursiveAnchor",
    "$recursiveRef",
    "$ref",
    "$schema",
    "$vocabulary",
    "const",
    "contentEncoding",
    "contentMediaType",
    "default",
    "dependentRequired",
    "deprecated",
    "description",
    "enum",
    "examples",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "format",
    "id",
    "maxContains",
    "maxItems",
    "maxLength",
    "maxProperties",
    "maximum",
    "minContains",
    "minItems",
    "minLength",
    "minProperties",
    "minimum",
    "multipleOf",
    "pattern",
    "readOnly",
    "required",
    "title",
    "type",
    "uniqueItems",
];
/// Longer keys are no slips, and words as short as these keywords are near anything.
const LONGEST: usize = 32;
const SHORTEST: usize = 4;

/// A key that is none, and the keyword it was probably meant to be.
pub(in super::super) struct Slip {
    pub(in super::super) key: String,
    pub(in super::super) span: Range<usize>,
    pub(in super::super) meant: &'static str,
}

/// The slips in a schema and those in it, the first of them.
pub(super) fn slips(schema: &Node, most: usize) -> Vec<Slip> {
    let mut found = Vec::new();
    look(schema, most, &mut found);
    found
}

fn look(schema: &Node, most: usize, found: &mut Vec<Slip>) {
    let Value::Map(entries) = &schema.value else { return };
    for Entry { key, key_span, node } in entries {
        if found.len() >= most {
            return;
        }
        match (holds(key), &node.value) {
            (Some(Holds::Schema), Value::Map(_)) => look(node, most, found),
            (Some(Holds::Schema | Holds::Schemas), Value::List(schemas)) => {
                for schema in schemas {
                    look(schema, most, found);
                }
            }
            (Some(Holds::NamedSchemas), Value::Map(named)) => {
                for Entry { node, .. } in named {
                    look(node, most, found);
                }
            }
            (None, _) => {
                let slip = |meant| Slip { key: key.clone(), span: key_span.clone(), meant };
                found.extend(meant(key).map(slip));
            }
            _ => {}
        }
    }
}

/// The keyword a slip or two away, however its words are joined.
fn meant(key: &str) -> Option<&'static str> {
    if key.len() > LONGEST || OTHERS.contains(&key) {
        return None;
    }
    let plain = |text: &str| text.to_lowercase().replace(['-', '_', ' '], "");
    let spelt = plain(key);
    let slips = (spelt.chars().count() / 3).min(2);
    let known = KEYWORDS.iter().map(|(keyword, _)| *keyword).chain(OTHERS);
    let near = known.filter(|keyword| keyword.len() >= SHORTEST);
    let near = near.map(|keyword| (strsim::osa_distance(&plain(keyword), &spelt), keyword));
    near.filter(|(distance, _)| *distance <= slips).min().map(|(_, keyword)| keyword)
}
