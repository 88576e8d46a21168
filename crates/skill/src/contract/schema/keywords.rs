//! The keywords of JSON Schema that contain schemas.

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
