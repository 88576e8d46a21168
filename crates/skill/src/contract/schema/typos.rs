//! Finds misspelled keywords in a JSON Schema. A validator ignores them, so they would allow everything.

use std::ops::Range;

use super::keywords::{SUBSCHEMA_KEYWORDS, SubschemaKind, subschema_kind};
use crate::yaml::{Entry, Node, Value};
use metier_core::suggestion::closest;

/// The keywords of the supported dialects that contain no schemas.
const OTHER_KEYWORDS: [&str; 40] = [
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
/// Longer keys are no typos, and shorter keywords are similar to any short word.
const MAX_KEY_LEN: usize = 32;
const MIN_KEYWORD_LEN: usize = 4;

/// A key that is not a keyword, and the keyword that was probably meant.
pub(in super::super) struct KeywordTypo {
    pub(in super::super) key: String,
    pub(in super::super) span: Range<usize>,
    pub(in super::super) suggestion: &'static str,
}

/// The typos in a schema and its subschemas, at most `max`.
pub(super) fn find_typos(schema: &Node, max: usize) -> Vec<KeywordTypo> {
    let mut found = Vec::new();
    collect_typos(schema, max, &mut found);
    found
}

fn collect_typos(schema: &Node, max: usize, found: &mut Vec<KeywordTypo>) {
    let Value::Map(entries) = &schema.value else { return };
    for Entry { key, key_span, node } in entries {
        if found.len() >= max {
            return;
        }
        match (subschema_kind(key), &node.value) {
            (Some(SubschemaKind::Schema), Value::Map(_)) => collect_typos(node, max, found),
            (Some(SubschemaKind::Schema | SubschemaKind::Schemas), Value::List(schemas)) => {
                for schema in schemas {
                    collect_typos(schema, max, found);
                }
            }
            (Some(SubschemaKind::NamedSchemas), Value::Map(named)) => {
                for Entry { node, .. } in named {
                    collect_typos(node, max, found);
                }
            }
            (None, _) => {
                let slip =
                    |meant| KeywordTypo { key: key.clone(), span: key_span.clone(), suggestion: meant };
                found.extend(closest_keyword(key).map(slip));
            }
            _ => {}
        }
    }
}

/// The keyword that a key was probably meant to be.
fn closest_keyword(key: &str) -> Option<&'static str> {
    if key.len() > MAX_KEY_LEN || OTHER_KEYWORDS.contains(&key) {
        return None;
    }
    let known = SUBSCHEMA_KEYWORDS.iter().map(|(keyword, _)| *keyword).chain(OTHER_KEYWORDS);
    closest(key, known.filter(|keyword| keyword.len() >= MIN_KEYWORD_LEN))
}
