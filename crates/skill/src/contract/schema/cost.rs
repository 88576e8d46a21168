//! Estimates the cost of validating a value against a schema, before the schema is compiled.
//!
//! A schema that is referenced is counted once for each reference, because a validator checks it each time; a few lines of
//! `$ref` can mean billions of steps. References must stay inside the schema and must not form a cycle.

use std::collections::HashMap;

use serde_json::{Map, Value as Json};

use super::anchors::{collect_anchors, points_into_data};
use super::errors::{SchemaError, escape_token};
use super::keywords::{
    CHILD_APPLICATORS, IN_PLACE_APPLICATORS, SubschemaKind, UNEVALUATED_KEYWORDS, subschema_kind,
};
use super::regex_cost;
use crate::lint;

/// The maximum number of parts of a schema, with references expanded.
pub(super) const MAX_PARTS: usize = 10_000;
/// The maximum depth of nested schemas, with references expanded.
const MAX_DEPTH: usize = 64;
/// The parts that a pattern counts as, besides one for each of its bytes.
const PATTERN_COST: usize = 64;
/// The parts that `multipleOf` with a fraction counts as, because it is computed exactly.
const FRACTION_COST: usize = 100;
/// The dialects whose references are supported.
const DIALECTS: [&str; 5] = [
    "https://json-schema.org/draft/2020-12/schema",
    "https://json-schema.org/draft/2019-09/schema",
    "http://json-schema.org/draft-07/schema",
    "https://json-schema.org/draft-07/schema",
    "http://json-schema.org/draft-06/schema",
];

/// The size of a schema, with references expanded.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SchemaCost {
    /// Keywords, the values in them, and patterns by their cost.
    pub(super) parts: usize,
    /// The additional parts that are checked to find out which parts of a value were evaluated: every schema that applies to the
    /// same value is checked once more, and so are the schemas in it.
    evaluation: usize,
    /// The number of positions of its patterns; see [`regex_cost`].
    pub(super) pattern_positions: usize,
    depth: usize,
}

impl SchemaCost {
    /// The cost of values without schemas in them.
    fn leaf(parts: usize) -> Self {
        Self { parts, ..Self::default() }
    }

    fn through_reference(self) -> Self {
        Self { parts: self.parts + 1, depth: self.depth + 1, ..self }
    }
}

/// The cost of a schema, or why it is refused: it is too large, or a reference is not supported.
pub(super) fn schema_cost(schema: &Json) -> Result<SchemaCost, SchemaError> {
    if !schema.is_object() {
        return Err(SchemaError::new(&lint::SCHEMA_INVALID, "", "it must be a schema, which is a map"));
    }
    if let Some(dialect) = schema.get("$schema") {
        let known = |dialect: &str| DIALECTS.contains(&dialect.trim_end_matches('#'));
        if !dialect.as_str().is_some_and(known) {
            return Err(SchemaError::new(
                &lint::SCHEMA_REFERENCE,
                "/$schema",
                format!(
                    "{dialect} is not a dialect known here; write JSON Schema 2020-12, 2019-09 or draft 7"
                ),
            ));
        }
    }
    if count_values(schema) > MAX_PARTS {
        return Err(too_many_parts_error(""));
    }
    let anchors = collect_anchors(schema)?;
    CostCounter { root: schema, anchors, measured_costs: HashMap::new(), open_references: Vec::new() }
        .schema(schema, "", 0)
}

struct CostCounter<'a> {
    root: &'a Json,
    /// JSON Pointers by the names of anchors.
    anchors: HashMap<&'a str, String>,
    /// The costs of the schemas that references led to.
    measured_costs: HashMap<String, SchemaCost>,
    /// The references that are being followed, to detect cycles.
    open_references: Vec<String>,
}

