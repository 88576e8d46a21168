//! Compiles the parameter notation to JSON Schema.

use std::ops::Range;

use serde_json::{Map, Value as Json, json};

use super::constraints::{
    self, Constraint, ConstraintArgument, ConstraintProblem, OTHER_KEYS, find_constraint,
};
use super::errors::escape_token;
use super::source::{SchemaDraft, SchemaRole, SchemaSource};
use crate::contract::fields;
use crate::diagnostic_sink::DiagnosticSink;
use crate::lint;
use crate::yaml::{Entry, Node, Value};
use metier_core::suggestion::did_you_mean;

const DIALECT: &str = "https://json-schema.org/draft/2020-12/schema";
const TYPES: [&str; 7] = ["string", "number", "integer", "boolean", "array", "object", "null"];

pub(super) fn read<'a>(
    node: &'a Node,
    side: SchemaRole,
    report: &mut DiagnosticSink<'_>,
) -> Option<SchemaDraft<'a>> {
    let entries = fields::entries(node, side.name(), report)?;
    let mut notation = ParameterReader { side, spans: Vec::new(), report };
    let ObjectProperties { properties, required } = notation.read_parameters(entries, "");
    let mut json = json!({"$schema": DIALECT, "type": "object", "properties": properties});
    if !required.is_empty() {
        json["required"] = required.into();
    }
    if side == SchemaRole::Inputs {
        json["additionalProperties"] = false.into();
    }
    let order = entries.iter().map(|entry| entry.key.clone()).collect();
    let spans = notation.spans;
    Some(SchemaDraft {
        json,
        property_names: order,
        source: SchemaSource::Parameters { whole: node.span.clone(), spans },
    })
}

struct ParameterReader<'r, 't> {
    side: SchemaRole,
    spans: Vec<(String, Range<usize>)>,
    report: &'r mut DiagnosticSink<'t>,
}

/// A map of parameters as an object's properties.
struct ObjectProperties {
    properties: Map<String, Json>,
    required: Vec<String>,
}

/// A parameter as a schema, and whether it must be there.
struct Parameter {
    schema: Map<String, Json>,
    is_required: Option<bool>,
}

impl ParameterReader<'_, '_> {
    fn read_parameters(&mut self, entries: &[Entry], pointer: &str) -> ObjectProperties {
        let mut object = ObjectProperties { properties: Map::new(), required: Vec::new() };
        for Entry { key, key_span, node } in entries {
            let at = format!("{pointer}/properties/{}", escape_token(key));
            self.spans.push((at.clone(), key_span.clone()));
            let Parameter { schema, is_required } = self.read_parameter(key, key_span, node, &at);
            if let Value::Map(described) = &node.value
                && pointer.is_empty()
                && self.side == SchemaRole::Inputs
            {
                let has = |key: &str| fields::find(described, key).is_some();
                self.lint_requiredness(key, key_span, is_required, has("required"), has("default"));
            }
            // A parameter with a default is never missing.
            if is_required == Some(true) && !schema.contains_key("default") {
                object.required.push(key.clone());
            }
            object.properties.insert(key.clone(), schema.into());
        }
        object
    }

    fn lint_requiredness(
        &mut self,
        name: &str,
        at: &Range<usize>,
        required: Option<bool>,
        is_said: bool,
        has_default: bool,
    ) {
        match (required, has_default) {
            (Some(true), true) => {
                let message = format!("`{name}` is required and has a default, so it is never missing");
                self.report.add(&lint::INPUT_REQUIRED_DEFAULT, at, message).help("keep one of the two");
            }
            (None, false) if !is_said => {
                let message =
                    format!("`{name}` is neither required nor has it a default; it may be left out");
                self.report
                    .add(&lint::INPUT_UNDECIDED, at, message)
                    .help("write `required: true`, `required: false`, or a default");
            }
            _ => {}
        }
    }

