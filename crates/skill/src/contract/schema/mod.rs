//! `inputs` and `outputs`: one JSON Schema (2020-12) each, written in one of two notations.
//!
//! **Parameters**: a map from names to descriptions, each with `type`, `description`, `required`, `default` and constraints.
//! Constraints stand beside `type` or under `validation`, in snake case or as JSON Schema spells them. Inputs in this notation
//! accept no other names.
//!
//! **JSON Schema** as it is. It is recognized by what no parameter can be: a `type` that is text, a key that begins with `$`,
//! `properties` whose values are all schemas, or a combining keyword with a list. If it declares `properties` and says nothing
//! about other ones, inputs accept no others here either, so that a misspelled input is reported.
//!
//! Nothing is fetched, references stay inside the schema, patterns match in linear time, and the cost of a schema is bounded
//! before it is compiled.

mod anchors;
mod constraints;
mod cost;
mod defaults;
mod errors;
mod json_schema;
mod keywords;
mod parameters;
mod regex_cost;
mod relax;
pub mod signature;
mod source;
#[cfg_attr(not(feature = "json-schema"), path = "parameter_validator.rs")]
mod validator;
// In builds with the feature it is compiled for its tests, which compare the two validators.
#[cfg(all(test, feature = "json-schema"))]
mod parameter_validator;

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, OnceLock};

use serde::Serialize;
use serde::ser::Serializer;
use serde_json::Value as Json;

use self::cost::SchemaCost;
use self::defaults::Default;
use self::source::{SchemaDraft, SchemaSource};
use self::validator::CompiledSchema;
use crate::diagnostic_sink::DiagnosticSink;
use crate::lint;
use crate::yaml::Node;

pub(super) use self::errors::SchemaError;
pub use self::errors::ValidationFailure;
pub(crate) use self::errors::escape_token;
pub(super) use self::keywords::KeywordTypo;
pub(crate) use self::source::SchemaRole;

/// A JSON Schema for what goes in or comes out. Cheap to clone; clones share the compiled schema.
#[derive(Clone)]
pub struct Schema(Arc<SchemaInner>);

struct SchemaInner {
    json: Json,
    property_names: Vec<String>,
    defaults: Vec<Default>,
    cost: SchemaCost,
    line: u32,
    /// Compiled at the first use; or the errors that make it unusable.
    compiled: OnceLock<Result<CompiledSchema, Vec<SchemaError>>>,
}

/// A schema and where its parts stand in the text.
pub(crate) struct LocatedSchema<'a> {
    pub(crate) schema: Schema,
    pub(super) source: SchemaSource<'a>,
}

/// The schema at this node; `None` if there is none, or if it is refused with a diagnostic. Patterns and keywords are checked
/// at the first use, or by [`Schema::fault`].
pub(crate) fn read<'a>(
    node: Option<&'a Node>,
    role: SchemaRole,
    report: &mut DiagnosticSink<'_>,
) -> Option<LocatedSchema<'a>> {
    let node = node.filter(|node| !node.is_null())?;
    let SchemaDraft { json, property_names, source } = if self::json_schema::is_schema(node) {
        self::json_schema::read(node, role, report)?
    } else {
        self::parameters::read(node, role, report)?
    };
    let cost = match self::cost::schema_cost(&json) {
        Ok(cost) => cost,
        Err(error) => {
            report.add(error.rule, &source.span(&error.pointer), error.message);
            return None;
        }
    };
    let defaults = if role == SchemaRole::Inputs { defaults::collect_defaults(&json) } else { Vec::new() };
    let line = report.line(node.span.start);
    let schema =
        Schema::new(SchemaInner { json, property_names, defaults, cost, line, compiled: OnceLock::new() });
    Some(LocatedSchema { schema, source })
}

impl Schema {
    fn new(inner: SchemaInner) -> Self {
        Self(Arc::new(inner))
    }

    /// A schema that was translated from another notation, with its properties in written order, at that line of its file; compiled
    /// at the first use. Its defaults are filled in.
    pub(crate) fn translated(json: Json, property_names: Vec<String>, line: u32) -> Result<Self, String> {
        let cost = self::cost::schema_cost(&json).map_err(|error| error.message)?;
        let (defaults, compiled) = (defaults::collect_defaults(&json), OnceLock::new());
        Ok(Self::new(SchemaInner { json, property_names, defaults, cost, line, compiled }))
    }

