//! What keywords hold, and what is done with it.

/// What a keyword holds.
#[derive(Clone, Copy)]
pub(super) enum Holds {
    Schema,
    Schemas,
    NamedSchemas,
}

/// The keywords that hold schemas.
pub(super) const KEYWORDS: [(&str, Holds); 22] = [
    ("allOf", Holds::Schemas),
    ("anyOf", Holds::Schemas),
    ("oneOf", Holds::Schemas),
    ("prefixItems", Holds::Schemas),
    ("not", Holds::Schema),
    ("if", Holds::Schema),
    ("then", Holds::Schema),
    ("else", Holds::Schema),
    ("items", Holds::Schema),
    ("additionalItems", Holds::Schema),
    ("unevaluatedItems", Holds::Schema),
    ("contains", Holds::Schema),
    ("additionalProperties", Holds::Schema),
    ("unevaluatedProperties", Holds::Schema),
    ("propertyNames", Holds::Schema),
    ("contentSchema", Holds::Schema),
    ("properties", Holds::NamedSchemas),
    ("patternProperties", Holds::NamedSchemas),
    ("dependentSchemas", Holds::NamedSchemas),
    ("dependencies", Holds::NamedSchemas),
    ("$defs", Holds::NamedSchemas),
    ("definitions", Holds::NamedSchemas),
];

/// Keywords whose schemas are held against the same value.
pub(super) const IN_PLACE: [&str; 8] =
    ["allOf", "anyOf", "oneOf", "if", "then", "else", "dependentSchemas", "dependencies"];
/// Keywords whose schemas are held against what the value holds, to know which of it was looked at.
pub(super) const LOOKED_AT: [&str; 8] = [
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
pub(super) const ASKING: [&str; 2] = ["unevaluatedProperties", "unevaluatedItems"];

/// What a keyword holds, if it holds schemas.
pub(super) fn holds(keyword: &str) -> Option<Holds> {
    KEYWORDS.iter().find(|(known, _)| *known == keyword).map(|(_, holds)| *holds)
}
