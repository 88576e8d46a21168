//! `inputs` and `outputs`: one JSON Schema (2020-12) each, whichever of two notations it is written in.
//!
//! **Parameters**: a map of names, each with `type`, `description`, `required`, `default` and constraints, flat or under
//! `validation`, in snake case or JSON Schema's own spelling. Such inputs take no others.
//!
//! **JSON Schema**, word for word, told by what no parameter could be: a `type` that is text, a key that begins with `$`,
//! `properties` whose values are all schemas, a combining keyword with a list. Its `properties` are closed too where it says
//! nothing about other ones, so that a misspelt input is told.
//!
//! Nothing is fetched, references stay inside the schema, patterns match in linear time, and what a schema may cost is bounded
//! before it is compiled.

mod anchors;
mod constraints;
mod cost;
mod defaults;
mod json_schema;
mod keywords;
mod parameters;
mod regex_cost;
mod relax;
mod signature;
mod typos;
mod validator;
mod violations;

use std::fmt;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use serde::Serialize;
use serde::ser::Serializer;
use serde_json::Value as Json;

use self::cost::SchemaCost;
use self::validator::CompiledSchema;
use super::super::yaml::Node;
use crate::skill::diagnostic_sink::DiagnosticSink;
use crate::skill::lint;
use defaults::Default;

pub(super) use self::typos::KeywordTypo;
pub use violations::ValidationFailure;

/// What goes in or comes out, as a JSON Schema. Cheap to clone; clones share what was compiled.
#[derive(Clone)]
pub struct Schema(Arc<SchemaInner>);

struct SchemaInner {
    json: Json,
    property_names: Vec<String>,
    defaults: Vec<Default>,
    cost: SchemaCost,
    line: u32,
    /// Made ready when it is first used; or why it is no schema to hold values against.
    compiled: OnceLock<Result<CompiledSchema, Vec<SchemaError>>>,
}

/// Which of the two a schema is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SchemaRole {
    Inputs,
    Outputs,
}

/// Why a schema is none, and where in it.
#[derive(Clone, Debug)]
pub(super) struct SchemaError {
    pub(super) rule: &'static lint::Rule,
    /// The place in the schema, as a JSON Pointer.
    pub(super) pointer: String,
    pub(super) message: String,
}

/// A schema as it was read, before it is known to be one.
struct SchemaDraft<'a> {
    json: Json,
    /// The names in the order written.
    property_names: Vec<String>,
    source: SchemaSource<'a>,
}

/// Where the parts of a schema stand in the text.
pub(super) enum SchemaSource<'a> {
    /// Place for place as it is.
    JsonSchema(&'a Node),
    /// Each with its JSON Pointer.
    Parameters { whole: Range<usize>, places: Vec<(String, Range<usize>)> },
}

/// The schema, or nothing where there is none or it is refused. Patterns and keywords are looked at when it is first used, or
/// by [`Schema::fault`].
pub(super) fn read<'a>(
    node: Option<&'a Node>,
    side: SchemaRole,
    report: &mut DiagnosticSink<'_>,
) -> Option<(Schema, SchemaSource<'a>)> {
    let node = node.filter(|node| !node.is_null())?;
    let SchemaDraft { json, property_names: order, source } = if self::json_schema::is_schema(node) {
        self::json_schema::read(node, side, report)?
    } else {
        self::parameters::read(node, side, report)?
    };
    let weight = match self::cost::schema_cost(&json) {
        Ok(weight) => weight,
        Err(fault) => {
            report.add(fault.rule, &source.span(&fault.pointer), fault.message);
            return None;
        }
    };
    let defaults = if side == SchemaRole::Inputs { defaults::collect_defaults(&json) } else { Vec::new() };
    let line = report.line(node.span.start);
    let compiled = OnceLock::new();
    Some((
        Schema(Arc::new(SchemaInner { json, property_names: order, defaults, cost: weight, line, compiled })),
        source,
    ))
}

impl SchemaRole {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Inputs => "inputs",
            Self::Outputs => "outputs",
        }
    }
}

impl SchemaSource<'_> {
    /// Keys of a JSON Schema that look like misspelt keywords, the first of them; parameters have none that pass.
    pub(super) fn keyword_typos(&self, most: usize) -> Vec<KeywordTypo> {
        match self {
            Self::JsonSchema(node) => self::typos::find_typos(node, most),
            Self::Parameters { .. } => Vec::new(),
        }
    }

    /// Where the part at that JSON Pointer stands, or the nearest around it.
    pub(super) fn span(&self, pointer: &str) -> Range<usize> {
        match self {
            Self::JsonSchema(node) => self::json_schema::span_at(node, pointer),
            Self::Parameters { whole, places } => {
                let holds = |place: &str| {
                    pointer.strip_prefix(place).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
                };
                let nearest =
                    places.iter().filter(|(place, _)| holds(place)).max_by_key(|(place, _)| place.len());
                nearest.map_or_else(|| whole.clone(), |(_, span)| span.clone())
            }
        }
    }
}