    fn read_parameter(&mut self, name: &str, at: &Range<usize>, node: &Node, pointer: &str) -> Parameter {
        let mut parameter = Parameter { schema: Map::new(), is_required: None };
        let Value::Map(entries) = &node.value else {
            let message = format!("`{name}` must be described by a map");
            let found = self.report.add(&lint::CONTRACT_VALUE, at, message);
            found.help("write what it is below it, such as `type: string`");
            return parameter;
        };
        let nested = match fields::find(entries, "validation") {
            Some(nested) => fields::entries(nested, "validation", self.report).unwrap_or_default(),
            None => &[],
        };
        self.read_type(fields::find(entries, "type"), &mut parameter.schema);
        for entry in entries {
            match entry.key.as_str() {
                "type" | "validation" => {}
                "required" => self.read_required(&entry.node, &mut parameter),
                "description" | "title" => {
                    if let Some(text) = fields::text(Some(&entry.node), &entry.key, self.report) {
                        parameter.schema.insert(entry.key.clone(), text.into());
                    }
                }
                "default" | "examples" | "deprecated" => {
                    self.spans.push((format!("{pointer}/{}", entry.key), entry.node.span.clone()));
                    let value = fields::json(&entry.node, self.report);
                    parameter.schema.extend(value.map(|value| (entry.key.clone(), value)));
                }
                _ => self.read_constraint(name, entry, pointer, &mut parameter),
            }
        }
        for entry in nested {
            match entry.key.as_str() {
                "required" => self.read_required(&entry.node, &mut parameter),
                key if OTHER_KEYS.contains(&key) => {
                    self.report_unknown_constraint(name, entry, &parameter.schema);
                }
                _ => self.read_constraint(name, entry, pointer, &mut parameter),
            }
        }
        self.report_constraint_problems(name, at, pointer, &parameter.schema);
        parameter
    }

    fn read_type(&mut self, node: Option<&Node>, schema: &mut Map<String, Json>) {
        let Some(node) = node else { return };
        let listed: Vec<&Node> = match &node.value {
            Value::List(items) => items.iter().collect(),
            _ => vec![node],
        };
        let names: Vec<&str> = listed.iter().filter_map(|node| node.text().map(str::trim)).collect();
        if let Some(unknown) =
            listed.iter().find(|node| !node.text().is_some_and(|name| TYPES.contains(&name.trim())))
        {
            let message = format!("`{}` is not a type", unknown.text().unwrap_or_default());
            let meant = fields::similar_key(unknown.text().unwrap_or_default(), &TYPES);
            let help = meant.map_or_else(|| format!("the types are {}", TYPES.join(", ")), did_you_mean);
            self.report.add(&lint::CONTRACT_VALUE, &unknown.span, message).help(help);
            return;
        }
        let value = if let [only] = names[..] { only.into() } else { Json::from(names) };
        schema.insert("type".to_owned(), value);
    }

    /// A flag says whether the parameter is required; a list names the required properties of an object.
    fn read_required(&mut self, node: &Node, parameter: &mut Parameter) {
        let Value::List(names) = &node.value else {
            parameter.is_required = fields::flag(Some(node), "required", self.report);
            return;
        };
        let names: Vec<String> = names
            .iter()
            .filter_map(|name| fields::text(Some(name), "a required name", self.report))
            .collect();
        let list = parameter.schema.entry("required").or_insert_with(|| Json::Array(Vec::new()));
        let list = list.as_array_mut().into_iter();
        list.for_each(|list| {
            for name in &names {
                if !list.iter().any(|known| known == name) {
                    list.push(name.clone().into());
                }
            }
        });
    }

