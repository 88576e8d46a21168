//! What checking a value against a schema may cost, known before it is compiled.
//!
//! Every schema that a reference leads to is counted at every place it is referred to, so that a few lines of `$ref` cannot
//! stand for billions of steps. References stay inside the schema and do not lead in a circle.

use std::collections::HashMap;

use serde_json::Value as Json;

use super::super::super::rule::{self, Rule};
use super::Fault;
use super::notation::escaped;

/// How many parts a schema may have once references are copied out.
pub(super) const MOST_PARTS: usize = 10_000;
/// How deep schemas may lie in one another once references are followed.
const DEEPEST: usize = 64;
/// A pattern costs as much as so many other parts.
const PATTERN: usize = 64;
/// Dialects whose references this file knows how to follow.
const DIALECTS: [&str; 5] = [
    "https://json-schema.org/draft/2020-12/schema",
    "https://json-schema.org/draft/2019-09/schema",
    "http://json-schema.org/draft-07/schema",
    "https://json-schema.org/draft-07/schema",
    "http://json-schema.org/draft-06/schema",
];

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

/// How large a schema is, references copied out.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Size {
    /// Keywords, values in them, and what patterns count for.
    pub(super) parts: usize,
    depth: usize,
}

/// The size of a schema that is small enough and refers only to itself.
pub(super) fn size(schema: &Json) -> Result<Size, Fault> {
    if !schema.is_object() {
        return Err(fault(&rule::SCHEMA_INVALID, "", "it must be a schema, which is a map"));
    }
    if let Some(dialect) = schema.get("$schema") {
        let known = |dialect: &str| DIALECTS.contains(&dialect.trim_end_matches('#'));
        if !dialect.as_str().is_some_and(known) {
            return Err(fault(
                &rule::SCHEMA_REFERENCE,
                "/$schema",
                &format!(
                    "{dialect} is not a dialect known here; write JSON Schema 2020-12, 2019-09 or draft 7"
                ),
            ));
        }
    }
    let mut anchors = HashMap::new();
    collect_anchors(schema, "", &mut anchors);
    Walk { root: schema, anchors, known: HashMap::new(), open: Vec::new() }.schema(schema, "", 0)
}

struct Walk<'a> {
    root: &'a Json,
    /// Pointers by the names given with `$anchor`.
    anchors: HashMap<&'a str, String>,
    /// The sizes of what references led to.
    known: HashMap<String, Size>,
    /// The references being followed.
    open: Vec<String>,
}

impl Walk<'_> {
    fn schema(&mut self, schema: &Json, at: &str, depth: usize) -> Result<Size, Fault> {
        if depth > DEEPEST {
            return Err(too_deep(at));
        }
        let Json::Object(keywords) = schema else { return Ok(Size { parts: 1, depth: 1 }) };
        let mut size = Size { parts: 1, depth: 1 };
        for (keyword, value) in keywords {
            let place = format!("{at}/{}", escaped(keyword));
            let more = self.keyword(keyword, value, &place, depth, at.is_empty())?;
            size = Size { parts: size.parts + more.parts, depth: size.depth.max(more.depth + 1) };
            if size.parts > MOST_PARTS {
                let message = format!("it has more than {MOST_PARTS} parts once references are copied out");
                return Err(fault(&rule::SCHEMA_TOO_LARGE, &place, &message));
            }
            if depth + size.depth > DEEPEST {
                return Err(too_deep(&place));
            }
        }
        Ok(size)
    }

    fn keyword(
        &mut self,
        keyword: &str,
        value: &Json,
        at: &str,
        depth: usize,
        is_root: bool,
    ) -> Result<Size, Fault> {
        match keyword {
            "$ref" => return self.reference(value, at, depth),
            "$dynamicRef" | "$recursiveRef" => {
                let message = format!("`{keyword}` is not supported; write `$ref`");
                return Err(fault(&rule::SCHEMA_REFERENCE, at, &message));
            }
            "$id" | "id" if !is_root && value.is_string() => {
                let message = format!("`{keyword}` below the top would give references another meaning");
                return Err(fault(&rule::SCHEMA_REFERENCE, at, &message));
            }
            "pattern" => return Ok(Size { parts: PATTERN, depth: 0 }),
            _ => {}
        }
        let held = KEYWORDS.iter().find(|(known, _)| *known == keyword);
        match (held.map(|(_, holds)| *holds), value) {
            (Some(Holds::Schema), Json::Object(_)) => self.schema(value, at, depth + 1),
            (Some(Holds::Schemas | Holds::Schema), Json::Array(schemas)) => {
                let named =
                    schemas.iter().enumerate().map(|(index, schema)| (format!("{at}/{index}"), schema));
                self.each(named, depth)
            }
            (Some(Holds::NamedSchemas), Json::Object(schemas)) => {
                let named = schemas.iter().map(|(name, schema)| (format!("{at}/{}", escaped(name)), schema));
                let mut size = self.each(named, depth)?;
                if keyword == "patternProperties" {
                    size.parts += PATTERN * schemas.len();
                }
                Ok(size)
            }
            _ => Ok(Size { parts: values(value), depth: 0 }),
        }
    }

    fn each<'s>(
        &mut self,
        schemas: impl Iterator<Item = (String, &'s Json)>,
        depth: usize,
    ) -> Result<Size, Fault> {
        let mut total = Size { parts: 1, depth: 0 };
        for (at, schema) in schemas {
            let size = self.schema(schema, &at, depth + 1)?;
            total = Size { parts: total.parts + size.parts, depth: total.depth.max(size.depth) };
            if total.parts > MOST_PARTS {
                break;
            }
        }
        Ok(total)
    }

    fn reference(&mut self, value: &Json, at: &str, depth: usize) -> Result<Size, Fault> {
        let Some(reference) = value.as_str() else {
            return Err(fault(&rule::SCHEMA_INVALID, at, "a reference must be text"));
        };
        let Some(inner) = reference.strip_prefix('#') else {
            let message = format!("`{reference}` lies outside the schema, and nothing is fetched");
            return Err(fault(&rule::SCHEMA_REFERENCE, at, &format!("{message}; copy it to `$defs`")));
        };
        let pointer = if inner.is_empty() || inner.starts_with('/') {
            Some(inner.to_owned())
        } else {
            self.anchors.get(inner).cloned()
        };
        let nowhere = || fault(&rule::SCHEMA_REFERENCE, at, &format!("`{reference}` leads nowhere"));
        let pointer = pointer.ok_or_else(nowhere)?;
        if let Some(known) = self.known.get(&pointer) {
            let size = Size { parts: known.parts + 1, depth: known.depth + 1 };
            return if depth + size.depth > DEEPEST { Err(too_deep(at)) } else { Ok(size) };
        }
        if self.open.contains(&pointer) || is_above(&pointer, at) {
            let message =
                format!("`{reference}` leads back to where it is; describe as many levels as are needed");
            return Err(fault(&rule::SCHEMA_REFERENCE, at, &message));
        }
        let root = self.root;
        let target = root.pointer(&pointer).ok_or_else(nowhere)?;
        self.open.push(pointer.clone());
        let size = self.schema(target, &pointer, depth + 1)?;
        self.open.pop();
        self.known.insert(pointer, size);
        Ok(Size { parts: size.parts + 1, depth: size.depth + 1 })
    }
}

