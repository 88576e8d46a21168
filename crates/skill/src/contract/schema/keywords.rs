//! The keywords of JSON Schema that contain schemas, and misspelled keywords. A validator ignores those, so they would allow everything.

use std::ops::Range;

use metier_core::suggestion::closest;

use crate::yaml::{Entry, Node, Value};

/// What the value of a keyword contains.
#[derive(Clone, Copy)]
pub(super) enum SubschemaKind {
    Schema,
    Schemas,
    NamedSchemas,
}

/// The keywords that contain schemas.
pub(super) const SUBSCHEMA_KEYWORDS: [(&str, SubschemaKind); 22] = [
    ("allOf", SubschemaKind::Schemas),
    ("anyOf", SubschemaKind::Schemas),
    ("oneOf", SubschemaKind::Schemas),
    ("prefixItems", SubschemaKind::Schemas),
    ("not", SubschemaKind::Schema),
    ("if", SubschemaKind::Schema),
    ("then", SubschemaKind::Schema),
    ("else", SubschemaKind::Schema),
    ("items", SubschemaKind::Schema),
    ("additionalItems", SubschemaKind::Schema),
    ("unevaluatedItems", SubschemaKind::Schema),
    ("contains", SubschemaKind::Schema),
    ("additionalProperties", SubschemaKind::Schema),
    ("unevaluatedProperties", SubschemaKind::Schema),
    ("propertyNames", SubschemaKind::Schema),
    ("contentSchema", SubschemaKind::Schema),
    ("properties", SubschemaKind::NamedSchemas),
    ("patternProperties", SubschemaKind::NamedSchemas),
    ("dependentSchemas", SubschemaKind::NamedSchemas),
    ("dependencies", SubschemaKind::NamedSchemas),
    ("$defs", SubschemaKind::NamedSchemas),
    ("definitions", SubschemaKind::NamedSchemas),
];

/// Keywords whose schemas apply to the same value.
pub(super) const IN_PLACE_APPLICATORS: [&str; 8] =
    ["allOf", "anyOf", "oneOf", "if", "then", "else", "dependentSchemas", "dependencies"];
/// Keywords whose schemas apply to the items or fields of a value, and mark them as evaluated.
pub(super) const CHILD_APPLICATORS: [&str; 8] = [
    "additionalProperties",
    "patternProperties",
    "unevaluatedProperties",
    "prefixItems",
    "items",
    "additionalItems",
    "contains",
    "unevaluatedItems",
];
/// Keywords that apply to the parts of a value that the rest of the schema did not evaluate.
pub(super) const UNEVALUATED_KEYWORDS: [&str; 2] = ["unevaluatedProperties", "unevaluatedItems"];

/// What the value of a keyword contains, if it contains schemas.
pub(super) fn subschema_kind(keyword: &str) -> Option<SubschemaKind> {
    SUBSCHEMA_KEYWORDS.iter().find(|(known, _)| *known == keyword).map(|(_, holds)| *holds)
}

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
pub(in crate::contract) struct KeywordTypo {
    pub(in crate::contract) key: String,
    pub(in crate::contract) span: Range<usize>,
    pub(in crate::contract) suggestion: &'static str,
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