    fn from_json(json: Json, defaults: impl Fn(&Json) -> Vec<Default>) -> Result<Self, String> {
        let schema = Self::compile_later(json, defaults)?;
        match schema.fault() {
            Some(fault) => Err(fault.to_owned()),
            None => Ok(schema),
        }
    }

    fn compile_later(json: Json, defaults: impl Fn(&Json) -> Vec<Default>) -> Result<Self, String> {
        let cost = self::cost::schema_cost(&json).map_err(|error| error.message)?;
        let properties = json.get("properties").and_then(Json::as_object);
        let property_names =
            properties.map(|properties| properties.keys().cloned().collect()).unwrap_or_default();
        let defaults = defaults(&json);
        let (line, compiled) = (0, OnceLock::new());
        Ok(Self::new(SchemaInner { json, property_names, defaults, cost, line, compiled }))
    }

    /// The schema as JSON.
    pub fn json(&self) -> &Json {
        &self.0.json
    }

    /// The value with defaults where nothing was given: at its top, and in the objects it holds. Lists are left as they are.
    pub fn with_defaults(&self, value: Json) -> Json {
        defaults::apply_defaults(&self.0.defaults, value)
    }

    /// Validates a value against the schema, which is compiled at the first call.
    pub fn validate(&self, value: &Json) -> Result<(), ValidationFailure> {
        let compiled = self.compiled().map_err(|errors| {
            ValidationFailure::InvalidSchema(
                errors.first().map(|error| error.message.clone()).unwrap_or_default(),
            )
        })?;
        let SchemaInner { json, property_names, cost, .. } = &*self.0;
        validate(value, &Validation { compiled, json, property_names, cost })
    }

    /// All errors in it. Compiles it at the first call.
    pub(super) fn errors(&self) -> &[SchemaError] {
        self.compiled().err().unwrap_or_default()
    }

    fn compiled(&self) -> Result<&CompiledSchema, &[SchemaError]> {
        let compile = || {
            let compiled = CompiledSchema::compile(&self.0.json).map_err(|error| vec![error])?;
            let errors = self.default_errors();
            if errors.is_empty() { Ok(compiled) } else { Err(errors) }
        };
        self.0.compiled.get_or_init(compile).as_ref().map_err(Vec::as_slice)
    }

    /// The defaults that do not fit. Each is validated against its own part of the schema only, because a default need not
    /// satisfy what the schema requires of the whole object.
    fn default_errors(&self) -> Vec<SchemaError> {
        let max_depth = defaults::max_depth(&self.0.defaults);
        // The schema is compiled once more for each level.
        if max_depth.saturating_mul(self.0.cost.parts) > self::cost::MAX_PARTS {
            let message =
                format!("its defaults stand {max_depth} objects deep, too deep for a schema of its size");
            return vec![SchemaError::new(&lint::SCHEMA_TOO_LARGE, "", message)];
        }
        let errors_at_depth = |depth: usize| {
            let schema = self.with_json(defaults::schema_at_depth(&self.0.json, depth));
            let violations = match schema.validate(&defaults::defaults_at_depth(&self.0.defaults, depth)) {
                Err(ValidationFailure::Violations { violations, .. }) => violations,
                _ => Vec::new(),
            };
            violations.into_iter().map(move |violation| {
                let names: Vec<&str> = violation.path.split('/').take(depth + 1).collect();
                let pointer = format!("{}/default", names.join("/properties/"));
                SchemaError::new(
                    &lint::DEFAULT_INVALID,
                    pointer,
                    format!("a default does not fit: {violation}"),
                )
            })
        };
        (1..=max_depth).flat_map(errors_at_depth).collect()
    }

    /// A schema with other JSON that costs no more than this one's, without defaults.
    fn with_json(&self, json: Json) -> Self {
        let SchemaInner { cost, line, .. } = *self.0;
        let (property_names, defaults, compiled) = (Vec::new(), Vec::new(), OnceLock::new());
        Self::new(SchemaInner { json, property_names, defaults, cost, line, compiled })
    }

    /// The JSON Pointers of its parts that have an `$anchor`, by its name.
    pub(crate) fn anchors(&self) -> HashMap<String, String> {
        // Those of a schema whose anchors are ambiguous were refused.
        let anchors = self::anchors::collect_anchors(&self.0.json).unwrap_or_default();
        anchors.into_iter().map(|(name, pointer)| (name.to_owned(), pointer)).collect()
    }

    /// The schema for a part of a value, whose objects may lack fields.
    pub(super) fn relax(&self) -> Self {
        self.with_json(self::relax::relax(&self.0.json))
    }
}