/// Whether the place lies in what the pointer points to.
fn is_above(pointer: &str, place: &str) -> bool {
    place.strip_prefix(pointer).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

fn collect_anchors<'a>(value: &'a Json, at: &str, anchors: &mut HashMap<&'a str, String>) {
    match value {
        Json::Object(fields) => {
            for (key, value) in fields {
                if let (true, Some(name)) =
                    (matches!(key.as_str(), "$anchor" | "$dynamicAnchor"), value.as_str())
                {
                    anchors.insert(name, at.to_owned());
                }
                collect_anchors(value, &format!("{at}/{}", escaped(key)), anchors);
            }
        }
        Json::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                collect_anchors(item, &format!("{at}/{index}"), anchors);
            }
        }
        _ => {}
    }
}

/// How many values there are in a value, itself included.
pub(super) fn values(value: &Json) -> usize {
    match value {
        Json::Array(items) => 1 + items.iter().map(values).sum::<usize>(),
        Json::Object(fields) => 1 + fields.values().map(values).sum::<usize>(),
        _ => 1,
    }
}

fn too_deep(at: &str) -> Fault {
    let message = format!("schemas lie more than {DEEPEST} deep in one another once references are followed");
    fault(&rule::SCHEMA_TOO_LARGE, at, &message)
}

fn fault(rule: &'static Rule, pointer: &str, message: &str) -> Fault {
    Fault { rule, pointer: pointer.to_owned(), message: message.to_owned() }
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, json};

    use super::*;

    fn refused(schema: &Json) -> (&'static str, String) {
        let fault = size(schema).expect_err("refused");
        (fault.rule.code, fault.pointer)
    }

    #[test]
    fn references_stay_in_the_schema_and_end() {
        for (schema, pointer) in [
            (json!({"$ref": "file:///etc/passwd"}), "/$ref"),
            (json!({"items": {"$ref": "https://example.com/s.json"}}), "/items/$ref"),
            (json!({"$ref": "other.json#/x"}), "/$ref"),
            (json!({"$ref": "#"}), "/$ref"),
            (json!({"$ref": "#/$defs/none"}), "/$ref"),
            (json!({"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}), "/$defs/a/$ref"),
            (json!({"properties": {"x": {"$dynamicRef": "#x"}}}), "/properties/x/$dynamicRef"),
            (json!({"items": {"$id": "https://example.com/", "$ref": "#/x"}}), "/items/$id"),
            (json!({"$schema": "https://example.com/own"}), "/$schema"),
        ] {
            assert_eq!(refused(&schema), ("schema-reference", pointer.to_owned()), "{schema}");
        }
        let fine = json!({"$defs": {"a": {"type": "string", "$anchor": "text"}}, "properties": {
            "x": {"$ref": "#/$defs/a"}, "y": {"$ref": "#text"}, "$ref": {"type": "string"}
        }});
        assert!(size(&fine).is_ok());
    }

    #[test]
    fn a_schema_that_unfolds_is_counted_unfolded() {
        let mut defs = Map::new();
        for level in 0..30 {
            let below = json!({"$ref": format!("#/$defs/d{}", level + 1)});
            defs.insert(format!("d{level}"), json!({"anyOf": [below.clone(), below]}));
        }
        defs.insert("d30".into(), json!({"type": "string"}));
        let doubling = json!({"$defs": defs, "$ref": "#/$defs/d0"});
        assert_eq!(refused(&doubling).0, "schema-too-large");
    }

    #[test]
    fn a_chain_of_references_is_bounded() {
        let mut defs = Map::new();
        for level in 0..3000 {
            defs.insert(format!("d{level}"), json!({"$ref": format!("#/$defs/d{}", level + 1)}));
        }
        defs.insert("d3000".into(), json!(true));
        assert_eq!(refused(&json!({"$defs": defs})).0, "schema-too-large");
    }
}
