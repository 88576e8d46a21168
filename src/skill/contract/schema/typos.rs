//! Slips in the keywords of a JSON Schema. What no keyword is called lets everything through, and nobody is told.

use std::ops::Range;

use super::super::super::yaml::{Entry, Node, Value};
use super::keywords::{SUBSCHEMA_KEYWORDS, SubschemaKind, subschema_kind};

/// The keywords that hold no schemas, in the dialects that are known.
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
/// Longer keys are no slips, and words as short as these keywords are near anything.
const MAX_KEY_LEN: usize = 32;
const MIN_KEYWORD_LEN: usize = 4;

/// A key that is none, and the keyword it was probably meant to be.
pub(in super::super) struct KeywordTypo {
    pub(in super::super) key: String,
    pub(in super::super) span: Range<usize>,
    pub(in super::super) suggestion: &'static str,
}

/// The slips in a schema and those in it, the first of them.
pub(super) fn find_typos(schema: &Node, most: usize) -> Vec<KeywordTypo> {
    let mut found = Vec::new();
    collect_typos(schema, most, &mut found);
    found
}

fn collect_typos(schema: &Node, most: usize, found: &mut Vec<KeywordTypo>) {
    let Value::Map(entries) = &schema.value else { return };
    for Entry { key, key_span, node } in entries {
        if found.len() >= most {
            return;
        }
        match (subschema_kind(key), &node.value) {
            (Some(SubschemaKind::Schema), Value::Map(_)) => collect_typos(node, most, found),
            (Some(SubschemaKind::Schema | SubschemaKind::Schemas), Value::List(schemas)) => {
                for schema in schemas {
                    collect_typos(schema, most, found);
                }
            }
            (Some(SubschemaKind::NamedSchemas), Value::Map(named)) => {
                for Entry { node, .. } in named {
                    collect_typos(node, most, found);
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

/// The keyword a slip or two away, however its words are joined.
fn closest_keyword(key: &str) -> Option<&'static str> {
    if key.len() > MAX_KEY_LEN || OTHER_KEYWORDS.contains(&key) {
        return None;
    }
    let plain = |text: &str| text.to_lowercase().replace(['-', '_', ' '], "");
    let spelt = plain(key);
    let slips = (spelt.chars().count() / 3).min(2);
    let known = SUBSCHEMA_KEYWORDS.iter().map(|(keyword, _)| *keyword).chain(OTHER_KEYWORDS);
    let near = known.filter(|keyword| keyword.len() >= MIN_KEYWORD_LEN);
    let near = near.map(|keyword| (strsim::osa_distance(&plain(keyword), &spelt), keyword));
    near.filter(|(distance, _)| *distance <= slips).min().map(|(_, keyword)| keyword)
}