/// A schema from anywhere else than `skill.yaml`, or why no value can be validated against it: it is invalid, refers to
/// itself or to another document, or is too large. It has no defaults and no line.
pub fn parse_schema(json: Json) -> Result<Schema, String> {
    Schema::from_json(json, |_| Vec::new())
}

/// Like [`parse_schema`], for the input of a skill: the defaults that it names are filled in.
pub fn parse_input_schema(json: Json) -> Result<Schema, String> {
    Schema::from_json(json, defaults::collect_defaults)
}

/// Like [`parse_schema`], for the input of a tool: one that this build lacks a feature to check is told from one that nothing
/// can check, see [`Schema::missing_feature`].
pub fn parse_tool_schema(json: Json) -> Result<Schema, String> {
    let schema = Schema::compile_later(json, |_| Vec::new())?;
    match schema.fault() {
        Some(fault) if schema.missing_feature().is_none() => Err(fault.to_owned()),
        _ => Ok(schema),
    }
}

impl Schema {
    /// The names of its properties, in written order.
    pub fn names(&self) -> &[String] {
        &self.0.property_names
    }

    /// The line of `skill.yaml` on which it begins, from 1.
    pub fn line(&self) -> u32 {
        self.0.line
    }

    /// Why no value can be validated against it, in a sentence: it is invalid, or its own defaults do not fit. Compiles it at
    /// the first call.
    pub fn fault(&self) -> Option<&str> {
        self.errors().first().map(|error| error.message.as_str())
    }

    /// The Cargo feature that this build lacks to validate values against it; `None` if it lacks none.
    pub fn missing_feature(&self) -> Option<&'static str> {
        let is_unchecked = self.errors().iter().any(|error| *error.rule == lint::SCHEMA_UNCHECKED);
        is_unchecked.then_some("json-schema")
    }
}

impl fmt::Debug for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Schema({})", self.0.json)
    }
}

impl PartialEq for Schema {
    fn eq(&self, other: &Self) -> bool {
        self.0.json == other.0.json
    }
}

impl Serialize for Schema {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.json.serialize(serializer)
    }
}

/// Steps that checking a value may take: parts of the schema times parts of the value, and places of its patterns times bytes.
const MAX_STEPS: usize = 500_000_000;
/// What takes more steps is not searched for further violations once one is found, since each is made up with all that led to it.
const MAX_STEPS_FOR_ALL_VIOLATIONS: usize = 5_000_000;
/// Bytes of text that cost as much to match as a value.
const TEXT_BYTES_PER_VALUE: usize = 8;

/// A compiled schema with what its error messages need.
#[derive(Clone, Copy)]
struct Validation<'a> {
    compiled: &'a CompiledSchema,
    json: &'a Json,
    property_names: &'a [String],
    cost: &'a SchemaCost,
}

/// Validates a value, and collects how it breaks the schema.
fn validate(value: &Json, schema: &Validation<'_>) -> Result<(), ValidationFailure> {
    let steps = count_values(value).saturating_mul(schema.cost.parts);
    let pattern_steps = text_bytes(value).saturating_mul(schema.cost.pattern_positions);
    if steps > MAX_STEPS || pattern_steps > MAX_STEPS {
        return Err(ValidationFailure::TooLarge);
    }
    let find_all = steps <= MAX_STEPS_FOR_ALL_VIOLATIONS;
    schema.compiled.check(schema.json, schema.property_names, value, find_all)
}

/// The bytes of its texts and names, each of which a pattern may have to look at from all its places, and their ends, which it
/// looks at even where nothing else is.
fn text_bytes(value: &Json) -> usize {
    match value {
        Json::String(text) => 1 + text.len(),
        Json::Array(items) => items.iter().map(text_bytes).sum(),
        Json::Object(fields) => fields.iter().map(|(name, value)| 1 + name.len() + text_bytes(value)).sum(),
        _ => 0,
    }
}

/// How many values a value holds, long texts counted for more.
fn count_values(value: &Json) -> usize {
    match value {
        Json::String(text) => 1 + text.len() / TEXT_BYTES_PER_VALUE,
        Json::Array(items) => 1 + items.iter().map(count_values).sum::<usize>(),
        Json::Object(fields) => {
            1 + fields
                .iter()
                .map(|(name, value)| name.len() / TEXT_BYTES_PER_VALUE + count_values(value))
                .sum::<usize>()
        }
        _ => 1,
    }
}
