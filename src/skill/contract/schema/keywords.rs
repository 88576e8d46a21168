//! What keywords hold, and what is done with it.

/// What a keyword holds.
#[derive(Clone, Copy)]
pub(super) enum SubschemaKind {
    Schema,
    Schemas,
    NamedSchemas,
}

/// The keywords that hold schemas.
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

/// Keywords whose schemas are held against the same value.
pub(super) const IN_PLACE_APPLICATORS: [&str; 8] =
    ["allOf", "anyOf", "oneOf", "if", "then", "else", "dependentSchemas", "dependencies"];
/// Keywords whose schemas are held against what the value holds, to know which of it was looked at.
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
/// Keywords that ask which parts of a value the rest of their schema looked at.
pub(super) const UNEVALUATED_KEYWORDS: [&str; 2] = ["unevaluatedProperties", "unevaluatedItems"];

/// What a keyword holds, if it holds schemas.
pub(super) fn subschema_kind(keyword: &str) -> Option<SubschemaKind> {
    SUBSCHEMA_KEYWORDS.iter().find(|(known, _)| *known == keyword).map(|(_, holds)| *holds)
}