impl CostCounter<'_> {
    fn schema(&mut self, schema: &Json, at: &str, depth: usize) -> Result<SchemaCost, SchemaError> {
        if depth > MAX_DEPTH {
            return Err(too_deep_error(at));
        }
        let Json::Object(keywords) = schema else {
            return Ok(SchemaCost { depth: 1, ..SchemaCost::leaf(count_values(schema)) });
        };
        let mut size = SchemaCost { parts: 1, evaluation: 1, pattern_positions: 0, depth: 1 };
        for (keyword, value) in keywords {
            let place = format!("{at}/{}", escape_token(keyword));
            let more = self.keyword(keyword, value, &place, depth)?;
            let looking = match keyword.as_str() {
                "$ref" => more.evaluation,
                "properties" => value.as_object().map_or(0, Map::len),
                keyword if IN_PLACE_APPLICATORS.contains(&keyword) => more.parts + more.evaluation,
                keyword if CHILD_APPLICATORS.contains(&keyword) => more.parts,
                _ => 0,
            };
            size = SchemaCost {
                parts: size.parts + more.parts,
                evaluation: size.evaluation + looking,
                pattern_positions: size.pattern_positions.saturating_add(more.pattern_positions),
                depth: size.depth.max(more.depth + 1),
            };
            if size.parts > MAX_PARTS {
                return Err(too_many_parts_error(&place));
            }
            if depth + size.depth > MAX_DEPTH {
                return Err(too_deep_error(&place));
            }
        }
        for keyword in UNEVALUATED_KEYWORDS.into_iter().filter(|keyword| keywords.contains_key(*keyword)) {
            let times = 1 + size.evaluation.div_ceil(size.parts);
            size.pattern_positions = size.pattern_positions.saturating_mul(times);
            size.parts += size.evaluation;
            if size.parts > MAX_PARTS {
                return Err(too_many_parts_error(&format!("{at}/{keyword}")));
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
    ) -> Result<SchemaCost, SchemaError> {
        match keyword {
            "$ref" => return self.reference(value, at, depth),
            "$dynamicRef" | "$recursiveRef" => {
                let message = format!("`{keyword}` is not supported; write `$ref`");
                return Err(SchemaError::new(&lint::SCHEMA_REFERENCE, at, message));
            }
            "pattern" => {
                return Ok(value.as_str().map_or(SchemaCost::leaf(1), pattern_cost));
            }
            "multipleOf" if value.as_u64().is_none() => return Ok(SchemaCost::leaf(FRACTION_COST)),
            _ => {}
        }
        match (subschema_kind(keyword), value) {
            (Some(SubschemaKind::Schema), Json::Object(_)) => self.schema(value, at, depth + 1),
            (Some(SubschemaKind::Schemas | SubschemaKind::Schema), Json::Array(schemas)) => {
                let named =
                    schemas.iter().enumerate().map(|(index, schema)| (format!("{at}/{index}"), schema));
                self.sum_of(named, depth)
            }
            (Some(SubschemaKind::NamedSchemas), Json::Object(schemas)) => {
                let named =
                    schemas.iter().map(|(name, schema)| (format!("{at}/{}", escape_token(name)), schema));
                let mut size = self.sum_of(named, depth)?;
                if keyword == "patternProperties" {
                    for name in schemas.keys().map(|name| pattern_cost(name)) {
                        size.parts += name.parts;
                        size.pattern_positions =
                            size.pattern_positions.saturating_add(name.pattern_positions);
                    }
                }
                Ok(size)
            }
            _ => Ok(SchemaCost::leaf(count_values(value))),
        }
    }

    fn sum_of<'s>(
        &mut self,
        schemas: impl Iterator<Item = (String, &'s Json)>,
        depth: usize,
    ) -> Result<SchemaCost, SchemaError> {
        let mut total = SchemaCost::leaf(1);
        for (at, schema) in schemas {
            let size = self.schema(schema, &at, depth + 1)?;
            total = SchemaCost {
                parts: total.parts + size.parts,
                evaluation: total.evaluation + size.evaluation,
                pattern_positions: total.pattern_positions.saturating_add(size.pattern_positions),
                depth: total.depth.max(size.depth),
            };
            if total.parts > MAX_PARTS {
                break;
            }
        }
        Ok(total)
    }

    fn reference(&mut self, value: &Json, at: &str, depth: usize) -> Result<SchemaCost, SchemaError> {
        let Some(reference) = value.as_str() else {
            return Err(SchemaError::new(&lint::SCHEMA_INVALID, at, "a reference must be text"));
        };
        let Some(inner) = reference.strip_prefix('#') else {
            let message = format!("`{reference}` lies outside the schema, and nothing is fetched");
            return Err(SchemaError::new(
                &lint::SCHEMA_REFERENCE,
                at,
                format!("{message}; copy it to `$defs`"),
            ));
        };
        if inner.contains('%') {
            let message = format!("`{reference}` spells a name with `%`; write the name as it is");
            return Err(SchemaError::new(&lint::SCHEMA_REFERENCE, at, message));
        }
        let pointer = if inner.is_empty() || inner.starts_with('/') {
            Some(inner.to_owned())
        } else {
            self.anchors.get(inner).cloned()
        };
        let nowhere =
            || SchemaError::new(&lint::SCHEMA_REFERENCE, at, format!("`{reference}` leads nowhere"));
        let pointer = pointer.ok_or_else(nowhere)?;
        if let Some(known) = self.measured_costs.get(&pointer) {
            let size = known.through_reference();
            return if depth + size.depth > MAX_DEPTH { Err(too_deep_error(at)) } else { Ok(size) };
        }
        if self.open_references.contains(&pointer) || is_ancestor(&pointer, at) {
            let message =
                format!("`{reference}` leads back to where it is; describe as many levels as are needed");
            return Err(SchemaError::new(&lint::SCHEMA_REFERENCE, at, message));
        }
        let root = self.root;
        let target =
            root.pointer(&pointer).filter(|_| !points_into_data(root, &pointer)).ok_or_else(nowhere)?;
        self.open_references.push(pointer.clone());
        let size = self.schema(target, &pointer, depth + 1)?;
        self.open_references.pop();
        self.measured_costs.insert(pointer, size);
        Ok(size.through_reference())
    }
}

/// The compiler replaces character classes such as `\d` one after another and rescans the pattern each time, so their cost is
/// quadratic.
fn pattern_cost(pattern: &str) -> SchemaCost {
    let kinds = regex_cost::count_classes(pattern);
    let parts = (kinds * kinds).saturating_mul(2).saturating_add(PATTERN_COST + pattern.len());
    SchemaCost {
        pattern_positions: regex_cost::count_positions(pattern),
        ..SchemaCost::leaf(parts.min(MAX_PARTS + 1))
    }
}

/// Whether `place` is at or below `pointer`.
fn is_ancestor(pointer: &str, place: &str) -> bool {
    place.strip_prefix(pointer).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// The number of values in a value, including itself.
pub(super) fn count_values(value: &Json) -> usize {
    match value {
        Json::Array(items) => 1 + items.iter().map(count_values).sum::<usize>(),
        Json::Object(fields) => 1 + fields.values().map(count_values).sum::<usize>(),
        _ => 1,
    }
}

fn too_deep_error(at: &str) -> SchemaError {
    let message =
        format!("schemas lie more than {MAX_DEPTH} deep in one another once references are followed");
    SchemaError::new(&lint::SCHEMA_TOO_LARGE, at, message)
}

fn too_many_parts_error(at: &str) -> SchemaError {
    let message =
        format!("it has more than {MAX_PARTS} parts once references are copied out and patterns are weighed");
    SchemaError::new(&lint::SCHEMA_TOO_LARGE, at, message)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn refused(schema: &Json) -> (&'static str, String) {
        let fault = schema_cost(schema).expect_err("refused");
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
            (json!({"items": {"$schema": "http://json-schema.org/draft-07/schema#"}}), "/items/$schema"),
            (json!({"$ref": "#/examples/0", "examples": [{"$anchor": "x"}]}), "/$ref"),
            (json!({"$dynamicAnchor": "x"}), "/$dynamicAnchor"),
            (json!({"x-more": {"a": {"$id": "urn:x"}}, "$ref": "#/x-more/a/b"}), "/x-more/a/$id"),
        ] {
            assert_eq!(refused(&schema), ("schema-reference", pointer.to_owned()), "{schema}");
        }
        let fine = json!({"$defs": {"a": {"type": "string", "$anchor": "text"}}, "properties": {
            "x": {"$ref": "#/$defs/a"}, "y": {"$ref": "#text"}, "$ref": {"type": "string"}
        }});
        assert!(schema_cost(&fine).is_ok());
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
    fn a_name_is_given_once_and_to_a_schema() {
        for (schema, pointer) in [
            (
                json!({"$ref": "#x", "$defs": {"a": {"$anchor": "x"}}, "zzz": {"$anchor": "x"}}),
                "/zzz/$anchor",
            ),
            (json!({"$defs": {"a": {"$anchor": "x"}, "b": {"$anchor": "x"}}}), "/$defs/b/$anchor"),
            (json!({"$ref": "#/$defs/%61", "$defs": {"%61": true, "a": {"$ref": "#/$defs/%61"}}}), "/$ref"),
            (json!({"$ref": "#/$defs/%61", "$defs": {"%61": true}}), "/$ref"),
        ] {
            assert_eq!(refused(&schema), ("schema-reference", pointer.to_owned()), "{schema}");
        }
        let data = json!({"properties": {"$anchor": {"const": {"$anchor": "x"}}, "default": {"default": {"$id": "x"}}},
            "$ref": "#/properties/default"});
        assert!(schema_cost(&data).is_ok());
    }

    #[test]
    fn what_asks_for_the_rest_is_counted_at_every_level() {
        let below = |keyword: &str, levels: usize| {
            let mut defs = Map::new();
            defs.insert("l0".into(), json!({"type": "object", "properties": {"a": {"type": "integer"}}}));
            for level in 1..=levels {
                let below = json!({"$ref": format!("#/$defs/l{}", level - 1)});
                let schema = match keyword {
                    "if" => json!({"if": below, "unevaluatedProperties": true}),
                    "unevaluatedProperties" => json!({"unevaluatedProperties": below}),
                    "additionalProperties" => {
                        json!({"additionalProperties": below, "unevaluatedProperties": true})
                    }
                    "dependentSchemas" => {
                        json!({"dependentSchemas": {"a": below}, "unevaluatedProperties": true})
                    }
                    "items" => json!({"items": below, "unevaluatedItems": true}),
                    keyword => json!({keyword: [below], "unevaluatedProperties": {"type": "integer"}}),
                };
                defs.insert(format!("l{level}"), schema);
            }
            json!({"$defs": defs})
        };
        for keyword in [
            "allOf",
            "anyOf",
            "oneOf",
            "if",
            "unevaluatedProperties",
            "additionalProperties",
            "dependentSchemas",
            "items",
        ] {
            assert_eq!(refused(&below(keyword, 20)).0, "schema-too-large", "{keyword}");
            assert!(schema_cost(&below(keyword, 3)).is_ok(), "{keyword}");
        }
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