impl Schema {
    /// A schema that was written elsewhere, or why nothing can be held against it: it is none, refers to itself or to
    /// elsewhere, or is too large. It has no defaults, and stands on no line.
    pub fn parse(json: Json) -> Result<Self, String> {
        Self::from_json(json, |_| Vec::new())
    }

    /// The same for what a skill takes: what it names as defaults are its own.
    pub(crate) fn parse_inputs(json: Json) -> Result<Self, String> {
        Self::from_json(json, defaults::collect_defaults)
    }

    fn from_json(json: Json, defaults: impl Fn(&Json) -> Vec<Default>) -> Result<Self, String> {
        let weight = self::cost::schema_cost(&json).map_err(|fault| fault.message)?;
        let order = json.get("properties").and_then(Json::as_object);
        let order = order.map(|properties| properties.keys().cloned().collect()).unwrap_or_default();
        let (defaults, compiled) = (defaults(&json), OnceLock::new());
        let schema = Self(Arc::new(SchemaInner {
            json,
            property_names: order,
            defaults,
            cost: weight,
            line: 0,
            compiled,
        }));
        match schema.fault() {
            Some(fault) => Err(fault.to_owned()),
            None => Ok(schema),
        }
    }

    /// The schema as JSON.
    pub fn json(&self) -> &Json {
        &self.0.json
    }

    /// The names of its properties, in the order written.
    pub fn names(&self) -> &[String] {
        &self.0.property_names
    }

    /// The line of `skill.yaml` it begins on, from 1.
    pub fn line(&self) -> u32 {
        self.0.line
    }

    /// The value with defaults where nothing was given: at its top, and in the objects it holds. Lists are left as they are.
    pub fn with_defaults(&self, value: Json) -> Json {
        defaults::apply_defaults(&self.0.defaults, value)
    }

    /// Why nothing can be held against it, in a sentence: it is no schema, or its own defaults do not fit. Compiles it the
    /// first time.
    pub fn fault(&self) -> Option<&str> {
        self.errors().first().map(|fault| fault.message.as_str())
    }

    /// All that is wrong with it, found out now where it was not known before.
    pub(super) fn errors(&self) -> &[SchemaError] {
        self.compiled().err().unwrap_or_default()
    }

    fn compiled(&self) -> Result<&CompiledSchema, &[SchemaError]> {
        let compile = || {
            let compiled = CompiledSchema::compile(&self.0.json).map_err(|fault| vec![fault])?;
            let faults = self.default_errors();
            if faults.is_empty() { Ok(compiled) } else { Err(faults) }
        };
        self.0.compiled.get_or_init(compile).as_ref().map_err(Vec::as_slice)
    }

    /// Each default is held against its own part of the schema, so that what the rest wants of the whole is no matter of it.
    fn default_errors(&self) -> Vec<SchemaError> {
        let deepest = defaults::max_depth(&self.0.defaults);
        // The schema is made ready once more for each level.
        if deepest.saturating_mul(self.0.cost.parts) > self::cost::MAX_PARTS {
            let message =
                format!("its defaults stand {deepest} objects deep, too deep for a schema of its size");
            return vec![SchemaError { rule: &lint::SCHEMA_TOO_LARGE, pointer: String::new(), message }];
        }
        let held_at = |depth: usize| {
            let schema = self.with_json(defaults::schema_at_depth(&self.0.json, depth));
            let told = match schema.validate(&defaults::defaults_at_depth(&self.0.defaults, depth)) {
                Err(ValidationFailure::Violations { violations, .. }) => violations,
                _ => Vec::new(),
            };
            told.into_iter().map(move |violation| {
                let names: Vec<&str> = violation.path.split('/').take(depth + 1).collect();
                let pointer = names.join("/properties/");
                let message = format!("a default does not fit: {violation}");
                SchemaError { rule: &lint::DEFAULT_INVALID, pointer: format!("{pointer}/default"), message }
            })
        };
        (1..=deepest).flat_map(held_at).collect()
    }

    /// Another schema in its place, which weighs no more and has no defaults.
    fn with_json(&self, json: Json) -> Self {
        let SchemaInner { cost: weight, line, .. } = *self.0;
        let (order, defaults, compiled) = (Vec::new(), Vec::new(), OnceLock::new());
        Self(Arc::new(SchemaInner { json, property_names: order, defaults, cost: weight, line, compiled }))
    }

    /// The same for a part of a value, whose objects may lack fields.
    pub(super) fn relax(&self) -> Self {
        self.with_json(self::relax::relax(&self.0.json))
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