    fn read_constraint(&mut self, name: &str, entry: &Entry, pointer: &str, parameter: &mut Parameter) {
        let Some(known) = find_constraint(&entry.key) else {
            return self.report_unknown_constraint(name, entry, &parameter.schema);
        };
        let pointer = format!("{pointer}/{}", known.keyword);
        self.spans.push((pointer.clone(), entry.node.span.clone()));
        let Some(value) = self.read_constraint_value(known, &entry.node, &pointer, &mut parameter.schema)
        else {
            return;
        };
        match parameter.schema.get(known.keyword) {
            Some(other) if *other != value => {
                let message = format!("{} of `{name}` is given twice, with different values", known.name);
                self.report.add(&lint::CONSTRAINT_TWICE, &entry.key_span, message).help("keep one of them");
            }
            _ => {
                parameter.schema.insert(known.keyword.to_owned(), value);
            }
        }
    }

    fn read_constraint_value(
        &mut self,
        known: &Constraint,
        node: &Node,
        pointer: &str,
        schema: &mut Map<String, Json>,
    ) -> Option<Json> {
        match known.argument {
            ConstraintArgument::Parameter => {
                let Parameter { schema, .. } = self.read_parameter(known.name, &node.span, node, pointer);
                return Some(schema.into());
            }
            ConstraintArgument::Parameters => {
                let entries = fields::entries(node, known.name, self.report)?;
                let pointer = pointer.strip_suffix("/properties").unwrap_or(pointer);
                let ObjectProperties { properties, required } = self.read_parameters(entries, pointer);
                if !required.is_empty() {
                    let list = schema.entry("required").or_insert_with(|| Json::Array(Vec::new()));
                    if let Some(list) = list.as_array_mut() {
                        let new: Vec<Json> = required
                            .into_iter()
                            .map(Json::from)
                            .filter(|name| !list.contains(name))
                            .collect();
                        list.extend(new);
                    }
                }
                return Some(properties.into());
            }
            // A pattern is its source text, even if YAML would read it as a number.
            ConstraintArgument::Text => {
                return fields::text(Some(node), known.name, self.report).map(Json::from);
            }
            _ => {}
        }
        let value = fields::json(node, self.report)?;
        let fits = match known.argument {
            ConstraintArgument::Count => value.as_u64().is_some(),
            ConstraintArgument::Number => value.is_number(),
            ConstraintArgument::Flag => value.is_boolean(),
            ConstraintArgument::List => value.is_array(),
            _ => true,
        };
        if !fits {
            let wanted = match known.argument {
                ConstraintArgument::Count => "a whole number, 0 or more",
                ConstraintArgument::Number => "a number",
                ConstraintArgument::Flag => "true or false",
                _ => "a list",
            };
            fields::report_invalid(node, &format!("{} must be {wanted}", known.name), self.report);
        }
        fits.then_some(value)
    }

    fn report_unknown_constraint(&mut self, name: &str, entry: &Entry, schema: &Map<String, Json>) {
        let message = format!("`{}` of `{name}` is not a constraint", entry.key);
        let found = self.report.add(&lint::CONSTRAINT_UNKNOWN, &entry.key_span, message);
        let kind = schema.get("type").and_then(Json::as_str);
        let ours = constraints::constraint_for_alias(&entry.key, kind);
        match ours.or_else(|| fields::similar_key(&entry.key, &constraints::parameter_keys())) {
            Some(meant) => found.help(did_you_mean(meant)),
            None => found.help(format!(
                "write {} as a JSON Schema, with `type: object` and `properties`, to say more",
                self.side.name()
            )),
        }
    }

    /// Reports constraints that contradict each other or never apply.
    fn report_constraint_problems(
        &mut self,
        name: &str,
        at: &Range<usize>,
        pointer: &str,
        schema: &Map<String, Json>,
    ) {
        for ConstraintProblem { rule, keyword, message, help } in
            constraints::constraint_problems(name, schema)
        {
            let pointer = format!("{pointer}/{keyword}");
            let place = self.spans.iter().find(|(place, _)| *place == pointer);
            let span = place.map_or_else(|| at.clone(), |(_, span)| span.clone());
            let found = self.report.add(rule, &span, message);
            if let Some(help) = help {
                found.help(help);
            }
        }
    }
}
